package limit

import (
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/weirgate/weir"
)

const (
	ms   = time.Millisecond
	sec  = time.Second
	day  = 24 * time.Hour
	year = 365 * day
)

// A step is one hit of a script, and what it must be told.
type step struct {
	at    time.Duration // since the epoch, which begins a window
	n     int64
	ok    bool
	left  int64
	retry time.Duration
}

func run(t *testing.T, l *weir.Limit, steps []step) {
	t.Helper()
	a := &asker{l: l}
	for i, s := range steps {
		got := a.take(int64(s.at), s.n)
		want := weir.Status{Limit: l, Allowed: s.ok, Remaining: s.left, ResetAfter: got.ResetAfter, RetryAfter: s.retry}
		if got != want {
			t.Errorf("step %d at %v, cost %d:\n got %+v\nwant %+v", i, s.at, s.n, got, want)
		}
	}
}

func TestSlidingWindow(t *testing.T) {
	scripts := map[string]struct {
		max    int64
		window time.Duration
		steps  []step
	}{
		"to the nanosecond": {2, time.Minute, []step{
			{0, 1, true, 1, 0},
			{59 * sec, 1, true, 0, 0},
			{59 * sec, 1, false, 0, 31 * sec},             // one over: until half of the two weighs nothing
			{59*sec + 999*ms, 1, false, 0, 30*sec + 1*ms}, // knocking only shortens the wait
			{time.Minute, 1, false, 0, 30 * sec},
			{90*sec - 1, 1, false, 0, 1},
			{90 * sec, 1, true, 0, 0},
		}},
		// CNT-01: twice the limit does not pass around the edge of a window.
		"edge": {10, time.Minute, []step{
			{59 * sec, 10, true, 0, 0},
			{60*sec + 500*ms, 1, false, 0, 5500 * ms}, // 10 × 54/60 = 9 at 66 s
			{66*sec + 500*ms, 1, true, 0, 0},          // 8.9 of 10 used
			{66*sec + 500*ms, 1, false, 0, 5500 * ms},
		}},
		// CNT-58: small limits, where the plain formula asks for up to two windows.
		"one a second": {1, sec, []step{
			{990 * ms, 1, true, 0, 0},
			{1010 * ms, 1, false, 0, 980 * ms},
			{1990 * ms, 1, true, 0, 0},
		}},
		"one an hour": {1, time.Hour, []step{
			{time.Minute, 1, true, 0, 0},
			{time.Hour, 1, false, 0, time.Minute},
			{61*time.Minute + sec, 1, true, 0, 0},
		}},
		"cost of the whole": {10, time.Minute, []step{
			{1 * sec, 10, true, 0, 0},
			{2 * sec, 10, false, 0, 59 * sec},
			{61*sec + 100*ms, 10, true, 0, 0},
		}},
		// CNT-60: what remains is what passes.
		"remaining": {100, time.Minute, []step{
			{10 * sec, 50, true, 50, 0},
			{66 * sec, 10, true, 45, 0},
			{66 * sec, 46, false, 45, 1200 * ms},
			{66 * sec, 45, true, 0, 0},
			{66 * sec, 1, false, 0, 1200 * ms},
		}},
		// CNT-61: all who are refused are told the same moment.
		"one moment": {10, time.Minute, []step{
			{0, 10, true, 0, 0},
			{10 * sec, 1, false, 0, 50 * sec},
			{12 * sec, 1, false, 0, 48 * sec},
		}},
		// CNT-12: cost 0 asks and does not spend.
		"look": {3, time.Minute, []step{
			{0, 0, true, 3, 0},
			{0, 0, true, 3, 0},
			{1 * sec, 1, true, 2, 0},
			{1 * sec, 1, true, 1, 0},
			{1 * sec, 1, true, 0, 0},
			{2 * sec, 0, false, 0, 59 * sec},
		}},
		"cost over the limit": {3, time.Minute, []step{
			{0, 4, false, 3, weir.Never},
			{0, math.MaxInt64, false, 3, weir.Never},
			{0, 3, true, 0, 0},
		}},
		"negative cost is a look": {1, time.Minute, []step{{0, math.MinInt64, true, 1, 0}, {0, 1, true, 0, 0}}},
		// CNT-50: nothing passes a limit of 0, and nothing is divided by it.
		"nothing passes 0": {0, time.Minute, []step{
			{0, 1, false, 0, weir.Never},
			{0, 0, false, 0, weir.Never},
		}},
	}
	for name, s := range scripts {
		t.Run(name, func(t *testing.T) { run(t, &weir.Limit{Max: s.max, Window: s.window}, s.steps) })
	}
}

