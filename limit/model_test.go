package limit

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/racing"
)

// An asker is a counter of one limit, of any algorithm.
type asker struct {
	l   *weir.Limit
	s   State
	log Log
}

// take charges n at now if it passes.
func (a *asker) take(now, n int64) weir.Status {
	var st weir.Status
	if a.l.Algorithm != weir.SlidingLog {
		a.s = Take(a.l, a.s, now, n, &st)
		return st
	}
	a.log.Look(a.l, now, 0, n, &st)
	if st.Allowed && n > 0 {
		a.log.Add(a.l, now, n)
	}
	return st
}

// peek is what take would say.
func (a *asker) peek(now, n int64) weir.Status {
	var st weir.Status
	if a.l.Algorithm == weir.SlidingLog {
		a.log.Look(a.l, now, 0, n, &st)
	} else {
		Take(a.l, a.s, now, n, &st)
	}
	return st
}

// A hit is what a model remembers: everything.
type hit struct{ at, n int64 }

// A model says slowly and in plain sight whether n more pass at now after the admitted hits.
type model func(l *weir.Limit, hits []hit, now, n int64) bool

func since(hits []hit, from int64) *big.Rat {
	sum := new(big.Rat)
	for _, h := range hits {
		if h.at >= from {
			sum.Add(sum, rat(h.n))
		}
	}
	return sum
}

func rat(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

func slidingModel(l *weir.Limit, hits []hit, now, n int64) bool {
	w := int64(l.Window)
	start := now / w * w
	next := now
	for i := len(hits) - 1; i >= 0; i-- { // a whole window without a hit: what was before is over
		if next-hits[i].at >= w {
			hits = hits[i+1:]
			break
		}
		next = hits[i].at
	}
	cur := since(hits, start)
	prev := new(big.Rat).Sub(since(hits, start-w), cur)
	prev.Mul(prev, big.NewRat(w-(now-start), w))
	sum := prev.Add(prev, cur)
	return sum.Add(sum, rat(n)).Cmp(rat(l.Max)) <= 0
}

func logModel(l *weir.Limit, hits []hit, now, n int64) bool {
	return since(hits, now-int64(l.Window)+1).Cmp(rat(l.Max-n)) <= 0
}

func fixedModel(l *weir.Limit, hits []hit, now, n int64) bool {
	w := int64(l.Window)
	return since(hits, now/w*w).Cmp(rat(l.Max-n)) <= 0
}

func quotaModel(l *weir.Limit, hits []hit, now, n int64) bool {
	t := time.Unix(0, now).UTC() // the model knows only days of UTC
	return since(hits, t.Truncate(24*time.Hour).UnixNano()).Cmp(rat(l.Max-n)) <= 0
}

func bucketModel(l *weir.Limit, hits []hit, now, n int64) bool {
	if l.Max == 0 {
		return n <= 0
	}
	rate := big.NewRat(l.Max, int64(l.Window))
	used, last := new(big.Rat), int64(0)
	drain := func(to int64) {
		used.Sub(used, new(big.Rat).Mul(rate, rat(to-last)))
		if used.Sign() < 0 {
			used.SetInt64(0)
		}
		last = to
	}
	for _, h := range hits {
		drain(h.at)
		used.Add(used, rat(h.n))
	}
	drain(now)
	return used.Add(used, rat(n)).Cmp(rat(l.Burst)) <= 0
}

// most is how many the model lets pass at now: the greatest k of 0 to the capacity.
func (m model) most(l *weir.Limit, hits []hit, now int64) int64 {
	k := int64(0)
	for k < l.Capacity() && m(l, hits, now, k+1) {
		k++
	}
	return k
}

// want is the status that the model gives, but for the waits.
func (m model) want(l *weir.Limit, hits []hit, now, n int64) weir.Status {
	left := m.most(l, hits, now)
	ok := left >= max(n, 1)
	if ok {
		left -= n
	}
	return weir.Status{Limit: l, Allowed: ok, Remaining: left}
}

// relevant drops the hits that are older than anything a model looks at.
func relevant(l *weir.Limit, hits []hit, now int64) []hit {
	if l.Algorithm == weir.TokenBucket && l.Max > 0 {
		return hits // their sum over all time
	}
	old := 3*int64(l.Window) + int64(72*time.Hour)
	return slices.DeleteFunc(hits, func(h hit) bool { return now-h.at > old })
}

// checkAgainst sends a random sequence to a counter of l and compares every answer with the model's.
func checkAgainst(t *testing.T, m model, l *weir.Limit, span int64, rng *rand.Rand) {
	t.Helper()
	a := &asker{l: l}
	now := int64(1_700_000_000)*int64(time.Second) + rng.Int64N(span)
	var hits []hit
	for range 80 {
		now += stride(rng, now, span)
		n := cost(rng, l)
		want := m.want(l, hits, now, n)
		got := a.take(now, n)
		checkWaits(t, m, l, hits, now, n, got)
		got.ResetAfter, got.RetryAfter = 0, 0
		if got != want {
			t.Fatalf("%+v\nat %d, cost %d after %v:\n got %+v\nwant %+v", *l, now, n, hits, got, want)
		}
		if got.Allowed && n > 0 {
			hits = append(hits, hit{now, n})
		}
		hits = relevant(l, hits, now)
	}
}

// stride is a time to go on by: none, a nanosecond, to an edge of a window, or some part of a few.
func stride(rng *rand.Rand, now, w int64) int64 {
	edge := w - now%w
	switch rng.IntN(8) {
	case 0, 1:
		return 0
	case 2:
		return rng.Int64N(2)
	case 3:
		return edge
	case 4:
		return max(0, edge-1)
	case 5:
		return w
	case 6:
		return rng.Int64N(3 * w)
	}
	return rng.Int64N(max(1, w/4))
}

func cost(rng *rand.Rand, l *weir.Limit) int64 {
	switch rng.IntN(6) {
	case 0:
		return 0
	case 1:
		return rng.Int64N(l.Capacity() + 3)
	}
	return 1
}

// checkWaits holds RetryAfter and ResetAfter to their words: one nanosecond less would be a lie.
func checkWaits(t *testing.T, m model, l *weir.Limit, hits []hit, now, n int64, got weir.Status) {
	t.Helper()
	ask := max(n, 1)
	switch retry := int64(got.RetryAfter); {
	case got.Allowed && retry == 0:
		if n > 0 {
			hits = append(slices.Clone(hits), hit{now, n})
		}
	case !got.Allowed && ask > l.Capacity():
		if got.RetryAfter != weir.Never {
			t.Fatalf("%+v: cost %d: retry after %v, want never", *l, ask, got.RetryAfter)
		}
	case retry <= 0, !m(l, hits, now+retry, ask), m(l, hits, now+retry-1, ask):
		t.Fatalf("%+v\nat %d, cost %d after %v: retry after %d is not the first moment that passes", *l, now, ask, hits, retry)
	}
	if l.Capacity() == 0 {
		return
	}
	full := func(at int64) bool { return m(l, hits, at, l.Capacity()) }
	if reset := int64(got.ResetAfter); !full(now + reset) {
		t.Fatalf("%+v\nat %d after %v: reset after %d is too early", *l, now, hits, reset)
	}
}

func TestAgainstModels(t *testing.T) {
	racing.Skip(t)
	models := map[weir.Algorithm]model{
		weir.SlidingWindow: slidingModel, weir.SlidingLog: logModel, weir.FixedWindow: fixedModel,
		weir.TokenBucket: bucketModel, weir.Quota: quotaModel,
	}
	// Windows that limits divide and that they do not, down to a few nanoseconds where every
	// rounding shows.
	windows := []time.Duration{7, 10, 1000, 999_999_937, time.Second, time.Minute, 24 * time.Hour}
	for a, m := range models {
		t.Run(a.String(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, uint64(a)))
			for range 40 {
				l := &weir.Limit{Algorithm: a, Max: rng.Int64N(9), Window: windows[rng.IntN(len(windows))]}
				if a == weir.TokenBucket {
					l.Burst = 1 + rng.Int64N(9)
				}
				span := int64(l.Window)
				if a == weir.Quota {
					l.Window, span = 0, int64(24*time.Hour)
				}
				if l.Max == 0 {
					l.Burst = 0
				}
				checkAgainst(t, m, l, span, rng)
			}
		})
	}
}

