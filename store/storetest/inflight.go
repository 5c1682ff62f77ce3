package storetest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirgate/weir"
)

func inFlight(most int64) *weir.Limit {
	return &weir.Limit{Algorithm: weir.Concurrency, Max: most}
}

// releaseOnce: a release may be repeated, and frees nobody else's slot.
func releaseOnce(s *suite) {
	l, other := inFlight(2), &weir.Limit{Max: 9, Window: long}
	a, b, c := s.hit(l, "x", 1), s.hit(l, "x", 1), s.hit(l, "x", 1)
	s.want("two pass", append(s.take(a), s.take(b)...), answer{OK: true, Left: 1}, answer{OK: true})
	refused := s.take(c)
	s.want("the third", refused, answer{})
	if refused[0].RetryAfter != time.Second {
		s.Errorf("the third: retry after %v, want one second", refused[0].RetryAfter)
	}
	for range 3 {
		s.release(a, s.hit(other, "y", 1))
	}
	s.want("one slot is free", s.take(c), answer{OK: true})
	s.release(a)
	s.want("no more than one", s.take(s.hit(l, "x", 1)), answer{})
	s.release(b)
	s.release(c)
	s.want("all are free", s.take(s.hit(l, "x", 2)), answer{OK: true})
}

// refusedHoldsNothing: to release what was refused, or never asked for, frees nothing.
func refusedHoldsNothing(s *suite) {
	l, none := inFlight(1), &weir.Limit{Window: long}
	s.one(l, "x", 1)
	refused := s.hit(l, "x", 1)
	s.take(refused)
	s.release(refused, s.hit(l, "x", 1), s.hit(l, "nobody", 1))
	s.want("the holder still holds", s.take(s.hit(l, "x", 1)), answer{})
	spared := s.hit(l, "y", 1)
	s.take(spared, s.hit(none, "none", 1))
	s.want("a slot that another limit's refusal spared", s.take(s.hit(l, "y", 1)), answer{OK: true})
	s.release(spared)
	s.want("and its release", s.take(s.hit(l, "y", 1)), answer{})
}

// resetLeases: a holder from before a reset gives nothing back.
func resetLeases(s *suite) {
	l := inFlight(1)
	old := s.hit(l, "x", 1)
	s.take(old)
	s.reset(old)
	s.want("after the reset", s.take(s.hit(l, "x", 1)), answer{OK: true})
	s.release(old)
	s.want("the new holder holds", s.take(s.hit(l, "x", 1)), answer{})
}

// askers is how many ask at once.
const askers = 1000

// atOnce calls ask for each asker in parallel, and returns how many it let in.
func atOnce(ask func(i int) bool) int {
	var in atomic.Int64
	var wg sync.WaitGroup
	gate := make(chan struct{})
	for i := range askers {
		wg.Go(func() {
			<-gate
			if ask(i) {
				in.Add(1)
			}
		})
	}
	close(gate)
	wg.Wait()
	return int(in.Load())
}

// ask is take for one of many at once.
func (s *suite) ask(hits ...weir.Hit) bool {
	out := make([]weir.Status, len(hits))
	if err := s.Store.Take(context.Background(), s.Now(), hits, out); err != nil {
		s.Error(err)
	}
	for i := range out {
		if !out[i].Allowed {
			return false
		}
	}
	return true
}

// parallel: of a thousand at once exactly a hundred pass.
func parallel(s *suite) {
	for _, l := range every(100, long) {
		hits := make([]weir.Hit, askers)
		for i := range hits {
			hits[i] = s.hit(l, l.Algorithm.String(), 1)
		}
		if got := atOnce(func(i int) bool { return s.ask(hits[i]) }); got != 100 {
			s.Errorf("%v: %d passed, want 100", l.Algorithm, got)
		}
	}
}

// crossing: requests that name the same counters in either order do not wait for each other for
// ever, and charge both or none.
func crossing(s *suite) {
	a, b := &weir.Limit{Max: 60, Window: long}, &weir.Limit{Max: 80, Window: long}
	got := atOnce(func(i int) bool {
		hits := []weir.Hit{{Limit: a, Key: []byte(s.tag + "a"), TagLen: len(s.tag), N: 1}, {Limit: b, Key: []byte(s.tag + "b"), TagLen: len(s.tag), N: 1}}
		if i%2 == 1 {
			hits[0], hits[1] = hits[1], hits[0]
		}
		return s.ask(hits...)
	})
	if got != 60 {
		s.Errorf("%d passed, want 60", got)
	}
	out := make([]weir.Status, 1)
	look := []weir.Hit{{Limit: b, Key: []byte(s.tag + "b"), TagLen: len(s.tag)}}
	if err := s.Store.Take(context.Background(), s.Now(), look, out); err != nil {
		s.Fatal(err)
	}
	s.want("the wider one", out, answer{OK: true, Left: 20})
}

// parallelInFlight: never more than the limit hold at once, and in the end nobody does.
func parallelInFlight(s *suite) {
	l := inFlight(7)
	hits := make([]weir.Hit, askers)
	for i := range hits {
		hits[i] = s.hit(l, "x", 1)
	}
	var holding, most atomic.Int64
	atOnce(func(i int) bool {
		if !s.ask(hits[i]) {
			return false
		}
		for n := holding.Add(1); ; {
			if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
				break
			}
		}
		holding.Add(-1)
		if err := s.Store.Release(context.Background(), s.Now(), hits[i:i+1]); err != nil {
			s.Error(err)
		}
		return true
	})
	if m := most.Load(); m < 1 || m > 7 {
		s.Errorf("%d held at once, want 1 to 7", m)
	}
	s.want("all gave back", s.take(s.hit(l, "x", 7)), answer{OK: true})
}
