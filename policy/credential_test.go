package policy

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
)

// A bearer is a client that a verifier looked at.
type bearer struct {
	credential weir.Credential
	key, plan  string
	scopes     []string
}

var (
	nobody     = bearer{}
	ann        = bearer{credential: weir.Verified, key: "ann"}
	reader     = bearer{credential: weir.Verified, key: "rea", scopes: []string{"read", "other"}}
	writer     = bearer{credential: weir.Verified, key: "wri", scopes: []string{"write", "read"}}
	guesser    = bearer{credential: weir.Refuted}
	twofold    = bearer{credential: weir.Ambiguous}
	unprovable = bearer{credential: weir.Unverifiable}
)

func onPlan(plan string) bearer {
	return bearer{credential: weir.Verified, key: "of " + plan, plan: plan}
}

// as gives the decision's client what the verifier found.
func (b bearer) as(d *weir.Decision) {
	c := &d.Client
	c.Credential, c.APIKey, c.Plan, c.Scopes = b.credential, b.key, b.plan, b.scopes
}

// decided is the decision about req of b, by a store that counts.
func (c counts) decided(p *Policy, b bearer, req weir.Request) *weir.Decision {
	d := &weir.Decision{Request: req}
	p.Identify(d)
	b.as(d)
	r := p.Match(d)
	if r == nil {
		return d
	}
	r.Hits(d)
	for i, h := range d.Hits {
		d.Statuses[i] = weir.Status{Limit: h.Limit, Allowed: c[string(h.Key)]+h.N <= h.Limit.Max}
	}
	over := d.Over()
	r.Decide(d, nil)
	for _, h := range d.Hits {
		if !over {
			c[string(h.Key)] += h.N
		}
	}
	return d
}

// tells is a decision in a word: its HTTP status and why.
func tells(d *weir.Decision) string { return fmt.Sprint(d.HTTP, " ", d.Reason) }

const keyed = `
exempt_addresses: [198.51.100.0/24]
allow: [{cidr: 192.0.2.0/24}, {key: boss}]
rules:
  - {name: open,   path: /open,   limits: []}
  - {name: api,    path: /api,    require_key: true, limits: [{rate: 3/1m}]}
  - {name: write,  path: /write,  require_key: true, scopes: [read, write], limits: []}
  - {name: scoped, path: /scoped, scopes: [read], limits: []}
  - {name: static, path: /static, exempt: true}
  - {name: vault,  path: /vault,  exempt: true, require_key: true}
`

// Who bears what is asked for gets past, and whoever does not is told what is wrong.
func TestKeysAreAskedFor(t *testing.T) {
	p := policyOf(t, keyed)
	for _, c := range []struct {
		path string
		who  bearer
		want string
	}{
		{"/open", nobody, "200 within limits"},
		{"/open", ann, "200 within limits"},
		{"/open", guesser, "401 api key not valid"},
		{"/open", twofold, "401 two api keys"},
		{"/open", unprovable, "503 api keys unavailable"},
		{"/api", nobody, "401 api key missing"},
		{"/api", ann, "200 within limits"},
		{"/api", guesser, "401 api key not valid"},
		{"/write", nobody, "401 api key missing"},
		{"/write", ann, "403 scope missing"},
		{"/write", reader, "403 scope missing"},
		{"/write", writer, "200 within limits"},
		{"/scoped", nobody, "401 api key missing"}, // a scope is a key's
		{"/scoped", reader, "200 within limits"},
		{"/static", nobody, "200 exempt rule"},
		{"/static", guesser, "401 api key not valid"},
		{"/static", unprovable, "503 api keys unavailable"},
		{"/vault", nobody, "401 api key missing"}, // exempt is from counting, not from this
		{"/vault", ann, "200 exempt rule"},
	} {
		if got := tells(counts{}.decided(p, c.who, request(c.path))); got != c.want {
			t.Errorf("%s by %+v: %s, want %s", c.path, c.who, got, c.want)
		}
	}
}

// keys.required asks on every path.
func TestKeysRequired(t *testing.T) {
	p := policyOf(t, "keys: {required: true}\nrules: [{name: static, path: /static, exempt: true}]\n")
	for _, path := range []string{"/", "/static"} {
		if got := tells(counts{}.decided(p, nobody, request(path))); got != "401 api key missing" {
			t.Errorf("%s: %s", path, got)
		}
		if d := (counts{}).decided(p, ann, request(path)); d.Refused() {
			t.Errorf("%s: %s", path, tells(d))
		}
	}
}