func TestSlidingLog(t *testing.T) {
	run(t, &weir.Limit{Algorithm: weir.SlidingLog, Max: 10, Window: time.Minute}, []step{
		{59 * sec, 10, true, 0, 0},
		{60*sec + 500*ms, 1, false, 0, 58*sec + 500*ms}, // CNT-01: an exact log refuses until 119 s
		{66*sec + 500*ms, 1, false, 0, 52*sec + 500*ms},
		{119*sec - 1, 1, false, 0, 1},
		{119 * sec, 4, true, 6, 0},
		{120 * sec, 6, true, 0, 0},
		{121 * sec, 5, false, 0, 59 * sec},
		{121 * sec, 11, false, 0, weir.Never},
		{179 * sec, 0, true, 4, 0},
	})
	// CNT-60, exact.
	run(t, &weir.Limit{Algorithm: weir.SlidingLog, Max: 100, Window: time.Minute}, []step{
		{10 * sec, 50, true, 50, 0},
		{66 * sec, 10, true, 40, 0},
		{66 * sec, 41, false, 40, 4 * sec},
		{66 * sec, 40, true, 0, 0},
	})
	run(t, &weir.Limit{Algorithm: weir.SlidingLog, Window: time.Minute}, []step{{0, 1, false, 0, weir.Never}, {0, 0, false, 0, weir.Never}})
}

func TestFixedWindow(t *testing.T) {
	run(t, &weir.Limit{Algorithm: weir.FixedWindow, Max: 2, Window: time.Minute}, []step{
		{59 * sec, 1, true, 1, 0},
		{59 * sec, 2, false, 1, sec},
		{59 * sec, 1, true, 0, 0},
		{60*sec - 1, 1, false, 0, 1},
		{60 * sec, 2, true, 0, 0}, // a new window, to the nanosecond
		{60 * sec, 3, false, 0, weir.Never},
		{60 * sec, 0, false, 0, time.Minute},
	})
}

func TestTokenBucket(t *testing.T) {
	// CNT-38: the wait is that for one token, not for the whole bucket.
	run(t, bucket(1, 10, sec), []step{
		{0, 10, true, 0, 0},
		{0, 1, false, 0, sec},
		{sec, 1, true, 0, 0},
	})
	// CNT-48: a cost of the full capacity has a wait.
	run(t, bucket(5, 5, time.Minute), []step{
		{0, 5, true, 0, 0},
		{100 * ms, 5, false, 0, time.Minute - 100*ms},
		{time.Minute, 5, true, 0, 0},
		{time.Minute, 6, false, 0, weir.Never},
	})
	// CNT-55: without a burst of its own the whole limit passes at once.
	run(t, bucket(6, 6, time.Minute), []step{{0, 6, true, 0, 0}, {sec, 1, false, 0, 9 * sec}})
	// Thirds of a second are not rounded: the third one is whole again.
	run(t, bucket(3, 1, sec), []step{
		{0, 1, true, 0, 0},
		{1, 1, false, 0, 333_333_333},
		{333_333_333, 1, false, 0, 1},
		{333_333_334, 1, true, 0, 0},
		{333_333_334, 1, false, 0, 333_333_334},
	})
	for _, burst := range []int64{0, 5} { // CNT-50
		run(t, bucket(0, burst, sec), []step{{0, 1, false, 0, weir.Never}, {0, 0, false, 0, weir.Never}})
	}
}

func bucket(most, burst int64, w time.Duration) *weir.Limit {
	return &weir.Limit{Algorithm: weir.TokenBucket, Max: most, Burst: burst, Window: w}
}

