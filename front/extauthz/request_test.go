package extauthz

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/peer"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/clientip"
)

const envoy = "10.0.0.2"

// by is the context of a question that comes from address.
func by(address string) context.Context {
	return peer.NewContext(context.Background(), &peer.Peer{Addr: &net.TCPAddr{IP: net.ParseIP(address), Port: 1}})
}

func resolver(t testing.TB, c clientip.Config) *clientip.Resolver {
	t.Helper()
	r, problems := clientip.New(c)
	if r == nil {
		t.Fatal(problems)
	}
	return r
}

var sameAddr = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

// A question is the request that Envoy holds.
func TestRequest(t *testing.T) {
	r := resolver(t, clientip.Config{FromRight: 1})
	raw := question("198.51.100.7", "GET", "/a")
	raw.Attributes.Request.Http.Headers = nil
	raw.Attributes.Request.Http.HeaderMap = &corepb.HeaderMap{Headers: []*corepb.HeaderValue{
		{Key: ":path", RawValue: []byte("/a")}, {Key: "cookie", RawValue: []byte("a\xff")}, {Key: "cookie", RawValue: []byte("b")}, {Key: "x-plain", Value: "c"},
	}}
	plain := question("::ffff:198.51.100.7", "PUT", "/a%2f/b?c=d?e", "User-Agent", "x", "x_odd.name", "y", "host", "other", "", "nameless")
	plain.Attributes.Request.Http.Scheme = "http"
	plain.Attributes.ContextExtensions = map[string]string{"path": "/other"}
	tests := map[string]struct {
		question *authpb.CheckRequest
		want     weir.Request
	}{
		"as a map": {plain, weir.Request{
			Peer: netip.MustParseAddr(envoy), Method: "PUT", Host: "api.example", Path: "/a%2f/b", Query: "c=d?e", Scheme: "http",
			Header: http.Header{"User-Agent": {"x"}, "X_odd.name": {"y"}, "X-Forwarded-For": {"198.51.100.7"}},
		}},
		"raw": {raw, weir.Request{
			Peer: netip.MustParseAddr(envoy), Method: "GET", Host: "api.example", Path: "/a", Scheme: "https",
			Header: http.Header{"Cookie": {"a\xff", "b"}, "X-Plain": {"c"}, "X-Forwarded-For": {"198.51.100.7"}},
		}},
		"CONNECT": {question("198.51.100.7", "CONNECT", ""), weir.Request{
			Peer: netip.MustParseAddr(envoy), Method: "CONNECT", Host: "api.example", Path: "/", Scheme: "https",
			Header: http.Header{"X-Forwarded-For": {"198.51.100.7"}},
		}},
		"a fragment": {question("198.51.100.7", "GET", "/a#b?c"), weir.Request{
			Peer: netip.MustParseAddr(envoy), Method: "GET", Host: "api.example", Path: "/a#b?c", Scheme: "https",
			Header: http.Header{"X-Forwarded-For": {"198.51.100.7"}},
		}},
		"nothing": {&authpb.CheckRequest{}, weir.Request{Path: "/", Scheme: "http", Header: http.Header{}}},
	}
	for name, test := range tests {
		test.want.Front = "ext_authz"
		if diff := cmp.Diff(test.want, request(by(envoy), r, test.question.GetAttributes()), sameAddr); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// found resolves the client of a question that envoy asks.
func found(r *clientip.Resolver, q *authpb.CheckRequest) (key string, from weir.Source) {
	req := request(by(envoy), r, q.GetAttributes())
	var c weir.Client
	r.Resolve(&req, &c)
	return c.Key(), c.Source
}

// Where Envoy has no address for who is connected to it, nothing that came with the request is believed.
func TestWithoutASource(t *testing.T) {
	configs := map[string]clientip.Config{
		"direct": {}, "path": {Path: []clientip.Hop{{Name: "envoy"}}}, "count": {FromRight: 1},
		"trusted": {TrustedProxies: []string{"10.0.0.0/8"}}, "header": {Header: "X-Real-IP", Peers: []string{"10.0.0.0/8"}},
	}
	sources := map[string]*corepb.Address{
		"none": nil, "pipe": {Address: &corepb.Address_Pipe{Pipe: &corepb.Pipe{Path: "@x"}}}, "a name": socket("localhost"), "unspecified": socket("0.0.0.0"),
	}
	for name, c := range configs {
		for what, address := range sources {
			q := question("", "GET", "/", "x-forwarded-for", "6.6.6.6", "x-real-ip", "6.6.6.6")
			q.Attributes.Source.Address = address
			if key, from := found(resolver(t, c), q); key != "unresolved:none" || from != weir.Unresolved {
				t.Errorf("%s, source %s: got %s, %s", name, what, key, from)
			}
		}
	}
}

// strategies are ways in which a configuration may name an Envoy at 10.0.0.0/8, alone or behind another proxy
// at 192.0.2.0/24.
var strategies = map[string]clientip.Config{
	"path":          {Path: []clientip.Hop{{Name: "envoy", CIDRs: []string{"10.0.0.0/8"}}}},
	"path of two":   {Path: []clientip.Hop{{Name: "lb", CIDRs: []string{"192.0.2.0/24"}}, {Name: "envoy", CIDRs: []string{"10.0.0.0/8"}}}},
	"count":         {FromRight: 1, Peers: []string{"10.0.0.0/8"}},
	"count of two":  {FromRight: 2, Peers: []string{"10.0.0.0/8"}},
	"trusted":       {TrustedProxies: []string{"10.0.0.0/8"}},
	"trusted twice": {TrustedProxies: []string{"10.0.0.0/8", "192.0.2.0/24"}},
	"header":        {Header: "X-Real-IP", Peers: []string{"10.0.0.0/8"}},
	"direct":        {},
}

// entries are what a client may forge: addresses that somebody is, proxies', its own, and no addresses at all.
var entries = []string{"6.6.6.6", "198.51.100.7", "192.0.2.5", "10.0.0.2", "10.0.0.9", "198.51.100.7:80", "::ffff:198.51.100.7", "2001:db8::7", "", "unknown", "[2001:db8::7]:1"}

// Under use_remote_address Envoy has appended who is connected to it, before it asks. Then the client is found as
// in a proxy right behind that Envoy, whatever anybody wrote before it, as by all who write the source's own
// address: it is never read twice, nor once too few.
func TestAppendedBeforeAsking(t *testing.T) {
	for name, c := range strategies {
		r := resolver(t, c)
		for range 3000 {
			src := []string{"198.51.100.7", "192.0.2.5", "2001:db8::7", "10.0.0.9"}[rand.N(4)]
			chain := strings.Join(append(forged(), src), ", ")
			header := http.Header{chainName: {chain}}
			req := weir.Request{Peer: netip.MustParseAddr(envoy), Header: header}
			if name == "direct" { // there the proxy itself would be the client, which nobody wants who is asked
				req.Peer = netip.MustParseAddr(src)
			}
			if name == "header" { // the header is not there: the Envoy that asks is its edge
				req.Header["X-Real-Ip"] = []string{src}
			}
			var want weir.Client
			r.Resolve(&req, &want)
			if key, from := found(r, question(src, "GET", "/", chainName, chain)); key != want.Key() || from != want.Source {
				t.Fatalf("%s: %q from %s: got %s, %s; behind that Envoy it is %s, %s", name, chain, src, key, from, want.Key(), want.Source)
			}
		}
	}
}

// An Envoy that appends nothing, contrary to what is configured, tells who is connected to it all the same: no
// client of an Envoy at the edge is anybody else, whatever it writes.
func TestNotAppendedBeforeAsking(t *testing.T) {
	for _, name := range []string{"path", "path of two", "count", "trusted", "trusted twice"} {
		r := resolver(t, strategies[name])
		for range 3000 {
			chain := strings.Join(forged(), ", ")
			if key, _ := found(r, question("198.51.100.7", "GET", "/", chainName, chain)); key != "198.51.100.7/32" {
				t.Fatalf("%s: %q: got %s", name, chain, key)
			}
		}
	}
}

func forged() []string {
	chain := make([]string, rand.N(5))
	for i := range chain {
		chain[i] = entries[rand.N(len(entries))]
	}
	return chain
}

// An Envoy that is told to append nothing, behind a proxy that does, is passed by: its own word is not needed.
// Nothing is taken from the end of the chain then.
func TestOpaqueEnvoy(t *testing.T) {
	none := 0
	r := resolver(t, clientip.Config{Path: []clientip.Hop{{Name: "lb", CIDRs: []string{"192.0.2.0/24"}}, {Name: "envoy", CIDRs: []string{"10.0.0.0/8"}, Appends: &none}}})
	for chain, want := range map[string]string{"6.6.6.6, 203.0.113.7": "203.0.113.7/32", "6.6.6.6, 192.0.2.5": "192.0.2.5/32"} {
		if key, _ := found(r, question("192.0.2.5", "GET", "/", chainName, chain)); key != want {
			t.Errorf("%q: got %s, want %s", chain, key, want)
		}
	}
}

// An Envoy that nobody named is believed in what it tells of the connection, which is all there is, and in
// nothing else.
func TestUnknownEnvoy(t *testing.T) {
	r := resolver(t, strategies["path"])
	q := question("203.0.113.7", "GET", "/", chainName, "6.6.6.6")
	req := request(by("203.0.113.99"), r, q.Attributes)
	var c weir.Client
	if r.Resolve(&req, &c); c.Key() != "203.0.113.7/32" || c.Source != weir.Direct {
		t.Errorf("got %s, %s", c.Key(), c.Source)
	}
}

// Chains that Envoy sends line by line are one chain.
func TestRawChain(t *testing.T) {
	r := resolver(t, strategies["path"])
	q := question("198.51.100.7", "GET", "/")
	q.Attributes.Request.Http.HeaderMap = &corepb.HeaderMap{Headers: []*corepb.HeaderValue{
		{Key: "x-forwarded-for", RawValue: []byte("198.51.100.7")}, {Key: "x-forwarded-for", RawValue: []byte("6.6.6.6 ,198.51.100.7 ")},
	}}
	req := request(by(envoy), r, q.Attributes)
	if got := req.Header[chainName]; !slices.Equal(got, []string{"198.51.100.7", "6.6.6.6 ,198.51.100.7 "}) {
		t.Errorf("got %q", got)
	}
}

func TestLast(t *testing.T) {
	tests := map[string]string{
		"": "invalid IP", "1.2.3.4": "1.2.3.4", "6.6.6.6,1.2.3.4": "1.2.3.4", "6.6.6.6, ::ffff:1.2.3.4 ": "1.2.3.4", "1.2.3.4,": "invalid IP", "1.2.3.4:80": "invalid IP",
	}
	for line, want := range tests {
		if got := fmt.Sprint(last([]string{"9.9.9.9", line})); got != want {
			t.Errorf("%q: got %s, want %s", line, got, want)
		}
	}
	if last(nil).IsValid() {
		t.Error("no lines have an address")
	}
}
