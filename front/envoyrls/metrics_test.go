package envoyrls

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
)

// Hits that cross a line are split between the counters of its two sides: near is above 8 of 10 here.
func TestHitsAreSplit(t *testing.T) {
	for _, c := range []struct {
		costs []uint32
		want  string // total, over, near, within
	}{
		{[]uint32{8}, "8 0 0 8"},
		{[]uint32{9}, "9 0 1 9"},
		{[]uint32{8, 2}, "10 0 2 10"},
		{[]uint32{10, 1}, "11 1 2 10"},
		{[]uint32{7, 5}, "12 2 2 7"},
		{[]uint32{9, 5}, "14 4 2 9"},
		{[]uint32{15}, "15 5 2 0"},
		{[]uint32{15, 3}, "18 8 2 0"},
	} {
		h := build(t, plan{yaml: someLimits})
		for _, n := range c.costs {
			ask := request(descriptor("l10", "x"))
			ask.HitsAddend = n
			h.ask(t, ask)
		}
		s := h.metrics.series[seriesName{domain: "d", key1: "l10"}]
		if got := fmt.Sprint(s.total.Load(), s.over.Load(), s.near.Load(), s.within.Load()); got != c.want {
			t.Errorf("%v: total, over, near and within are %s, want %s", c.costs, got, c.want)
		}
	}
}

// The ratio is multiplied in single precision, and rounded down.
func TestNearLine(t *testing.T) {
	for _, c := range []struct {
		perUnit uint32
		ratio   float64
		want    int64
	}{{0, 0.8, 0}, {1, 0.8, 0}, {10, 0.8, 8}, {5, 0.8, 4}, {1000, 0.35, 350}, {1 << 31, 0.5, 1 << 30}} {
		if got := nearLine(c.perUnit, c.ratio); got != c.want {
			t.Errorf("%d × %v: %d, want %d", c.perUnit, c.ratio, got, c.want)
		}
	}
}

// Shadow rules count what they let pass; errors, loads and calls are counted.
func TestServiceMetrics(t *testing.T) {
	h := build(t, plan{yaml: someLimits, options: Options{Settings: Settings{Shadow: true}}})
	h.SetFailed()
	h.passes(t, 3, request(descriptor("quiet", "x")))
	h.passes(t, 4, request(descriptor("l3", "x")))
	_, _ = h.ShouldRateLimit(context.Background(), nil) // it is counted
	want := []string{
		"ratelimit_service_config_load_error 1",
		"ratelimit_service_config_load_success 1",
		"ratelimit_service_global_shadow_mode 1",
		`ratelimit_service_rate_limit_near_limit{domain="d",key1="l3"} 1`,
		`ratelimit_service_rate_limit_near_limit{domain="d",key1="quiet"} 1`,
		`ratelimit_service_rate_limit_over_limit{domain="d",key1="l3"} 1`,
		`ratelimit_service_rate_limit_over_limit{domain="d",key1="quiet"} 2`,
		`ratelimit_service_rate_limit_shadow_mode{domain="d",key1="quiet"} 2`,
		`ratelimit_service_rate_limit_total_hits{domain="d",key1="l3"} 4`,
		`ratelimit_service_rate_limit_total_hits{domain="d",key1="quiet"} 3`,
		`ratelimit_service_rate_limit_within_limit{domain="d",key1="l3"} 3`,
		`ratelimit_service_rate_limit_within_limit{domain="d",key1="quiet"} 1`,
		`ratelimit_service_response_time_seconds_count{grpc_method="ShouldRateLimit"} 8`,
		`ratelimit_service_should_rate_limit_error{err_type="redis_error"} 0`,
		`ratelimit_service_should_rate_limit_error{err_type="service_error"} 1`,
		`ratelimit_service_total_requests{grpc_method="ShouldRateLimit"} 8`,
	}
	got := slices.DeleteFunc(h.scrape("ratelimit_"), func(line string) bool {
		return strings.Contains(line, "seconds_bucket") || strings.Contains(line, "seconds_sum")
	})
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("metrics (-want +got):\n%s", d)
	}
}

// Labels are the first two levels, and always text that can be written.
func TestSeriesNames(t *testing.T) {
	for _, c := range []struct {
		domain, metric string
		want           seriesName
	}{
		{"d", "d.k", seriesName{"d", "k", ""}},
		{"d", "d.k_v.l.m", seriesName{"d", "k_v", "l"}},
		{"a.b", "a.b.k", seriesName{"a.b", "k", ""}},
		{"d", "d.ip_10.1.2.3", seriesName{"d", "ip_10_1_2_3", ""}},
		{"a:b", "a:b.k|x", seriesName{"a_b", "k_x", ""}},
		{"d", "d.\xff", seriesName{"d", "\uFFFD", ""}},
	} {
		if got := nameOf(c.domain, c.metric); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.metric, got, c.want)
		}
	}
}

// Where this replica answers alone, hits are not near anything: nobody knows where the counter stands.
func TestDegradedHits(t *testing.T) {
	s, a := new(series), &asked{n: 2, limit: &limit{counted: weir.Limit{Max: 10}, near: 8}}
	s.note(a, &weir.Status{Allowed: true, Remaining: 0, Degraded: true})
	s.note(a, &weir.Status{Remaining: -1, Degraded: true})
	if got := fmt.Sprint(s.total.Load(), s.over.Load(), s.near.Load(), s.within.Load()); got != "4 2 0 2" {
		t.Errorf("total, over, near and within are %s", got)
	}
}
