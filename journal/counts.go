package journal

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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

// counts are numbers that only grow.
type counts struct {
	rules    atomic.Pointer[ruleSet]
	faults   faultCounts
	firewall firewallCounts

	reloads, reloadFailures atomic.Uint64
	configHash              atomic.Uint64

	mu sync.Mutex // of what follows, and of the plain numbers of rules

	requests, refused uint64
	again             uint64    // asks about requests that are among them already
	answers           [6]uint64 // by class of the HTTP status; [0]: none was sent
	resolutions       [sources]uint64
	verdicts          [weir.FailedOpen + 1]uint64
	checks            uint64 // hits that the store answered
	fallbacks         uint64 // hits that it did not
	local             uint64 // those of them that the local store answered
	upstreamFailures  uint64

	durations, upstream histogram
	inspections         [len(rulesets)]histogram
	chainEntries        histogram
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
	decisions [fronts][actions]uint64
	shadow    uint64 // requests that a shadow limit would have refused
	blocks    blockCounts
}

// perSecond is the unit of histograms of durations.
const perSecond = float64(time.Second)

func newCounts(rules, faults []string, hash string) *counts {
	c := &counts{
		faults: newFaultCounts(faults), durations: newHistogram(perSecond, waits()...), upstream: newHistogram(perSecond, waits()...),
		chainEntries: newHistogram(1, prometheus.LinearBuckets(0, 1, weir.ManyEntries)...),
	}
	for i := range c.inspections {
		c.inspections[i] = newHistogram(perSecond, .00001, .000025, .0001, .00025, .001, .0025, .01, .025, .05, .1, .25, 1)
	}
	c.rules.Store(&ruleSet{none: &ruleCounts{label: noRule}, other: &ruleCounts{label: other}})
	c.setRules(rules)
	c.configHash.Store(hashNumber(hash))
	return c
}

// setRules takes over the counts of the rules that stay. Requests that were decided under a rule
// that goes are counted as other. Names that read the same share their counts.
func (c *counts) setRules(names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
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

// take counts decisions.
func (c *counts) take(notes []*note) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rule, of := notes[0].rule, c.rules.Load().of(notes[0].rule)
	for _, n := range notes {
		c.addStore(n)
		if n.again {
			c.again++
			continue
		}
		if n.rule != rule {
			rule, of = n.rule, c.rules.Load().of(n.rule)
		}
		of.add(n)
		c.add(n)
	}
}

func (c *counts) add(n *note) {
	c.requests++
	c.answers[n.class]++
	c.verdicts[n.verdict]++
	c.durations.add(int64(n.duration))
	if n.refused {
		c.refused++
	}
	if n.known {
		c.resolutions[n.source]++
		c.chainEntries.add(int64(n.entries))
	}
	if n.failed {
		c.upstreamFailures++
	}
	if n.upstream > 0 {
		c.upstream.add(int64(n.upstream))
	}
	if int(n.ruleset) < len(rulesets) {
		c.inspections[n.ruleset].add(int64(n.inspected))
	}
}

func (r *ruleCounts) add(n *note) {
	r.decisions[n.front][n.action]++
	if len(n.shadow) > 0 {
		r.shadow++
	}
}

// addStore counts the hits of n by whether the store answered.
func (c *counts) addStore(n *note) {
	if n.degraded {
		c.fallbacks += uint64(n.hits)
		c.local += uint64(n.responses)
		return
	}
	c.checks += uint64(n.hits)
}

// hasClient reports whether anybody looked for the client. Envoy's rate limit service is asked by
// descriptors and knows none.
func hasClient(c *weir.Client) bool { return c.Source == weir.Unresolved || c.Prefix.IsValid() }

func (c *counts) reloaded(hash string) {
	c.reloads.Add(1)
	c.configHash.Store(hashNumber(hash))
}

// frontIndex returns the place of a front in frontNames.
func frontIndex(front string) uint8 {
	if i := slices.Index(frontNames[:fronts-1], front); i >= 0 {
		return uint8(i)
	}
	return uint8(fronts - 1)
}

// statusClass returns the hundreds of an HTTP status, and 0 for what is none.
func statusClass(status int) uint8 {
	if class := status / 100; class >= 1 && class <= 5 {
		return uint8(class)
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
	c.mu.Lock()
	defer c.mu.Unlock()
	t := Totals{Requests: c.requests, Refused: c.refused, Rules: []RuleTotal{}}
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
	t := RuleTotal{Rule: r.label, Shadow: r.shadow}
	for front := range r.decisions {
		for action := range r.decisions[front] {
			n := r.decisions[front][action]
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
