package policy

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/weirgate/weir"
)

// The tests of this file are faults that users of other limiters met. The ids are those of
// public-cases.json.

// exhaust sends n requests that must pass.
func exhaust(t *testing.T, c counts, p *Policy, n int, req weir.Request) {
	t.Helper()
	for i := range n {
		if !c.passes(p, req) {
			t.Fatalf("%s: request %d of %d is refused", req.Path, i+1, n)
		}
	}
}

// want sends one request for each path and says which are passed.
func want(t *testing.T, c counts, p *Policy, passes bool, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if got := c.passes(p, request(path)); got != passes {
			t.Errorf("%s passes: %v, want %v", path, got, passes)
		}
	}
}

func limited(path string) string {
	return "rules: [{name: it, path: " + path + ", limits: [{rate: 3/1m}]}]\ndefault: {limits: [{rate: 1000/1m}]}\n"
}

func TestMAT01SpellingsOfOnePathShareOneCount(t *testing.T) {
	p, c := policyOf(t, limited("/api/v2/users/validate-password")), counts{}
	exhaust(t, c, p, 3, request("/api/v2/users/validate-password"))
	want(t, c, p, false, "/api/v2/users//validate-password", "//api/v2/users/validate-password", "/api/./v2/users/validate-password",
		"/api/v2/x/../users/validate-password", "/api/v2/users/validate%2Dpassword", "/api/v2/%75sers/validate-password")
}

func TestMAT03ParametersHideNothing(t *testing.T) {
	p, c := policyOf(t, limited("/admin")), counts{}
	exhaust(t, c, p, 3, request("/admin"))
	want(t, c, p, false, "/admin;a=b", "/admin;/", "/;x/admin", "/admin%3Ba=b", "/admin;a=b/users", "/%2e;/admin")
}

func TestMAT05EncodedSlashes(t *testing.T) {
	p, c := policyOf(t, limited("/status")), counts{}
	exhaust(t, c, p, 3, request("/status"))
	want(t, c, p, false, "/x%2f../status", "/status%2f", "/%2fstatus", "/x/%2e%2e%2fstatus")
	// What would decode further is decoded once: another path, under the default.
	for _, path := range []string{"/status%252f", "/%2573tatus"} {
		if got := ruleOf(p, request(path)); got != "default" {
			t.Errorf("%s falls under %s, want default", path, got)
		}
	}
	strict := policyOf(t, "matching: {ambiguous_paths: reject}\n"+limited("/status"))
	want(t, counts{}, strict, false, "/x%2f../status", "/status%2f", "/%2fstatus", "/x/%2e%2e%2fstatus", "/status%252f", "/%2573tatus")
}

func TestMAT06PrefixesEndAtSegments(t *testing.T) {
	p, c := policyOf(t, `
rules:
  - {name: api, path: /api, limits: [{rate: 3/1m}]}
  - {name: apiary, path: /apiary, limits: []}
  - {name: health, path: /health, exempt: true}
default: {limits: [{rate: 8/1m}]}
`), counts{}
	exhaust(t, c, p, 10, request("/apiary"))
	want(t, c, p, true, "/api", "/api/", "/api/x")
	want(t, c, p, false, "/api", "/health/../api/x")
	exhaust(t, c, p, 20, request("/health/live"))
	exhaust(t, c, p, 8, request("/healthz-internal"))
	want(t, c, p, false, "/healthz-internal")
}

func TestMAT08TrailingSlashOfTheRule(t *testing.T) {
	p, c := policyOf(t, limited("/api/")), counts{}
	exhaust(t, c, p, 3, request("/api"))
	want(t, c, p, false, "/api", "/api/")
}

