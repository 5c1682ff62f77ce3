package policy

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/clientip"
	"github.com/weirgate/weir/config"
)

// An answer is what a decision without counting says.
type answer struct {
	Rule   string
	Action weir.Action
	Reason weir.Reason
	HTTP   int
}

func answerOf(d *weir.Decision) answer {
	a := answer{Action: d.Action, Reason: d.Reason, HTTP: d.HTTP}
	if d.Rule != nil {
		a.Rule = d.Rule.Name
	}
	return a
}

// counted is what Match leaves of a request that is to be counted under rule.
func counted(rule string) answer { return answer{Rule: rule} }

const mixed = `
matching: {ambiguous_paths: limit}
rules:
  - {name: static, path: /static/, exempt: true}
  - {name: watched, path: /watched, limits: []}
  - {name: trial, path: /trial, mode: shadow, limits: [{rate: 1/1m}]}
  - {name: api, path: /api, limits: [{rate: 3/1m}]}
  - {name: health, path: =/health, exempt: true}
`

func TestAmbiguousPathMatchesLimitsAndNoExemption(t *testing.T) {
	p := policyOf(t, mixed)
	for path, want := range map[string]answer{
		"/static/a.css":          {"static", weir.Pass, weir.ExemptRule, 200},
		"//static/%61.css":       {"static", weir.Pass, weir.ExemptRule, 200},
		"/static;v=1/a.css":      counted("default"),
		"/static/x/../a.css":     counted("default"),
		"/static%2fa.css":        counted("default"),
		`/static\a.css`:          counted("default"),
		"/static/%252e%252e/api": counted("default"),
		"/static/./a.css":        counted("default"),
		"/static/..;/static/a":   counted("default"),
		// A rule that refuses nothing is an exemption by another name.
		"/watched":        counted("watched"),
		"/x/../watched":   counted("default"),
		"/trial":          counted("trial"),
		"/x/../trial":     counted("default"),
		"/x/../api":       counted("api"),
		"/api%2fx":        counted("api"),
		"/static/../api":  counted("api"),
		"/health/../api":  counted("api"),
		"/health":         {"health", weir.Pass, weir.ExemptRule, 200},
		"/health/":        {"health", weir.Pass, weir.ExemptRule, 200},
		"/health/x":       counted("default"),
		"/healthz-secret": counted("default"),
	} {
		if diff := cmp.Diff(want, answerOf(matched(p, request(path)))); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", path, diff)
		}
	}
}

func TestAmbiguousPathsAreRejectedIfAsked(t *testing.T) {
	p := policyOf(t, "matching: {ambiguous_paths: reject}\nrules: [{name: api, path: /api, limits: [{rate: 3/1m}]}]\n")
	for path, want := range map[string]answer{
		"/api/x":    counted("api"),
		"//api;p":   counted("api"),
		"/api%2fx":  {"", weir.Reject, weir.AmbiguousPath, 400},
		"/./api":    {"", weir.Reject, weir.AmbiguousPath, 400},
		"/api%252f": {"", weir.Reject, weir.AmbiguousPath, 400},
		"/api%00":   {"", weir.Reject, weir.BadRequest, 400},
	} {
		if diff := cmp.Diff(want, answerOf(matched(p, request(path)))); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", path, diff)
		}
	}
}

