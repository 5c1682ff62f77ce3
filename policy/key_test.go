package policy

import (
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/config"
)

// perPolicy returns a policy of one limit named n that is counted per what is given.
func perPolicy(tb testing.TB, per ...string) *Policy {
	tb.Helper()
	cfg := config.Default()
	cfg.Default.Limits = []config.Limit{{Name: "n", Rate: &config.Rate{N: 5, Window: 60e9, Text: "5/1m"}, Per: per}}
	cfg.Plans = map[string]config.Plan{"free": {Timezone: "UTC"}}
	return compiled(tb, cfg)
}

func TestKeys(t *testing.T) {
	req := request("/Shop//cart/")
	req.Host = "Shop.Example.com:8443"
	req.Header = http.Header{"X-Tenant": {"acme|{x}:%\x01é"}, "Cookie": {"a=1; session=s3; session=s4"}}
	for _, c := range []struct{ per, want string }{
		{"client", "{203.0.113.9/32}:n:sliding_window:1m0s:@203.0.113.9/32"},
		{"ip", "{203.0.113.9/32}:n:sliding_window:1m0s:@203.0.113.9/32"},
		{"key", "{203.0.113.9/32}:n:sliding_window:1m0s:@203.0.113.9/32"},
		{"plan", "{203.0.113.9/32}:n:sliding_window:1m0s:@203.0.113.9/32"},
		{"global", "{global}:n:sliding_window:1m0s:"},
		{"host", "{=shop.example.com}:n:sliding_window:1m0s:"},
		{"method", "{=GET}:n:sliding_window:1m0s:"},
		{"path", "{=/Shop/cart}:n:sliding_window:1m0s:"},
		{"rule", "{=default}:n:sliding_window:1m0s:"},
		{"header:x-tenant", "{=acme%7c%7bx%7d%3a%25%01é}:n:sliding_window:1m0s:"},
		{"header:x-none", "{203.0.113.9/32}:n:sliding_window:1m0s:@203.0.113.9/32"},
		{"cookie:session", "{=s3}:n:sliding_window:1m0s:"},
		{"cookie:none", "{203.0.113.9/32}:n:sliding_window:1m0s:@203.0.113.9/32"},
		{"host method", "{=shop.example.com|=GET}:n:sliding_window:1m0s:"},
		{"host client path", "{203.0.113.9/32}:n:sliding_window:1m0s:=shop.example.com|@203.0.113.9/32|=/Shop/cart"},
	} {
		got := keysOf(t, perPolicy(t, strings.Fields(c.per)...), req)
		if diff := cmp.Diff([]string{c.want}, got); diff != "" {
			t.Errorf("per %s: (-want +got)\n%s", c.per, diff)
		}
	}
}

func TestKeysOfVerifiedAPIKeys(t *testing.T) {
	for per, want := range map[string]string{
		"client":      "{=k:1}:n:sliding_window:1m0s:=k:1",
		"key":         "{=k:1}:n:sliding_window:1m0s:=k:1",
		"plan":        "{=free}:n:sliding_window:1m0s:",
		"ip":          "{203.0.113.9/32}:n:sliding_window:1m0s:@203.0.113.9/32",
		"client path": "{=k:1}:n:sliding_window:1m0s:=k:1|=/",
	} {
		d := &weir.Decision{Request: request("/")}
		p := perPolicy(t, strings.Fields(per)...)
		p.Identify(d)
		d.Client.APIKey, d.Client.Plan = "k:1", "free"
		p.Match(d).Hits(d)
		if got := string(d.Hits[0].Key); got != strings.ReplaceAll(want, "k:1", "k%3a1") {
			t.Errorf("per %s: %s, want %s", per, got, want)
		}
	}
}

