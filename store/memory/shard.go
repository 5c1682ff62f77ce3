package memory

import (
	"maps"
	"sync"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/limit"
)

// A shard is the part of a store that one lock guards.
type shard struct {
	mu        sync.Mutex
	index     int   // among the store's shards
	max       int   // counters to keep
	latest    int64 // the now of its latest charge, in Unix nanoseconds
	inserts   uint64
	evictions uint64
	table     table

	// What is more than a State, by the hash of the counter. Each has its entry in the table too.
	logs   map[uint64]*limit.Log
	leases map[lease]int64 // how much each holds
	idle   idleness
	_      [48]byte // so that no two shards share a cache line
}

// A lease names a holder of a counter.
type lease struct{ hash, id uint64 }

const (
	insertsPerStep = 8  // how many new counters pay for one step of the hand
	stepSlots      = 16 // how far the hand goes in a step: faster than new counters take slots
	roomSlots      = 32 // how far it looks for an expired counter when there is no room
	sample         = 8  // of how many counters the one with most left is evicted
)

// take judges one hit and charges it if it passes.
func (s *shard) take(hash uint64, at int64, h *weir.Hit, out *weir.Status) {
	var next limit.State
	e := s.table.find(hash)
	switch {
	case h.Limit.Algorithm == weir.SlidingLog:
		s.log(hash).Look(h.Limit, at, 0, h.N, out)
	case e == nil:
		next = limit.Take(h.Limit, limit.State{}, at, h.N, out)
	default:
		next = limit.Take(h.Limit, e.state, at, h.N, out)
	}
	if out.Allowed && h.N > 0 {
		if e != nil && plain(h.Limit) {
			s.latest = at
			e.set(next, at, out)
		} else {
			s.charge(hash, at, h, next, out)
		}
	}
}

// plain reports whether a State is all that l's counters are.
func plain(l *weir.Limit) bool {
	return l.Algorithm != weir.SlidingLog && l.Algorithm != weir.Concurrency
}

// charge makes a hit count that was allowed, and left its counter at next.
func (s *shard) charge(hash uint64, at int64, h *weir.Hit, next limit.State, st *weir.Status) {
	s.latest = at
	e := s.table.find(hash)
	if e == nil {
		e = s.insert(hash, at)
	}
	switch h.Limit.Algorithm {
	case weir.SlidingLog:
		g := s.ownLog(hash)
		g.Add(h.Limit, at, h.N)
		next.Last = g.Last()
		e.kind = kindLog
	case weir.Concurrency:
		s.grant(lease{hash, h.Lease}, h.N)
		e.kind = kindHeld
	}
	e.set(next, at, st)
}

// look fills out with what the counter says of a hit that costs nothing.
func (s *shard) look(hash uint64, at int64, h *weir.Hit, out *weir.Status) {
	if h.Limit.Algorithm == weir.SlidingLog {
		s.log(hash).Look(h.Limit, at, 0, 0, out)
	} else {
		limit.Take(h.Limit, s.state(hash), at, 0, out)
	}
}

// state is what the counter remembers: the zero State if it is not kept.
func (s *shard) state(hash uint64) limit.State {
	if e := s.table.find(hash); e != nil {
		return e.state
	}
	return limit.State{}
}

// log is what a SlidingLog counter remembers, to be read only.
func (s *shard) log(hash uint64) *limit.Log {
	if g := s.logs[hash]; g != nil {
		return g
	}
	return &limit.Log{}
}

// ownLog is what a SlidingLog counter remembers, to be written to.
func (s *shard) ownLog(hash uint64) *limit.Log {
	g := s.logs[hash]
	if g == nil {
		if s.logs == nil {
			s.logs = make(map[uint64]*limit.Log)
		}
		g = new(limit.Log)
		s.logs[hash] = g
	}
	return g
}

func (s *shard) grant(k lease, n int64) {
	if s.leases == nil {
		s.leases = make(map[lease]int64)
	}
	s.leases[k] += n
}

// release gives back what the lease holds, if it holds something.
func (s *shard) release(hash, id uint64) {
	k := lease{hash, id}
	n, held := s.leases[k]
	if !held {
		return
	}
	delete(s.leases, k)
	e := s.table.find(hash)
	if e == nil || e.kind != kindHeld {
		return // the key was charged for another algorithm too
	}
	e.state.Used -= min(uint64(n), e.state.Used)
	if e.state.Used == 0 {
		s.table.remove(e)
	}
}

// forget drops a counter and all that hangs on it.
func (s *shard) forget(hash uint64) {
	e := s.table.find(hash)
	if e == nil {
		return
	}
	if e.kind == kindHeld {
		maps.DeleteFunc(s.leases, func(k lease, _ int64) bool { return k.hash == hash })
	}
	s.drop(e)
}

// drop removes an entry that nobody holds.
func (s *shard) drop(e *entry) {
	if e.kind == kindLog {
		delete(s.logs, e.hash)
	}
	s.table.remove(e)
}

// insert adds a counter that is not in the table. Every few new ones the hand moves on, so that
// counters which expire make room for those that come.
func (s *shard) insert(hash uint64, at int64) *entry {
	s.inserts++
	if s.inserts%insertsPerStep == 0 {
		s.expire(at, stepSlots)
	}
	if s.table.n >= s.max && s.expire(at, roomSlots) == 0 {
		s.evict()
	}
	return s.table.insert(hash)
}

// expire moves the hand over n slots, drops what has expired there, and returns how many did.
func (s *shard) expire(at int64, n int) int {
	dropped, now := 0, momentOf(at)
	for range n {
		e := s.table.advance()
		for e != nil && e.hash != 0 && e.kind != kindHeld && e.expires < now {
			s.drop(e) // its neighbour may take its place
			dropped++
		}
	}
	return dropped
}

// evict drops the counter that has most of its limit left, of the next few that are not held; among
// equals the one that expires first. If all are held it drops none.
func (s *shard) evict() {
	var victim *entry
	seen := 0
	for range s.table.len() {
		e := s.table.advance()
		if e == nil || e.hash == 0 || e.kind == kindHeld {
			continue
		}
		if victim == nil || e.fill < victim.fill || e.fill == victim.fill && e.expires < victim.expires {
			victim = e
		}
		if seen++; seen == sample {
			break
		}
	}
	if victim != nil {
		s.drop(victim)
		s.evictions++
	}
}