// TestResetAfter: after it, and not a nanosecond before, a counter is as if it had never been used.
func TestResetAfter(t *testing.T) {
	for _, l := range everyKind(5) {
		t.Run(l.Algorithm.String(), func(t *testing.T) {
			a := &asker{l: l}
			now := int64(1_700_000_000_123_456_789)
			if st := a.peek(now, 0); st.ResetAfter != 0 {
				t.Errorf("unused: reset after %v, want 0", st.ResetAfter)
			}
			st := a.take(now, 2)
			before, after := a.peek(now+int64(st.ResetAfter)-1, 0), a.peek(now+int64(st.ResetAfter), 0)
			if want := (weir.Status{Limit: l, Allowed: true, Remaining: 5}); after != want {
				t.Errorf("after the reset %+v, want %+v", after, want)
			}
			if before.ResetAfter != 1 {
				t.Errorf("a nanosecond before: %+v, want one nanosecond to go", before)
			}
		})
	}
}

// everyKind is a limit of max for each algorithm whose counters expire.
func everyKind(most int64) []*weir.Limit {
	return []*weir.Limit{
		{Algorithm: weir.SlidingWindow, Max: most, Window: time.Minute},
		{Algorithm: weir.SlidingLog, Max: most, Window: time.Minute},
		{Algorithm: weir.FixedWindow, Max: most, Window: time.Minute},
		{Algorithm: weir.TokenBucket, Max: most, Burst: most, Window: time.Minute},
		{Algorithm: weir.Quota, Max: most, Period: weir.Day},
	}
}
