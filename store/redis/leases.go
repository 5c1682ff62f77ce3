package redis

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirgate/weir"
)

const (
	// leaseTerm is how long what is in flight is held without a word from its replica. It is the same
	// in all replicas, for a counter expires with its last lease.
	leaseTerm = 15 * time.Second
	// renewals is how many there are to a term.
	renewals = 3
	// mostOwed bounds what waits to be given back; what does not find room expires.
	mostOwed = 10_000
)

// leases are what this replica holds of Concurrency limits. Each grant has a name that no other has in
// any replica, so that it can be given back and renewed, and no other with it.
type leases struct {
	term    time.Duration
	replica uint64
	last    atomic.Uint64

	mu   sync.Mutex
	held map[holder][]grant
	owed []call        // opRelease
	kick chan struct{} // tells that something is owed
}

// A holder is a request that holds something of a counter.
type holder struct {
	lease uint64
	key   string
}

// A grant is what a holder was given at once.
type grant struct {
	call  call
	since time.Duration // when it was given or renewed
}

func (s *leases) init() {
	s.term, s.replica = leaseTerm, rand.Uint64()
	s.held = map[holder][]grant{}
	s.kick = make(chan struct{}, 1)
}

// name returns a name for a grant: 16 bytes.
func (s *leases) name() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], s.replica)
	binary.BigEndian.PutUint64(b[8:], s.last.Add(1))
	return string(b[:])
}

// hold notes what j, a request that passed, was granted.
func (s *leases) hold(j *job, hits []weir.Hit, out []weir.Status, now time.Duration) {
	for i := range j.calls {
		if c := &j.calls[i]; c.withLease() && c.n > 0 && out[i].Allowed {
			s.mu.Lock()
			h := holder{hits[i].Lease, c.key}
			s.held[h] = append(s.held[h], grant{*c, now})
			s.mu.Unlock()
		}
	}
}

// drop forgets what hits hold, and returns the job of giving it back.
func (s *leases) drop(store *Store, hits []weir.Hit) *job {
	j := newJob(0)
	j.owed = true
	for i := range hits {
		if hits[i].Limit.Algorithm != weir.Concurrency {
			continue
		}
		h := holder{hits[i].Lease, counterKey(store.prefix, &hits[i])}
		s.mu.Lock()
		for _, g := range s.held[h] {
			j.calls = append(j.calls, g.call.as(opRelease))
		}
		delete(s.held, h)
		s.mu.Unlock()
	}
	return j
}

// as is c as a request of its own with another op.
func (c call) as(o op) call {
	c.op, c.last = o, true
	return c
}

// owe notes that what calls were granted, or may have been, is to be given back by now and then.
func (s *leases) owe(calls []call, now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range calls {
		c := &calls[i]
		if !c.withLease() || c.lease == "" || len(s.owed) >= mostOwed {
			continue
		}
		o := c.as(opRelease)
		if o.expires == 0 {
			o.expires = now + s.term
		}
		s.owed = append(s.owed, o)
	}
}

// payNow has what is owed given back at once.
func (s *leases) payNow() {
	select {
	case s.kick <- struct{}{}:
	default: // it is about to be
	}
}

// renewLeases renews what is held and gives back what is owed, until Close.
func (s *Store) renewLeases() {
	tick := time.NewTicker(s.leases.term / renewals)
	defer tick.Stop()
	for {
		select {
		case <-s.base.Done():
			return
		case <-s.leases.kick:
		case <-tick.C:
			s.renew(s.leases.due(s.clock()))
		}
		s.payBack(s.leases.debts(s.clock()))
	}
}

// payBack gives calls back, some at a time. What fails to be given back is owed again.
func (s *Store) payBack(calls []call) {
	for some := range slices.Chunk(calls, mostJobs) {
		j := newJob(0)
		j.owed, j.calls = true, some
		if err := s.runEach(context.Background(), j, s.clock()+s.timeout); err != nil {
			s.leases.owe(some, s.clock())
		}
	}
}

// renew gives calls back and takes them again, in one call of the script: then a server that has lost
// them knows them, too, and none is counted twice. A renewal that fails is due again.
func (s *Store) renew(calls []call) {
	together := mostJobs
	if s.link.Load().cluster != nil {
		together = 1 // the two share a slot
	}
	for some := range slices.Chunk(calls, together) {
		j := newJob(2 * len(some))
		for _, c := range some {
			j.calls = append(j.calls, c.as(opRelease), c.as(opTake))
		}
		_ = s.run(context.Background(), j, s.clock()+s.timeout)
	}
	s.leases.owe(s.leases.released(calls), s.clock())
}

// due returns what has been held for a part of the term, as it is to be taken again: in flight it is,
// however many there may be.
func (s *leases) due(now time.Duration) []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var calls []call
	unbounded := map[*weir.Limit]*weir.Limit{}
	for _, grants := range s.held {
		for i := range grants {
			g := &grants[i]
			if now-g.since < s.term/renewals/2 {
				continue
			}
			g.since = now
			l := unbounded[g.call.limit]
			if l == nil {
				l = &weir.Limit{Name: g.call.limit.Name, Algorithm: weir.Concurrency, Max: mostCost}
				unbounded[g.call.limit] = l
			}
			calls = append(calls, g.call)
			calls[len(calls)-1].limit = l
		}
	}
	return calls
}

// released returns those of calls that are held no longer. They may have been taken after they were
// given back.
func (s *leases) released(calls []call) []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := map[string]bool{}
	for _, grants := range s.held {
		for i := range grants {
			held[grants[i].call.lease] = true
		}
	}
	return slices.DeleteFunc(calls, func(c call) bool { return held[c.lease] })
}

// debts takes what is owed and has not expired.
func (s *leases) debts(now time.Duration) []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := slices.DeleteFunc(s.owed, func(c call) bool { return c.expires <= now })
	s.owed = nil
	return calls
}
