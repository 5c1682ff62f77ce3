package redis

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/redistest"
)

// openBrief is open with leases of that term. Their renewal is not yet under way.
func openBrief(t *testing.T, url string, term time.Duration) *Store {
	t.Helper()
	s, err := prepare(Options{URL: url, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	s.leases.term = term
	s.work.Go(s.renewLeases)
	return s
}

func leased(l *weir.Limit, lease uint64) weir.Hit {
	h := hitOn(l, "a", 1)
	h.Lease = lease
	return h
}

// What a replica held that died is free when its leases are over, and no sooner.
func TestLeasesOfTheDead(t *testing.T) {
	server := redistest.Start(t)
	const term = time.Second
	l := &weir.Limit{Algorithm: weir.Concurrency, Max: 2}
	dead, alive := openBrief(t, server.URL(), term), openBrief(t, server.URL(), term)
	defer alive.Close()
	mustTake(t, dead, leased(l, 1))
	mustTake(t, alive, leased(l, 1)) // the same lease of another replica
	began := time.Now()
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "free", func() error {
		if !mustTake(t, alive, leased(l, 2))[0].Allowed {
			return fmt.Errorf("held after %v", time.Since(began))
		}
		return nil
	})
	if wait := time.Since(began); wait < term/2 {
		t.Errorf("free after %v, want no sooner than half of %v", wait, term)
	}
	time.Sleep(2 * term) // it is renewed meanwhile
	if st := mustTake(t, alive, leased(l, 3))[0]; st.Allowed {
		t.Errorf("%+v, want what lives to hold what it holds", st)
	}
}

// A request that nobody waits for any more holds nothing.
func TestAbandonedHoldsNothing(t *testing.T) {
	server := redistest.Start(t)
	s := openWith(t, Options{URL: server.URL(), Timeout: patience})
	l := &weir.Limit{Algorithm: weir.Concurrency, Max: 1}
	mustTake(t, s, hitOn(&weir.Limit{Max: 1, Window: time.Hour}, "b", 0))
	server.Freeze()
	ctx, cancel := context.WithTimeout(context.Background(), short)
	defer cancel()
	if err := s.Take(ctx, time.Now(), []weir.Hit{leased(l, 1)}, make([]weir.Status, 1)); err == nil {
		t.Fatal("a frozen server answers")
	}
	server.Thaw()
	eventually(t, "given back", func() error {
		if !mustTake(t, s, leased(l, 2))[0].Allowed {
			return fmt.Errorf("held by a caller that gave up")
		}
		return nil
	})
}

// What cannot be given back, for the server is away, is given back when it is there again.
func TestReleaseLater(t *testing.T) {
	server := redistest.Start(t)
	s := openBrief(t, server.URL(), 3*time.Second)
	defer s.Close()
	l := &weir.Limit{Algorithm: weir.Concurrency, Max: 1}
	mustTake(t, s, leased(l, 1))
	server.Freeze()
	ctx, cancel := context.WithTimeout(context.Background(), short)
	defer cancel()
	if err := s.Release(ctx, time.Now(), []weir.Hit{leased(l, 1)}); err == nil {
		t.Error("a frozen server takes something back")
	}
	server.Thaw()
	eventually(t, "given back", func() error {
		if !mustTake(t, s, leased(l, 2))[0].Allowed {
			return fmt.Errorf("still held")
		}
		return nil
	})
	if n := len(s.leases.held); n != 1 {
		t.Errorf("%d holders are remembered, want the one", n)
	}
}

// A counter's leases are gone with the last of them.
func TestLeasesLeaveNothing(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	h := leased(&weir.Limit{Algorithm: weir.Concurrency, Max: 5}, 1)
	h.N = 3
	mustTake(t, s, h)
	if n := server.Do("ZCARD", keyOf(t, s, h)); n != 3 {
		t.Errorf("%v leases, want 3", n)
	}
	if err := s.Release(context.Background(), time.Now(), []weir.Hit{h}); err != nil {
		t.Fatal(err)
	}
	if n := server.Do("DBSIZE"); n != 0 {
		t.Errorf("%v keys are left", n)
	}
	if n := commandsOf(server, func() {
		if err := s.Release(context.Background(), time.Now(), []weir.Hit{h}); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%d commands to give back what is not held", n)
	}
}

// What is in flight when a server is restarted empty is registered again, also beyond the limit if
// others came first, and given back at its end.
func TestLeasesOutliveTheServer(t *testing.T) {
	server := redistest.Start(t)
	const term = 600 * time.Millisecond
	l := &weir.Limit{Algorithm: weir.Concurrency, Max: 2}
	s, other := openBrief(t, server.URL(), term), openBrief(t, server.URL(), term)
	defer s.Close()
	defer other.Close()
	mustTake(t, s, leased(l, 1))
	mustTake(t, s, leased(l, 2))
	server.Kill()
	server.Run()
	eventually(t, "a connection", func() error { _, err := take(other, leased(l, 3)); return err })
	eventually(t, "what is in flight", func() error {
		if n := server.Do("ZCARD", keyOf(t, s, leased(l, 1))); n != 3 {
			return fmt.Errorf("%v are in flight, want 3", n)
		}
		return nil
	})
	if st := mustTake(t, other, leased(l, 4))[0]; st.Allowed {
		t.Errorf("%+v passed beyond 3 of 2", st)
	}
	for lease := range uint64(2) {
		if err := s.Release(context.Background(), time.Now(), []weir.Hit{leased(l, lease+1)}); err != nil {
			t.Error(err)
		}
	}
	if st := mustTake(t, other, leased(l, 4))[0]; !st.Allowed {
		t.Errorf("%+v with one in flight", st)
	}
}

// A renewal counts nothing twice, whoever asks at the same moment, and brings back nothing that was
// given back meanwhile.
func TestRenewalIsExact(t *testing.T) {
	for name, url := range map[string]string{"one server": redistest.Start(t).URL(), "cluster": redistest.StartCluster(t, 3).URL()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, url) // whose own renewals are far away
			const most = 50
			l := &weir.Limit{Algorithm: weir.Concurrency, Max: most}
			for lease := range uint64(most - 1) {
				mustTake(t, s, leased(l, lease))
			}
			due := s.leases.due(s.clock() + s.leases.term)
			if len(due) != most-1 {
				t.Fatalf("%d are due, want %d", len(due), most-1)
			}
			var wg sync.WaitGroup
			wg.Go(func() { s.renew(slices.Clone(due)) })
			for i := range 20 {
				lease := uint64(most + i)
				if st := mustTake(t, s, leased(l, lease))[0]; !st.Allowed || st.Remaining != 0 {
					t.Errorf("%+v while %d of %d are renewed", st, most-1, most)
				}
				if err := s.Release(context.Background(), time.Now(), []weir.Hit{leased(l, lease)}); err != nil {
					t.Error(err)
				}
			}
			wg.Wait()
			if err := s.Release(context.Background(), time.Now(), []weir.Hit{leased(l, 0)}); err != nil {
				t.Error(err)
			}
			s.renew(slices.Clone(due)) // which began before that
			eventually(t, "what came back", func() error {
				s.payBack(s.leases.debts(s.clock()))
				if st := mustTake(t, s, hitOn(l, "a", 0))[0]; st.Remaining != 2 {
					return fmt.Errorf("%+v, want 2 free", st)
				}
				return nil
			})
		})
	}
}