func TestIPv6KeysShareTheTagOfTheWidestTier(t *testing.T) {
	p := policyOf(t, `
default:
  limits:
    - {name: n, rate: 5/1m, burst: 2, algorithm: token_bucket}
    - {name: flight, in_flight: 4}
`)
	req := request("/")
	req.Peer = netip.MustParseAddr("2001:db8:1:2::9")
	want := []string{
		"{2001:db8:1::/48}:n:token_bucket:1m0s:@2001:db8:1:2::/64",
		"{2001:db8:1::/48}:n@/56:token_bucket:1m0s:@2001:db8:1::/56",
		"{2001:db8:1::/48}:n@/48:token_bucket:1m0s:@2001:db8:1::/48",
		"{2001:db8:1::/48}:flight:concurrency:-:@2001:db8:1:2::/64",
	}
	if diff := cmp.Diff(want, keysOf(t, p, req)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, h := range hitsOf(t, p, req).Hits {
		if tag := string(h.Key[:h.TagLen]); tag != "{2001:db8:1::/48}" {
			t.Errorf("tag %s", tag)
		}
	}
}

// Hosts of their own and sites of one IPv4 address have no neighbours to be counted with.
func TestSpecialIPv6AddressesHaveNoTiers(t *testing.T) {
	p := perPolicy(t, "client")
	for addr, want := range map[string]string{
		"::1":             "{::1/128}:n:sliding_window:1m0s:@::1/128",
		"fe80::1":         "{fe80::1/128}:n:sliding_window:1m0s:@fe80::1/128",
		"64:ff9b::a00:1":  "{64:ff9b::a00:1/128}:n:sliding_window:1m0s:@64:ff9b::a00:1/128",
		"2002:c000:201::": "{2002:c000:201::/48}:n:sliding_window:1m0s:@2002:c000:201::/48",
	} {
		req := request("/")
		req.Peer = netip.MustParseAddr(addr)
		if diff := cmp.Diff([]string{want}, keysOf(t, p, req)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", addr, diff)
		}
	}
}

func TestMissingHeaderGetsTheAddressAndItsTiers(t *testing.T) {
	req := request("/")
	req.Peer = netip.MustParseAddr("2001:db8:1:2::9")
	p := perPolicy(t, "header:X-Tenant")
	if got := len(keysOf(t, p, req)); got != 3 {
		t.Errorf("%d counters without the header, want 3", got)
	}
	req.Header = http.Header{"X-Tenant": {"acme"}}
	if got := len(keysOf(t, p, req)); got != 1 {
		t.Errorf("%d counters with the header, want 1", got)
	}
}

func TestUnresolvedClientsHaveACountOfTheirOwn(t *testing.T) {
	p := policyOf(t, "client: {from_right: 2, peers: [10.0.0.0/8, '2001:db8::/32']}\ndefault: {limits: [{name: n, rate: 5/1m}]}\n")
	for peer, hop := range map[string]string{"10.0.0.1": "10.0.0.1", "2001:db8:1:2::3": "2001:db8:1:2::3"} {
		req := request("/")
		req.Peer = netip.MustParseAddr(peer)
		req.Header = http.Header{"X-Forwarded-For": {"198.51.100.66"}}
		want := []string{"{unresolved:" + hop + "}:n:sliding_window:1m0s:@unresolved:" + hop}
		if diff := cmp.Diff(want, keysOf(t, p, req)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", peer, diff)
		}
	}
}

func TestMadeUpMethodsAndLongPathsAreBounded(t *testing.T) {
	p := perPolicy(t, "method", "path")
	req := request("/" + strings.Repeat("x", 5000))
	req.Method = "BREW" + strings.Repeat("X", 5000)
	key := keysOf(t, p, req)[0]
	if !strings.HasPrefix(key, "{=other|#") || len(key) != len("{=other|#}:n:sliding_window:1m0s:")+64 {
		t.Errorf("key %s", key)
	}
}

// TestNoValueImitatesAnotherTuple looks for two tuples with one key.
func TestNoValueImitatesAnotherTuple(t *testing.T) {
	p := perPolicy(t, "header:A", "header:B", "cookie:c")
	rnd := rand.New(rand.NewPCG(9, 10))
	value := func() string {
		var v strings.Builder
		for range rnd.IntN(5) {
			v.WriteString(pick(rnd, "=", "|", "@", "#", ":", "{", "}", "%", "%7c", "a", "203.0.113.9/32"))
		}
		return v.String()
	}
	seen := map[string][3]string{}
	for range 20_000 {
		tuple := [3]string{value(), value(), value()}
		req := request("/")
		req.Header = http.Header{"A": {tuple[0]}, "B": {tuple[1]}, "Cookie": {"c=" + tuple[2]}}
		key := keysOf(t, p, req)[0]
		if other, ok := seen[key]; ok && other != tuple {
			t.Fatalf("%q and %q share the key %s", other, tuple, key)
		}
		seen[key] = tuple
	}
}

func TestHashIsNotAValue(t *testing.T) {
	long := string(appendValue(nil, strings.Repeat("x", longest+1)))
	if short := string(appendValue(nil, strings.Repeat("x", longest))); short != "="+strings.Repeat("x", longest) {
		t.Errorf("a value of %d bytes is %s", longest, short)
	}
	if imitation := string(appendValue(nil, long[1:])); imitation == long || !strings.HasPrefix(long, "#") {
		t.Errorf("the hash %s is imitated by %s", long, imitation)
	}
}

func TestCookie(t *testing.T) {
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{nil, ""},
		{[]string{""}, ""},
		{[]string{"c"}, ""},
		{[]string{"c="}, ""},
		{[]string{"xc=1; cx=2"}, ""},
		{[]string{"c=1"}, "1"},
		{[]string{"a=0; c=1; c=2"}, "1"},
		{[]string{"a=0;c=1=2 "}, "1=2"},
		{[]string{"a=0", " c=1"}, "1"},
	} {
		if got := cookie(c.lines, "c"); got != c.want {
			t.Errorf("cookie of %q is %q, want %q", c.lines, got, c.want)
		}
	}
}

