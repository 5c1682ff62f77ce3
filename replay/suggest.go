package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/policy"
	"github.com/weirgate/weir/replay/accesslog"
)

// SuggestOptions say what a policy is suggested from.
type SuggestOptions struct {
	// Open opens the logs. It is called twice: once to find the path groups, once to measure them.
	Open   func() ([]*accesslog.Log, error)
	At     string // which of Percentiles becomes the limit
	Rules  int    // at most
	Window time.Duration
	Strict bool
}

// Percentiles are what a suggested limit may be.
var Percentiles = []string{"p50", "p95", "p99", "p99.9", "max"}

// A Suggestion is a policy, and what it was made from.
type Suggestion struct {
	Policy   string           `json:"policy"` // YAML
	At       string           `json:"at"`
	From     time.Time        `json:"from"`
	To       time.Time        `json:"to"`
	Requests int64            `json:"requests"`
	Clients  int              `json:"clients"`
	Rules    []*SuggestedRule `json:"rules"` // the default last
}

// A SuggestedRule is a path group.
type SuggestedRule struct {
	Name     string           `json:"name"`
	Path     string           `json:"path"`
	Requests int64            `json:"requests"`
	Limits   []SuggestedLimit `json:"limits"`
}

// A SuggestedLimit is what clients needed: the most that was used of a counter at once, per client and
// window, as the limit's own algorithm counts it when it refuses nothing.
type SuggestedLimit struct {
	Name   string `json:"name"`
	Window string `json:"window"`
	Limit  uint64 `json:"limit"`
	Needed Demand `json:"needed"`
}

// windows are those of the suggested limits.
var windows = []struct{ name, text string }{{"minute", "1m"}, {"hour", "1h"}}

// Suggest returns a policy in shadow mode with a limit for each path group that matters. At max it
// refuses nothing of the logs it was made from.
func Suggest(ctx context.Context, o SuggestOptions) (*Suggestion, error) {
	if !slices.Contains(Percentiles, o.At) {
		return nil, fmt.Errorf("%q is no percentile: want one of %s", o.At, strings.Join(Percentiles, " "))
	}
	requests, err := o.groups(ctx)
	if err != nil {
		return nil, err
	}
	s := &Suggestion{At: o.At, Rules: choose(requests, o.Rules)}
	if err := o.measure(ctx, s); err != nil {
		return nil, err
	}
	s.Policy = s.yaml()
	return s, nil
}

