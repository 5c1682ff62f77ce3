// Package policy turns a configuration into the immutable answer to three questions: which rule a
// request falls under, which counters it charges, and what follows from the store's answer.
package policy

import (
	"github.com/weirgate/weir"
	"github.com/weirgate/weir/clientip"
	"github.com/weirgate/weir/config"
)

// A Policy is a compiled configuration. It is never changed, and safe for concurrent use.
type Policy struct {
	// Disabled passes everything through untouched.
	Disabled bool

	resolver *clientip.Resolver
}

// Compile returns the policy that cfg describes, or every problem that keeps it from being one.
// Problems that are warnings come with a policy.
func Compile(cfg *config.Config) (*Policy, []config.Problem) {
	return &Policy{}, nil
}

// Identify fills d.Client from d.Request.
func (p *Policy) Identify(d *weir.Decision) {}

// Match fills d.Rule from d.Request and d.Client. When it decides by itself (an exemption, a bad or
// ambiguous path, an unresolved client that is rejected) it fills the action, too, and returns nil.
func (p *Policy) Match(d *weir.Decision) *Rule { return nil }

// Upstream returns the index, in the configuration's routes, of the route that takes d.Request, or
// -1 for the upstream of everything else.
func (p *Policy) Upstream(d *weir.Decision) int { return -1 }

// A Rule is a compiled rule.
type Rule struct {
	weir.Rule
}

// Hits appends to d.Hits the counters that the request charges, and their keys to d.Keys. It leaves
// d.Statuses of the same length.
func (r *Rule) Hits(d *weir.Decision) {}

// Decide fills in what follows from d.Statuses, or from the store's failure to answer.
func (r *Rule) Decide(d *weir.Decision, err error) {}
