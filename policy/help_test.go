package policy

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/config"
)

// parse reads a configuration, which must be free of errors.
func parse(tb testing.TB, yaml string) *config.Config {
	tb.Helper()
	cfg, problems := config.Parse("weir.yaml", []byte(yaml), nil)
	if config.HasErrors(problems) {
		tb.Fatalf("configuration: %v", problems)
	}
	return cfg
}

// policyOf returns the policy of a configuration.
func policyOf(tb testing.TB, yaml string) *Policy {
	tb.Helper()
	return compiled(tb, parse(tb, yaml))
}

// compiled returns the policy of cfg, which must have one.
func compiled(tb testing.TB, cfg *config.Config) *Policy {
	tb.Helper()
	p, problems := Compile(cfg)
	if p == nil {
		tb.Fatalf("no policy: %v", problems)
	}
	return p
}

// request is an ordinary one.
func request(path string) weir.Request {
	return weir.Request{
		Front: "proxy", Peer: netip.MustParseAddr("203.0.113.9"), Method: "GET", Host: "www.example.com", Path: path, Scheme: "http",
		Header: http.Header{"User-Agent": {"test"}, "Accept": {"*/*"}},
	}
}

// admit is what a store does at its cheapest: it says yes.
func admit(d *weir.Decision) {
	for i := range d.Hits {
		d.Statuses[i] = weir.Status{Limit: d.Hits[i].Limit, Allowed: true}
	}
}

// decide goes the whole road but for the store, which admits.
func decide(p *Policy, d *weir.Decision, req *weir.Request) {
	d.Reset()
	d.Request = *req
	p.Identify(d)
	if r := p.Match(d); r != nil {
		r.Hits(d)
		admit(d)
		r.Decide(d, nil)
	}
}

// matched returns the decision as Match leaves it.
func matched(p *Policy, req weir.Request) *weir.Decision {
	d := &weir.Decision{Request: req}
	p.Identify(d)
	p.Match(d)
	return d
}

// ruleOf returns the name of the rule that req falls under, or the reason why none was looked for.
func ruleOf(p *Policy, req weir.Request) string {
	d := matched(p, req)
	if d.Rule == nil {
		return string(d.Reason)
	}
	return d.Rule.Name
}

// hitsOf returns the decision as Hits leaves it.
func hitsOf(tb testing.TB, p *Policy, req weir.Request) *weir.Decision {
	tb.Helper()
	d := &weir.Decision{Request: req}
	p.Identify(d)
	r := p.Match(d)
	if r == nil {
		tb.Fatalf("%s: %s", req.Path, d.Reason)
	}
	r.Hits(d)
	return d
}

// keysOf returns the keys of the hits on req.
func keysOf(tb testing.TB, p *Policy, req weir.Request) []string {
	tb.Helper()
	var keys []string
	for _, h := range hitsOf(tb, p, req).Hits {
		keys = append(keys, string(h.Key))
	}
	return keys
}

// A counts is a store without time: each counter goes up to its limit, all of a request or none.
type counts map[string]int64

// passes takes req down the whole road and reports whether it was let through.
func (c counts) passes(p *Policy, req weir.Request) bool {
	d := &weir.Decision{Request: req}
	p.Identify(d)
	r := p.Match(d)
	if r == nil {
		return !d.Refused()
	}
	r.Hits(d)
	for i, h := range d.Hits {
		d.Statuses[i] = weir.Status{Limit: h.Limit, Allowed: c[string(h.Key)]+h.N <= h.Limit.Max}
	}
	r.Decide(d, nil)
	if !d.Over() {
		for _, h := range d.Hits {
			c[string(h.Key)] += h.N
		}
	}
	return !d.Refused()
}
