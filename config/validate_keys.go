package config

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
)

// plans judges what keys may use.
func (k *checker) plans() {
	for _, name := range slices.Sorted(maps.Keys(k.Plans)) {
		p, path := k.Plans[name], join("plans", name)
		for i := range p.Limits {
			at := fmt.Sprintf("%s.limits[%d]", path, i)
			k.limit(at, &p.Limits[i].Limit)
			k.planRule(at+".rule", p.Limits[i].Rule)
		}
		k.planQuotas(path, &p)
		if !k.givesPlans() {
			k.doubt(path, "no request has a plan", "give jwt.plan_claim, or say under keys where API keys are read")
		}
	}
}

// planRule judges the name of the rule whose limits a plan changes.
func (k *checker) planRule(field, name string) {
	i := slices.IndexFunc(k.Rules, func(r Rule) bool { return r.Name == name })
	switch {
	case name == "" || name == "default":
	case i >= 0 && k.Rules[i].Exempt:
		k.doubt(field, name+" is exempt, so nothing is counted there", "remove the limit, or the rule's exempt")
	case i < 0 && !k.broken("rules") && !k.unnamed():
		known := []string{"default"}
		for _, r := range k.Rules {
			known = append(known, r.Name)
		}
		k.wrong(field, "there is no rule "+shown(name), "want "+OneOf(known, name))
	}
}

// unnamed reports whether the name of a rule could not be read.
func (k *checker) unnamed() bool {
	return slices.ContainsFunc(k.Rules, func(r Rule) bool { return r.Name == "" })
}

// planQuotas judges the quotas of a plan, which go by their period.
func (k *checker) planQuotas(path string, p *Plan) {
	for i := range p.Quota {
		at := fmt.Sprintf("%s.quota[%d]", path, i)
		k.period(at, &p.Quota[i])
		if slices.ContainsFunc(p.Quota[:i], func(q Rate) bool { return q.Unit == p.Quota[i].Unit }) {
			k.wrong(at, p.Quota[i].String()+" is a second quota per "+p.Quota[i].Unit, "keep the smaller one")
		}
	}
	switch {
	case p.Timezone == "":
	case len(p.Quota) == 0:
		k.wrong(path+".timezone", "only a quota has a time zone", "remove it")
	default:
		k.zone(path+".timezone", p.Timezone)
	}
}

// zone judges the name of a time zone.
func (k *checker) zone(field, name string) {
	if _, err := time.LoadLocation(name); err != nil || name == "Local" {
		k.wrong(field, shown(name), "want a name of the time zone database, as in Europe/Berlin")
	}
}

// tokens judges which JSON Web Tokens are an identity.
func (k *checker) tokens() {
	j := &k.JWT
	k.url("jwt.jwks_url", j.JWKSURL, wantKeySet(j.JWKSURL))
	u, err := url.Parse(j.JWKSURL)
	switch {
	case !k.HasJWT():
		k.unusedTokens()
		return
	case j.JWKSURL != "" && j.JWKSFile != "":
		k.wrong("jwt.jwks_file", "stands beside jwks_url", "keep one of the two")
	case j.JWKSURL != "" && err == nil && u.Scheme == "http" && !isLoopback(net.JoinHostPort(u.Hostname(), portOf(u))):
		k.doubt("jwt.jwks_url", "who is on the way to "+u.Host+" can put in keys of his own", "fetch it by https")
	}
	if k.missing("jwt.issuer", j.Issuer) {
		k.doubt("jwt.issuer", "missing, so a token of any issuer with these keys is good", "give the iss of your tokens")
	}
	if k.missing("jwt.audience", j.Audience) {
		k.doubt("jwt.audience", "missing, so a token that was issued for another service is good here", "give the aud of your tokens")
	}
	if k.missing("jwt.claim", j.Claim) {
		k.wrong("jwt.claim", "missing", "name the claim that tells clients apart, as in sub")
	}
	if j.PlanClaim != "" && len(k.Plans) == 0 && !k.broken("plans") {
		k.doubt("jwt.plan_claim", "there are no plans, so a token that names one is refused", "add plans, or remove it")
	}
}

// unusedTokens warns of words about tokens that are not read.
func (k *checker) unusedTokens() {
	if k.JWT != Default().JWT && !k.broken("jwt.jwks_url") && !k.broken("jwt.jwks_file") {
		k.doubt("jwt", "there is no key set, so no token is read", "give jwks_url or jwks_file")
	}
}

// keyless judges rules that ask for a key, or where none can be had.
func (k *checker) keyless() {
	if k.Keys.Required && !k.readsKeys() {
		k.wrong("keys.required", "no request can have a key", noKeys)
	}
	for i := range k.Rules {
		r, at := &k.Rules[i], fmt.Sprintf("rules[%d]", i)
		k.scopes(at+".scopes", r)
		switch {
		case r.RequireKey && !k.readsKeys():
			k.wrong(at+".require_key", "no request can have a key", noKeys)
		case len(r.Scopes) > 0 && !r.RequireKey && !k.Keys.Required:
			k.doubt(at+".scopes", "only a key has scopes, so one is required", "write require_key: true, too")
		}
	}
}

const noKeys = "say under keys where API keys are read, or under jwt which tokens are good"

// scopes judges the names of scopes (RFC 6749, section 3.3).
func (k *checker) scopes(path string, r *Rule) {
	for i, s := range r.Scopes {
		bad := func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' }
		switch at := fmt.Sprintf("%s[%d]", path, i); {
		case s == "" || strings.IndexFunc(s, bad) >= 0:
			k.wrong(at, shown(s), `want printable ASCII without spaces, " and \`)
		case slices.Contains(r.Scopes[:i], s):
			k.wrong(at, shown(s)+" is given twice", "remove it")
		}
	}
}

// HasJWT reports whether tokens are read.
func (c *Config) HasJWT() bool { return c.JWT.JWKSURL != "" || c.JWT.JWKSFile != "" }

// NeedsKeys reports whether a rule asks for a key or token.
func (c *Config) NeedsKeys() bool {
	return c.Keys.Required || slices.ContainsFunc(c.Rules, func(r Rule) bool { return r.RequireKey || len(r.Scopes) > 0 })
}

// readsKeys reports whether a request can have a key.
func (k *checker) readsKeys() bool { return k.HasJWT() || k.hasKeyPlace() }

// givesPlans reports whether a key can have a plan.
func (k *checker) givesPlans() bool { return k.hasKeyPlace() || k.HasJWT() && k.JWT.PlanClaim != "" }

// HasQuota reports whether anything is counted by the calendar.
func (c *Config) HasQuota() bool {
	isQuota := func(l Limit) bool { return l.Quota != nil }
	if slices.ContainsFunc(c.Limits, isQuota) || slices.ContainsFunc(c.Default.Limits, isQuota) ||
		slices.ContainsFunc(c.Rules, func(r Rule) bool { return slices.ContainsFunc(r.Limits, isQuota) }) {
		return true
	}
	for _, p := range c.Plans {
		if len(p.Quota) > 0 || slices.ContainsFunc(p.Limits, func(l PlanLimit) bool { return isQuota(l.Limit) }) {
			return true
		}
	}
	return false
}
