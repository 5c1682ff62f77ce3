package clientip

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func count(n int) *int { return &n }

// brief is a problem without its cure, which every one must have.
func brief(t *testing.T, problems []Problem) []string {
	t.Helper()
	var list []string
	for _, p := range problems {
		kind := "error"
		if p.Warning {
			kind = "warning"
		}
		if p.Cure == "" {
			t.Errorf("%s: %s: no cure", p.Field, p.What)
		}
		list = append(list, kind+" "+p.Field+": "+p.What)
	}
	return list
}

const everyoneText = "every address is trusted, so anyone can choose the address he is counted under"

func TestEveryMistakeIsNamed(t *testing.T) {
	for _, tc := range []struct {
		name string
		cfg  Config
		want []string
	}{
		{"nothing", Config{}, nil},
		{"a sound path", Config{Path: []Hop{{Name: "cloudflare"}, {Name: "nginx"}}}, nil},
		{"Forwarded from hops of one's own", Config{Forwarded: true, Path: []Hop{{Name: "edge", CIDRs: []string{"192.0.2.0/28"}}, {Name: "fly"}}}, nil},
		{"Forwarded from those that do not write it", Config{Forwarded: true, Path: []Hop{{Name: "cloudflare"}, {Name: "edge", CIDRs: []string{"192.0.2.0/28"}}, {Name: "nginx"}}},
			[]string{"warning forwarded: left to itself, cloudflare or nginx adds nothing to Forwarded"}},
		{"a sound walk", Config{TrustedProxies: []string{"private", "unix", "cloudflare"}}, nil},
		{"a sound position", Config{FromRight: 1, Peers: []string{"10.0.0.0/8"}}, nil},
		{"a sound header", Config{Header: "CF-Connecting-IP", Peers: []string{"10.0.0.0/8"}, Via: []string{"cloudflare"}}, nil},
		{"two strategies", Config{TrustedProxies: []string{"private"}, FromRight: 1, Peers: []string{"private"}},
			[]string{"error from_right: only one way to find the client may be given, and there is trusted_proxies, from_right"}},
		{"everyone", Config{TrustedProxies: []string{"0.0.0.0/0", "::/0"}}, []string{"error trusted_proxies: " + everyoneText}},
		{"everyone, IPv6", Config{TrustedProxies: []string{"::/0"}}, []string{"error trusted_proxies: " + everyoneText}},
		{"everyone in two halves", Config{TrustedProxies: []string{"0.0.0.0/1", "128.0.0.0/1"}}, []string{"error trusted_proxies: " + everyoneText}},
		{"all but one address is not everyone", Config{TrustedProxies: []string{"0.0.0.0/1", "192.0.0.0/2"}}, nil},
		{"everyone, as a peer", Config{FromRight: 1, Peers: []string{"::/0"}}, []string{"error peers: " + everyoneText}},
		{"everyone, as a hop", Config{Path: []Hop{{Name: "edge", CIDRs: []string{"0.0.0.0/0"}}}}, []string{"error path[0].cidrs: " + everyoneText}},
		{"everyone, on purpose", Config{TrustedProxies: []string{"0.0.0.0/0"}, DangerouslyTrustEveryone: true}, []string{"warning trusted_proxies: " + everyoneText}},
		{"zone", Config{TrustedProxies: []string{"fe80::1%eth0"}}, []string{"error trusted_proxies[0]: fe80::1%eth0 has a zone, which no compared address has"}},
		{"typing error", Config{TrustedProxies: []string{"10.0.0.0/8", "cloudflair"}}, []string{"error trusted_proxies[1]: cloudflair is neither a network nor a known name"}},
		{"no network", Config{TrustedProxies: []string{"10.0.0.0/33"}}, []string{"error trusted_proxies[0]: 10.0.0.0/33 is not a network"}},
		{"unset variable", Config{TrustedProxies: []string{""}}, []string{"error trusted_proxies[0]: the entry is empty"}},
		{"host bits", Config{TrustedProxies: []string{"10.0.0.1/8"}}, []string{"warning trusted_proxies[0]: 10.0.0.1/8 names an address inside its network"}},
		{"narrower in wider", Config{TrustedProxies: []string{"private", "10.1.0.0/16"}}, []string{"warning trusted_proxies[1]: 10.1.0.0/16 lies within 10.0.0.0/8, which is trusted whole"}},
		{"unknown ranges", Config{TrustedProxies: []string{"azure-frontdoor"}}, []string{"error trusted_proxies[0]: the ranges of azure-frontdoor cannot be known beforehand"}},
		{"negative position", Config{FromRight: -1, Peers: []string{"private"}}, []string{"error from_right: -1 is no position"}},
		{"position without peers", Config{FromRight: 1},
			[]string{"warning from_right: a position without peers believes every private address, and does not notice when the path changes"}},
		{"header without peers", Config{Header: "X-Real-IP"}, []string{"error header: a header without peers could be written by anyone"}},
		{"the chain as a header", Config{Header: "x-forwarded-for", Peers: []string{"private"}}, []string{"error header: X-Forwarded-For is a list that clients begin"}},
		{"Forwarded as a header", Config{Header: "forwarded", Peers: []string{"private"}}, []string{"error header: Forwarded is a list that clients begin"}},
		{"a header that clients set", Config{Header: "fastly-client-ip", Peers: []string{"private"}},
			[]string{"warning header: clients can write Fastly-Client-Ip themselves unless the edge is told to overwrite it"}},
		{"no header name", Config{Header: "X Real IP", Peers: []string{"private"}}, []string{`error header: "X Real IP" is not a header name`}},
		{"unknown format", Config{Header: "X-Real-IP", Peers: []string{"private"}, HeaderFormat: "json"}, []string{`error header_format: "json" is not known`}},
		{"settings nobody reads", Config{Peers: []string{"private"}, Via: []string{"private"}, HeaderFormat: "ip_port_last_colon", Forwarded: true}, []string{
			"warning peers: only header and from_right read it", "warning via: only header reads it", "warning header_format: only header reads it",
			"warning forwarded: no header is read where the client is the peer"}},
		{"prefixes at their bounds", Config{IPv4Prefix: 32, IPv6Prefix: 64}, nil},
		{"prefixes past their bounds", Config{IPv4Prefix: 33, IPv6Prefix: 129}, []string{
			"error ipv4_prefix: 33 is not a number of bits of an IPv4 address", "error ipv6_prefix: 129 is not a number of bits of an IPv6 address"}},
		{"a prefix that clients can leave", Config{IPv6Prefix: 65}, []string{"warning ipv6_prefix: a client that owns a /64 has 2^1 keys of /65"}},
		{"unknown hop", Config{Path: []Hop{{Name: "cloudflar"}}}, []string{"error path[0]: no preset is called cloudflar"}},
		{"nameless hop", Config{Path: []Hop{{CIDRs: []string{"10.0.0.0/8"}}}}, []string{"error path[0]: the hop has no name"}},
		{"too many entries", Config{Path: []Hop{{Name: "nginx", Appends: count(3)}}}, []string{"error path[0].appends: 3 entries"}},
		{"a first hop that says nothing", Config{Path: []Hop{{Name: "l4", CIDRs: []string{"10.0.0.0/8"}, Appends: count(0)}, {Name: "nginx"}}},
			[]string{"error path[0]: l4 writes the client's address nowhere"}},
		{"a hop without ranges", Config{Path: []Hop{{Name: "akamai"}}}, []string{"error path[0]: the ranges of akamai cannot be known beforehand"}},
		{"a hop's header", Config{Path: []Hop{{Name: "nginx", Header: "X-Client-IP"}}},
			[]string{"warning path[0].header: clients can write X-Client-Ip themselves unless the edge is told to overwrite it"}},
		{"ranges of nobody", Config{Ranges: map[string][]string{"cloudfare": {"10.0.0.0/8"}}}, []string{"error ranges_file[cloudfare]: no preset is called cloudfare"}},
		{"bad ranges", Config{Ranges: map[string][]string{"akamai": {"10.0.0.0/8", "x"}, "fastly": {}}}, []string{
			"error ranges_file[fastly]: the list is empty", "error ranges_file[akamai][1]: x is neither a network nor a known name"}},
		{"everything at once", Config{FromRight: -1, Peers: []string{"nginz"}, IPv6Prefix: 200}, []string{
			"error ipv6_prefix: 200 is not a number of bits of an IPv6 address", "error from_right: -1 is no position",
			"error peers[0]: nginz is neither a network nor a known name"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, problems := New(tc.cfg)
			if diff := cmp.Diff(tc.want, brief(t, problems), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if failed := strings.Contains(strings.Join(tc.want, "\n"), "error "); failed != (r == nil) {
				t.Errorf("resolver %v", r)
			}
		})
	}
}

func TestACureNamesTheNearestPreset(t *testing.T) {
	for word, want := range map[string]string{
		"cloudflair": "write cloudflare", "nginks": "write nginx", "privat": "write private", "k8s_ingress": "write k8s-ingress",
	} {
		_, problems := New(Config{TrustedProxies: []string{word}})
		if len(problems) != 1 || problems[0].Cure != want {
			t.Errorf("%s: %+v, want the cure %q", word, problems, want)
		}
	}
	_, problems := New(Config{TrustedProxies: []string{"zzzzzzzzzzzz"}})
	if len(problems) != 1 || !strings.HasPrefix(problems[0].Cure, "write one of private, loopback, unix, nginx, caddy") {
		t.Errorf("%+v, want the list of names", problems)
	}
}

// The names and numbers are those of CONTRACT 3; a published list is as long as its source's.
func TestPresetsAreWhatIsKnown(t *testing.T) {
	want := strings.Fields("nginx caddy traefik haproxy envoy apache k8s-ingress cloudflare cloudfront fastly akamai google-lb cloud-run aws-alb azure-appgw azure-frontdoor heroku fly")
	if diff := cmp.Diff(want, presetNames()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for name, n := range map[string]int{"cloudflare": 22, "cloudfront": 241, "fastly": 21, "google-lb": 2, "akamai": 0, "azure-frontdoor": 0} {
		if got := len(findPreset(name).networks(nil)); got != n {
			t.Errorf("%s has %d networks, want %d", name, got, n)
		}
	}
	for _, p := range presets {
		if p.traps == "" {
			t.Errorf("%s has no traps to tell", p.name)
		}
		given := Hop{Name: p.name}
		if p.ranges == "" {
			given.CIDRs = []string{"192.0.2.0/28"}
		}
		if _, problems := New(Config{Path: []Hop{given}}); len(problems) > 0 {
			t.Errorf("%s: %+v", p.name, problems)
		}
	}
}

func TestTrapsTellOfThePresetsInUse(t *testing.T) {
	r := mustNew(t, Config{Path: []Hop{{Name: "google-lb"}, {Name: "azure-appgw"}}})
	want := []string{
		"google-lb: two entries: the client, then the load balancer's own address; the rightmost is never the client",
		"google-lb: load balancers that are made of Envoy come from the proxy-only subnet: name it in cidrs",
		"google-lb: the built-in ranges are those of 2025-10-01; ranges_file replaces them",
		"azure-appgw: entries bear ports",
		"azure-appgw: narrow cidrs to the gateway's subnet",
	}
	if diff := cmp.Diff(want, r.Traps()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if traps := mustNew(t, Config{}).Traps(); len(traps) > 0 {
		t.Errorf("%v, want none", traps)
	}
}

func TestThePictureShowsWhereTheClientStands(t *testing.T) {
	for _, tc := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, "peer: CLIENT   → the connection's own address; no header is read"},
		{Config{Path: []Hop{{Name: "cloudflare"}, {Name: "nginx", CIDRs: []string{"10.0.0.0/8"}}}},
			"X-Forwarded-For: <whatever the client sent>, CLIENT, cloudflare   peer: nginx (10.0.0.0/8)   → 2nd from the right"},
		{Config{Path: []Hop{{Name: "google-lb"}}},
			"X-Forwarded-For: <whatever the client sent>, CLIENT, google-lb   peer: google-lb (35.191.0.0/16, 130.211.0.0/22)   → 2nd from the right"},
		{Config{Path: []Hop{{Name: "google-lb"}, {Name: "nginx"}}},
			"X-Forwarded-For: <whatever the client sent>, CLIENT, google-lb, google-lb   peer: nginx (private, unix)   → 3rd from the right"},
		{Config{Path: []Hop{{Name: "fly"}}}, "Fly-Client-Ip: CLIENT   peer: fly (private)   → the whole value"},
		{Config{Path: []Hop{{Name: "fly"}, {Name: "nginx"}}}, "Fly-Client-Ip: CLIENT   X-Forwarded-For: ..., fly   peer: nginx (private, unix)   → the whole value"},
		{Config{TrustedProxies: []string{"private", "cloudflare", "fastly", "unix"}},
			"X-Forwarded-For: <whatever the client sent>, CLIENT, trusted ...   peer: a trusted proxy (private, cloudflare and 2 more)   → the first from the right that is not trusted"},
		{Config{FromRight: 3, Forwarded: true},
			"Forwarded: <whatever the client sent>, CLIENT, a proxy, a proxy   peer: a proxy (private, unix)   → 3rd from the right"},
		{Config{Header: "cf-connecting-ip", Peers: []string{"10.0.0.0/8"}, Via: []string{"cloudflare"}},
			"Cf-Connecting-Ip: CLIENT   peer: a proxy (10.0.0.0/8)   only if X-Forwarded-For ends in the edge (cloudflare)   → the whole value"},
	} {
		if diff := cmp.Diff(tc.want, mustNew(t, tc.cfg).Picture()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

func TestOrdinals(t *testing.T) {
	for n, want := range map[int]string{1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 11: "11th", 12: "12th", 13: "13th", 21: "21st", 112: "112th"} {
		if got := ordinal(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