// KEY-04: a key that works has its own count, guessing is limited by address, and who has no key is not hurt by it.
func TestKEY04GuessingKeysHasALimit(t *testing.T) {
	for _, c := range []struct{ yaml, path string }{
		{"default: {limits: [{rate: 20/1m}]}\n", "/"},
		{"rules: [{name: a, path: /a, require_key: true, limits: [{rate: 20/1m}]}]\n", "/a"},
		{"rules: [{name: a, path: /a, exempt: true}]\ndefault: {limits: [{rate: 20/1m}]}\n", "/a"},
		{"rules: [{name: a, path: /a, limits: [{rate: 20/1m}], count: {only_statuses: [500], skip_methods: [GET]}}]\n", "/a"},
		{"rules: [{name: a, path: /a, limits: [{rate: 20/1m}], action: tag}]\n", "/a"},
		{"rules: [{name: a, path: /a, limits: [{rate: 20/1m}], mode: shadow}]\ndefault: {limits: [{rate: 1/1m}]}\n", "/a"},
	} {
		p, store := policyOf(t, c.yaml), counts{}
		got := map[int]int{}
		for range 50 {
			got[store.decided(p, guesser, request(c.path)).HTTP]++
		}
		want := map[int]int{401: 20, 429: 30}
		if p.rules[0].Action == weir.Tag || p.rules[0].Mode == weir.Shadow {
			want = map[int]int{401: 50} // who is tagged or watched would pass: a wrong key never does
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.yaml, diff)
		}
		if d := store.decided(p, ann, request(c.path)); d.Refused() {
			t.Errorf("%sa good key from the same address: %s", c.yaml, tells(d))
		}
		if d := store.decided(p, nobody, request(c.path)); d.Reason == weir.OverLimit {
			t.Errorf("%sno key from the same address: %s", c.yaml, tells(d))
		}
	}
}

// A browser's question before another request bears no key, so it needs none; guessing has its limit there, too.
func TestPreflightNeedsNoKey(t *testing.T) {
	p, c := policyOf(t, "rules: [{name: a, path: /a, require_key: true, limits: [{rate: 2/1m}]}]\n"), counts{}
	preflight := request("/a")
	preflight.Method = "OPTIONS"
	preflight.Header = http.Header{"Origin": {"https://app.example"}, "Access-Control-Request-Method": {"GET"}}
	for i, want := range []int{401, 401, 429} {
		if got := c.decided(p, guesser, preflight).HTTP; got != want {
			t.Errorf("guess %d: HTTP status %d, want %d", i+1, got, want)
		}
	}
	if d := c.decided(p, nobody, preflight); d.Reason != weir.Preflight {
		t.Errorf("%s, want a pass", tells(d))
	}
	p = policyOf(t, "cors: {exempt_preflight: false}\nkeys: {required: true}\n")
	if d := c.decided(p, nobody, preflight); d.Reason != weir.KeyMissing {
		t.Errorf("not exempt: %s", tells(d))
	}
}

// Where a path has two readings, the key that one of them asks for is asked for.
func TestAmbiguousPathsNeedTheKeyOfEitherReading(t *testing.T) {
	p := policyOf(t, `
rules:
  - {name: admin, path: /admin, require_key: true, scopes: [admin], limits: []}
  - {name: open, path: /open, limits: []}
`)
	for _, path := range []string{"/open%2f..%2fadmin", "/admin%2fx", "/open/%2e%2e/admin", "/admin/..%2fopen", "/%61dmin%2f"} {
		if got := tells(counts{}.decided(p, nobody, request(path))); got != "401 api key missing" {
			t.Errorf("%s: %s", path, got)
		}
		if got := tells(counts{}.decided(p, ann, request(path))); got != "403 scope missing" {
			t.Errorf("%s, without the scope: %s", path, got)
		}
	}
}

// A request that was charged and asked about again is as wrong as it was.
func TestWrongKeyIsNotForgivenTheSecondTime(t *testing.T) {
	p, c := policyOf(t, "default: {limits: [{rate: 9/1m}]}\n"), counts{}
	req := request("/")
	req.ID = "one"
	for range 2 {
		if got := c.decided(p, guesser, req).HTTP; got != 401 {
			t.Errorf("HTTP status %d", got)
		}
	}
}

// A wrong key is wrong whatever the store does.
func TestWrongKeyWithoutAStore(t *testing.T) {
	for onFailure, want := range map[string]string{"allow": "401 api key not valid", "local": "401 api key not valid", "deny": "503 store failed"} {
		p := policyOf(t, "store: {on_failure: "+onFailure+"}\n")
		d := &weir.Decision{Request: request("/")}
		p.Identify(d)
		guesser.as(d)
		r := p.Match(d)
		r.Hits(d)
		r.Decide(d, http.ErrServerClosed)
		if got := tells(d); got != want || !d.Degraded {
			t.Errorf("%s: %s, want %s", onFailure, got, want)
		}
	}
}

