package policy

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/clientip"
	"github.com/weirgate/weir/config"
)

// Compile returns the policy that cfg describes, or every problem that keeps it from being one.
// Problems that are warnings come with a policy. cfg is as [config.Parse] returned it. Of one that has
// errors no policy may be used, but what else is wrong with it is told; of what is broken already
// nothing is said again.
func Compile(cfg *config.Config) (*Policy, []config.Problem) {
	c := &compiler{
		cfg:    cfg,
		limits: map[string]string{},
		policy: &Policy{
			Disabled:        !cfg.Enabled,
			exemptPreflight: cfg.CORS.ExemptPreflight,
			rejectAmbiguous: cfg.Matching.AmbiguousPaths == "reject",
			paths:           matching{foldCase: cfg.Matching.CaseInsensitive},
		},
	}
	c.client()
	c.exemptAddresses()
	c.allow()
	c.masker()
	c.rules()
	c.plans()
	c.ownLimits()
	c.routes()
	c.lint()
	if config.HasErrors(c.problems) {
		return nil, c.problems
	}
	return c.policy, c.problems
}

// A compiler holds what is half done.
type compiler struct {
	cfg      *config.Config
	policy   *Policy
	problems []config.Problem
	tiers    []tierSpec
	global   []counter
	limits   map[string]string // where a limit of that name stands
}

// fail notes an error, unless field or a part of it has one already.
func (c *compiler) fail(field, what, cure string) {
	if !c.cfg.Broken(field) {
		c.tell(field, what, cure)
	}
}

// tell notes an error that stands whatever else is wrong with parts of field.
func (c *compiler) tell(field, what, cure string) {
	c.problems = append(c.problems, c.cfg.Problem(field, what, cure))
}

func (c *compiler) warn(field, what, cure string) {
	c.problems = append(c.problems, c.cfg.Warn(field, what, cure))
}

// client compiles who is asking.
func (c *compiler) client() {
	from := &c.cfg.Client
	c.resolver(from)
	c.policy.unresolved = unresolved(choose(from.Unresolved, "limit", "reject", "allow"))
	for bits, times := range from.IPv6Tiers {
		c.tiers = append(c.tiers, tierSpec{bits, int64(times)})
	}
	slices.SortFunc(c.tiers, func(a, b tierSpec) int { return b.bits - a.bits })
}

// resolver compiles how the client is found. With part of it broken, warnings would rest on what is not
// there, as would a header's want of peers that could not be read, and presets' of a file of ranges.
func (c *compiler) resolver(from *config.Client) {
	resolver, problems := clientip.New(identity(from, c.cfg.Ranges()))
	c.policy.resolver = resolver
	if c.cfg.Broken("client.ranges_file") {
		return
	}
	for _, p := range problems {
		switch {
		case !p.Warning && (p.Field != "header" || !c.cfg.Broken("client.peers")):
			c.fail("client."+p.Field, p.What, p.Cure)
		case p.Warning && !c.cfg.Broken("client"):
			c.warn("client."+p.Field, p.What, p.Cure)
		}
	}
}

// identity is the client's part of the file in the resolver's words; ranges replace the presets'.
func identity(from *config.Client, ranges map[string][]string) clientip.Config {
	to := clientip.Config{
		Forwarded: from.Forwarded, Header: from.Header, HeaderFormat: from.HeaderFormat,
		Peers: from.Peers, Via: from.Via, TrustedProxies: from.TrustedProxies, FromRight: from.FromRight,
		IPv4Prefix: from.IPv4Prefix, IPv6Prefix: from.IPv6Prefix,
		Ranges: ranges, DangerouslyTrustEveryone: from.DangerouslyTrustEveryone,
	}
	for _, h := range from.Path {
		to.Path = append(to.Path, clientip.Hop{Name: h.Name, CIDRs: h.CIDRs, Appends: h.Appends, Header: h.Header})
	}
	return to
}

// choose returns the position of word among words. The first is the default.
func choose(word string, words ...string) int { return max(0, slices.Index(words, word)) }

// exemptAddresses compiles which clients are not counted.
func (c *compiler) exemptAddresses() {
	var networks []netip.Prefix
	for i, text := range c.cfg.ExemptAddresses {
		n, ok := clientip.ParseNetwork(text)
		if !ok {
			c.fail(fmt.Sprintf("exempt_addresses[%d]", i), text+" is no network", "write an address or a network such as 192.0.2.0/24")
			continue
		}
		networks = append(networks, n.Masked())
	}
	c.policy.exemptAddresses = newRanges(networks)
}

// rules compiles the limits for every request, the rules and the default.
func (c *compiler) rules() {
	c.global = c.limitsOf(owner{name: "limits"}, list("limits", c.cfg.Limits))
	for i := range c.cfg.Rules {
		c.policy.rules = append(c.policy.rules, c.rule(i))
	}
	c.policy.rules = append(c.policy.rules, c.defaultRule())
	for i, r := range c.policy.rules[:len(c.cfg.Rules)] {
		if !r.usable {
			continue
		}
		if id := c.policy.index.add(&r.pattern, i); id != none {
			c.tell(fmt.Sprintf("rules[%d]", i), fmt.Sprintf("%s and %s (rules[%d]) take the same requests", r.Name, c.policy.rules[id].Name, id),
				"make the host, path or methods of one more specific, or join the two")
		}
	}
}

