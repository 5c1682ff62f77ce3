package policy

import (
	"maps"
	"net/http"
	"slices"

	"github.com/weirgate/weir"
)

// A Rule is a compiled rule.
type Rule struct {
	weir.Rule

	pattern      pattern
	usable       bool // the pattern is one; false only while compiling
	paths        matching
	counters     []counter            // those for every request, then the rule's own
	plans        map[string][]counter // what is charged in place of counters, by plan
	keepsOut     bool                 // a limit of the rule's own refuses
	cost         int64
	onlyStatuses []int
	skipMethods  []string
	widest       int // bits of the widest IPv6 network that is counted; 0 if there are no tiers

	also *Rule // whose own limits hold as well; nil but for a request that has two readings
}

// A counter is one limit as a rule charges it. Several rules may charge the same.
type counter struct {
	limit *weir.Limit
	label string // what stands between the tag and the parts of its keys
	per   []part
	tiers []tier
	own   bool   // the rule's, not for every request
	plan  string // whose keys alone it counts, or empty
}

// A tier counts the same asker in a wider IPv6 network, in parallel and with a wider limit.
type tier struct {
	bits  int
	limit *weir.Limit
	label string
}

// with returns a rule that is r and charges what o does, too.
func (r *Rule) with(o *Rule) *Rule {
	both := *r
	both.also = o
	return &both
}

// Hits appends to d.Hits the counters that the request charges, and their keys to d.Keys. It leaves
// d.Statuses of the same length.
func (r *Rule) Hits(d *weir.Decision) {
	r.hits(d, true)
	if r.also != nil {
		r.also.hits(d, false)
	}
	if d.Request.ID != "" {
		r.hitOnce(d)
	}
	d.Statuses = d.Statuses[:0]
	for range d.Hits {
		d.Statuses = append(d.Statuses, weir.Status{})
	}
}

// hits appends the hits on r's own limits, and on those for every request if all is set.
func (r *Rule) hits(d *weir.Decision, all bool) {
	w := keyWriter{d: d, rule: r}
	skipped := slices.Contains(r.skipMethods, d.Request.Method) && !wrongKey(&d.Client)
	counters := r.charged(&d.Client)
	for i := range counters {
		c := &counters[i]
		if c.own && skipped || !c.own && !all {
			continue
		}
		byAddress := r.byAddress(c, d)
		r.charge(d, c, c.limit, w.key(c, c.label, byAddress, whole))
		if byAddress && len(c.tiers) > 0 && hasTiers(&d.Client) {
			r.chargeTiers(d, c, &w)
		}
	}
}

func (r *Rule) chargeTiers(d *weir.Decision, c *counter, w *keyWriter) {
	for i := range c.tiers {
		if t := &c.tiers[i]; t.bits < d.Client.Prefix.Bits() {
			r.charge(d, c, t.limit, w.key(c, t.label, true, t.bits))
		}
	}
}

// charge appends a hit on l. One that depends on the answer is a look until that is known; to a wrong key Weir
// itself answers.
func (r *Rule) charge(d *weir.Decision, c *counter, l *weir.Limit, k key) {
	d.Hits = append(d.Hits, weir.Hit{Limit: l, Key: k.text, TagLen: k.tag, N: r.cost, OnFailure: r.OnFailure})
	h := &d.Hits[len(d.Hits)-1]
	switch {
	case l.Algorithm == weir.Concurrency:
		h.N = 1
	case c.own && r.onlyStatuses != nil && !wrongKey(&d.Client):
		d.OnlyStatuses = r.onlyStatuses
		d.Deferred = append(d.Deferred, *h)
		h.N = 0
	}
}

// Decide fills in what follows from d.Statuses, or from the store's failure to answer. A wrong key is refused
// whatever they say.
func (r *Rule) Decide(d *weir.Decision, err error) {
	r.decide(d, err)
	if wrongKey(&d.Client) && !d.Refused() {
		d.Refuse(whyWrong(&d.Client), http.StatusUnauthorized)
	}
}

func (r *Rule) decide(d *weir.Decision, err error) {
	paid := takeOnce(d)
	if err != nil {
		r.decideUncounted(d)
		return
	}
	for i := range d.Statuses {
		d.Degraded = d.Degraded || d.Statuses[i].Degraded
	}
	switch {
	case paid:
		passAgain(d)
	case !d.Over():
		settle(d, weir.Pass, weir.WithinLimits, http.StatusOK)
	case r.Action == weir.Tag:
		settle(d, weir.Tag, weir.OverLimit, http.StatusOK)
	default:
		settle(d, r.Action, weir.OverLimit, http.StatusTooManyRequests)
	}
}

// decideUncounted answers where the store did not. It leaves no statuses, for none is known.
func (r *Rule) decideUncounted(d *weir.Decision) {
	d.Degraded, d.Statuses = true, d.Statuses[:0]
	if r.OnFailure == weir.FailDeny {
		settle(d, weir.Reject, weir.StoreFailed, http.StatusServiceUnavailable)
		return
	}
	settle(d, weir.Pass, weir.StoreFailed, http.StatusOK)
}

// A Limit is a limit of a rule as operators see it.
type Limit struct {
	*weir.Limit
	Per     []string      // what it is counted per; empty if it is one count for all
	Global  bool          // it holds for every request that is not exempt
	Plan    string        // whose keys alone it counts, or empty
	Tiers   []*weir.Limit // the limits of wider IPv6 networks
	Charges int64         // what a request costs
}

// Limits returns what the rule charges, the limits for every request first, those of plans last.
func (r *Rule) Limits() []Limit {
	limits := make([]Limit, 0, len(r.counters))
	for i := range r.counters {
		limits = append(limits, r.limit(&r.counters[i]))
	}
	for _, plan := range slices.Sorted(maps.Keys(r.plans)) {
		for i := range r.plans[plan] {
			if c := &r.plans[plan][i]; c.plan != "" {
				limits = append(limits, r.limit(c))
			}
		}
	}
	return limits
}

func (r *Rule) limit(c *counter) Limit {
	l := Limit{Limit: c.limit, Global: !c.own, Plan: c.plan, Charges: r.cost}
	if c.limit.Algorithm == weir.Concurrency {
		l.Charges = 1
	}
	for _, p := range c.per {
		l.Per = append(l.Per, p.String())
	}
	for _, t := range c.tiers {
		l.Tiers = append(l.Tiers, t.limit)
	}
	return l
}
