package clientip

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/weirgate/weir"
)

func request(remote string, headers ...string) *weir.Request {
	req := &weir.Request{Header: make(http.Header)}
	req.Peer, req.Unix = weir.ParsePeer(remote)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	return req
}

func resolve(r *Resolver, req *weir.Request) weir.Client {
	var c weir.Client
	r.Resolve(req, &c)
	return c
}

const xff = "X-Forwarded-For"

var (
	behindBoth  = Config{Path: []Hop{{Name: "cloudflare"}, {Name: "nginx"}}}
	behindOwn   = Config{Path: []Hop{{Name: "edge", CIDRs: []string{"192.0.2.0/28"}, Header: "X-Edge-Client"}, {Name: "nginx"}}}
	behindL4    = Config{Path: []Hop{{Name: "nginx", CIDRs: []string{"10.1.0.0/16"}}, {Name: "l4", CIDRs: []string{"10.2.0.0/16"}, Appends: count(0)}}}
	behindGCLB  = Config{Path: []Hop{{Name: "google-lb"}}}
	behindFly   = Config{Path: []Hop{{Name: "fly"}}}
	behindThree = Config{Path: []Hop{{Name: "fastly"}, {Name: "google-lb"}, {Name: "envoy"}}}
)

func TestAPathIsFollowedFromTheNearestHopOutwards(t *testing.T) {
	for _, tc := range []struct {
		name string
		cfg  Config
		req  *weir.Request
		want answer
	}{
		{"both hops", behindBoth, request("10.0.0.1:1", xff, "1.2.3.4, 203.0.113.7, 173.245.48.9"), answer{"203.0.113.7", "203.0.113.7/32", "forwarded"}},
		{"IPv6 edge", behindBoth, request("10.0.0.1:1", xff, "2001:db8:1:2::7, 2606:4700::9"), answer{"2001:db8:1:2::7", "2001:db8:1:2::/64", "forwarded"}},
		{"unix nginx", behindBoth, request("@", xff, "203.0.113.7, 173.245.48.9"), answer{"203.0.113.7", "203.0.113.7/32", "forwarded"}},
		{"edge bypassed", behindBoth, request("10.0.0.1:1", xff, "1.2.3.4, 198.51.100.66"), answer{"198.51.100.66", "198.51.100.66/32", "forwarded"}},
		{"nginx bypassed", behindBoth, request("173.245.48.9:1", xff, "203.0.113.7"), answer{"173.245.48.9", "173.245.48.9/32", "direct"}},
		{"no header", behindBoth, request("10.0.0.1:1"), answer{"10.0.0.1", "10.0.0.1/32", "peer_only"}},
		{"edge wrote nothing", behindBoth, request("10.0.0.1:1", xff, "173.245.48.9"), answer{"", "unresolved:173.245.48.9", "unresolved"}},
		{"edge wrote nonsense", behindBoth, request("10.0.0.1:1", xff, "unknown, 173.245.48.9"), answer{"", "unresolved:173.245.48.9", "unresolved"}},
		{"nginx wrote nonsense", behindBoth, request("10.0.0.1:1", xff, "203.0.113.7, unknown"), answer{"", "unresolved:10.0.0.1", "unresolved"}},
		{"nginx saw a unix socket", behindBoth, request("10.0.0.1:1", xff, "203.0.113.7, unix:"), answer{"", "unresolved:10.0.0.1", "unresolved"}},
		{"the edge's header is not read", behindBoth, request("10.0.0.1:1", "CF-Connecting-IP", "1.2.3.4", xff, "203.0.113.7, 173.245.48.9"), answer{"203.0.113.7", "203.0.113.7/32", "forwarded"}},

		{"own header", behindOwn, request("10.0.0.1:1", "X-Edge-Client", "203.0.113.7", xff, "1.2.3.4, 192.0.2.5"), answer{"203.0.113.7", "203.0.113.7/32", "header"}},
		{"own header past the edge", behindOwn, request("10.0.0.1:1", "X-Edge-Client", "1.2.3.4", xff, "1.2.3.4, 198.51.100.66"), answer{"198.51.100.66", "198.51.100.66/32", "forwarded"}},
		{"own header missing", behindOwn, request("10.0.0.1:1", xff, "1.2.3.4, 192.0.2.5"), answer{"", "unresolved:192.0.2.5", "unresolved"}},
		{"own header twice", behindOwn, request("10.0.0.1:1", "X-Edge-Client", "1.2.3.4", "X-Edge-Client", "203.0.113.7", xff, "192.0.2.5"), answer{"", "unresolved:192.0.2.5", "unresolved"}},
		{"own header twice the same", behindOwn, request("10.0.0.1:1", "X-Edge-Client", "203.0.113.7", "X-Edge-Client", "203.0.113.7:80", xff, "192.0.2.5"), answer{"203.0.113.7", "203.0.113.7/32", "header"}},

		{"a hop that writes nothing", behindL4, request("10.2.0.1:1", xff, "1.2.3.4, 203.0.113.7"), answer{"203.0.113.7", "203.0.113.7/32", "forwarded"}},
		{"around it", behindL4, request("10.1.0.1:1", xff, "203.0.113.7"), answer{"10.1.0.1", "10.1.0.1/32", "direct"}},
		{"behind it without a header", behindL4, request("10.2.0.1:1"), answer{"10.2.0.1", "10.2.0.1/32", "peer_only"}},

		{"two entries", behindGCLB, request("35.191.3.4:1", xff, "1.2.3.4,203.0.113.7,34.120.9.9"), answer{"203.0.113.7", "203.0.113.7/32", "forwarded"}},
		{"one of two entries", behindGCLB, request("35.191.3.4:1", xff, "203.0.113.7"), answer{"", "unresolved:35.191.3.4", "unresolved"}},
		{"three hops", behindThree, request("10.0.0.1:1", xff, "6.6.6.6, 203.0.113.7, 151.101.0.9, 34.120.9.9, 35.191.0.1"), answer{"203.0.113.7", "203.0.113.7/32", "forwarded"}},
		{"three hops, the outermost bypassed", behindThree, request("10.0.0.1:1", xff, "6.6.6.6, 203.0.113.7, 34.120.9.9, 35.191.0.1"), answer{"203.0.113.7", "203.0.113.7/32", "forwarded"}},
		{"a preset's header", behindFly, request("172.16.5.5:1", "Fly-Client-IP", "203.0.113.7", xff, "1.2.3.4, 203.0.113.7, 66.241.1.1"), answer{"203.0.113.7", "203.0.113.7/32", "header"}},
		{"a preset's header, missing", behindFly, request("172.16.5.5:1", xff, "1.2.3.4"), answer{"172.16.5.5", "172.16.5.5/32", "peer_only"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := resolve(mustNew(t, tc.cfg), tc.req)
			if diff := cmp.Diff(tc.want, answerOf(&c)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestATraceNamesEveryStep(t *testing.T) {
	for _, tc := range []struct {
		name string
		cfg  Config
		req  *weir.Request
		want []weir.Hop
	}{
		{"direct", Config{}, request("203.0.113.7:1"), []weir.Hop{{Address: "203.0.113.7", By: "peer"}}},
		{"no peer", Config{}, request("ohno"), []weir.Hop{{Address: "none", By: "peer"}}},
		{"path", behindBoth, request("10.0.0.1:1", xff, "1.2.3.4, 203.0.113.7, 173.245.48.9"), []weir.Hop{
			{Address: "10.0.0.1", Trusted: true, By: "nginx"}, {Address: "173.245.48.9", Trusted: true, By: "cloudflare"}, {Address: "203.0.113.7", By: "x-forwarded-for[2]"}}},
		{"own header", behindOwn, request("10.0.0.1:1", "X-Edge-Client", "203.0.113.7", xff, "192.0.2.5"), []weir.Hop{
			{Address: "10.0.0.1", Trusted: true, By: "nginx"}, {Address: "192.0.2.5", Trusted: true, By: "edge"}, {Address: "203.0.113.7", By: "x-edge-client"}}},
		{"two entries", behindGCLB, request("35.191.3.4:1", xff, "203.0.113.7,34.120.9.9"), []weir.Hop{
			{Address: "35.191.3.4", Trusted: true, By: "google-lb"}, {Address: "34.120.9.9", Trusted: true, By: "google-lb"}, {Address: "203.0.113.7", By: "x-forwarded-for[2]"}}},
		{"walk", Config{TrustedProxies: []string{"10.0.0.0/8", "unix"}}, request("@", xff, "203.0.113.7, unix:, 10.0.0.9"), []weir.Hop{
			{Address: "unix", Trusted: true, By: "peer"}, {Address: "10.0.0.9", Trusted: true, By: "x-forwarded-for[1]"},
			{Address: "unix:", Trusted: true, By: "x-forwarded-for[2]"}, {Address: "203.0.113.7", By: "x-forwarded-for[3]"}}},
		{"nonsense, as written", Config{TrustedProxies: []string{"10.0.0.0/8"}}, request("10.0.0.1:1", xff, "203.0.113.7, <b>"), []weir.Hop{
			{Address: "10.0.0.1", Trusted: true, By: "peer"}, {Address: "<b>", By: "x-forwarded-for[1]"}}},
		{"via", Config{Header: "CF-Connecting-IP", Peers: []string{"10.0.0.0/8"}, Via: []string{"cloudflare"}},
			request("10.0.0.1:1", "CF-Connecting-IP", "203.0.113.7", xff, "203.0.113.7, 173.245.48.9"), []weir.Hop{
				{Address: "10.0.0.1", Trusted: true, By: "peer"}, {Address: "173.245.48.9", Trusted: true, By: "x-forwarded-for[1]"}, {Address: "203.0.113.7", By: "cf-connecting-ip"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.req.Trace = true
			if diff := cmp.Diff(tc.want, resolve(mustNew(t, tc.cfg), tc.req).Hops); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestForwardingKeepsTheTrustedPartOfTheChain(t *testing.T) {
	for _, tc := range []struct {
		cfg  Config
		req  *weir.Request
		want string
	}{
		{behindBoth, request("10.0.0.1:1", xff, "1.2.3.4, 203.0.113.7, 173.245.48.9"), "203.0.113.7, 173.245.48.9, 10.0.0.1"},
		{behindBoth, request("@", xff, "1.2.3.4, 203.0.113.7, 173.245.48.9"), "203.0.113.7, 173.245.48.9"},
		{behindBoth, request("203.0.113.7:1", xff, "1.2.3.4"), "203.0.113.7"},
		{behindBoth, request("10.0.0.1:1", xff, "1.2.3.4, unknown"), "10.0.0.1"},
		{behindBoth, request("10.0.0.1:1"), "10.0.0.1"},
		{Config{}, request("@", xff, "1.2.3.4"), ""},
		{Config{TrustedProxies: []string{"10.0.0.0/8"}}, request("10.0.0.1:1", xff, "10.0.7.7, 10.0.0.9"), "10.0.7.7, 10.0.0.9, 10.0.0.1"},
	} {
		r := mustNew(t, tc.cfg)
		c := resolve(r, tc.req)
		if got := r.ForwardChain(tc.req, &c); got != tc.want {
			t.Errorf("%v: %q, want %q", tc.req.Header, got, tc.want)
		}
	}
}

func TestEverySpellingOfAnIdentityHeaderIsKnown(t *testing.T) {
	r := mustNew(t, Config{Path: []Hop{{Name: "edge", CIDRs: []string{"192.0.2.0/28"}, Header: "X-Edge-Client"}}})
	for _, name := range []string{"X-Forwarded-For", "x-forwarded-for", "X_Forwarded_For", "X.Forwarded.For", "x-Forwarded_For", "Forwarded", "FORWARDED",
		"X-Real-IP", "CF-Connecting-IP", "cf_connecting_ip", "True-Client-IP", "Fastly-Client-IP", "X-Edge-Client", "x_edge_client"} {
		if !r.IsIdentity(name) {
			t.Errorf("%s is not known", name)
		}
	}
	for _, name := range []string{"", "X", "X-Forwarded-Proto", "X-Forwarded-Fo", "X-Forwarded-Fort", "Host", "Accept", "X-Forwarded-Foe"} {
		if r.IsIdentity(name) {
			t.Errorf("%s is taken for one", name)
		}
	}
	for _, name := range strings.Fields(identityHeaders) {
		if !r.IsIdentity(name) || !r.IsIdentity(strings.ReplaceAll(strings.ToUpper(name), "-", "_")) {
			t.Errorf("%s is listed and not known", name)
		}
	}
	if n := testing.AllocsPerRun(20, func() { r.IsIdentity("x_forwarded_for") }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
