package failover

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirgate/weir"
)

// A grantor is the store that granted something.
type grantor uint8

const (
	nobody grantor = iota
	bySharedStore
	byLocalStore
)

// slots knows which store granted what is in flight. It holds as much as is in flight.
type slots struct {
	n  atomic.Int64 // so that who holds nothing takes no lock
	mu sync.Mutex
	by map[slot]grantor
}

// A slot is a place in flight.
type slot struct{ hash, lease uint64 }

func (s *slots) grant(k slot, g grantor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil {
		s.by = make(map[slot]grantor)
	}
	s.by[k] = g
	s.n.Store(int64(len(s.by)))
}

// free returns who granted k, once.
func (s *slots) free(k slot) grantor {
	if s.n.Load() == 0 {
		return nobody
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.by[k]
	delete(s.by, k)
	s.n.Store(int64(len(s.by)))
	return g
}

// holds reports whether h is on a limit of what is in flight.
func holds(h *weir.Hit) bool { return h.Limit.Algorithm == weir.Concurrency }

// hold notes what g granted to hits.
func (s *Store) hold(g grantor, hits []weir.Hit, out []weir.Status) {
	granted := true
	for i := range hits {
		granted = granted && (out[i].Allowed || hits[i].Limit.Mode != weir.Enforce)
	}
	for i := range hits {
		if h := &hits[i]; granted && holds(h) && out[i].Allowed && h.N > 0 {
			s.slots.grant(slot{s.hash(h.Key), h.Lease}, g)
		}
	}
}

// Release implements weir.Releaser. What the local store granted is given back there; what the
// shared store granted, there: later, if it does not answer now.
func (s *Store) Release(ctx context.Context, now time.Time, hits []weir.Hit) error {
	var there []weir.Hit
	known := false
	for i := range hits {
		h := &hits[i]
		if !holds(h) {
			continue
		}
		switch s.slots.free(slot{s.hash(h.Key), h.Lease}) {
		case byLocalStore:
			_ = s.local.Release(ctx, now, hits[i:i+1]) // in this process
			continue
		case bySharedStore:
			known = true
		}
		there = append(there, *h)
	}
	if len(there) == 0 {
		return nil
	}
	err := s.ask(ctx, doRelease, now, there, nil)
	switch {
	case err == nil:
		return nil
	case known:
		s.owe(there)
		return nil
	case errors.Is(err, errOpen):
		return nil // nothing is known to be held, and what is ends with its lease
	}
	return err
}

// mostDebts is how many releases are remembered; more are left to their leases' end.
const mostDebts = 4096

// debts are places in flight that the shared store has still to be told of.
type debts struct {
	mu   sync.Mutex
	hits []weir.Hit
}

func (d *debts) any() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.hits) > 0
}

// next removes and returns a few.
func (d *debts) next() []weir.Hit {
	const atOnce = 64
	d.mu.Lock()
	defer d.mu.Unlock()
	n := min(atOnce, len(d.hits))
	few := d.hits[len(d.hits)-n:]
	d.hits = d.hits[: len(d.hits)-n : len(d.hits)-n]
	return few
}

// owe notes that hits have to be released in the shared store.
func (s *Store) owe(hits []weir.Hit) {
	s.debts.mu.Lock()
	defer s.debts.mu.Unlock()
	for i := range hits {
		if h := hits[i]; holds(&h) && len(s.debts.hits) < mostDebts {
			h.Key = bytes.Clone(h.Key)
			s.debts.hits = append(s.debts.hits, h)
			s.rouse()
		}
	}
}

// payDebts releases what is owed, for as long as the shared store answers.
func (s *Store) payDebts() {
	for few := s.debts.next(); len(few) > 0; few = s.debts.next() {
		if s.ask(s.base, doRelease, time.Now(), few, nil) != nil {
			s.owe(few)
			return
		}
	}
}
