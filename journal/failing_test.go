package journal

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
)

// failedOpen is a request that passed for a fault of the firewall's.
func failedOpen(fault string, at time.Time) *weir.Decision {
	d := passed(search)
	d.At, d.Inspection = at, weir.Inspection{Verdict: weir.FailedOpen, Ruleset: "crs", Fault: fault, Trace: "where"}
	return d
}

// While requests pass for a fault of ours there is a finding, and for five minutes after the last; the log has five
// lines a second of it however few it may have of refusals, and says how many it has not.
func TestPanicsAreSeen(t *testing.T) {
	now, log := noon, new(logbook)
	j := New(Options{Rules: []string{"search"}, Log: log.logger(), Now: func() time.Time { return now }})
	codes := func() (codes []string) {
		for _, f := range j.FirewallFindings() {
			codes = append(codes, f.Code+" "+f.Since.Format(time.TimeOnly)+" "+strings.Fields(f.Text)[0])
		}
		return codes
	}
	steps := []struct {
		at   time.Duration
		n    int // requests that pass
		want []string
	}{
		{0, 0, nil},
		{time.Minute, 100, []string{"waf.panic 12:01:00 100"}},
		{6 * time.Minute, 0, []string{"waf.panic 12:01:00 100"}},
		{6*time.Minute + 1, 0, nil},
		{6*time.Minute + 1, 1, []string{"waf.panic 12:06:00 1"}}, // a new spell
		{11 * time.Minute, 1, []string{"waf.panic 12:06:00 2"}},
	}
	for _, step := range steps {
		now = noon.Add(step.at)
		for range step.n {
			j.Record(failedOpen("panic", now), weir.Outcome{HTTP: 200})
		}
		if diff := cmp.Diff(step.want, codes()); diff != "" {
			t.Errorf("at %v (-want +got)\n%s", step.at, diff)
		}
	}
	if got := scrape(t, j)[`weir_waf_errors_total{reason="panic"}`]; got != 102 {
		t.Errorf("%v counted, want 102", got)
	}
	if n := strings.Count(log.buf.String(), "passed uninspected"); n != 7 || !strings.Contains(log.buf.String(), `"suppressed":95`) {
		t.Errorf("%d lines, want 5, 1 and 1: %s", n, log.buf.String())
	}
}

// Want of a slot is told apart from a panic, and only where it lets pass.
func TestSaturationIsSeen(t *testing.T) {
	j := New(Options{Now: func() time.Time { return noon }})
	busy := attacked("/")
	busy.Inspection = weir.Inspection{Verdict: weir.Blocked, Fault: "saturated"}
	if j.Record(busy, ok); len(j.FirewallFindings()) != 0 {
		t.Errorf("refused: %+v", j.FirewallFindings())
	}
	j.Record(failedOpen("saturated", noon), ok)
	if f := j.FirewallFindings(); len(f) != 1 || f[0].Code != "waf.saturated" {
		t.Errorf("passed: %+v", f)
	}
}

// What a second look finds stands apart from what was blocked, and is counted.
func TestInsights(t *testing.T) {
	j := New(Options{Rules: []string{"search"}})
	for _, verdict := range []weir.Verdict{weir.Clean, weir.Detected, weir.Detected, weir.FailedOpen} {
		d := attacked("/items/7", match("942440", 5))
		d.Inspection.Verdict = verdict
		if verdict == weir.FailedOpen {
			d.Inspection.Fault = "panic"
		}
		j.Insight(d)
	}
	got := map[string]float64{}
	for _, result := range lookResults {
		got[result] = scrape(t, j)[`weir_waf_insights_total{result="`+result+`"}`]
	}
	if diff := cmp.Diff(map[string]float64{"pass": 1, "found": 2, "failed": 1}, got); diff != "" {
		t.Errorf("counted (-want +got)\n%s", diff)
	}
	if list := j.Insights(10); len(list) != 2 || list[0].Verdict != "insight" || list[0].Path != "/items/7" || len(j.Blocked(10)) != 0 {
		t.Errorf("%+v, and blocked %+v", list, j.Blocked(10))
	}
	for range 300 {
		d := attacked("/", match("942440", 5))
		d.Inspection.Verdict = weir.Detected
		j.Insight(d)
	}
	if n := len(j.Insights(1000)); n != mostInsights {
		t.Errorf("%d are kept", n)
	}
}

// How long inspections take is told for each rule set, of those that there were.
func TestInspectionsAreTimed(t *testing.T) {
	j := New(Options{Rules: []string{"search"}})
	for _, ruleset := range []string{"fast", "fast", "crs", "", "another"} {
		d := passed(search)
		d.Inspection = weir.Inspection{Verdict: weir.Clean, Ruleset: ruleset, Took: 3 * time.Millisecond}
		j.Record(d, ok)
	}
	got := withPrefix(scrape(t, j), "weir_waf_duration_seconds")
	for series, want := range map[string]float64{
		`weir_waf_duration_seconds_count{ruleset="fast"}`:             2,
		`weir_waf_duration_seconds_count{ruleset="crs"}`:              1,
		`weir_waf_duration_seconds_bucket{ruleset="crs",le="0.0025"}`: 0,
		`weir_waf_duration_seconds_bucket{ruleset="crs",le="0.01"}`:   1,
		`weir_waf_duration_seconds_sum{ruleset="crs"}`:                0.003,
	} {
		if got[series] != want {
			t.Errorf("%s is %v, want %v", series, got[series], want)
		}
	}
	if len(got) != 30 {
		t.Errorf("%d series", len(got))
	}
}
