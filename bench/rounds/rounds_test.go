package rounds

import (
	"testing"
	"time"
)

func TestQuietMedianRatio(t *testing.T) {
	for _, c := range []struct {
		x             []float64
		quiet, median float64
	}{
		{nil, 0, 0},
		{[]float64{3}, 3, 3},
		{[]float64{5, 1, 4, 2, 3}, 2, 3},
		{[]float64{8, 7, 6, 5, 4, 3, 2, 1, 9}, 3, 5},
	} {
		if q, m := Quiet(c.x), Median(c.x); q != c.quiet || m != c.median {
			t.Errorf("%v: quiet %v, median %v; want %v, %v", c.x, q, m, c.quiet, c.median)
		}
	}
	// One noisy round, which met both, changes nothing.
	if r := Ratio([]float64{2, 200, 2}, []float64{1, 100, 1}); r != 2 {
		t.Errorf("ratio %v, want 2", r)
	}
}

var sink []byte

func TestRunCountsTimesAndObjects(t *testing.T) {
	work := func(n int) {
		for range n {
			sink = make([]byte, 64)
		}
	}
	timings := Run(3, 2*time.Millisecond, []Contender{{"allocates", work}, {"does not", func(n int) {
		for i := range n {
			sink[i%64]++
		}
	}}})
	if timings[0].Allocs != 1 || timings[1].Allocs != 0 {
		t.Errorf("allocations %v and %v, want 1 and 0", timings[0].Allocs, timings[1].Allocs)
	}
	for _, x := range timings {
		if x.NS <= 0 || len(x.Rounds) != 3 {
			t.Errorf("%s: %v ns in %d rounds", x.Name, x.NS, len(x.Rounds))
		}
	}
}
