package envoyrls

import (
	"context"
	"hash/maphash"
	"maps"
	"sync"
	"time"

	"github.com/weirgate/weir"
)

// A Memory counts in this process as [Compat] says: every hit, also one that is refused, in windows of the
// now that a call is given; it is refused if the count is above Max then. It takes the keys that the Window
// of package redis takes, and answers alike: Remaining is below 0 by how far a counter is above its limit.
//
// A counter is 24 bytes and a place in a map. It is forgotten when its window has ended and its shard is
// looked at, some seconds later.
type Memory struct {
	options MemoryOptions
	seed    maphash.Seed
	shards  [memoryShards]memoryShard
}

// MemoryOptions are what a Memory may be told. The zero MemoryOptions are the defaults.
type MemoryOptions struct {
	// MaxKeys is how many counters are kept at most; 1,000,000. Where there are more, those that have
	// ended go first, then one of a few that counts least.
	MaxKeys int
	// Spare leaves the other counters of a request alone, if one is above its limit
	// (STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT).
	Spare bool
}

const (
	memoryShards   = 256
	defaultMaxKeys = 1_000_000
	// lookEvery is how often a shard in use is looked through for counters that have ended.
	lookEvery = 10 * time.Second
	// sampled is of how many counters the one that goes is chosen.
	sampled = 8
	// mostCount is where a counter stops.
	mostCount = 1 << 62
)

type memoryShard struct {
	mu        sync.Mutex
	counters  map[uint64]counter
	next      int64 // when to look for what has ended, in Unix nanoseconds
	evictions uint64
}

// A counter is a window's.
type counter struct{ count, end int64 } // end in Unix nanoseconds

// NewMemory returns an empty Memory. Nothing runs in the background.
func NewMemory(o MemoryOptions) *Memory {
	if o.MaxKeys <= 0 {
		o.MaxKeys = defaultMaxKeys
	}
	return &Memory{options: o, seed: maphash.MakeSeed()}
}

// Take implements weir.Store, but that it charges hits by themselves. It never fails.
func (m *Memory) Take(_ context.Context, now time.Time, hits []weir.Hit, out []weir.Status) error {
	spare := false
	if m.options.Spare && len(hits) > 1 {
		for i := range hits {
			out[i].Allowed = m.passes(&hits[i], now) <= 0
			spare = spare || !out[i].Allowed
		}
	}
	for i := range hits {
		h := &hits[i]
		n := cost(h)
		if spare && out[i].Allowed {
			n = 0
		}
		tell(h, now, m.add(h, now, n), &out[i])
	}
	return nil
}

// Peek implements weir.Peeker.
func (m *Memory) Peek(_ context.Context, now time.Time, hits []weir.Hit, out []weir.Status) error {
	for i := range hits {
		tell(&hits[i], now, m.passes(&hits[i], now)+hits[i].Limit.Max, &out[i])
	}
	return nil
}

// Reset implements weir.Resetter.
func (m *Memory) Reset(_ context.Context, hits []weir.Hit) error {
	for i := range hits {
		hash, sh := m.shard(hits[i].Key)
		delete(sh.counters, hash)
		sh.mu.Unlock()
	}
	return nil
}

// Release implements weir.Releaser: nothing is held.
func (m *Memory) Release(context.Context, time.Time, []weir.Hit) error { return nil }

// Keys is how many counters are kept.
func (m *Memory) Keys() int {
	n := 0
	m.each(func(sh *memoryShard) { n += len(sh.counters) })
	return n
}

// Evictions is how many counters were forgotten before their time for want of room.
func (m *Memory) Evictions() uint64 {
	n := uint64(0)
	m.each(func(sh *memoryShard) { n += sh.evictions })
	return n
}

func (m *Memory) each(do func(*memoryShard)) {
	for i := range m.shards {
		sh := &m.shards[i]
		sh.mu.Lock()
		do(sh)
		sh.mu.Unlock()
	}
}

func cost(h *weir.Hit) int64 { return min(max(h.N, 0), mostCost) }

// shard returns the shard of key, locked, and the key's place in it.
func (m *Memory) shard(key []byte) (uint64, *memoryShard) {
	hash := maphash.Bytes(m.seed, key)
	sh := &m.shards[hash%memoryShards]
	sh.mu.Lock()
	return hash, sh
}

// passes is how far h would bring its counter above the limit, or 0 or below.
func (m *Memory) passes(h *weir.Hit, now time.Time) int64 {
	hash, sh := m.shard(h.Key)
	defer sh.mu.Unlock()
	c := sh.counters[hash]
	if c.end <= now.UnixNano() {
		c.count = 0
	}
	return c.count + cost(h) - h.Limit.Max
}

// add charges n to the counter of h, and returns where it stands.
func (m *Memory) add(h *weir.Hit, now time.Time, n int64) int64 {
	hash, sh := m.shard(h.Key)
	defer sh.mu.Unlock()
	at := now.UnixNano()
	c, known := sh.counters[hash]
	if !known {
		sh.makeRoom(at, m.options.MaxKeys/memoryShards+1)
	}
	if c.end <= at {
		c = counter{end: at + untilEnd(h.Limit, at)}
	}
	c.count = min(c.count+n, mostCount)
	sh.counters[hash] = c
	return c.count
}

// makeRoom makes room for one counter more.
func (sh *memoryShard) makeRoom(at int64, most int) {
	if sh.counters == nil {
		sh.counters = map[uint64]counter{}
	}
	if at >= sh.next {
		sh.next = at + int64(lookEvery)
		maps.DeleteFunc(sh.counters, func(_ uint64, c counter) bool { return c.end <= at })
	}
	if len(sh.counters) >= most {
		sh.evict(at)
	}
}

// evict forgets the one of some counters that has ended or counts least.
func (sh *memoryShard) evict(at int64) {
	seen, least, victim := 0, int64(0), uint64(0)
	for hash, c := range sh.counters {
		if c.end <= at {
			c.count = -1
		}
		if seen == 0 || c.count < least {
			least, victim = c.count, hash
		}
		if seen++; seen == sampled {
			break
		}
	}
	delete(sh.counters, victim)
	if least >= 0 {
		sh.evictions++
	}
}

// tell fills out for a counter that stands at after.
func tell(h *weir.Hit, now time.Time, after int64, out *weir.Status) {
	*out = weir.Status{Limit: h.Limit, Allowed: after <= h.Limit.Max, Remaining: h.Limit.Max - after}
	out.ResetAfter = time.Duration(untilEnd(h.Limit, now.UnixNano()))
	switch {
	case out.Allowed:
	case h.N > h.Limit.Max:
		out.RetryAfter = weir.Never
	default:
		out.RetryAfter = out.ResetAfter
	}
}

// untilEnd is how long the window of l that holds at goes on, in nanoseconds.
func untilEnd(l *weir.Limit, at int64) int64 {
	window := max(int64(l.Window), 1)
	return window - at%window
}
