package journal

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weirgate/weir"
)

// wafFaults are why a request was not inspected, or refused for want of a slot; the only values of the label
// reason.
var wafFaults = [...]string{"panic", "saturated"}

// lookResults are what comes of a second look at a request that passed, the only values of the label result.
var lookResults = [...]string{"pass", "found", "failed"}

// maxWAFRules is how many of the firewall's rules are counted apart, for each rule of the policy.
const maxWAFRules = 64

// firewallCounts are what the firewall found.
type firewallCounts struct {
	faults [len(wafFaults)]atomic.Uint64
	looks  [len(lookResults)]atomic.Uint64
}

// look counts a second look.
func (c *firewallCounts) look(i *weir.Inspection) {
	result := 0
	switch {
	case i.Found():
		result = 1
	case i.Fault != "":
		result = 2
	}
	c.looks[result].Add(1)
}

// add counts one inspection that has found or failed something, under a rule of the policy.
func (c *firewallCounts) add(i *weir.Inspection, rule *ruleCounts) {
	if n := slices.Index(wafFaults[:], i.Fault); n >= 0 {
		c.faults[n].Add(1)
	}
	if i.Found() && i.Verdict == weir.Blocked {
		rule.blocks.add(decisive(i))
	}
}

// blockCounts are the blocked requests under one rule of the policy, by what decided.
type blockCounts struct {
	mu sync.Mutex
	by map[string]uint64
}

func (c *blockCounts) add(rule string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = map[string]uint64{}
	}
	if _, ok := c.by[rule]; !ok && len(c.by) >= maxWAFRules {
		rule = other
	}
	c.by[rule]++
}

// emit tells of a rule that blocked nothing yet as well: an alert on the increase needs to see the beginning.
func (c *blockCounts) emit(namespace string, e emit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for rule, n := range c.by {
		e(float64(n), rule, namespace)
	}
	if c.by[other] == 0 && (len(c.by) > 0 || namespace != noRule && namespace != other) {
		e(0, other, namespace)
	}
}

// decisive returns the id of the firewall's rule that scored most, or the name of what else refused.
func decisive(i *weir.Inspection) string {
	if i.Refused != "" {
		return i.Refused
	}
	id, most := other, -1
	for _, m := range i.Matches {
		if m.Score > most {
			id, most = m.Rule, m.Score
		}
	}
	return id
}

func (c *firewallCounts) emitFaults(e emit) {
	for i, name := range wafFaults {
		e(float64(c.faults[i].Load()), name)
	}
}

func (c *firewallCounts) emitLooks(e emit) {
	for i, name := range lookResults {
		e(float64(c.looks[i].Load()), name)
	}
}

func (c *counts) emitVerdicts(e emit) {
	for i, name := range weir.Verdicts() {
		e(float64(c.verdicts[i]), name)
	}
}

// firewallFamilies are about what the firewall found.
func firewallFamilies(c *counts) []family {
	return []family{
		counter("waf_blocks_total", "Requests that the firewall blocked: by its rule that scored most, or what else refused, and by the rule of the policy.",
			func(e emit) {
				for _, r := range c.rules.Load().list {
					r.blocks.emit(r.label, e)
				}
			}, "rule", "namespace"),
		counter("waf_errors_total", "Requests that were not inspected, and why.", c.firewall.emitFaults, "reason"),
		counter("waf_insights_total", "Requests that passed and were looked at again by stricter rules, by what came of it.", c.firewall.emitLooks, "result"),
		counter("waf_verdicts_total", "Requests by what the firewall found.", c.locked(c.emitVerdicts), "verdict"),
	}
}
