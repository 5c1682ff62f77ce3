package redis

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/redistest"
	"github.com/weirgate/weir/limit"
	"github.com/weirgate/weir/store/memory"
)

// A lab is a store whose time the test decides, in whole microseconds, and which remembers no refusals.
type lab struct {
	*Store
	now int64 // Unix microseconds
}

func openLab(t testing.TB, url string) *lab {
	t.Helper()
	s, err := prepare(Options{URL: url, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &lab{Store: s, now: 1_700_000_000_123_456}
	b.override = func() string { return strconv.FormatInt(b.now, 10) }
	b.wall = b.time
	b.leases.term = 1000 * time.Hour
	return b
}

func (b *lab) time() time.Time { return time.UnixMicro(b.now) }

// takeAll executes requests in one call of the script, in order.
func (b *lab) takeAll(t testing.TB, o op, requests ...[]weir.Hit) [][]weir.Status {
	t.Helper()
	var f flush
	for _, hits := range requests {
		j := newJob(len(hits))
		b.add(j, o, hits)
		f.jobs = append(f.jobs, j)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	f.together(ctx, b.link.Load().single)
	var all [][]weir.Status
	for _, j := range f.jobs {
		if j.err != nil {
			t.Fatal(j.err)
		}
		if j.now != b.now {
			t.Fatalf("the time is %d, want %d", j.now, b.now)
		}
		out := make([]weir.Status, len(j.calls))
		for i := range out {
			j.status(i, &out[i])
		}
		all = append(all, out)
	}
	return all
}

// An oracle is one counter as package limit counts it.
type oracle struct {
	state limit.State
	log   limit.Log
}

func (o *oracle) take(l *weir.Limit, now, n int64) weir.Status {
	var st weir.Status
	if l.Algorithm != weir.SlidingLog {
		o.state = limit.Take(l, o.state, now, n, &st)
	} else if o.log.Look(l, now, 0, n, &st); st.Allowed && n > 0 {
		o.log.Add(l, now, n)
	}
	return inMicroseconds(st)
}

// inMicroseconds is st with its waits rounded up, as the script tells them.
func inMicroseconds(st weir.Status) weir.Status {
	st.ResetAfter, st.RetryAfter = roundUp(st.ResetAfter), roundUp(st.RetryAfter)
	return st
}

func roundUp(d time.Duration) time.Duration {
	if d < 0 || d > math.MaxInt64-time.Microsecond {
		return d
	}
	return (d + time.Microsecond - 1) / time.Microsecond * time.Microsecond
}

// sameLimit compares limits by what they are: the same.
var sameLimit = cmp.Comparer(func(a, b *weir.Limit) bool { return a == b })

func TestRoundUp(t *testing.T) {
	for in, want := range map[time.Duration]time.Duration{
		0: 0, 1: time.Microsecond, 1000: 1000, 1001: 2000, weir.Never: weir.Never, math.MaxInt64: math.MaxInt64,
	} {
		if got := roundUp(in); got != want {
			t.Errorf("%d: %d, want %d", in, got, want)
		}
	}
}

// A trial is a random limit and how its sequence goes on.
type trial struct {
	*rand.Rand
	limit weir.Limit
	span  int64 // in microseconds, what times are measured by
}

// windows are such as limits divide and do not divide, from one microsecond to the longest there is.
var windows = []int64{1, 7, 10, 1000, 999_983, 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000, 366 * 86_400_000_000}

func newTrial(rng *rand.Rand, a weir.Algorithm) *trial {
	r := &trial{Rand: rng, span: windows[rng.IntN(len(windows))]}
	r.limit = weir.Limit{Algorithm: a, Window: time.Duration(r.span) * time.Microsecond}
	r.limit.Max = r.most()
	switch a {
	case weir.TokenBucket:
		r.limit.Burst = r.burst()
	case weir.Quota:
		r.limit.Window, r.limit.Period, r.span = 0, weir.Period(rng.IntN(3)), 86_400_000_000
		if rng.IntN(2) == 0 {
			r.limit.Location = time.FixedZone("east", 5*3600+1800)
		}
	}
	return r
}

// most is a number that passes: small, or as great as there is.
func (r *trial) most() int64 {
	switch {
	case r.limit.Algorithm == weir.SlidingLog:
		return r.Int64N(900)
	case r.IntN(3) == 0:
		return r.Int64N(1 << 32)
	}
	return r.Int64N(9)
}

func (r *trial) burst() int64 { return 1 + max(0, r.most()) }

func (r *trial) cost() int64 {
	switch r.IntN(7) {
	case 0:
		return 0
	case 1:
		return r.Int64N(r.limit.Capacity() + 3)
	case 2:
		return max(1, r.limit.Capacity()/3)
	case 3:
		return math.MaxInt64
	}
	return 1
}

// stride is a time to go on by, or back.
func (r *trial) stride(now int64) int64 {
	edge := r.span - now%r.span
	switch r.IntN(12) {
	case 0, 1, 2:
		return r.Int64N(2)
	case 3:
		return edge
	case 4:
		return max(0, edge-1)
	case 5:
		return r.span
	case 6:
		return r.Int64N(3 * r.span)
	case 7:
		return -r.Int64N(1 + r.span/2) // the clock is set back a little
	case 8:
		if r.IntN(4) == 0 {
			return -(max(r.span, 60_000_000) + r.Int64N(2*86_400_000_000)) // or much
		}
	}
	return r.Int64N(max(1, r.span/4))
}

// change gives the limit another number at times, as a reload does.
func (r *trial) change() {
	if r.IntN(8) > 0 {
		return
	}
	r.limit.Max = r.most()
	if r.limit.Algorithm == weir.TokenBucket {
		r.limit.Burst = r.burst()
	}
}

// TestOracle: the script answers as package limit does, for any sequence of requests on one counter,
// through changed numbers, idle gaps and a clock that goes back.
func TestOracle(t *testing.T) {
	b := openLab(t, redistest.Start(t).URL())
	for _, a := range []weir.Algorithm{weir.SlidingWindow, weir.SlidingLog, weir.FixedWindow, weir.TokenBucket, weir.Quota} {
		t.Run(a.String(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, uint64(a)))
			for i := range 60 {
				b.now = 1_700_000_000_000_000 + rng.Int64N(1<<45)
				checkOracle(t, b, newTrial(rng, a), fmt.Sprint(a, i))
			}
		})
	}
}

func checkOracle(t *testing.T, b *lab, r *trial, name string) {
	t.Helper()
	var o oracle
	var history []string
	for range 60 {
		b.now = max(b.now+r.stride(b.now), 1_000_000_000_000_000)
		r.change()
		var requests [][]weir.Hit
		var want []weir.Status
		for range 1 + r.IntN(4) {
			l := r.limit
			n := r.cost()
			requests = append(requests, []weir.Hit{{Limit: &l, Key: []byte("{o}" + name), TagLen: 3, N: n}})
			want = append(want, o.take(&l, 1000*b.now, n))
			history = append(history, fmt.Sprintf("%d: %d of %d", b.now, n, l.Max))
		}
		for i, out := range b.takeAll(t, opTake, requests...) {
			if d := cmp.Diff(want[i], out[0], sameLimit); d != "" {
				t.Fatalf("%+v after %v, request %d of %d (-oracle +script):\n%s", r.limit, history, i, len(want), d)
			}
		}
	}
}

// TestOracleSeveral: requests on several counters are judged as the store in memory does.
func TestOracleSeveral(t *testing.T) {
	b := openLab(t, redistest.Start(t).URL())
	rng := rand.New(rand.NewPCG(4, 4))
	for i := range 60 {
		m := memory.New(memory.Options{})
		checkSeveral(t, b, m, rng, fmt.Sprint(i))
		m.Close()
	}
}

// some is a request on a few of four counters, which may be named twice.
func some(rng *rand.Rand, limits []*weir.Limit, name string, lease uint64) []weir.Hit {
	var hits []weir.Hit
	for range 1 + rng.IntN(4) {
		k := rng.IntN(len(limits))
		key := []byte("{s}" + name + strconv.Itoa(k))
		hits = append(hits, weir.Hit{Limit: limits[k], Key: key, TagLen: 3, N: rng.Int64N(4), Lease: lease})
	}
	return hits
}

func checkSeveral(t *testing.T, b *lab, m *memory.Store, rng *rand.Rand, name string) {
	t.Helper()
	var limits []*weir.Limit
	for range 4 {
		l := newTrial(rng, weir.Algorithm(rng.IntN(6))).limit
		l.Max, l.Burst, l.Mode = rng.Int64N(12), 1+rng.Int64N(12), weir.Mode(rng.IntN(2))
		if l.Window > 0 {
			l.Window = time.Duration(1+rng.IntN(20)) * time.Second
		}
		limits = append(limits, &l)
	}
	for step := range 40 {
		b.now += rng.Int64N(4_000_000)
		var requests [][]weir.Hit
		for i := range 1 + rng.IntN(3) {
			requests = append(requests, some(rng, limits, name, uint64(10*step+i)))
		}
		o, ask := opTake, m.Take
		if rng.IntN(4) == 0 {
			o, ask = opPeek, m.Peek
		}
		got := b.takeAll(t, o, requests...)
		for i, hits := range requests {
			want := make([]weir.Status, len(hits))
			if err := ask(context.Background(), b.time(), hits, want); err != nil {
				t.Fatal(err)
			}
			for k := range want {
				want[k] = inMicroseconds(want[k])
			}
			if d := cmp.Diff(want, got[i], sameLimit); d != "" {
				t.Fatalf("%s: step %d, request %d: %+v (-memory +script):\n%s", name, step, i, hits, d)
			}
		}
	}
}

// TestOracleEdges: numbers at the edges of their bytes are kept, and a clock that goes back by the
// limit's patience stands still, by a microsecond more does not.
func TestOracleEdges(t *testing.T) {
	b := openLab(t, redistest.Start(t).URL())
	for _, a := range []weir.Algorithm{weir.SlidingWindow, weir.FixedWindow, weir.TokenBucket, weir.Quota} {
		for _, n := range []int64{1, 255, 256, 257, 65535, 65536, 1<<24 - 1, 1 << 24, 1<<32 - 1, 1 << 36} {
			l := &weir.Limit{Algorithm: a, Max: 1 << 37, Burst: 1 << 37, Window: time.Minute}
			var o oracle
			for step, stride := range []int64{0, 60_000_000, 7, -60_000_007, 60_000_007, -60_000_008, 86_400_000_000, -86_400_000_000, -86_400_000_001} {
				b.now += stride
				h := hitOn(l, fmt.Sprint("edge", n), n)
				if got, want := b.take(t, h), o.take(l, 1000*b.now, n); got != want {
					t.Errorf("%v, %d, step %d: %+v, want %+v", a, n, step, got, want)
				}
			}
		}
	}
}