// CNT-18: elapsed × rate does not overflow.
func TestTokenBucketIdleForCenturies(t *testing.T) {
	for _, l := range []*weir.Limit{bucket(1e9, 1e9, sec), bucket(1e9, 1, sec), bucket(math.MaxInt64, math.MaxInt64, 200*year)} {
		run(t, l, []step{
			{0, 1, true, l.Burst - 1, 0},
			{12 * time.Hour, 1, true, l.Burst - 1, 0},
			{400 * day, 1, true, l.Burst - 1, 0},
			{290 * year, 1, true, l.Burst - 1, 0},
		})
	}
	run(t, bucket(10, 10, day), []step{
		{0, 1, true, 9, 0},
		{12 * time.Hour, 1, true, 9, 0},
		{400 * day, 1, true, 9, 0},
		{290 * year, 10, true, 0, 0},
	})
	run(t, bucket(1e6, 1e6, day), []step{ // a level of more than 64 bits
		{0, 200_000, true, 800_000, 0},
		{0, 100_000, true, 700_000, 0},
		{12 * time.Hour, 1_000_000, true, 0, 0},
	})
	run(t, bucket(1, math.MaxInt64, 290*year), []step{
		{0, math.MaxInt64, true, 0, 0},
		{290 * year, 1, true, 0, 0},
		{290 * year, math.MaxInt64, false, 0, math.MaxInt64}, // a wait that no duration can tell
	})
}

// CNT-15: one request every 100 ms for 10 s against 3 per second.
func TestTokenBucketSteadyRate(t *testing.T) {
	a := &asker{l: bucket(3, 3, sec)}
	perSecond := make([]int, 10)
	for i := range 100 {
		if a.take(int64(i)*int64(100*ms), 1).Allowed {
			perSecond[i/10]++
		}
	}
	if want := []int{5, 3, 3, 3, 3, 3, 3, 3, 3, 3}; !reflect.DeepEqual(perSecond, want) {
		t.Errorf("admitted in each second %v, want %v", perSecond, want)
	}
}

// CNT-03: who keeps asking twice too fast gets the whole limit, and refusals cost nothing.
func TestRefusalsDoNotCount(t *testing.T) {
	a := &asker{l: &weir.Limit{Max: 10, Window: 600 * sec}}
	admitted, last, gap := 0, time.Duration(0), time.Duration(0)
	for at := time.Duration(0); at <= time.Hour; at += 30 * sec {
		if a.take(int64(at), 1).Allowed {
			admitted, gap, last = admitted+1, max(gap, at-last), at
		}
	}
	if admitted != 56 || gap != 390*sec {
		t.Errorf("%d admitted, longest gap %v; want 56 and 390s", admitted, gap)
	}
}

// CNT-52: a rate is not a count that only idleness resets.
func TestBelowTheRateNothingIsRefused(t *testing.T) {
	for _, l := range []*weir.Limit{
		{Max: 200, Window: 10 * sec},
		{Algorithm: weir.SlidingLog, Max: 200, Window: 10 * sec},
		{Algorithm: weir.FixedWindow, Max: 200, Window: 10 * sec},
		bucket(200, 200, 10*sec),
	} {
		a := &asker{l: l}
		for at := time.Duration(0); at < 600*sec; at += sec {
			if st := a.take(int64(at), 1); !st.Allowed || st.Remaining < 188 {
				t.Fatalf("%v at %v: %+v", l.Algorithm, at, st)
			}
		}
	}
}

// A new Max keeps what was used.
func TestMaxChange(t *testing.T) {
	for _, l := range []*weir.Limit{
		{Max: 1000, Window: time.Hour},
		{Algorithm: weir.SlidingLog, Max: 1000, Window: time.Hour},
		{Algorithm: weir.FixedWindow, Max: 1000, Window: time.Hour},
		{Algorithm: weir.Quota, Max: 1000},
	} {
		t.Run(l.Algorithm.String(), func(t *testing.T) {
			a := &asker{l: l}
			a.take(0, 300)
			a.l = withMax(l, 100) // CNT-33
			if st := a.take(int64(10*sec), 1); st.Allowed || st.Remaining != 0 {
				t.Errorf("lowered: %+v, want a refusal with 0 left", st)
			}
			a.l = withMax(l, 500)
			if st := a.take(int64(20*sec), 200); !st.Allowed || st.Remaining != 0 {
				t.Errorf("raised: %+v, want 200 more to pass", st)
			}
		})
	}
}

func withMax(l *weir.Limit, most int64) *weir.Limit {
	m := *l
	m.Max = most
	return &m
}