// Who is allowed beats limits, by what proves who he is, and gets no further without the key that a rule asks for.
func TestAllow(t *testing.T) {
	p := policyOf(t, `
client: {trusted_proxies: [10.0.0.0/8]}
allow: [{cidr: 192.0.2.0/24}, {cidr: 10.0.0.0/8}, {key: boss}, {plan: gold}]
plans: {gold: {}, lead: {}}
rules: [{name: api, path: /api, require_key: true, limits: [{rate: 0/1m}]}]
default: {limits: [{rate: 0/1m}]}
`)
	boss, gold, lead := bearer{credential: weir.Verified, key: "boss"}, onPlan("gold"), onPlan("lead")
	for _, c := range []struct {
		who         bearer
		peer, chain string
		path        string
		want        string
	}{
		{nobody, "192.0.2.7", "", "/", "200 allowed client"},
		{nobody, "192.0.3.7", "", "/", "429 over limit"},
		{nobody, "10.0.0.1", "192.0.2.7", "/", "200 allowed client"},
		{nobody, "10.0.0.1", "", "/", "429 over limit"},         // peer_only: the proxy spoke for somebody unknown
		{nobody, "10.0.0.1", "nonsense", "/", "429 over limit"}, // unresolved
		{nobody, "192.0.3.7", "192.0.2.7", "/", "429 over limit"},
		{boss, "192.0.3.7", "", "/", "200 allowed client"},
		{gold, "192.0.3.7", "", "/", "200 allowed client"},
		{lead, "192.0.3.7", "", "/", "429 over limit"},
		{guesser, "192.0.2.7", "", "/", "401 api key not valid"},
		{nobody, "192.0.2.7", "", "/api", "401 api key missing"},
		{gold, "192.0.2.7", "", "/api", "200 allowed client"},
	} {
		req := request(c.path)
		req.Peer, _ = weir.ParsePeer(c.peer)
		if c.chain != "" {
			req.Header = http.Header{"X-Forwarded-For": {c.chain}}
		}
		if got := tells(counts{}.decided(p, c.who, req)); got != c.want {
			t.Errorf("%+v from %s (%s) to %s: %s, want %s", c.who, c.peer, c.chain, c.path, got, c.want)
		}
	}
	if !p.AllowsKeys() || policyOf(t, "allow: [{cidr: 192.0.2.0/24}]\n").AllowsKeys() {
		t.Error("which policies allow keys is not told")
	}
	if d := (counts{}).decided(p, gold, request("/")); d.Firewall == nil || d.Firewall.Mode != weir.Enforce {
		t.Error("who is allowed goes past the firewall")
	}
}

// Each kind of allowance is checked when it is compiled.
func TestAllowIsChecked(t *testing.T) {
	for yaml, want := range map[string]string{
		"allow: [{}]\n":                      "weir.yaml:1:9: allow[0]: it names no client, or more than one way to know it: give one of cidr, key and plan",
		"allow: [{key: a, plan: b}]\n":       "weir.yaml:1:9: allow[0]: it names no client, or more than one way to know it: give one of cidr, key and plan",
		"allow: [{cidr: 192.0.2.0/99}]\n":    "weir.yaml:1:16: allow[0].cidr: 192.0.2.0/99 is no network: write an address or a network such as 192.0.2.0/24",
		"allow: [{plan: b}]\nplans: {a: {}}": "weir.yaml:1:16: allow[0].plan: there is no plan b: name one of plans",
	} {
		p, problems := Compile(parse(t, yaml))
		if p != nil || len(problems) != 1 || problems[0].String() != want {
			t.Errorf("%q: %v, want %s", yaml, problems, want)
		}
	}
}

// A log does not tell who had a key, so nobody is asked.
func TestWithoutKeys(t *testing.T) {
	p := policyOf(t, keyed)
	for path, want := range map[string]string{"/api": "200 within limits", "/write": "200 within limits", "/vault": "200 exempt rule"} {
		if got := tells(counts{}.decided(p.WithoutKeys(), nobody, request(path))); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if got := tells(counts{}.decided(p, nobody, request("/api"))); got != "401 api key missing" {
		t.Errorf("the policy itself: %s", got)
	}
}

// Explain says why an exempt rule did not take a request.
func TestWhyWithAWrongKey(t *testing.T) {
	p := policyOf(t, keyed)
	d := counts{}.decided(p, guesser, request("/static"))
	if got, want := p.Why(d), "the key is wrong, so static, which would let it pass, gives way to the default"; got != want || d.Rule.Name != "default" {
		t.Errorf("%s (%s), want %s", got, d.Rule.Name, want)
	}
}
