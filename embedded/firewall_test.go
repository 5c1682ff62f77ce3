package embedded

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/policy"
	"github.com/weirgate/weir/waf"
)

var day = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)

// rules blocks what blocks says.
type rules struct {
	blocks func(query string) bool
	closed int
}

func (*rules) Name() string   { return "crs" }
func (*rules) Thorough() bool { return false }

func (*rules) Quick(*waf.Input) bool { return false }
func (r *rules) Close() error        { r.closed++; return nil }
func (r *rules) Judge(c *waf.Case) {
	if r.blocks(c.Input.Query) {
		c.Report(waf.Finding{Rule: "1", Class: "sqli", Score: 5})
	}
}

func good(query string) bool { return strings.Contains(query, "UNION") }

// firewalls returns what a configuration asks for; every core rule set that is loaded is noted.
func firewalls(t *testing.T, yaml string, prev *Firewalls, loaded *[]*rules, blocks func(string) bool) (*Firewalls, error) {
	t.Helper()
	cfg, problems := config.Parse("weir.yaml", []byte(yaml), nil)
	if config.HasErrors(problems) {
		t.Fatal(problems)
	}
	p, problems := policy.Compile(cfg)
	if config.HasErrors(problems) {
		t.Fatal(problems)
	}
	return NewFirewalls(cfg, p, func(CoreRules) (waf.Ruleset, error) {
		r := &rules{blocks: blocks}
		*loaded = append(*loaded, r)
		return r, nil
	}, prev)
}

// A set that is loaded stays as long as it is wanted, and is closed once when it is not.
func TestSetsAreSharedAndClosed(t *testing.T) {
	var loaded []*rules
	closed := func() (n []int) {
		for _, r := range loaded {
			n = append(n, r.closed)
		}
		return n
	}
	steps := []struct {
		yaml   string
		all    int
		closed []int // the core rule sets that were loaded so far, and how often each was closed
	}{
		{"waf: {ruleset: crs}", 1, []int{0}},
		{"waf: {ruleset: crs, anomaly_threshold: 9, max_depth: 5, mask: [email]}", 1, []int{0}},
		{"waf: {ruleset: crs}\nrules: [{name: a, path: /a, waf: {paranoia: 2}}, {name: b, path: /b, waf: {ruleset: fast}}]", 3, []int{0, 0}},
		{"waf: {ruleset: crs}\nrules: [{name: a, path: /a, waf: {anomaly_threshold: 7}}]", 2, []int{0, 1}},
		{"waf: {ruleset: fast}", 1, []int{1, 1}},
		{"waf: {ruleset: crs}", 1, []int{1, 1, 0}},
		{"waf: {enabled: false}", 0, []int{1, 1, 1}},
	}
	var prev *Firewalls
	for _, step := range steps {
		next, err := firewalls(t, step.yaml, prev, &loaded, good)
		if err != nil {
			t.Fatal(err)
		}
		if prev != nil {
			if err := prev.CloseUnused(next); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(step.closed, closed()); diff != "" || len(next.All) != step.all {
			t.Errorf("%s: %d firewalls, want %d; sets closed (-want +got):\n%s", step.yaml, len(next.All), step.all, diff)
		}
		prev = next
	}
}

// A set that is loaded badly is none: it is closed, and what was in force stays open.
func TestABadSetIsRefused(t *testing.T) {
	var loaded []*rules
	before, err := firewalls(t, "waf: {ruleset: crs}", nil, &loaded, good)
	if err != nil {
		t.Fatal(err)
	}
	for name, blocks := range map[string]func(string) bool{
		"nothing is blocked":    func(string) bool { return false },
		"everything is blocked": func(string) bool { return true },
		"a panic":               func(string) bool { panic("bad table") },
	} {
		_, err := firewalls(t, "waf: {ruleset: crs, paranoia: 3}", before, &loaded, blocks)
		last := loaded[len(loaded)-1]
		if !errors.Is(err, errProbe) || last.closed != 1 || loaded[0].closed != 0 {
			t.Errorf("%s: %v; closed %d times", name, err, last.closed)
		}
	}
}

// A program that was not given the core rule set does not start as if it had it.
func TestCoreRulesHaveToBeGiven(t *testing.T) {
	cfg := config.Default()
	cfg.WAF.Ruleset = "crs"
	if _, err := New(cfg, Options{}); !errors.Is(err, errNoCore) {
		t.Errorf("got %v", err)
	}
}

// An exclusion holds until the end of its last day.
func TestExclusions(t *testing.T) {
	got := Exclusions([]config.Exclude{{Rule: "1", Path: "/a", Parameter: "q", Reason: "prose", Until: "2026-12-31", Shadow: true}, {Rule: "2"}})
	want := []waf.Exclusion{{Rule: "1", Path: "/a", Parameter: "q", Reason: "prose", Until: day, Shadow: true}, {Rule: "2"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