// CNT-33, CNT-62 for buckets: the level keeps what was used, and drains at the new rate.
func TestTokenBucketMaxChange(t *testing.T) {
	a := &asker{l: bucket(10, 10, time.Hour)}
	a.take(0, 10)
	a.l = bucket(20, 20, time.Hour)
	if st := a.take(int64(61*sec), 10); !st.Allowed || st.Remaining != 0 {
		t.Errorf("raised: %+v, want 10 more to pass", st)
	}
	a.l = bucket(5, 5, time.Hour)
	if st := a.take(int64(62*sec), 1); st.Allowed || st.Remaining != 0 {
		t.Errorf("lowered: %+v, want a refusal with 0 left", st)
	}
	a.l = bucket(0, 0, time.Hour)
	if st := a.take(int64(63*sec), 1); st.Allowed || st.RetryAfter != weir.Never {
		t.Errorf("nothing passes: %+v, want never", st)
	}
	var unused weir.Status
	if Take(a.l, State{}, int64(day), 1, &unused); unused.ResetAfter != 0 {
		t.Errorf("unused, nothing passes: %+v, want no reset", unused)
	}
}

func TestConcurrency(t *testing.T) {
	run(t, &weir.Limit{Algorithm: weir.Concurrency, Max: 2}, []step{
		{0, 1, true, 1, 0},
		{day, 1, true, 0, 0}, // what is in flight does not expire
		{day, 1, false, 0, sec},
		{day, 3, false, 0, weir.Never},
		{day, 0, false, 0, sec},
	})
}

// A clock that goes back a little refills nothing, charges nothing twice, and keeps the promise.
func TestClockGoesBack(t *testing.T) {
	for _, l := range everyKind(2) {
		t.Run(l.Algorithm.String(), func(t *testing.T) {
			a, now := &asker{l: l}, int64(100*day+day/2)
			a.take(now, 2)
			there := a.peek(now, 1)
			back := a.take(now-int64(5*sec), 1)
			want := there
			want.RetryAfter += 5 * sec
			want.ResetAfter += 5 * sec
			if back != want {
				t.Errorf("5 s back %+v, want %+v", back, want)
			}
			if again := a.peek(now, 1); again != there {
				t.Errorf("back again %+v, want %+v", again, there)
			}
			if st := a.take(now-int64(5*sec)+int64(back.RetryAfter), 1); !st.Allowed {
				t.Errorf("after the wait: %+v", st)
			}
		})
	}
}

// A clock that is set back by more than a window does not lock out until it has caught up. What is
// in flight stays so.
func TestClockSetFarBack(t *testing.T) {
	for _, l := range everyKind(2) {
		t.Run(l.Algorithm.String(), func(t *testing.T) {
			a, now, patience := &asker{l: l}, int64(100*day+day/2), max(l.Window, time.Minute)
			if l.Algorithm == weir.Quota {
				patience = day
			}
			a.take(now, 2)
			if st := a.take(now-int64(patience), 1); st.Allowed || st.RetryAfter <= patience {
				t.Errorf("set back by %v: %+v, want a wait until the clock has caught up", patience, st)
			}
			now -= int64(patience) + 1
			if st := a.take(now, 3); st.Allowed || st.Remaining != 2 || st.RetryAfter != weir.Never {
				t.Errorf("set back further, cost 3: %+v, want never and 2 left", st)
			}
			if st := a.peek(now+int64(patience)+1, 1); st.Allowed {
				t.Errorf("set right again: %+v, want a refusal as if nothing had been", st)
			}
			if st := a.take(now, 1); !st.Allowed || st.Remaining != 1 {
				t.Errorf("set back further: %+v, want the first of two", st)
			}
			a.take(now, 1)
			if st := a.take(now, 1); st.Allowed || st.RetryAfter > patience {
				t.Errorf("set back further, the third: %+v, want a refusal", st)
			}
		})
	}
	run(t, &weir.Limit{Algorithm: weir.Concurrency, Max: 2}, []step{{day, 2, true, 0, 0}, {0, 1, false, 0, sec}})
}

func TestNanos(t *testing.T) {
	for _, c := range []struct {
		t    time.Time
		want int64
	}{
		{time.Time{}, 0},
		{time.Unix(0, -1), 0},
		{time.Unix(0, 0), 0},
		{time.Unix(1_700_000_000, 123), 1_700_000_000_000_000_123},
		{time.Unix(9_223_372_036, 854_775_807), math.MaxInt64},
		{time.Date(2316, 1, 1, 0, 0, 0, 0, time.UTC), math.MaxInt64},
		{time.Unix(math.MaxInt64, 0), math.MaxInt64},
	} {
		if got := Nanos(c.t); got != c.want {
			t.Errorf("Nanos(%v) = %d, want %d", c.t, got, c.want)
		}
	}
}
