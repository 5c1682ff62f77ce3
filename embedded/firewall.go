package embedded

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/policy"
	"github.com/weirgate/weir/waf"
	"github.com/weirgate/weir/waf/fast"
	"github.com/weirgate/weir/waf/feed"
)

// CoreRules chooses among the rules of the OWASP Core Rule Set.
type CoreRules struct {
	Paranoia  int
	Languages []string // none: all
	Values    int      // the most that a request may hold
}

// Firewalls are what the rules of one configuration have requests inspected by. They are never changed.
type Firewalls struct {
	All []*waf.WAF // one for each of [policy.Policy.Firewalls], in its order

	sets  map[set]*loaded
	slots *waf.Slots
	queue queue
}

// A set is what a rule set is loaded by: two firewalls that are alike in it share one.
type set struct {
	ruleset, languages string
	paranoia, values   int
}

// A loaded is a rule set, and who looks again at what it lets pass, or nil.
type loaded struct {
	waf.Ruleset
	insight *waf.Insight
}

func (l *loaded) Close() error {
	if l.insight == nil {
		return l.Ruleset.Close()
	}
	return errors.Join(l.insight.Close(), l.Ruleset.Close())
}

// A queue is what requests wait for their inspection in.
type queue struct {
	maxWait time.Duration
	pass    waf.OnSaturation
}

// NewFirewalls returns what c, of which p was compiled, asks for. It shares with prev, which may be nil, the
// rule sets that both have. core loads the core rule set; nil: there is none. Every set that is loaded is
// tried: one that does not tell an attack from an ordinary request is no firewall.
func NewFirewalls(c *config.Config, p *policy.Policy, core func(CoreRules) (waf.Ruleset, error), prev *Firewalls) (*Firewalls, error) {
	f := &Firewalls{sets: map[set]*loaded{}, queue: queue{maxWait: time.Duration(c.WAF.MaxWait)}}
	if c.WAF.OnSaturation == "pass" {
		f.queue.pass = waf.PassSaturated
	}
	if prev != nil && prev.queue == f.queue {
		f.slots = prev.slots
	} else {
		f.slots = waf.NewSlots(runtime.GOMAXPROCS(0), f.queue.maxWait, f.queue.pass)
	}
	for _, spec := range p.Firewalls() {
		rules, err := f.ruleset(&spec, core, prev)
		if err != nil {
			return nil, errors.Join(err, f.CloseUnused(prev))
		}
		f.All = append(f.All, waf.New(waf.Options{
			Rules:     rules.Ruleset,
			Insight:   rules.insight,
			Limits:    feed.Limits{Depth: spec.Depth, Values: spec.Values, Bytes: int(spec.Bytes), Inflated: int(spec.Inflated)},
			Threshold: spec.Threshold,
			Exclude:   Exclusions(c.WAF.Exclude),
			Mask:      p.Mask(),
			Slots:     f.slots,
		}))
	}
	return f, nil
}

// ruleset returns the rules of spec, loaded once.
func (f *Firewalls) ruleset(spec *policy.Firewall, core func(CoreRules) (waf.Ruleset, error), prev *Firewalls) (*loaded, error) {
	key := set{ruleset: spec.Ruleset}
	if spec.Ruleset != "fast" {
		key = set{spec.Ruleset, spec.Languages, spec.Paranoia, spec.Values}
	}
	rules := f.sets[key]
	if rules == nil && prev != nil {
		rules = prev.sets[key]
	}
	if rules != nil {
		f.sets[key] = rules
		return rules, nil
	}
	made, err := load(key, core)
	if err != nil {
		return nil, fmt.Errorf("waf.ruleset %s: %w", spec.Ruleset, err)
	}
	rules = &loaded{made, insight(key, core)}
	f.sets[key] = rules
	return rules, probe(made)
}

// insight returns who looks by paranoia 2 at what the core rule set lets pass at paranoia 1; nil for any other set.
func insight(key set, core func(CoreRules) (waf.Ruleset, error)) *waf.Insight {
	if key.ruleset == "fast" || key.paranoia != 1 {
		return nil
	}
	key.paranoia = 2
	return waf.NewInsight(func() (waf.Ruleset, error) { return load(key, core) })
}

// errNoCore is why an embedded engine does not have the core rule set without being given it.
var errNoCore = errors.New("is not part of this program: give its loader in embedded.Options, or use fast")

func load(key set, core func(CoreRules) (waf.Ruleset, error)) (waf.Ruleset, error) {
	switch {
	case key.ruleset == "fast":
		return fast.New(), nil
	case core == nil:
		return nil, errNoCore
	}
	return core(CoreRules{Paranoia: key.paranoia, Languages: strings.Fields(key.languages), Values: key.values})
}

// CloseUnused frees the rule sets of f that next, which may be nil, does not share. Inspections under way end
// well.
func (f *Firewalls) CloseUnused(next *Firewalls) error {
	var errs []error
	for key, rules := range f.sets {
		if next == nil || next.sets[key] != rules {
			errs = append(errs, rules.Close())
		}
	}
	return errors.Join(errs...)
}

// Exclusions reads what the configuration says, which was checked.
func Exclusions(from []config.Exclude) []waf.Exclusion {
	all := make([]waf.Exclusion, len(from))
	for i, e := range from {
		all[i] = waf.Exclusion{Rule: e.Rule, Path: e.Path, Parameter: e.Parameter, Reason: e.Reason, Shadow: e.Shadow}
		if day, err := time.Parse(time.DateOnly, e.Until); err == nil {
			all[i].Until = day.AddDate(0, 0, 1)
		}
	}
	return all
}

var errProbe = errors.New("the rule set does not tell an attack from an ordinary request: it is loaded badly")

// probe has rules judge an attack and an ordinary request.
func probe(rules waf.Ruleset) error {
	w := waf.New(waf.Options{Rules: rules, Limits: feed.Limits{Depth: 64, Values: 2000, Bytes: 1 << 20, Inflated: 1 << 20}})
	for query, blocks := range map[string]bool{"q=1'+UNION+SELECT+password+FROM+users--+-": true, "q=wooden+chairs&page=2": false} {
		in := &waf.Input{Mode: weir.Enforce, Method: "GET", Proto: "HTTP/1.1", Host: "probe.example", Path: "/v1/items", Query: query,
			Header: http.Header{"User-Agent": {"weir"}, "Accept": {"*/*"}}}
		var r weir.Inspection
		if w.Inspect(context.Background(), in, &r); (r.Verdict == weir.Blocked) != blocks || r.Verdict == weir.FailedOpen {
			return errProbe
		}
	}
	return nil
}
