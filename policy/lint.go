package policy

import (
	"fmt"
	"slices"
	"strings"
)

// lint warns of what is legal but suspicious.
func (c *compiler) lint() {
	rules := c.policy.rules[:len(c.policy.rules)-1]
	for i, r := range rules {
		if !r.usable {
			continue
		}
		field := fmt.Sprintf("rules[%d]", i)
		c.lintPattern(field, r)
		c.lintOverlap(field, r, rules[:i], rules[i+1:])
	}
}

// lintPattern warns of a rule that takes everything, or nothing.
func (c *compiler) lintPattern(field string, r *Rule) {
	p := &r.pattern
	switch {
	case p.asterisk:
		c.warn(field+".path", "* is the target of OPTIONS *, and no path", "leave path out for any path, or write /* for one segment")
	case r.Path != "*" && p.host == "" && p.methods == nil && !p.exact && len(p.segments) == 0:
		c.warn(field, r.Name+" takes every request, so the default rule takes none", "write it as default")
	case !p.exact && c.policy.index.hidden(p):
		c.warn(field, r.Name+" never wins: more specific rules take each of its requests", "take it away, or one of "+
			pathText(p, "=", "")+" and "+pathText(p, "", "/*"))
	}
}

// pathText returns p's path between prefix and suffix.
func pathText(p *pattern, prefix, suffix string) string {
	text := prefix
	if len(p.segments) == 0 && suffix == "" {
		text += "/"
	}
	for _, s := range p.segments {
		text += "/" + s.String()
	}
	return text + suffix
}

func (s segment) String() string {
	if s.any {
		return "*"
	}
	return s.text
}

// lintOverlap warns, once each, that r is exempt inside a limited rule, and that r and an earlier
// rule share requests though neither is the more special one.
func (c *compiler) lintOverlap(field string, r *Rule, before, after []*Rule) {
	inside := func(o *Rule) bool { return r.Exempt && o.usable && o.keepsOut && o.pattern.covers(&r.pattern) }
	if o := find(inside, before, after); o != nil {
		c.warn(field+".exempt", fmt.Sprintf("%s is exempt inside %s, whose limits do not hold there", r.Name, o.Name),
			"give it limits of its own if that is not meant")
	}
	crosses := func(o *Rule) bool { return o.usable && r.pattern.crosses(&o.pattern) }
	if o := find(crosses, before); o != nil {
		winner, loser := r, o
		if r.pattern.compare(&o.pattern) < 0 {
			winner, loser = o, r
		}
		c.warn(field, fmt.Sprintf("%s and %s share requests, and %s gets them: %s", loser.Name, winner.Name, winner.Name, difference(winner, loser)),
			"add a rule for what both take if that is not meant")
	}
}

func find(is func(*Rule) bool, lists ...[]*Rule) *Rule {
	for _, l := range lists {
		if i := slices.IndexFunc(l, is); i >= 0 {
			return l[i]
		}
	}
	return nil
}

// covers reports whether p takes everything that q takes.
func (p *pattern) covers(q *pattern) bool {
	return p.coversPath(q) && p.coversHost(q) && p.coversMethods(q)
}

// crosses reports whether p and q share requests and each takes some that the other does not.
func (p *pattern) crosses(q *pattern) bool {
	return p.meetsPath(q) && (p.coversHost(q) || q.coversHost(p)) && p.meetsMethods(q) && !p.covers(q) && !q.covers(p)
}

func (p *pattern) coversHost(q *pattern) bool {
	switch {
	case p.host == "":
		return true
	case p.below && q.below && p.host == q.host:
		return true
	case p.below:
		return strings.HasSuffix(q.host, "."+p.host)
	}
	return !q.below && p.host == q.host
}

func (p *pattern) coversPath(q *pattern) bool {
	if p.asterisk || q.asterisk {
		return p.asterisk && q.asterisk
	}
	if len(p.segments) > len(q.segments) || p.exact && !(q.exact && len(p.segments) == len(q.segments)) {
		return false
	}
	for i, s := range p.segments {
		if !s.any && s != q.segments[i] {
			return false
		}
	}
	return true
}

func (p *pattern) meetsPath(q *pattern) bool {
	if p.asterisk || q.asterisk {
		return p.asterisk && q.asterisk
	}
	for i := min(len(p.segments), len(q.segments)) - 1; i >= 0; i-- { // backwards, for paths mostly begin alike
		if a, b := &p.segments[i], &q.segments[i]; !a.any && !b.any && a.text != b.text {
			return false
		}
	}
	shorter, n := p, len(q.segments)-len(p.segments)
	if n < 0 {
		shorter = q
	}
	return n == 0 || !shorter.exact
}

func (p *pattern) coversMethods(q *pattern) bool {
	return p.methods == nil || q.methods != nil && !slices.ContainsFunc(q.methods, func(m string) bool { return !slices.Contains(p.methods, m) })
}

func (p *pattern) meetsMethods(q *pattern) bool {
	return p.methods == nil || q.methods == nil || slices.ContainsFunc(q.methods, func(m string) bool { return slices.Contains(p.methods, m) })
}

// hidden reports whether other patterns of the same host take all that p, which is no exact one,
// could win: its own path by =PATH, and everything below by PATH/*.
func (x *index) hidden(p *pattern) bool {
	n := &x.tree(p).paths
	for _, s := range p.segments {
		n = n.child(s)
	}
	return n.hides(p.methods)
}

func (n *node) hides(names []string) bool {
	return n.exact.takeAll(names) && n.any != nil && (n.any.prefix.takeAll(names) || n.any.hides(names))
}

func (m *methods) takeAll(names []string) bool {
	if names == nil {
		return m.all != 0
	}
	return !slices.ContainsFunc(names, func(name string) bool { return m.find(name) == none })
}

// lintPer warns of a limit that an asker can walk around by what he sends.
func (c *compiler) lintPer(field string, per []part) {
	for _, p := range per {
		if p.kind == perHeader && c.isIdentity(p.name) {
			c.warn(field, p.name+" is what a proxy or anyone else wrote, not who is asking", "say under client how to read it, and count per ip")
		}
		if p.kind == perPlan && len(c.cfg.Plans) == 0 && c.cfg.JWT.PlanClaim == "" {
			c.warn(field, "there are no plans, so this counts per address", "add plans, or count per client")
		}
	}
	if len(per) > 0 && !slices.ContainsFunc(per, func(p part) bool { return !p.chosen() }) {
		c.warn(field, "the asker chooses "+perName(per)+" and so has as many counts as he likes", "count per client, or let a limit per client stand beside it")
	}
}

// isIdentity reports whether the header called name says who a client is. Nobody knows while that is not
// settled.
func (c *compiler) isIdentity(name string) bool {
	return c.policy.resolver != nil && c.policy.resolver.IsIdentity(name)
}

// chosen reports whether an asker can send for p what he likes.
func (p part) chosen() bool {
	switch p.kind {
	case perHost, perMethod, perPath, perHeader, perCookie:
		return true
	}
	return false
}
