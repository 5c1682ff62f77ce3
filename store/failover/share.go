package failover

import (
	"context"
	"fmt"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/limit"
)

// share is a replica's part of n: 0 of 0, else at least 1, rounded up.
func share(n, replicas int64) int64 {
	if n <= 0 {
		return 0
	}
	return (n-1)/replicas + 1
}

// shareOf returns l with a replica's share in place of the whole.
func shareOf(l *weir.Limit, replicas int64) weir.Limit {
	part := *l
	part.Max, part.Burst = share(l.Max, replicas), share(l.Burst, replicas)
	return part
}

// scratch is the memory of one answer in place of the shared store's.
type scratch struct {
	hits   []weir.Hit
	limits []weir.Limit
}

// divide fills sc with hits on a replica's shares.
func (sc *scratch) divide(hits []weir.Hit, replicas int64) {
	sc.hits, sc.limits = append(sc.hits[:0], hits...), sc.limits[:0]
	for i := range hits {
		sc.limits = append(sc.limits, shareOf(hits[i].Limit, replicas))
	}
	for i := range sc.hits {
		sc.hits[i].Limit = &sc.limits[i]
	}
}

// An asking is the Take or Peek of the local store.
type asking func(context.Context, time.Time, []weir.Hit, []weir.Status) error

// fallBack answers in place of the shared store, which failed because of cause: by this replica's
// share, or by that error where the hits' rule decides alone.
func (s *Store) fallBack(ask asking, now time.Time, hits []weir.Hit, out []weir.Status, cause error) error {
	if f := hits[0].OnFailure; f != weir.FailLocal {
		return fmt.Errorf("on_failure %v: %w", f, cause)
	}
	sc := s.scratch.Get().(*scratch)
	defer s.scratch.Put(sc)
	sc.divide(hits, s.replicas)
	at := limit.Nanos(now)
	for i := range sc.hits {
		s.settle(&sc.hits[i], &sc.limits[i], now, at)
	}
	s.settling.RLock()
	err := ask(context.Background(), now, sc.hits, out)
	s.settling.RUnlock()
	if err != nil {
		return fmt.Errorf("in place of the shared store: %w", err)
	}
	for i := range out[:len(hits)] {
		out[i].Limit, out[i].Degraded = hits[i].Limit, true
	}
	return nil
}

// remember notes what is left of each counter that hits charged, as a replica's share of it. What
// would not make a share smaller is not kept.
func (s *Store) remember(now time.Time, hits []weir.Hit, out []weir.Status) {
	at := limit.Nanos(now)
	for i := range hits {
		st, hash := &out[i], s.hash(hits[i].Key)
		start := share(st.Remaining, s.replicas)
		if st.ResetAfter <= 0 || start >= share(hits[i].Limit.Capacity(), s.replicas) {
			s.known.forget(hash)
			continue
		}
		s.known.set(fact{hash: hash, start: start, until: later(at, st.ResetAfter)}, at)
	}
}

// later is at + d, held at the greatest that fits.
func later(at int64, d time.Duration) int64 {
	if sum := at + int64(d); sum >= at {
		return sum
	}
	return 1<<63 - 1
}

// settle brings the local counter of h to what was last known of the shared one, once: from there
// it goes its own way. What holds a place in flight is not known to have left it or not, so there
// the limit itself is lowered, for as long as the knowledge is good.
func (s *Store) settle(h *weir.Hit, part *weir.Limit, now time.Time, at int64) {
	hash := s.hash(h.Key)
	f, ok := s.known.get(hash, at)
	if !ok {
		return
	}
	if part.Algorithm == weir.Concurrency {
		part.Max = min(part.Max, f.start)
		return
	}
	s.settling.Lock()
	defer s.settling.Unlock()
	if f, ok = s.known.claim(hash, at); !ok {
		return // another request did it
	}
	rest := *h
	rest.N = 0
	var st [1]weir.Status
	if s.local.Take(context.Background(), now, []weir.Hit{rest}, st[:]) != nil {
		return // the answer itself will fail, too
	}
	if rest.N = st[0].Remaining - f.start; rest.N > 0 {
		_ = s.local.Take(context.Background(), now, []weir.Hit{rest}, st[:])
	}
}
