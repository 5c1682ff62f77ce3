// Package policy turns a configuration into the immutable answer to three questions: which rule a
// request falls under, which counters it charges, and what follows from the store's answer.
package policy

import (
	"net/http"
	"slices"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/clientip"
	"github.com/weirgate/weir/waf/mask"
)

// A Policy is a compiled configuration. It is never changed, and safe for concurrent use.
type Policy struct {
	// Disabled passes everything through untouched.
	Disabled bool

	resolver        *clientip.Resolver
	unresolved      unresolved
	exemptAddresses ranges
	allowed         allowed
	keysUnknown     bool     // see WithoutKeys
	planNames       []string // sorted
	exemptPreflight bool
	rejectAmbiguous bool
	paths           matching
	rules           []*Rule // in the order of the file; the default last
	index           index   // of rules, by position
	routes          bool    // there are some
	routeIndex      index
	firewalls       []Firewall
	mask            *mask.Masker
	ownLimits       *Rule // what asking for one's own limits falls under; nil: nobody may
}

// unresolved is what happens to clients that could not be resolved.
type unresolved uint8

const (
	limitUnresolved unresolved = iota
	rejectUnresolved
	allowUnresolved
)

// Identify fills d.Client from d.Request.
func (p *Policy) Identify(d *weir.Decision) { p.resolver.Resolve(&d.Request, &d.Client) }

// Match fills d.Rule from d.Request and d.Client. When it decides by itself (an exemption, a bad or
// ambiguous path, an unresolved client that is rejected, a key that is missing) it fills the action, too, and
// returns nil. A key that is given and wrong is counted before it is refused, wherever anything is counted, and
// on exempt rules by the default rule: guessing keys has a limit.
func (p *Policy) Match(d *weir.Decision) *Rule {
	if p.Disabled {
		return settle(d, weir.Pass, weir.Disabled, http.StatusOK)
	}
	path, f := p.paths.normal(d.Request.Path)
	f = max(f, hostForm(d.Request.Host))
	if f == bad || !isMethod(d.Request.Method) {
		return settle(d, weir.Reject, weir.BadRequest, http.StatusBadRequest)
	}
	if f == ambiguous && p.rejectAmbiguous {
		return settle(d, weir.Reject, weir.AmbiguousPath, http.StatusBadRequest)
	}
	if d.Client.Plan != "" {
		p.refuseUnknownPlan(&d.Client)
	}
	r, also := p.find(&d.Request, path), (*Rule)(nil)
	asks, asksToo := r, r // for a key, by each way to read the path
	d.Firewall = &r.Firewall
	if f != plain {
		d.Firewall = p.strictest(&d.Request, r)
		asksToo = p.find(&d.Request, p.paths.literal(d.Request.Path))
		r, also = p.careful(&d.Request, r)
	}
	if d.Request.OwnLimits && p.ownLimits != nil {
		r, also = p.ownLimits, nil
	}
	exemption := p.exempts(d, r)
	if wrongKey(&d.Client) && (exemption == weir.ExemptRule || exemption == weir.Preflight) {
		r, exemption = p.counting(r), ""
	}
	d.Rule = &r.Rule
	switch lacking, status := p.lacking(d, asks, asksToo, exemption); {
	case d.Client.Source == weir.Unresolved && p.unresolved == rejectUnresolved:
		return settle(d, weir.Reject, weir.ClientUnresolved, http.StatusForbidden)
	case lacking != "":
		return settle(d, weir.Reject, lacking, status)
	case exemption != "":
		return settle(d, weir.Pass, exemption, http.StatusOK)
	case also != nil:
		return r.with(also)
	}
	return r
}

// isMethod reports whether m can stand in a request line as one word; HTTP/2 carries anything.
func isMethod(m string) bool {
	for i := range len(m) {
		if c := m[i]; c <= ' ' || c >= 0x7f || c == '/' || c == ':' {
			return false
		}
	}
	return m != ""
}

// settle fills in an answer that needs no counting.
func settle(d *weir.Decision, a weir.Action, why weir.Reason, status int) *Rule {
	d.Action, d.Reason, d.HTTP = a, why, status
	return nil
}

// find returns the rule that req falls under if its path is read as path.
func (p *Policy) find(req *weir.Request, path string) *Rule {
	if id := p.index.find(p.host(&p.index, req), path, req.Method); id != none {
		return p.rules[id]
	}
	return p.byDefault()
}

func (p *Policy) byDefault() *Rule { return p.rules[len(p.rules)-1] }

// careful returns the rules for a request that servers may read differently, r by the usual reading: a
// rule that keeps nobody out gives way to the default, and where the literal reading falls under
// another rule that keeps somebody out, that one's limits hold as well.
func (p *Policy) careful(req *weir.Request, r *Rule) (_, also *Rule) {
	other := p.find(req, p.paths.literal(req.Path))
	if !r.keepsOut {
		r = p.byDefault()
	}
	if other == r || !other.keepsOut {
		return r, nil
	}
	return r, other
}

// host returns req's host in normal form, or nothing if x asks for no host.
func (p *Policy) host(x *index, req *weir.Request) string {
	if !x.byHost() {
		return ""
	}
	return foldHost(req.Host)
}

// exempts returns why d is not counted under r, or nothing.
func (p *Policy) exempts(d *weir.Decision, r *Rule) weir.Reason {
	switch {
	case r.Exempt:
		return weir.ExemptRule
	case p.exemptPreflight && d.Request.Method == http.MethodOptions && preflight(d.Request.Header):
		return weir.Preflight
	case d.Client.Source == weir.Unresolved && p.unresolved == allowUnresolved:
		return weir.ClientUnresolved
	case p.Allows(&d.Client):
		return weir.AllowedClient
	case len(p.exemptAddresses) > 0 && d.Client.Vouched() && p.exemptAddresses.contain(d.Client.Addr):
		return weir.ExemptAddress
	}
	return ""
}

// preflight reports whether an OPTIONS request is a browser's question before another request (the
// Fetch standard's CORS-preflight request).
func preflight(h http.Header) bool {
	return first(h["Origin"]) != "" && first(h["Access-Control-Request-Method"]) != ""
}

func first(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return lines[0]
}

// Upstream returns the index, in the configuration's routes, of the route that takes d.Request, or
// -1 for the upstream of everything else.
func (p *Policy) Upstream(d *weir.Decision) int {
	if !p.routes {
		return none
	}
	path, _ := p.paths.normal(d.Request.Path)
	return p.routeIndex.find(p.host(&p.routeIndex, &d.Request), path, d.Request.Method)
}

// Rules returns the rules in the order of the file, the default last.
func (p *Policy) Rules() []*Rule { return slices.Clone(p.rules) }

// Names returns the names of all rules, the default's last, and that of [OwnLimitsRule] if there is one. There
// are no others in any decision.
func (p *Policy) Names() []string {
	names := make([]string, len(p.rules))
	for i, r := range p.rules {
		names[i] = r.Name
	}
	if p.ownLimits != nil {
		names = append(names, OwnLimitsRule)
	}
	return names
}
