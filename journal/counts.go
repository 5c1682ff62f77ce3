package journal

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/weirgate/weir"
)

// frontNames are the values of the label front; the last stands for all others.
var frontNames = [...]string{"proxy", "middleware", "forward_auth", "rls", "spoe", "ext_authz", "grpc", "replay", other}

const (
	// other is the label of what has no label of its own.
	other = "other"
	// noRule is the label of decisions that were made before a rule was looked for.
	noRule = "none"

	fronts  = len(frontNames)
	actions = int(weir.Tag) + 1
	sources = int(weir.Unresolved) + 1
)

// counts are plain numbers that only grow, raised by Record and read at a scrape.
type counts struct {
	rules atomic.Pointer[ruleSet]

	requests, refused atomic.Uint64
	again             atomic.Uint64    // asks about requests that are among them already
	answers           [6]atomic.Uint64 // by class of the HTTP status; [0]: none was sent
	resolutions       [sources]atomic.Uint64
	checks            atomic.Uint64 // hits that the store answered
	fallbacks         atomic.Uint64 // hits that it did not
	local             atomic.Uint64 // those of them that the local store answered
	upstreamFailures  atomic.Uint64
	faults            faultCounts
	firewall          firewallCounts

	reloads, reloadFailures atomic.Uint64
	configHash              atomic.Uint64
}

// A ruleSet is the rules that are counted apart. It is never changed; what it points to is.
type ruleSet struct {
	list   []*ruleCounts // in the order of the configuration, then noRule and other
	byName map[string]*ruleCounts
	none   *ruleCounts
	other  *ruleCounts
}

// ruleCounts are the decisions of one rule.
type ruleCounts struct {
	label     string // the rule's name as valid UTF-8
	decisions [fronts][actions]atomic.Uint64
	shadow    atomic.Uint64 // requests that a shadow limit would have refused
	blocks    blockCounts
}

func newCounts(rules, faults []string, hash string) *counts {
	c := &counts{faults: newFaultCounts(faults)}
	c.rules.Store(&ruleSet{none: &ruleCounts{label: noRule}, other: &ruleCounts{label: other}})
	c.setRules(rules)
	c.configHash.Store(hashNumber(hash))
	return c
}

// setRules takes over the counts of the rules that stay. Requests that were decided under a rule
// that goes are counted as other. Names that read the same share their counts.
func (c *counts) setRules(names []string) {
	old := c.rules.Load()
	next := &ruleSet{byName: make(map[string]*ruleCounts, len(names)), none: old.none, other: old.other}
	byLabel := map[string]*ruleCounts{noRule: old.none, other: old.other}
	for _, r := range old.list {
		byLabel[r.label] = r
	}
	for _, name := range names {
		label := strings.ToValidUTF8(name, "\uFFFD")
		r := byLabel[label]
		if r == nil {
			r = &ruleCounts{label: label}
			byLabel[label] = r
		}
		next.byName[name] = r
		if r != old.none && r != old.other && !slices.Contains(next.list, r) {
			next.list = append(next.list, r)
		}
	}
	next.list = append(next.list, old.none, old.other)
	c.rules.Store(next)
}

// of returns where decisions under r are counted.
func (s *ruleSet) of(r *weir.Rule) *ruleCounts {
	if r == nil {
		return s.none
	}
	if counts := s.byName[r.Name]; counts != nil {
		return counts
	}
	return s.other
}

// add counts one decision. It allocates nothing.
func (c *counts) add(d *weir.Decision, o weir.Outcome) {
	rule := c.rules.Load().of(d.Rule)
	rule.decisions[frontIndex(d.Request.Front)][d.Action].Add(1)
	if overShadow(d) {
		rule.shadow.Add(1)
	}
	c.requests.Add(1)
	if d.Refused() {
		c.refused.Add(1)
	}
	c.answers[statusClass(o.HTTP)].Add(1)
	if hasClient(&d.Client) {
		c.resolutions[d.Client.Source].Add(1)
	}
	c.addStore(d)
	if o.Err != nil && !errors.Is(o.Err, context.Canceled) {
		c.upstreamFailures.Add(1)
	}
}

// addAgain counts another ask about a request that add counted.
func (c *counts) addAgain(d *weir.Decision) {
	c.again.Add(1)
	c.addStore(d)
}

// hasClient reports whether anybody looked for the client. Envoy's rate limit service is asked by
// descriptors and knows none.
func hasClient(c *weir.Client) bool { return c.Source == weir.Unresolved || c.Prefix.IsValid() }

// addStore counts the hits of d by whether the store answered.
func (c *counts) addStore(d *weir.Decision) {
	switch {
	case len(d.Hits) == 0:
	case d.Degraded:
		c.fallbacks.Add(uint64(len(d.Hits)))
		c.local.Add(uint64(len(d.Statuses)))
	default:
		c.checks.Add(uint64(len(d.Hits)))
	}
}

func (c *counts) reloaded(hash string) {
	c.reloads.Add(1)
	c.configHash.Store(hashNumber(hash))
}

// overShadow reports whether a shadow limit would have refused d.
func overShadow(d *weir.Decision) bool {
	for i := range d.Statuses {
		if s := &d.Statuses[i]; !s.Allowed && s.Limit.Mode == weir.Shadow {
			return true
		}
	}
	return false
}

// frontIndex returns the place of a front in frontNames.
func frontIndex(front string) int {
	if i := slices.Index(frontNames[:fronts-1], front); i >= 0 {
		return i
	}
	return fronts - 1
}

// statusClass returns the hundreds of an HTTP status, and 0 for what is none.
func statusClass(status int) int {
	if class := status / 100; class >= 1 && class <= 5 {
		return class
	}
	return 0
}

// hashDigits of a configuration's hash are shown: 48 bits, which a float64 holds exactly.
const hashDigits = 12

// short returns the part of a hex digest that is shown.
func short(hash string) string { return hash[:min(len(hash), hashDigits)] }

// hashNumber returns the shown part of a hex digest as a number, and 0 if it is none.
func hashNumber(hash string) uint64 {
	n, err := strconv.ParseUint(short(hash), 16, 64)
	if err != nil {
		return 0
	}
	return n
}

// Totals are what was counted since the start.
type Totals struct {
	Requests uint64      `json:"requests"`
	Refused  uint64      `json:"refused"`
	Rules    []RuleTotal `json:"rules"` // those in force, in their order; then none and other if they were needed
}

// A RuleTotal is what was counted for one rule.
type RuleTotal struct {
	Rule     string `json:"rule"`
	Requests uint64 `json:"requests"`
	Refused  uint64 `json:"refused"`
	Shadow   uint64 `json:"shadow"` // would have been refused by a shadow limit
}

func (c *counts) totals() Totals {
	t := Totals{Requests: c.requests.Load(), Refused: c.refused.Load(), Rules: []RuleTotal{}}
	rules := c.rules.Load()
	for _, r := range rules.list {
		total := r.total()
		if total.Requests == 0 && (r == rules.none || r == rules.other) {
			continue
		}
		t.Rules = append(t.Rules, total)
	}
	return t
}

func (r *ruleCounts) total() RuleTotal {
	t := RuleTotal{Rule: r.label, Shadow: r.shadow.Load()}
	for front := range r.decisions {
		for action := range r.decisions[front] {
			n := r.decisions[front][action].Load()
			t.Requests += n
			if refuses(weir.Action(action)) {
				t.Refused += n
			}
		}
	}
	return t
}

// refuses reports whether an action is anything but a pass.
func refuses(a weir.Action) bool { return a != weir.Pass && a != weir.Tag }
