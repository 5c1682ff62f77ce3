package redis

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/redistest"
	"github.com/weirgate/weir/internal/timed"
)

// commandsOf is how many commands the server gets while f runs, but for those that ask.
func commandsOf(server *redistest.Server, f func()) int {
	server.Commands()
	before := server.Commands()
	f()
	return server.Commands() - before - 1
}

func mustTake(t *testing.T, s *Store, hits ...weir.Hit) []weir.Status {
	t.Helper()
	out, err := take(s, hits...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// CNT-46: exactly 10 of 11 pass, and what comes after costs Redis nothing.
func TestRefusedAreRemembered(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	for _, l := range every(10, hour)[:5] {
		for client := range 20 {
			h := hitOn(l, strconv.Itoa(client), 1)
			began := time.Now() // before anything can be known
			for i := range 11 {
				if st := mustTake(t, s, h)[0]; st.Allowed != (i < 10) {
					t.Fatalf("%v: request %d: %+v", l.Algorithm, i, st)
				}
			}
			n := commandsOf(server, func() {
				for range 100 {
					mustTake(t, s, h)
				}
			})
			if n > 0 && time.Since(began) < recheck {
				t.Errorf("%v: %d commands for what is known to be refused", l.Algorithm, n)
			}
		}
	}
}

// The wait only counts down, and is over when it says.
func TestRememberedWaitIsAPromise(t *testing.T) {
	s := open(t, redistest.Start(t).URL())
	for _, l := range every(2, 300*time.Millisecond)[:4] {
		h := hitOn(l, "a", 1)
		mustTake(t, s, h)
		last := mustTake(t, s, h, h)[0]
		for range 50 {
			st := mustTake(t, s, h)[0]
			if st.Allowed {
				break // the wait was over
			}
			if last.RetryAfter > 0 && st.RetryAfter > last.RetryAfter {
				t.Errorf("%v: retry after %v, then after %v", l.Algorithm, last.RetryAfter, st.RetryAfter)
			}
			last = st
		}
		if !last.Allowed {
			time.Sleep(last.RetryAfter)
			if st := mustTake(t, s, h)[0]; !st.Allowed {
				t.Errorf("%v: after the wait %+v", l.Algorithm, st)
			}
		}
	}
}

// A cost below the refused one, another number, or another request asks Redis.
func TestWhatIsNotKnownIsAsked(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	l := &weir.Limit{Max: 10, Window: time.Hour}
	mustTake(t, s, hitOn(l, "a", 7))
	if st := mustTake(t, s, hitOn(l, "a", 4))[0]; st.Allowed || st.Remaining != 3 {
		t.Fatalf("%+v", st)
	}
	if st := mustTake(t, s, hitOn(l, "a", 8))[0]; st.Allowed || st.RetryAfter <= 0 || st.RetryAfter != st.ResetAfter {
		t.Errorf("a greater cost: %+v, want a wait until all is free", st)
	}
	if st := mustTake(t, s, hitOn(l, "a", 11))[0]; st.RetryAfter != weir.Never {
		t.Errorf("a cost over the limit: %+v", st)
	}
	if st := mustTake(t, s, hitOn(l, "a", 3))[0]; !st.Allowed {
		t.Errorf("a smaller cost: %+v", st)
	}
	mustTake(t, s, hitOn(l, "a", 1))
	raised := *l
	raised.Max = 12
	if st := mustTake(t, s, hitOn(&raised, "a", 1))[0]; !st.Allowed || st.Remaining != 1 {
		t.Errorf("raised: %+v", st)
	}
	same := raised
	same.Max = 11
	mustTake(t, s, hitOn(&same, "a", 1))
	again := same
	if n := commandsOf(server, func() { mustTake(t, s, hitOn(&again, "a", 1)) }); n != 0 {
		t.Errorf("%d commands after a reload that changed nothing", n)
	}
}

// What is in flight may end at any moment.
func TestConcurrencyIsNotRemembered(t *testing.T) {
	s := open(t, redistest.Start(t).URL())
	l := &weir.Limit{Algorithm: weir.Concurrency, Max: 1}
	first, second := hitOn(l, "a", 1), hitOn(l, "a", 1)
	second.Lease = 2
	mustTake(t, s, first)
	if st := mustTake(t, s, second)[0]; st.Allowed {
		t.Fatalf("%+v", st)
	}
	if err := s.Release(context.Background(), time.Now(), []weir.Hit{first}); err != nil {
		t.Fatal(err)
	}
	if st := mustTake(t, s, second)[0]; !st.Allowed {
		t.Errorf("after the release: %+v", st)
	}
}

// A reset takes effect at once where it is made, and within a second on every replica.
func TestResetIsSeen(t *testing.T) {
	server := redistest.Start(t)
	s, other := open(t, server.URL()), open(t, server.URL())
	h := hitOn(&weir.Limit{Max: 1, Window: time.Hour}, "a", 1)
	for _, r := range []*Store{s, s, other} {
		mustTake(t, r, h)
	}
	if err := s.Reset(context.Background(), []weir.Hit{h}); err != nil {
		t.Fatal(err)
	}
	if st := mustTake(t, s, h)[0]; !st.Allowed {
		t.Errorf("where it was made: %+v", st)
	}
	if err := s.Reset(context.Background(), []weir.Hit{h}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for !mustTake(t, other, h)[0].Allowed {
		if time.Since(began) > timed.Bound(recheck+slack) {
			t.Fatalf("not seen after %v", time.Since(began))
		}
		time.Sleep(time.Millisecond)
	}
}

// Of several limits, all are told; and one that is over keeps the others from being asked.
func TestSeveralRemembered(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	narrow, wide := &weir.Limit{Max: 1, Window: time.Hour}, &weir.Limit{Algorithm: weir.FixedWindow, Max: 5, Window: hour}
	request := []weir.Hit{hitOn(narrow, "a", 1), hitOn(wide, "a", 1)}
	mustTake(t, s, request...)
	want := mustTake(t, s, request...)
	var got []weir.Status
	if n := commandsOf(server, func() { got = mustTake(t, s, request...) }); n != 0 {
		t.Errorf("%d commands", n)
	}
	for i := range want {
		if got[i].Allowed != want[i].Allowed || got[i].Remaining != want[i].Remaining || got[i].Limit != request[i].Limit {
			t.Errorf("hit %d: %+v, want %+v", i, got[i], want[i])
		}
	}
	if st := mustTake(t, s, request[1])[0]; !st.Allowed || st.Remaining != 3 {
		t.Errorf("the wide limit alone: %+v", st)
	}
}
