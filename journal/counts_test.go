package journal

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
)

func TestTotals(t *testing.T) {
	j := New(Options{Rules: []string{"search", "static"}})
	j.Record(passed(search), ok)
	j.Record(refused(search, weir.Reject), weir.Outcome{HTTP: 429})
	j.Record(refused(search, weir.Drop), weir.Outcome{})
	j.Record(refused(search, weir.Tarpit), weir.Outcome{HTTP: 429})
	j.Record(refused(search, weir.Tag), ok) // lets pass
	shadowed := passed(search)
	shadowed.Statuses = append(shadowed.Statuses, weir.Status{Limit: trial}, weir.Status{Limit: trial})
	j.Record(shadowed, ok) // counts once

	want := Totals{Requests: 6, Refused: 3, Rules: []RuleTotal{
		{Rule: "search", Requests: 6, Refused: 3, Shadow: 1},
		{Rule: "static"},
	}}
	if diff := cmp.Diff(want, j.Totals()); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
}

// What has no configured rule is counted all the same, under a name of ours.
func TestTotalsWithoutAConfiguredRule(t *testing.T) {
	j := New(Options{Rules: []string{"search"}})
	j.Record(passed(nil), ok)
	j.Record(passed(&weir.Rule{Name: "gone"}), ok)
	want := Totals{Requests: 2, Rules: []RuleTotal{{Rule: "search"}, {Rule: "none", Requests: 1}, {Rule: "other", Requests: 1}}}
	if diff := cmp.Diff(want, j.Totals()); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
}

// Public case MET-04: counters of unchanged rules started again from 0 at each reload.
func TestReloadKeepsWhatWasCounted(t *testing.T) {
	j := New(Options{Rules: []string{"search", "static"}})
	j.Record(passed(search), ok)
	j.Record(passed(static), ok)
	for range 50 {
		j.SetRules([]string{"added", "search"})
		j.SetRules([]string{"search", "renamed"})
	}
	// A request that was decided before the reload and ends after it.
	j.Record(passed(static), ok)

	want := Totals{Requests: 3, Rules: []RuleTotal{{Rule: "search", Requests: 1}, {Rule: "renamed"}, {Rule: "other", Requests: 1}}}
	if diff := cmp.Diff(want, j.Totals()); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
}

// A rule that comes back begins at 0, as a new series does.
func TestRuleThatComesBackIsNew(t *testing.T) {
	j := New(Options{Rules: []string{"search"}})
	j.Record(passed(search), ok)
	j.SetRules(nil)
	j.SetRules([]string{"search"})
	want := Totals{Requests: 1, Rules: []RuleTotal{{Rule: "search"}}}
	if diff := cmp.Diff(want, j.Totals()); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
}

// A proxy that asks twice about one request has one request, decided once. What it asked stands in the
// ring; what the store answered was work.
func TestAnotherAskIsNoOtherRequest(t *testing.T) {
	j := New(Options{Rules: []string{"search"}})
	j.Record(passed(search), ok)
	again := passed(search)
	again.Reason = weir.AskedBefore
	again.Client.Source = weir.Unresolved
	j.Record(again, ok)
	j.Record(again, ok)

	want := Totals{Requests: 1, Rules: []RuleTotal{{Rule: "search", Requests: 1}}}
	if diff := cmp.Diff(want, j.Totals()); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
	got := []uint64{j.counts.again, j.counts.checks, j.counts.answers[2], j.counts.resolutions[weir.Unresolved]}
	if diff := cmp.Diff([]uint64{2, 3, 1, 0}, got); diff != "" {
		t.Errorf("asks again, checks, answers 2xx, unresolved (-want +got):\n%s", diff)
	}
	recent := j.Recent(5)
	if len(recent) != 3 || recent[0].Reason != "asked before" || recent[2].Reason != "within limits" {
		t.Errorf("the ring holds %+v", recent)
	}
}

func TestStoreCounts(t *testing.T) {
	degraded := passed(search)
	degraded.Degraded, degraded.Statuses = true, nil
	uncounted := passed(static)
	uncounted.Hits, uncounted.Statuses = nil, nil
	two := passed(search)
	two.Hits = append(two.Hits, weir.Hit{Limit: trial})
	two.Statuses = append(two.Statuses, weir.Status{Limit: trial, Allowed: true})

	for _, c := range []struct {
		name              string
		d                 *weir.Decision
		checks, fallbacks uint64
	}{
		{"one hit", passed(search), 1, 0},
		{"two hits", two, 2, 0},
		{"no answer", degraded, 0, 1},
		{"exempt", uncounted, 0, 0},
	} {
		j := New(Options{})
		j.Record(c.d, ok)
		j.settle()
		if checks, fallbacks := j.counts.checks, j.counts.fallbacks; checks != c.checks || fallbacks != c.fallbacks {
			t.Errorf("%s: %d checks and %d fallbacks, want %d and %d", c.name, checks, fallbacks, c.checks, c.fallbacks)
		}
	}
}

// An asker who goes away is not the upstream's failure.
func TestUpstreamFailures(t *testing.T) {
	for _, c := range []struct {
		err  error
		want uint64
	}{
		{nil, 0},
		{errors.New("connection refused"), 1},
		{fmt.Errorf("copy body: %w", context.Canceled), 0},
		{context.DeadlineExceeded, 1},
	} {
		j := New(Options{})
		j.Record(passed(search), weir.Outcome{HTTP: 502, Err: c.err})
		j.settle()
		if got := j.counts.upstreamFailures; got != c.want {
			t.Errorf("%v: counted %d times, want %d", c.err, got, c.want)
		}
	}
}

func TestStatusClass(t *testing.T) {
	for status, want := range map[int]uint8{0: 0, 99: 0, 100: 1, 199: 1, 200: 2, 429: 4, 599: 5, 600: 0, 1 << 40: 0, -1: 0, -200: 0} {
		if got := statusClass(status); got != want {
			t.Errorf("class of %d is %d, want %d", status, got, want)
		}
	}
}

func TestHashNumber(t *testing.T) {
	for hash, want := range map[string]uint64{
		"": 0, "not hex": 0, "ff": 255, "ffffffffffff": 1<<48 - 1, "ffffffffffff0000": 1<<48 - 1,
	} {
		if got := hashNumber(hash); got != want || uint64(float64(got)) != got {
			t.Errorf("number of %q is %d, want %d, exact in a float64", hash, got, want)
		}
	}
}