func (c *compiler) rule(i int) *Rule {
	from, field := &c.cfg.Rules[i], fmt.Sprintf("rules[%d]", i)
	r := &Rule{paths: c.policy.paths, cost: 1}
	r.pattern, r.usable = c.pattern(field, from.Host, from.Path, from.Methods)
	r.Name, r.Exempt = from.Name, from.Exempt
	if r.Name == defaultName {
		c.fail(field+".name", "default is the name of the rule for everything else", "give another name")
	}
	r.Host, r.Path, r.Method = cmp.Or(from.Host, "*"), cmp.Or(from.Path, "*"), cmp.Or(strings.Join(from.Methods, ","), "*")
	c.effects(r, from)
	if !r.Exempt {
		c.charge(r, field, from.Limits)
	}
	return r
}

func (c *compiler) defaultRule() *Rule {
	d := &c.cfg.Default
	r := &Rule{paths: c.policy.paths, cost: 1}
	r.Name, r.Host, r.Path, r.Method = defaultName, "*", "*", "*"
	c.effects(r, &config.Rule{Mode: d.Mode, Action: d.Action})
	c.charge(r, "default", d.Limits)
	return r
}

// defaultName is the name of the rule for everything else.
const defaultName = "default"

// pattern compiles what a rule or a route takes, and reports whether it is one.
func (c *compiler) pattern(field, host, path string, methods []string) (pattern, bool) {
	var p pattern
	if c.unsure(field, host+path+strings.Join(methods, "")) {
		return p, false
	}
	p.parseHost(host)
	p.methods = slices.Clone(methods)
	m := p.parsePath(c.policy.paths, path)
	if m.found() {
		c.fail(field+".path", m.what, m.cure)
	}
	return p, !m.found()
}

// unsure reports whether it cannot be told what the rule or route at field takes: where what it says of
// that is broken, or where it says nothing and is broken elsewhere, as by a key that was not understood.
func (c *compiler) unsure(field, said string) bool {
	return c.cfg.Broken(field+".host") || c.cfg.Broken(field+".path") || c.cfg.Broken(field+".methods") || said == "" && c.cfg.Broken(field)
}

// effects compiles what a rule does, all but its limits.
func (c *compiler) effects(r *Rule, from *config.Rule) {
	r.Mode = mode(from.Mode)
	r.RequireKey, r.Scopes = c.cfg.Keys.Required || from.RequireKey || len(from.Scopes) > 0, from.Scopes
	r.Action = weir.Reject + weir.Action(choose(from.Action, "reject", "drop", "tarpit", "tag"))
	r.TagHeader = cmp.Or(from.TagHeader, "X-Weir-Tag")
	r.Tarpit = weir.TarpitBounds{
		Delay:            cmp.Or(time.Duration(from.Tarpit.Delay), 5*time.Second),
		MaxHeld:          cmp.Or(from.Tarpit.MaxHeld, 100),
		MaxHeldPerClient: cmp.Or(from.Tarpit.MaxHeldPerClient, 2),
	}
	r.MaxBody = int64(from.MaxBody)
	c.firewall(r, from)
	if from.Cost != nil {
		r.cost = *from.Cost
	}
	r.onlyStatuses, r.skipMethods = from.Count.OnlyStatuses, from.Count.SkipMethods
	r.OnFailure = weir.OnFailure(choose(cmp.Or(from.OnFailure, c.cfg.Store.OnFailure), "local", "allow", "deny"))
}

func mode(word string) weir.Mode { return weir.Mode(choose(word, "enforce", "shadow", "off")) }

// charge compiles what a rule charges: the limits for every request, then its own.
func (c *compiler) charge(r *Rule, field string, limits []config.Limit) {
	o := owner{r.Name, r.Mode}
	if c.cfg.Broken(field + ".name") {
		o.name = ""
	}
	own := owned(c.limitsOf(o, list(field+".limits", limits)))
	for i := range own {
		r.keepsOut = r.keepsOut || own[i].limit.Mode == weir.Enforce
	}
	r.counters = slices.Concat(c.global, own)
	r.widest = c.widest()
}

// widest returns the bits of the widest IPv6 network that is counted, or 0.
func (c *compiler) widest() int {
	if n := len(c.tiers); n > 0 {
		return c.tiers[n-1].bits
	}
	return 0
}

// owned makes counters a rule's own.
func owned(counters []counter) []counter {
	for i := range counters {
		counters[i].own = true
	}
	return counters
}

// routes compiles which upstream takes a request.
func (c *compiler) routes() {
	c.policy.routes = len(c.cfg.Routes) > 0
	for i, from := range c.cfg.Routes {
		field := fmt.Sprintf("routes[%d]", i)
		p, usable := c.pattern(field, from.Host, from.Path, nil)
		if !usable {
			continue
		}
		if id := c.policy.routeIndex.add(&p, i); id != none {
			c.tell(field, fmt.Sprintf("it takes the same requests as routes[%d]", id), "make the host or path of one more specific")
		}
	}
}
