package tarpit

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgate/weir"
)

var bounds = weir.TarpitBounds{Delay: 5 * time.Second, MaxHeld: 100, MaxHeldPerClient: 2}

func TestHoldsForTheDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pit Tarpit
		began := time.Now()
		if !pit.Hold(t.Context(), "rule", "client", bounds) {
			t.Error("an empty tarpit held nobody")
		}
		if got := time.Since(began); got != bounds.Delay {
			t.Errorf("held for %v, want %v", got, bounds.Delay)
		}
		if pit.Held() != 0 || len(pit.rules) != 0 {
			t.Errorf("afterwards: %d held, %d rules remembered, want none", pit.Held(), len(pit.rules))
		}
	})
}

// Each attempt comes while those before it are held; what is refused is refused at once.
func TestBounds(t *testing.T) {
	tests := []struct {
		name    string
		bounds  weir.TarpitBounds
		askers  []string // rule/client
		holds   []bool
		inSight int
	}{
		{"two of one client", bounds, []string{"r/a", "r/a", "r/a", "r/b"}, []bool{true, true, false, true}, 3},
		{"two in all", weir.TarpitBounds{Delay: 1, MaxHeld: 2, MaxHeldPerClient: 2}, []string{"r/a", "r/b", "r/c"}, []bool{true, true, false}, 2},
		{"a rule's own", weir.TarpitBounds{Delay: 1, MaxHeld: 1, MaxHeldPerClient: 1}, []string{"r/a", "s/a", "r/b"}, []bool{true, true, false}, 2},
		{"none", weir.TarpitBounds{Delay: 1}, []string{"r/a"}, []bool{false}, 0},
		{"none of one client", weir.TarpitBounds{Delay: 1, MaxHeld: 1}, []string{"r/a"}, []bool{false}, 0},
	}
	for _, test := range tests {
		synctest.Test(t, func(t *testing.T) {
			var pit Tarpit
			got := make([]bool, len(test.askers))
			for i, asker := range test.askers {
				began := time.Now()
				go func() {
					got[i] = pit.Hold(t.Context(), asker[:1], asker[2:], test.bounds)
					if !got[i] && time.Since(began) != 0 {
						t.Errorf("%s: asker %d waited to be refused", test.name, i)
					}
				}()
				synctest.Wait()
			}
			if pit.Held() != test.inSight {
				t.Errorf("%s: %d held, want %d", test.name, pit.Held(), test.inSight)
			}
			time.Sleep(test.bounds.Delay)
			synctest.Wait()
			if fmt.Sprint(got) != fmt.Sprint(test.holds) {
				t.Errorf("%s: held %v, want %v", test.name, got, test.holds)
			}
		})
	}
}

// envoy#8292: an asker that left kept its slot until the timer ended.
func TestWhoLeavesGivesTheSlotBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pit Tarpit
		ctx, leave := context.WithCancel(t.Context())
		for i := range bounds.MaxHeld {
			go pit.Hold(ctx, "rule", fmt.Sprint(i), bounds)
		}
		synctest.Wait()
		if pit.Held() != bounds.MaxHeld {
			t.Fatalf("held %d, want %d", pit.Held(), bounds.MaxHeld)
		}
		time.Sleep(200 * time.Millisecond)
		leave()
		synctest.Wait()
		if pit.Held() != 0 {
			t.Errorf("held %d after all left, want 0", pit.Held())
		}
		for i := range bounds.MaxHeld {
			go pit.Hold(t.Context(), "rule", fmt.Sprint(i), bounds)
		}
		synctest.Wait()
		if pit.Held() != bounds.MaxHeld {
			t.Errorf("of the second hundred %d are held, want all", pit.Held())
		}
		time.Sleep(bounds.Delay)
	})
}

func TestAThousandNeverHoldMoreThanAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pit Tarpit
		var inside, held atomic.Int64
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() {
				time.Sleep(time.Duration(i%7) * time.Second)
				if pit.Hold(t.Context(), "rule", fmt.Sprint(i%500), bounds) {
					held.Add(1)
				}
			})
		}
		for range 120 {
			time.Sleep(100 * time.Millisecond)
			inside.Store(max(inside.Load(), int64(pit.Held())))
		}
		all.Wait()
		if inside.Load() != int64(bounds.MaxHeld) {
			t.Errorf("at most %d were held at once, want %d", inside.Load(), bounds.MaxHeld)
		}
		if held.Load() < int64(bounds.MaxHeld) || pit.Held() != 0 {
			t.Errorf("%d were held in all and %d are left", held.Load(), pit.Held())
		}
	})
}
