package policy

import (
	"maps"
	"slices"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/config"
)

// Plans returns the names of all plans, in order. A key with another one is refused.
func (p *Policy) Plans() []string { return slices.Clone(p.planNames) }

// charged returns what a request of c under r charges: as c's plan says, if it has one.
func (r *Rule) charged(c *weir.Client) []counter {
	if c.Plan == "" {
		return r.counters
	}
	if counters, changed := r.plans[c.Plan]; changed {
		return counters
	}
	return r.counters
}

// plans compiles what keys may use.
func (c *compiler) plans() {
	c.policy.planNames = slices.Sorted(maps.Keys(c.cfg.Plans))
	for _, name := range c.policy.planNames {
		c.plan(name)
	}
}

// plan compiles what keys of one plan may use under each rule.
func (c *compiler) plan(name string) {
	everywhere, byRule := c.planLimits(name)
	shared := c.limitsOf(owner{name: name + "/*"}, everywhere)
	shared = slices.Concat(shared, c.limitsOf(owner{}, c.planQuotas(name)))
	for _, r := range c.policy.rules {
		named := byRule[r.Name]
		if r.Exempt || len(shared)+len(named) == 0 {
			continue
		}
		own := owned(c.limitsOf(owner{name + "/" + r.Name, r.Mode}, named))
		if r.plans == nil {
			r.plans = make(map[string][]counter, len(c.policy.planNames))
		}
		r.plans[name] = slices.Concat(r.kept(len(named) > 0), of(name, own), of(name, shared))
	}
}

// planLimits returns the limits of a plan that hold under every rule, and those of single rules.
func (c *compiler) planLimits(name string) (everywhere []listed, byRule map[string][]listed) {
	byRule = map[string][]listed{}
	limits := c.cfg.Plans[name].Limits
	for i := range limits {
		l := listed{at("plans."+name+".limits", i), &limits[i].Limit}
		if rule := limits[i].Rule; rule != "" {
			byRule[rule] = append(byRule[rule], l)
			continue
		}
		everywhere = append(everywhere, l)
	}
	return everywhere, byRule
}

// planQuotas returns the quotas of a plan as limits. They are named by their period, so that a new number keeps
// what was used.
func (c *compiler) planQuotas(name string) []listed {
	p := c.cfg.Plans[name]
	quotas := make([]listed, len(p.Quota))
	for i := range p.Quota {
		q := &p.Quota[i]
		quotas[i] = listed{at("plans."+name+".quota", i), &config.Limit{Name: name + "/" + q.Unit, Quota: q, Timezone: p.Timezone}}
	}
	return quotas
}

// kept returns what of r's counters stays beside a plan's; without those of its own that are per client if the
// plan replaces them.
func (r *Rule) kept(replaced bool) []counter {
	if !replaced {
		return r.counters
	}
	perClientAlone := func(k counter) bool { return k.own && len(k.per) == 1 && k.per[0].kind == perClient }
	return slices.DeleteFunc(slices.Clone(r.counters), perClientAlone)
}

// of notes whose plan's the counters are.
func of(plan string, counters []counter) []counter {
	for i := range counters {
		counters[i].plan = plan
	}
	return counters
}

// OwnLimitsRule is the name of the rule, and of its one limit, that requests for one's own limits fall under.
const OwnLimitsRule = "weir/limits"

// OwnLimits reports whether askers may be told what their own limits have left.
func (p *Policy) OwnLimits() bool { return p.ownLimits != nil && !p.Disabled }

// ownLimits compiles that rule. To ask costs none of the asker's own limits, so asking has a limit of its own.
func (c *compiler) ownLimits() {
	if !c.cfg.SelfService {
		return
	}
	r := &Rule{paths: c.policy.paths, cost: 1}
	r.Name, r.Host, r.Path, r.Method = OwnLimitsRule, "*", "*", "GET"
	c.effects(r, &config.Rule{})
	limit := config.Limit{
		Rate: &config.Rate{N: 60, Window: time.Minute, Text: "60/1m"}, Per: config.List{"client"}, Algorithm: "token_bucket",
	}
	r.counters = c.limitsOf(owner{name: OwnLimitsRule}, list("self_service", []config.Limit{limit}))
	r.widest = c.widest()
	c.policy.ownLimits = r
}
