package limit

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
)

// hammer asks at random times, most of them near the edges of windows, and returns when it was let in.
func hammer(a *asker, rng *rand.Rand, asks int) []int64 {
	now, w := int64(1000)*int64(a.l.Window), int64(a.l.Window)
	var in []int64
	for range asks {
		now += stride(rng, now, w) / 2
		if a.take(now, 1).Allowed {
			in = append(in, now)
		}
	}
	return in
}

// most is the greatest number of times within any w.
func most(times []int64, w int64) int {
	n, from := 0, 0
	for to, at := range times {
		for at-times[from] >= w {
			from++
		}
		n = max(n, to-from+1)
	}
	return n
}

// In any window at most 2N − 1 pass a sliding window, and at most N a sliding log.
func TestMostInAnyWindow(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for range 400 {
		n := 1 + rng.Int64N(6)
		w := time.Duration(1 + rng.Int64N(100))
		sliding := &asker{l: &weir.Limit{Max: n, Window: w}}
		if got := most(hammer(sliding, rng, 300), int64(w)); int64(got) > 2*n-1 {
			t.Fatalf("sliding window %d/%v: %d in one window", n, w, got)
		}
		log := &asker{l: &weir.Limit{Algorithm: weir.SlidingLog, Max: n, Window: w}}
		if got := most(hammer(log, rng, 300), int64(w)); int64(got) > n {
			t.Fatalf("sliding log %d/%v: %d in one window", n, w, got)
		}
	}
}

// From an empty state exactly N pass in the first window, and after a window without an admitted hit
// the next passes, whatever was refused meanwhile.
func TestFirstWindowAndIdleWindow(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for range 200 {
		for _, l := range everyKind(1 + rng.Int64N(6)) {
			if l.Algorithm == weir.Quota {
				continue // its windows are days
			}
			a, w := &asker{l: l}, int64(l.Window)
			now := 1000*w + rng.Int64N(w)
			n := int64(0)
			for a.take(now, 1).Allowed {
				n++
			}
			if n != l.Max {
				t.Fatalf("%v: %d passed at once, want %d", l.Algorithm, n, l.Max)
			}
			for range 5 {
				a.take(now+rng.Int64N(w/l.Max), 1)
			}
			last := a.s.Last
			if l.Algorithm == weir.SlidingLog {
				last = a.log.Last()
			}
			if st := a.take(last+w, l.Max); !st.Allowed && l.Algorithm != weir.TokenBucket {
				t.Fatalf("%v: after a window without a hit: %+v", l.Algorithm, st)
			}
		}
	}
}

// A refusal and a look change nothing, to the last bit.
func TestRefusalChangesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for range 100 {
		for _, l := range everyKind(rng.Int64N(4)) {
			a := &asker{l: l}
			for now := int64(day); now < int64(day)+int64(3*time.Minute); now += rng.Int64N(int64(20 * sec)) {
				s, log := a.s, Log{slices.Clone(a.log.ring), a.log.head, a.log.n}
				n := rng.Int64N(4)
				if st := a.take(now, n); st.Allowed && n > 0 {
					continue
				}
				if d := cmp.Diff(log, a.log, cmp.AllowUnexported(Log{})); s != a.s || d != "" {
					t.Fatalf("%v: cost %d changed %+v to %+v, %s", l.Algorithm, n, s, a.s, d)
				}
			}
		}
	}
}

// While nobody is let in, the wait names one moment, however often it is asked for.
func TestWaitOnlyCountsDown(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for range 200 {
		for _, l := range everyKind(1 + rng.Int64N(5)) {
			a, now := &asker{l: l}, int64(100*day)+rng.Int64N(int64(time.Minute))
			for a.take(now, 1).Allowed {
				now += rng.Int64N(int64(time.Second))
			}
			until := now + int64(a.peek(now, 1).RetryAfter)
			for range 5 {
				now += rng.Int64N(until - now)
				if got := now + int64(a.take(now, 1).RetryAfter); got != until {
					t.Fatalf("%v: told %d, then %d", l.Algorithm, until, got)
				}
			}
		}
	}
}

// A log holds as many stamps as its limit lets pass, and no more.
func TestLogGrowsOnDemand(t *testing.T) {
	l := &weir.Limit{Algorithm: weir.SlidingLog, Max: 10_000, Window: time.Minute}
	a := &asker{l: l}
	a.take(int64(day), 1)
	if got := len(a.log.ring); got != firstRing {
		t.Errorf("after one hit room for %d, want %d", got, firstRing)
	}
	for i := range int64(200_000) {
		a.take(int64(day)+i*int64(ms), 1)
	}
	if got := len(a.log.ring); got != 10_000 {
		t.Errorf("after many hits room for %d, want 10000", got)
	}
}

func TestTakeDoesNotAllocate(t *testing.T) {
	for _, l := range everyKind(1 << 20) {
		if l.Algorithm == weir.SlidingLog {
			continue // its ring grows
		}
		var s State
		var st weir.Status
		if n := testing.AllocsPerRun(100, func() { s = Take(l, s, int64(day), 1, &st) }); n != 0 {
			t.Errorf("%v: %v allocations", l.Algorithm, n)
		}
	}
}
