package journal

import (
	"math"
	"math/rand/v2"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// exposed returns what a scrape of a histogram called x says, and its sum apart.
func exposed(t *testing.T, c prometheus.Collector) (text string, sum float64) {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(c)
	w := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	before, after, _ := strings.Cut(w.Body.String(), "x_sum ")
	number, after, _ := strings.Cut(after, "\n")
	sum, err := strconv.ParseFloat(number, 64)
	if err != nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
	return before + after, sum
}

// A scrape cannot tell ours from Prometheus's own: values on every bound, beside it, between and beyond.
func TestHistogramIsAsPrometheuss(t *testing.T) {
	inspections := newCounts(nil, nil, "").inspections[0]
	for name, bounds := range map[string][]float64{"waits": waits(), "one": {1}, "inspections": told(inspections)} {
		ours := newHistogram(perSecond, bounds...)
		theirs := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "x", Help: "y", Buckets: bounds})
		add := func(d time.Duration) {
			ours.add(int64(d))
			theirs.Observe(d.Seconds())
		}
		for _, bound := range ours.bounds {
			add(time.Duration(bound - 1))
			add(time.Duration(bound))
			add(time.Duration(bound + 1))
		}
		random := rand.New(rand.NewPCG(1, 2))
		for range 1000 {
			add(time.Duration(random.Uint64N(1 << (10 + random.UintN(28)))))
		}
		add(0)
		add(-time.Second) // the clock went back
		add(time.Hour)
		want, wantSum := exposed(t, theirs)
		got, gotSum := exposed(t, spread{prometheus.NewDesc("x", "y", nil, nil), ours.clone})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-theirs +ours):\n%s", name, diff)
		}
		if math.Abs(gotSum-wantSum) > wantSum*1e-12 {
			t.Errorf("%s: the sum is %v, want %v", name, gotSum, wantSum)
		}
	}
}

// told returns the bounds of h as they are told.
func told(h histogram) (bounds []float64) {
	for _, b := range h.bounds {
		bounds = append(bounds, float64(b)/h.unit)
	}
	return bounds
}

// The buckets of every metric are what dashboards and alerts were made for.
func TestBucketsStayAsTheyAre(t *testing.T) {
	const waits = "0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 30 60 +Inf"
	const inspections = "1e-05 2.5e-05 0.0001 0.00025 0.001 0.0025 0.01 0.025 0.05 0.1 0.25 1 +Inf"
	w := httptest.NewRecorder()
	New(Options{}).Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	got := map[string]string{}
	for line := range strings.Lines(w.Body.String()) {
		if name, labels, found := strings.Cut(line, "_bucket{"); found {
			other, bound, _ := strings.Cut(labels, `le="`)
			bound, _, _ = strings.Cut(bound, `"`)
			got[name+"{"+other] = strings.TrimSpace(got[name+"{"+other] + " " + bound)
		}
	}
	want := map[string]string{
		"weir_request_duration_seconds{":            waits,
		"weir_upstream_duration_seconds{":           waits,
		"weir_client_chain_entries{":                "0 1 2 3 4 5 6 +Inf",
		`weir_waf_duration_seconds{ruleset="crs",`:  inspections,
		`weir_waf_duration_seconds{ruleset="fast",`: inspections,
		"weir_store_duration_seconds{":              "0.0001 0.00025 0.0005 0.001 0.0025 0.005 0.01 0.015 0.017 0.02 0.05 0.1 +Inf",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
