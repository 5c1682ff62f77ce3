package journal

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/waf/mask"
)

func daily(name string, most int64) *weir.Limit {
	return &weir.Limit{Name: name, Rate: fmt.Sprintf("%d/day", most), Algorithm: weir.Quota, Max: most}
}

// spent is a request of a key that was charged n and left so much.
func spent(l *weir.Limit, key string, n, left int64) *weir.Decision {
	d := passed(search)
	d.At = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	d.Client.APIKey, d.Client.Plan = key, "free"
	d.Hits = []weir.Hit{{Limit: l, N: n}}
	d.Statuses = []weir.Status{{Limit: l, Allowed: true, Remaining: left, ResetAfter: 12 * time.Hour}}
	return d
}

// Of all requests of a period exactly one reaches each threshold: the metric and the log tell of that one.
func TestThresholds(t *testing.T) {
	for _, c := range []struct {
		most, cost int64
		want       string // what is left, at 80 and at 100 percent
	}{
		{10, 1, "80:2 100:0"}, {7, 1, "80:1 100:0"}, {1, 1, "80:0 100:0"}, {3, 1, "80:0 100:0"}, {1000, 1, "80:200 100:0"}, {10, 5, "80:0 100:0"}, {100, 7, "80:16"},
	} {
		var log bytes.Buffer
		j := New(Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		l := daily("free/day", c.most)
		for left := c.most - c.cost; left >= 0; left -= c.cost {
			j.Record(spent(l, "k1", c.cost, left), ok)
		}
		var got []string
		for line := range strings.Lines(log.String()) {
			var percent, left int64
			_, rest, _ := strings.Cut(line, "percent=")
			if _, err := fmt.Sscanf(rest, "%d remaining=%d", &percent, &left); err != nil {
				t.Fatal(line)
			}
			got = append(got, fmt.Sprintf("%d:%d", percent, left))
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%d by %d: %s, want %s", c.most, c.cost, text, c.want)
		}
	}
}

// What charged nothing, was counted elsewhere for a while, or was asked about again reaches nothing.
func TestWhatReachesNoThreshold(t *testing.T) {
	j, l := New(Options{}), daily("d", 10)
	look, over, away, rate, again := spent(l, "k", 0, 2), spent(l, "k", 1, 2), spent(l, "k", 1, 2), spent(l, "k", 1, 2), spent(l, "k", 1, 2)
	over.Statuses = append(over.Statuses, weir.Status{Limit: &weir.Limit{Name: "x"}})
	over.Hits = append(over.Hits, weir.Hit{})
	away.Statuses[0].Degraded = true
	rate.Statuses[0].Limit = &weir.Limit{Name: "d", Max: 10}
	again.Reason = weir.AskedBefore
	for _, d := range []*weir.Decision{look, over, away, rate, again} {
		j.Record(d, ok)
	}
	if got := withPrefix(scrape(t, j), "weir_quota"); len(got) != 0 {
		t.Error(got)
	}
	trial := spent(l, "k", 1, 2)
	j.Record(trial, ok)
	want := map[string]float64{`weir_quota_threshold_total{limit="d",threshold="80"}`: 1, `weir_quota_threshold_total{limit="d",threshold="100"}`: 0}
	if diff := cmp.Diff(want, withPrefix(scrape(t, j), "weir_quota")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// However many keys and limits there are, so much is written and kept.
func TestThresholdsAreBounded(t *testing.T) {
	var log bytes.Buffer
	j := New(Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	for i := range mostQuotas + 50 {
		j.Record(spent(daily(fmt.Sprint(i), 10), fmt.Sprint(i), 1, 0), ok)
	}
	series := withPrefix(scrape(t, j), "weir_quota")
	if n := len(series); n != 2*(mostQuotas+1) || series[`weir_quota_threshold_total{limit="other",threshold="100"}`] != 50 {
		t.Errorf("%d series, other %v", n, series[`weir_quota_threshold_total{limit="other",threshold="100"}`])
	}
	if n := strings.Count(log.String(), "a quota is used"); n != quotaPerSecond {
		t.Errorf("%d lines in one second, want %d", n, quotaPerSecond)
	}
}

// A line names the key, not what may be somebody's address or name.
func TestThresholdLinesHideSecrets(t *testing.T) {
	m, err := mask.New(mask.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	j := New(Options{Log: slog.New(slog.NewTextHandler(&log, nil)), Mask: m})
	j.Record(spent(daily("d", 10), "jwt:ann@example.com", 1, 0), ok)
	anonymous := spent(daily("d", 10), "", 1, 0)
	j.Record(anonymous, ok)
	text := log.String()
	if strings.Contains(text, "ann@") || strings.Contains(text, anonymous.Client.Addr.String()) || !strings.Contains(text, "until=2026-03-05T00:00:00") {
		t.Error(text)
	}
}

// A key whose plan is gone is told of once a minute.
func TestUnknownPlanIsTold(t *testing.T) {
	var log bytes.Buffer
	j := New(Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	for _, after := range []time.Duration{0, time.Second, time.Minute - 1, time.Minute, 2*time.Minute - 1} {
		d := refused(search, weir.Reject)
		d.Reason, d.Client.APIKey, d.Client.Plan = weir.KeyRefused, "k1", "gone"
		d.At = time.Unix(1_700_000_000, 0).Add(after)
		j.Record(d, weir.Outcome{HTTP: 401})
	}
	if text := log.String(); strings.Count(text, "its plan is not in the configuration") != 2 || !strings.Contains(text, "plan=gone") {
		t.Error(text)
	}
}