func TestMAT10SpellingsOfTheHost(t *testing.T) {
	p := policyOf(t, "rules: [{name: it, host: api.example.com, path: /api, limits: [{rate: 3/1m}]}]\n")
	for host, want := range map[string]string{
		"api.example.com": "it", "API.EXAMPLE.COM": "it", "api.example.com:8080": "it", "api.example.com.": "it", "api.example.com:80": "it",
		"Api.Example.com.:443": "it", "user@api.example.com": "bad request", "other.example": "default", "": "default", "api.example.com.evil": "default",
	} {
		req := request("/api")
		req.Host = host
		if got := ruleOf(p, req); got != want {
			t.Errorf("host %q falls under %s, want %s", host, got, want)
		}
	}
	req := request("//api.example.com/api")
	req.Host = "api.example.com"
	if got := ruleOf(p, req); got != "default" {
		t.Errorf("a path that begins with a host falls under %s, want default", got)
	}
}

func TestMAT12WhatIsGluedToAPath(t *testing.T) {
	p, c := policyOf(t, limited("/login")), counts{}
	exhaust(t, c, p, 3, request("/login"))
	for path, want := range map[string]string{
		"/login": "it", "/login%3Fx=1": "default", "/login%20": "default", "/login/%20": "it",
		"/login#frag": "bad request", "/login%00": "bad request", "/login%0a": "bad request", "/login%00%ff": "bad request", "/login%ff": "bad request",
	} {
		if got := ruleOf(p, request(path)); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestMAT14NothingIsFoldedSilently(t *testing.T) {
	p := policyOf(t, limited("/admin"))
	for path, want := range map[string]string{
		"/%EF%BD%81dmin": "default", "/adm%C4%B1n": "default", "/admin%E2%80%8B": "default", "/items/%E2%82%AC": "default",
		"/%C0%AFadmin": "bad request", "/%ff": "bad request",
	} {
		if got := ruleOf(p, request(path)); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestKEY02ClientsWithoutAKeyDoNotShareACount(t *testing.T) {
	p, c := policyOf(t, "default: {limits: [{rate: 3/1m, per: 'header:X-Tenant'}]}\n"), counts{}
	one, other := request("/"), request("/")
	other.Peer = netip.MustParseAddr("198.51.100.1")
	exhaust(t, c, p, 3, one)
	if c.passes(p, one) {
		t.Error("the fourth request passes")
	}
	exhaust(t, c, p, 3, other)
}

func TestKEY06LongValuesAreHashedNotCut(t *testing.T) {
	p, c := policyOf(t, "default: {limits: [{rate: 5/1m, per: 'header:X-User'}]}\n"), counts{}
	with := func(v string) weir.Request {
		req := request("/")
		req.Header = http.Header{"X-User": {v}}
		return req
	}
	long := strings.Repeat("x", 60<<10)
	exhaust(t, c, p, 5, with(long+"1"))
	if c.passes(p, with(long+"1")) {
		t.Error("the sixth request passes")
	}
	exhaust(t, c, p, 5, with(long+"2"))
	for key := range c {
		if len(key) > 200 {
			t.Errorf("a key of %d bytes", len(key))
		}
	}
}

// A limit per path that was counted in one bucket per address let one path drain the others.
func TestAddressAndPathAreOneTuple(t *testing.T) {
	p, c := policyOf(t, "default: {limits: [{rate: 3/1m, per: [client, path]}]}\n"), counts{}
	exhaust(t, c, p, 3, request("/a"))
	want(t, c, p, false, "/a", "//a", "/x/../a")
	exhaust(t, c, p, 3, request("/b"))
}

func TestKEY13IPv6ClientsAreNetworks(t *testing.T) {
	p, c := policyOf(t, "default: {limits: [{rate: 5/1m}]}\n"), counts{}
	from := func(a string) weir.Request {
		req := request("/")
		req.Peer = weir.Canonical(netip.MustParseAddr(a))
		return req
	}
	passed := 0
	for i := range 50 {
		passed += rank(c.passes(p, from(fmt.Sprintf("2001:db8:1:2::%x", i+1))))
	}
	if passed != 5 {
		t.Errorf("%d of one /64 pass, want 5", passed)
	}
	exhaust(t, c, p, 1, from("2001:db8:1:3::1"))
	for i := range 6 {
		a := []string{"203.0.113.5", "::ffff:203.0.113.5"}[i%2]
		if got := c.passes(p, from(a)); got != (i < 5) {
			t.Errorf("request %d of %s passes: %v", i+1, a, got)
		}
	}
}

func TestWiderIPv6NetworksHaveWiderLimits(t *testing.T) {
	p, c := policyOf(t, "default: {limits: [{rate: 5/1m}]}\n"), counts{}
	passed := map[string]int{}
	for i := range 0x400 { // every /64 of four /56 of one /48
		req := request("/")
		req.Peer = netip.MustParseAddr(fmt.Sprintf("2001:db8:1:%x::1", i))
		if c.passes(p, req) {
			passed[fmt.Sprintf("/56 number %d", i>>8)]++
		}
	}
	for i, want := range []int{20, 20, 20, 20} {
		if got := passed[fmt.Sprintf("/56 number %d", i)]; got != want {
			t.Errorf("/56 number %d: %d pass, want %d", i, got, want)
		}
	}
	for i := range 0x1000 {
		req := request("/")
		req.Peer = netip.MustParseAddr(fmt.Sprintf("2001:db8:2:%x::1", i*16))
		passed["/48"] += rank(c.passes(p, req))
	}
	if passed["/48"] != 80 {
		t.Errorf("of one /48 %d pass, want 80", passed["/48"])
	}
}

func TestCNT11RefusedRequestsAreNotChargedElsewhere(t *testing.T) {
	p, c := policyOf(t, `
limits: [{name: site, rate: 100/1m, per: global}]
rules: [{name: it, path: /, limits: [{rate: 5/1m, per: client}]}]
`), counts{}
	for range 500 {
		c.passes(p, request("/"))
	}
	for i := range 19 {
		req := request("/")
		req.Peer = netip.AddrFrom4([4]byte{198, 51, 100, byte(i)})
		exhaust(t, c, p, 5, req)
	}
}

func TestCNT25GlobalLimitIsChargedOnce(t *testing.T) {
	p, c := policyOf(t, `
limits: [{name: site, rate: 6/1m}]
rules: [{name: a, path: /a, limits: [{rate: 3/1m}]}]
default: {limits: []}
`), counts{}
	exhaust(t, c, p, 3, request("/a"))
	exhaust(t, c, p, 3, request("/b"))
	want(t, c, p, false, "/b", "/a")
}

func TestCNT28PreflightsAreNotCharged(t *testing.T) {
	p, c := policyOf(t, "rules: [{name: v1, path: /v1, limits: [{rate: 40/1m}]}]\n"), counts{}
	preflight, plain := request("/v1"), request("/v1")
	preflight.Method, plain.Method = "OPTIONS", "OPTIONS"
	preflight.Header = http.Header{"Origin": {"https://app.example"}, "Access-Control-Request-Method": {"GET"}}
	for range 20 {
		exhaust(t, c, p, 1, preflight)
		exhaust(t, c, p, 1, request("/v1"))
	}
	exhaust(t, c, p, 20, request("/v1"))
	if c.passes(p, plain) {
		t.Error("an OPTIONS request that is no preflight passes")
	}
	exhaust(t, c, p, 1, preflight)
}

func TestCNT33NewMaximumKeepsTheCount(t *testing.T) {
	c := counts{}
	limited := func(rate string) *Policy {
		return policyOf(t, "rules: [{name: it, path: /, limits: [{rate: "+rate+"}]}]\n")
	}
	exhaust(t, c, limited("1000/1h"), 300, request("/"))
	want(t, c, limited("100/1h"), false, "/")
	exhaust(t, c, limited("500/1h"), 200, request("/"))
	want(t, c, limited("500/1h"), false, "/")
	want(t, c, limited("500/2h"), true, "/") // another window is another count
}