func FuzzCookie(f *testing.F) {
	f.Add("a=1; c=2", "c")
	f.Add(";;=;c", "c")
	f.Fuzz(func(t *testing.T, line, name string) {
		got := cookie([]string{line}, name)
		if strings.Contains(got, ";") || !strings.Contains(line, got) {
			t.Errorf("cookie %q of %q is %q", name, line, got)
		}
	})
}

func TestKeysStayWhatTheyAreWhenTheirMemoryMoves(t *testing.T) {
	cfg := config.Default()
	cfg.Default.Limits = nil
	for _, window := range []string{"1s", "2s", "3s", "4s", "5s", "6s", "7s", "8s"} {
		rate, err := config.ParseRate("5/" + window)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Default.Limits = append(cfg.Default.Limits, config.Limit{Rate: &rate})
	}
	d := hitsOf(t, compiled(t, cfg), request("/"))
	d.Keys = append(d.Keys, strings.Repeat("!", 1<<16)...)
	for i, h := range d.Hits {
		want := "{203.0.113.9/32}:default/" + h.Limit.Rate + "/client:sliding_window:" + h.Limit.Window.String() + ":@203.0.113.9/32"
		if string(h.Key) != want {
			t.Errorf("key %d is %s, want %s", i, h.Key, want)
		}
	}
}

// The hot path takes its memory from the decision.
func TestDecisionAllocatesNothing(t *testing.T) {
	p := policyOf(t, `
limits: [{name: site, rate: 600/1m, per: ip}]
rules:
  - {name: api, host: "*.example.com", path: /api/*/x, limits: [{rate: 5/1m}, {rate: 9/1s, per: [client, path, "header:User-Agent"]}]}
`)
	for _, peer := range []string{"203.0.113.9", "2001:db8:1:2::9"} {
		req := request("/api/7/x/y")
		req.Peer = netip.MustParseAddr(peer)
		d := new(weir.Decision)
		if n := testing.AllocsPerRun(100, func() { decide(p, d, &req) }); n != 0 {
			t.Errorf("%s: %v allocations", peer, n)
		}
	}
}