func TestCaseIsFoldedIfAsked(t *testing.T) {
	const rules = "rules: [{name: api, path: /Api/V1, limits: [{rate: 3/1m}]}]\n"
	sensitive, folding := policyOf(t, rules), policyOf(t, "matching: {case_insensitive: true}\n"+rules)
	for path, want := range map[string][2]string{"/Api/V1": {"api", "api"}, "/api/v1": {"default", "api"}, "/API/v1/x": {"default", "api"}, "/%41pi/V1": {"api", "api"}} {
		if got := [2]string{ruleOf(sensitive, request(path)), ruleOf(folding, request(path))}; got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}

func TestAsteriskTargetFallsUnderNoPath(t *testing.T) {
	cfg := config.Default()
	cfg.Rules = []config.Rule{{Name: "site", Path: "/"}, {Name: "any", Host: "www.example.com"}}
	req := request("*")
	req.Method = http.MethodOptions
	if got := ruleOf(compiled(t, cfg), req); got != "default" {
		t.Errorf("OPTIONS * falls under %s, want default", got)
	}
	cfg.Rules = append(cfg.Rules, config.Rule{Name: "star", Path: "*"})
	if got := ruleOf(compiled(t, cfg), req); got != "star" {
		t.Errorf("OPTIONS * falls under %s, want star", got)
	}
	req.Path = "/*"
	if got := ruleOf(compiled(t, cfg), req); got != "any" {
		t.Errorf("/* falls under %s, want any", got)
	}
}

func TestPreflightIsNotCounted(t *testing.T) {
	const rules = "rules: [{name: api, path: /v1, limits: [{rate: 3/1m}]}]\n"
	exempting, counting := policyOf(t, rules), policyOf(t, "cors: {exempt_preflight: false}\n"+rules)
	req := request("/v1")
	req.Method = http.MethodOptions
	if diff := cmp.Diff(counted("api"), answerOf(matched(exempting, req))); diff != "" {
		t.Errorf("plain OPTIONS: (-want +got)\n%s", diff)
	}
	req.Header = http.Header{"Origin": {"https://app.example"}, "Access-Control-Request-Method": {"GET"}}
	if diff := cmp.Diff(answer{"api", weir.Pass, weir.Preflight, 200}, answerOf(matched(exempting, req))); diff != "" {
		t.Errorf("preflight: (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(counted("api"), answerOf(matched(counting, req))); diff != "" {
		t.Errorf("preflight that is counted: (-want +got)\n%s", diff)
	}
	req.Method = http.MethodGet
	if diff := cmp.Diff(counted("api"), answerOf(matched(exempting, req))); diff != "" {
		t.Errorf("GET with a preflight's headers: (-want +got)\n%s", diff)
	}
}

func TestUnresolvedClient(t *testing.T) {
	req := request("/")
	req.Peer = netip.MustParseAddr("10.0.0.1")
	req.Header = http.Header{"X-Forwarded-For": {"198.51.100.66"}} // one entry where there should be two
	for mode, want := range map[string]answer{
		"limit":  counted("default"),
		"reject": {"default", weir.Reject, weir.ClientUnresolved, 403},
		"allow":  {"default", weir.Pass, weir.ClientUnresolved, 200},
	} {
		p := policyOf(t, "client: {from_right: 2, peers: [10.0.0.0/8], unresolved: "+mode+"}\nexempt_addresses: [10.0.0.0/8]\n")
		if diff := cmp.Diff(want, answerOf(matched(p, req))); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", mode, diff)
		}
	}
}

func TestDisabledPassesEverything(t *testing.T) {
	p := policyOf(t, "enabled: false\nmatching: {ambiguous_paths: reject}\nrules: [{name: api, path: /api, limits: [{rate: 0/1m}]}]\n")
	for _, path := range []string{"/api", "/api%00", "/./api", "*"} {
		if diff := cmp.Diff(answer{"", weir.Pass, weir.Disabled, 200}, answerOf(matched(p, request(path)))); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", path, diff)
		}
	}
}

// TestExemptionVectors reads the cases that were written down while client identity was studied.
func TestExemptionVectors(t *testing.T) {
	var vectors []struct {
		Name       string
		RemoteAddr string `json:"remote_addr"`
		Headers    [][2]string
		Config     struct {
			TrustedHops  int      `json:"trusted_hops"`
			TrustedPeers []string `json:"trusted_peers"`
			TrustedCIDRs []string `json:"trusted_cidrs"`
		}
		Exempt   []string
		Expected bool `json:"expected_exempt"`
	}
	data, err := os.ReadFile("testdata/exemptions.json")
	if err == nil {
		err = json.Unmarshal(data, &vectors)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors {
		cfg := config.Default()
		cfg.Client.FromRight, cfg.Client.Peers, cfg.Client.TrustedProxies = v.Config.TrustedHops, v.Config.TrustedPeers, v.Config.TrustedCIDRs
		cfg.ExemptAddresses = v.Exempt
		req := request("/")
		req.Peer, req.Unix = weir.ParsePeer(v.RemoteAddr)
		for _, h := range v.Headers {
			req.Header.Add(h[0], h[1])
		}
		want := counted("default")
		if v.Expected {
			want = answer{"default", weir.Pass, weir.ExemptAddress, 200}
		}
		if diff := cmp.Diff(want, answerOf(matched(compiled(t, cfg), req))); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", v.Name, diff)
		}
	}
}

func TestRanges(t *testing.T) {
	var networks []netip.Prefix
	for _, text := range []string{"10.0.0.0/8", "10.1.0.0/16", "10.0.0.0/9", "192.0.2.7", "::ffff:198.51.100.0/120", "2001:db8::/32", "2001:db8:1::1"} {
		n, ok := clientip.ParseNetwork(text)
		if !ok {
			t.Fatal(text)
		}
		networks = append(networks, n.Masked())
	}
	set := newRanges(networks)
	for text, want := range map[string]bool{
		"9.255.255.255": false, "10.0.0.0": true, "10.1.2.3": true, "10.255.255.255": true, "11.0.0.0": false,
		"192.0.2.6": false, "192.0.2.7": true, "192.0.2.8": false,
		"198.51.99.255": false, "198.51.100.0": true, "198.51.100.255": true, "198.51.101.0": false,
		"2001:db7:ffff::": false, "2001:db8::": true, "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff": true, "2001:db9::": false,
		"64:ff9b::a00:1": false, "::": false, "0.0.0.0": false,
	} {
		if got := set.contain(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	if len(set) != 4 {
		t.Errorf("%d ranges of %v, want 4", len(set), set)
	}
}

func TestNamesEndWithTheDefault(t *testing.T) {
	p := policyOf(t, mixed)
	want := []string{"static", "watched", "trial", "api", "health", "default"}
	if got := p.Names(); !slices.Equal(got, want) {
		t.Errorf("names %v, want %v", got, want)
	}
	for i, r := range p.Rules() {
		if r.Name != want[i] {
			t.Errorf("rule %d is %s, want %s", i, r.Name, want[i])
		}
	}
}