// groups counts the requests of each path group.
func (o *SuggestOptions) groups(ctx context.Context) (map[string]*Counts, error) {
	logs, err := o.Open()
	if err != nil {
		return nil, err
	}
	defer accesslog.CloseAll(logs)
	found, group := map[string]*Counts{}, []byte(nil)
	for _, l := range logs {
		err := l.Each(ctx, func(b *accesslog.Batch) error {
			for i := range b.Lines {
				group = appendGroup(group[:0], b.Lines[i].Path)
				c := found[string(group)]
				if c == nil {
					c = counts(found, string(group), 10*mostPaths)
				}
				if c != nil { // a group that comes after so many others is none that matters
					c.Requests++
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// leastShare of the requests makes a path group worth a rule.
const leastShare = 0.005

// choose returns a rule for each of the groups with most requests.
func choose(found map[string]*Counts, most int) []*SuggestedRule {
	all := int64(0)
	for _, c := range found {
		all += c.Requests
	}
	var rules []*SuggestedRule
	taken := map[string]bool{"default": true}
	for _, g := range groups(found, most) {
		if float64(g.Requests) < leastShare*float64(all) || !plainPath(g.Name) {
			continue
		}
		r := &SuggestedRule{Name: ruleName(g.Name, taken), Path: g.Name}
		if r.Path == "/" {
			r.Path = "=/" // not all below it
		}
		rules = append(rules, r)
	}
	slices.SortFunc(rules, func(a, b *SuggestedRule) int { return strings.Compare(a.Path, b.Path) })
	return append(rules, &SuggestedRule{Name: "default"})
}

// plainPath reports whether a group says something: one that is all stars takes nearly everything.
func plainPath(group string) bool { return group == "/" || strings.Trim(group, "/*") != "" }

// ruleName makes a name that is not taken of a path.
func ruleName(path string, taken map[string]bool) string {
	words := strings.FieldsFunc(strings.ReplaceAll(path, "*", "any"), func(r rune) bool {
		return !('a' <= r|0x20 && r|0x20 <= 'z' || '0' <= r && r <= '9')
	})
	base := cmp.Or(strings.ToLower(strings.Join(words, "_")), "root")
	name := base
	for n := 2; taken[name]; n++ {
		name = fmt.Sprintf("%s_%d", base, n)
	}
	taken[name] = true
	return name
}

// boundless is a limit that refuses nothing, to see what is used of it.
const boundless = 1<<32 - 1

// measure replays the logs under the suggested rules without bounds, and fills in the limits.
func (o *SuggestOptions) measure(ctx context.Context, s *Suggestion) error {
	for _, r := range s.Rules {
		for _, w := range windows {
			r.Limits = append(r.Limits, SuggestedLimit{Name: r.Name + "_" + w.name, Window: w.text, Limit: boundless})
		}
	}
	p, err := s.compile()
	if err != nil {
		return err
	}
	logs, err := o.Open()
	if err != nil {
		return err
	}
	defer accesslog.CloseAll(logs)
	r := New(Options{Policy: Policy{Policy: p}, Window: o.Window, Strict: o.Strict, Has: accesslog.Common(logs), byUse: true})
	defer r.Close()
	if err := r.Read(ctx, logs...); err != nil {
		return err
	}
	report := r.Report(false)
	if report.Policy.Requests == 0 {
		return errors.New("there is no request in the log to suggest limits from")
	}
	s.From, s.To, s.Requests, s.Clients = report.From, report.To, report.Policy.Requests, report.Policy.Clients.Seen
	s.settle(o.At, &report.Policy)
	return nil
}

// compile compiles the policy that s is by now, its limits enforced: where servers may read a path in two ways,
// a rule in shadow mode gives way to others, and what is needed of it when it is enforced would not be seen.
func (s *Suggestion) compile() (*policy.Policy, error) {
	c, problems := config.Parse("suggestion", []byte(strings.ReplaceAll(s.yaml(), "mode: shadow", "mode: enforce")), nil)
	if !config.HasErrors(problems) {
		var p *policy.Policy
		if p, problems = policy.Compile(c); p != nil {
			return p, nil
		}
	}
	return nil, fmt.Errorf("the suggestion is not valid: %v", problems)
}

// settle fills in what was measured.
func (s *Suggestion) settle(at string, measured *Side) {
	for _, r := range s.Rules {
		for _, g := range measured.Rules {
			if g.Name == r.Name {
				r.Requests = g.Requests
			}
		}
		var kept []SuggestedLimit
		for _, l := range r.Limits {
			if l.settle(at, measured.Limits) {
				kept = append(kept, l)
			}
		}
		r.Limits = kept
		for i := 1; i < len(kept); i++ { // a longer window holds what a shorter one does
			kept[i].Limit = max(kept[i].Limit, kept[i-1].Limit)
		}
	}
	s.Rules = slices.DeleteFunc(s.Rules, func(r *SuggestedRule) bool { return r.Path != "" && len(r.Limits) == 0 })
}

// settle fills in a limit, and reports whether anybody asked for it. At max the wider networks of IPv6,
// which may use a multiple, must do with it, too.
func (l *SuggestedLimit) settle(at string, measured []LimitReport) bool {
	found := false
	for i := range measured {
		m := &measured[i]
		switch wider := strings.HasPrefix(m.Name, l.Name+"@/"); {
		case m.Demand == nil:
		case m.Name == l.Name:
			l.Needed, found = *m.Demand, true
			l.Limit = max(wanted(m.Demand, at), 1)
		case wider && at == "max":
			times := uint64(m.Max / boundless)
			l.Limit = max(l.Limit, (m.Demand.Max+times-1)/times)
		}
	}
	if at != "max" {
		l.Limit = roundUp(l.Limit)
	}
	return found
}

func wanted(d *Demand, at string) uint64 {
	return map[string]uint64{"p50": d.P50, "p95": d.P95, "p99": d.P99, "p99.9": d.P999, "max": d.Max}[at]
}

// roundUp returns n with two digits that are not 0.
func roundUp(n uint64) uint64 {
	unit := uint64(1)
	for n/unit >= 100 {
		unit *= 10
	}
	return (n + unit - 1) / unit * unit
}

// yaml returns the policy as a configuration file. The default is the last of the rules, without a path.
func (s *Suggestion) yaml() string {
	var text strings.Builder
	enough := "enough for " + s.At + " of the windows of all clients"
	if s.At == "max" {
		enough = "what the busiest client needed in a window"
	}
	clients := fmt.Sprintf("%d clients", s.Clients)
	if s.Clients == 1 {
		clients = "1 client"
	}
	fmt.Fprintf(&text, yamlHead, s.Requests, clients, s.From.Format("2006-01-02 15:04"), s.To.Format("2006-01-02 15:04"), enough)
	for i, r := range s.Rules {
		switch {
		case r.Path == "":
			fmt.Fprintf(&text, "\n# %d requests of everything else\ndefault:\n  mode: shadow\n  limits:", r.Requests)
			if len(r.Limits) == 0 {
				text.WriteString(" []")
			}
		case i == 0:
			text.WriteString("\nrules:")
			fallthrough
		default:
			fmt.Fprintf(&text, "\n  # %d requests\n  - name: %s\n    path: %s\n    mode: shadow\n    limits:", r.Requests, yamlText(r.Name), yamlText(r.Path))
		}
		for _, l := range r.Limits {
			n := &l.Needed
			fmt.Fprintf(&text, "\n      # per client and %s: p50 %d, p95 %d, p99 %d, p99.9 %d, most %d\n", l.Window, n.P50, n.P95, n.P99, n.P999, n.Max)
			fmt.Fprintf(&text, "      - {name: %s, rate: %d/%s, per: client}", yamlText(l.Name), l.Limit, l.Window)
		}
		text.WriteString("\n")
	}
	return text.String()
}

const yamlHead = `# Suggested by weir suggest from %d requests of %s, %s to %s UTC.
# Each limit is %s. The numbers behind it stand above it.
#
# Everything is in shadow mode: it counts and reports, and refuses nothing. Replay it, run it, look at what
# it would have refused, then remove the lines "mode: shadow", rule by rule.

# How your clients are found: name the proxies before Weir in travel order, as in path: [cloudflare, nginx].
client:
  path: []
`

// yamlText quotes text for YAML where it could be read as something else than text. It holds printable
// ASCII without quotes and backslashes.
func yamlText(text string) string {
	if 'a' <= text[0] && text[0] <= 'z' && strings.ContainsRune(text, '_') {
		return text // as names mostly are
	}
	return `"` + text + `"`
}
