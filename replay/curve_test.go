package replay

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each point of a curve is what a fixed_window limit of that number does refuse of the same log: as many
// requests, in as many windows.
func TestCurveIsWhatLimitsRefuse(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	var log strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&log, "10.0.0.%d %d.%d 0 GET h / 200 -\n", int(r.ExpFloat64()*4), 1000+i/40, i%40/4)
	}
	const yaml = "default: {limits: [{rate: %d/10s, algorithm: fixed_window}]}"
	_, first := play(t, timed, fmt.Sprintf(yaml, 17), log.String(), nil)
	curve := first.Policy.Limits[0].Curve
	if len(curve) < 12 || curve[0].Refused == 0 || curve[len(curve)-1].Refused != 0 {
		t.Fatalf("the curve shows too little: %+v", curve)
	}
	for _, p := range curve {
		_, at := play(t, timed, fmt.Sprintf(yaml, p.Limit), log.String(), nil)
		if got := uint64(at.Policy.Refused); got != p.Refused || p.Share != float64(p.Refused)/4000 {
			t.Errorf("%+v, and the limit refuses %d", p, got)
		}
	}
	d := first.Policy.Limits[0].Demand
	if curve[len(curve)-1].Limit != d.Max || d.P50 > d.P95 || d.P95 > d.P99 || d.P99 > d.P999 || d.P999 > d.Max {
		t.Errorf("the percentiles do not rise to the maximum: %+v", d)
	}
}

// Headroom is the share of a limit that the busiest counter left when it was fullest, however it counts;
// none where it was reached, all of it where nobody asked for more than looks.
func TestHeadroom(t *testing.T) {
	lines := func(n int, seconds, took string) string {
		return strings.Repeat("10.0.0.1 "+seconds+" "+took+" GET h / 200 -\n", n)
	}
	for name, tt := range map[string]struct {
		limit, log string
		peak       int64
		headroom   float64
	}{
		"one of ten":                          {"rate: 10/1m, algorithm: fixed_window", lines(1, "1000", "0"), 1, 0.9},
		"the fullest window":                  {"rate: 10/1m, algorithm: fixed_window", lines(4, "1000", "0") + lines(2, "1080", "0"), 4, 0.6},
		"the busiest client":                  {"rate: 10/1m, algorithm: fixed_window", lines(2, "1000", "0") + strings.ReplaceAll(lines(7, "1000", "0"), "0.1 ", "0.2 "), 7, 0.3},
		"exactly reached":                     {"rate: 5/1m, algorithm: fixed_window", lines(5, "1000", "0"), 5, 0},
		"more than there is":                  {"rate: 5/1m, algorithm: fixed_window", lines(9, "1000", "0"), 5, 0},
		"a bucket fills again":                {"rate: 60/1m, burst: 10, algorithm: token_bucket", lines(5, "1000", "0") + lines(3, "1005", "0"), 5, 0.5},
		"a window that slides":                {"rate: 10/1m, algorithm: sliding_log", lines(4, "1010", "0") + lines(4, "1025", "0"), 8, 0.2},
		"in flight at once":                   {"in_flight: 10", lines(3, "1000", "5") + lines(3, "1006", "5"), 3, 0.7},
		"of a limit of none nothing is left":  {"rate: 0/1m", lines(1, "1000", "0"), 0, 0},
		"a limit that is in shadow mode, too": {"rate: 4/1m, algorithm: fixed_window, mode: shadow", lines(3, "1000", "0"), 3, 0.25},
	} {
		_, report := play(t, timed, "default: {limits: [{"+tt.limit+"}]}", tt.log, nil)
		l := report.Policy.Limits[0]
		if diff := l.Headroom - tt.headroom; l.Peak != tt.peak || diff > 1e-9 || diff < -1e-9 {
			t.Errorf("%s: peak %d, headroom %v; want %d, %v", name, l.Peak, l.Headroom, tt.peak, tt.headroom)
		}
	}
}

// Of two policies side by side, a client suffers or is freed only if the other one refused it nothing, by
// whatever rule; and a policy beside itself changes nothing.
func TestSufferingAndFreed(t *testing.T) {
	const log = "10.0.0.1 1000 0 GET h /a 200 -\n10.0.0.1 1001 0 GET h /b 200 -\n10.0.0.2 1002 0 GET h /a 200 -\n10.0.0.3 1003 0 GET h /b 200 -\n10.0.0.4 1004 0 GET h /c 200 -\n"
	const a, b = "rules: [{name: a, path: /a, limits: [{rate: 0/1h}]}]", "rules: [{name: b, path: /b, limits: [{rate: 0/1h}]}]"
	beside := func(tried, before string) (Comparison, []string, []string) {
		_, report := play(t, timed, tried, log, func(o *Options) { o.Against = &Policy{Name: "old", Policy: compile(t, before)} })
		c := *report.Comparison
		suffer, freed := clientsOf(c.Suffer), clientsOf(c.Freed)
		c.Suffer, c.Freed = nil, nil
		return c, suffer, freed
	}
	for name, tt := range map[string]struct {
		tried, before string
		want          Comparison
		suffer, freed []string
	}{
		"a policy beside itself":          {a, a, Comparison{Both: 2}, nil, nil},
		"another rule, and other victims": {b, a, Comparison{NewlyRefused: 2, NewlyPassed: 2, SufferAll: 1, FreedAll: 1}, []string{"10.0.0.3/32 b"}, []string{"10.0.0.2/32 a"}},
		"where nothing was refused":       {a, "", Comparison{NewlyRefused: 2, SufferAll: 2}, []string{"10.0.0.1/32 a", "10.0.0.2/32 a"}, nil},
		"where nothing is refused":        {"", b, Comparison{NewlyPassed: 2, FreedAll: 2}, nil, []string{"10.0.0.1/32 b", "10.0.0.3/32 b"}},
		"in shadow mode nobody suffers":   {strings.Replace(a, "path", "mode: shadow, path", 1), "", Comparison{}, nil, nil},
	} {
		got, suffer, freed := beside(tt.tried, tt.before)
		if diff := cmp.Diff([]any{tt.want, tt.suffer, tt.freed}, []any{got, suffer, freed}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func clientsOf(list []Hurt) (names []string) {
	for _, h := range list {
		names = append(names, h.Client+" "+h.Rule)
	}
	return names
}
