package failover

import (
	"context"
	"testing"
	"time"

	"github.com/weirgate/weir"
)

func inFlight(n int64) *weir.Limit { return &weir.Limit{Algorithm: weir.Concurrency, Max: n} }

func (h *house) give(hits ...weir.Hit) {
	h.t.Helper()
	if err := h.Release(context.Background(), time.Now(), hits); err != nil {
		h.t.Fatal(err)
	}
}

// held is how many places of a limit of 10 are taken in a store.
func held(t *testing.T, s weir.Peeker) int64 {
	t.Helper()
	out := make([]weir.Status, 1)
	look := weir.Hit{Limit: inFlight(10), Key: []byte("{x}:f")}
	if err := s.Peek(context.Background(), time.Now(), []weir.Hit{look}, out); err != nil {
		t.Fatal(err)
	}
	return 10 - out[0].Remaining
}

// A place is given back to the store that granted it, whatever became of the other one meanwhile.
func TestPlacesGoBackWhereTheyCameFrom(t *testing.T) {
	inBubble(t, Options{}, func(h *house) {
		l := inFlight(10)
		before, before2 := h.hit(l, "f", 1), h.hit(l, "f", 1)
		h.one(before)
		h.one(before2)
		h.breakDown()
		during, during2 := h.hit(l, "f", 1), h.hit(l, "f", 1)
		h.one(during)
		h.one(during2)
		check := func(when string, far, near int64) {
			t.Helper()
			if f, n := held(t, h.far.Store), held(t, h.near); f != far || n != near {
				t.Errorf("%s: %d held there and %d here, want %d and %d", when, f, n, far, near)
			}
		}
		check("in the outage", 2, 2)
		h.give(before)
		h.give(during)
		check("released in the outage: what is held there waits", 2, 1)
		asked := h.far.asked.Load()
		h.recover()
		check("after it", 1, 1)
		if n := h.far.asked.Load() - asked; n != 2 {
			t.Errorf("%d commands, want a probe and one release", n)
		}
		h.give(before2)
		asked = h.far.asked.Load()
		h.give(during2)
		check("all released", 0, 0)
		if h.far.asked.Load() != asked {
			t.Error("the shared store was asked to release what it never granted")
		}
	})
}

// Where the answer was lost the place may be held there: it is given back when that is possible.
func TestLostGrant(t *testing.T) {
	inBubble(t, Options{Failures: 100}, func(h *house) {
		hit := h.hit(inFlight(10), "f", 1)
		h.far.be(slow) // grants after everybody has left
		if st := h.one(hit); !st.Degraded || !st.Allowed {
			t.Fatalf("%+v", st)
		}
		time.Sleep(300 * time.Millisecond)
		if f, n := held(t, h.far.Store), held(t, h.near); f != 1 || n != 1 {
			t.Fatalf("%d held there and %d here, want one each", f, n)
		}
		h.far.be(well)
		h.give(hit)
		time.Sleep(2 * time.Second)
		if f, n := held(t, h.far.Store), held(t, h.near); f != 0 || n != 0 {
			t.Errorf("%d held there and %d here, want none", f, n)
		}
	})
}

// Whoever has left by the time that the shared store grants a place holds none, however late that is: not who went away, whose
// request was recorded and gave back what was not yet granted, nor who was answered elsewhere.
func TestGrantToWhoHasLeft(t *testing.T) {
	for _, c := range []struct {
		name     string
		patience time.Duration // the asker's
		options  Options
	}{
		{"went away", time.Millisecond, Options{Timeout: time.Second}},
		{"went away, and the keeper was early", time.Millisecond, Options{Timeout: time.Second, ProbeEvery: 10 * time.Millisecond}},
		{"was answered elsewhere, and the keeper was early", time.Hour, Options{Failures: 100, ProbeEvery: 10 * time.Millisecond}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, c.options, func(h *house) {
				hit := h.hit(inFlight(10), "f", 1)
				h.far.be(slow)
				ctx, leave := context.WithCancel(context.Background())
				defer leave()
				time.AfterFunc(c.patience, leave)
				_ = h.Take(ctx, time.Now(), []weir.Hit{hit}, make([]weir.Status, 1)) // that it ends before an answer is seen below
				h.far.be(well)
				if n := held(t, h.far.Store); n != 0 {
					t.Fatalf("%d are held when the asker leaves", n)
				}
				h.give(hit)
				time.Sleep(2 * time.Second)
				if f, n := held(t, h.far.Store), held(t, h.near); f != 0 || n != 0 {
					t.Errorf("%d held there and %d here, want none", f, n)
				}
			})
		})
	}
}

// forgetful asks nobody where nothing is held, as the store in Redis does.
type forgetful struct{ *scripted }

func (forgetful) Release(context.Context, time.Time, []weir.Hit) error { return nil }

// To give back what is not held proves nothing of the shared store: a silent one is left alone after three requests, though each
// gives back, when it is recorded, a place that it may have been granted.
func TestReleaseProvesNothing(t *testing.T) {
	inBubble(t, Options{}, func(h *house) {
		h.far.be(mute)
		s := New(forgetful{h.far}, h.near, h.options)
		defer s.Close()
		hit := h.hit(inFlight(10), "f", 1)
		hit.OnFailure = weir.FailDeny
		hits := []weir.Hit{hit}
		for i := range s.options.Failures {
			if s.Open() {
				t.Fatalf("open after %d failures", i)
			}
			if err := s.Take(context.Background(), time.Now(), hits, make([]weir.Status, 1)); err == nil {
				t.Fatal("the store answers")
			}
			if err := s.Release(context.Background(), time.Now(), hits); err != nil {
				t.Fatal(err)
			}
		}
		if !s.Open() {
			t.Errorf("closed after %d failures in a row", s.options.Failures)
		}
	})
}

// What a refused request asked for is nobody's.
func TestRefusedPlaces(t *testing.T) {
	inBubble(t, Options{}, func(h *house) {
		h.breakDown()
		f, none := h.hit(inFlight(10), "f", 1), h.hit(perMinute(0), "none", 1)
		if out, _, err := h.take(f, none); err != nil || out[1].Allowed {
			t.Fatalf("%+v, %v", out, err)
		}
		if n := h.slots.n.Load(); n != 0 {
			t.Errorf("%d places are held by a refused request", n)
		}
		h.give(f, none)
	})
}

// What is owed is bounded, and does not outlive its payment.
func TestDebtsAreBounded(t *testing.T) {
	inBubble(t, Options{}, func(h *house) {
		h.breakDown()
		for range mostDebts + 100 {
			h.owe([]weir.Hit{h.hit(inFlight(10), "f", 1), h.hit(perMinute(1), "a", 1)})
		}
		if n := len(h.debts.hits); n != mostDebts {
			t.Errorf("%d releases are remembered, want %d", n, mostDebts)
		}
		h.recover()
		if h.debts.any() {
			t.Error("something is still owed")
		}
	})
}
