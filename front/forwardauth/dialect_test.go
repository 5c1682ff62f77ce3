package forwardauth

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/clientip"
)

// The fields that each dialect reads: all that its proxy overwrites, and no other's. X-Forwarded-For is read
// by whatever the client section says.
func TestGoldenFields(t *testing.T) {
	want := map[string][]string{
		"/auth/nginx":   {"X-Forwarded-Proto", "X-Original-Host", "X-Original-Method", "X-Original-Uri", "X-Weir-Request-Id"},
		"/auth/caddy":   {"X-Forwarded-Host", "X-Forwarded-Method", "X-Forwarded-Proto", "X-Forwarded-Uri"},
		"/auth/traefik": {"X-Forwarded-Host", "X-Forwarded-Method", "X-Forwarded-Proto", "X-Forwarded-Uri"},
	}
	everything := http.Header{}
	for _, fields := range want {
		for _, name := range fields {
			everything[name] = []string{"/"}
		}
	}
	got := map[string][]string{}
	for i := range dialects {
		h := everything.Clone()
		dialects[i].readID(h)
		var req weir.Request
		dialects[i].read(h, &req)
		for name := range everything {
			if h[name] == nil {
				got[dialects[i].path] = append(got[dialects[i].path], name)
			}
		}
		slices.Sort(got[dialects[i].path])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// traefikAsks is what Traefik sends of a request that came to it through a trusted load balancer, as its
// forwarded-headers and ForwardAuth middlewares write it (v3).
func traefikAsks() http.Header {
	return http.Header{
		"Accept-Encoding": {"gzip"}, "User-Agent": {"curl/8.5.0"}, "X-Forwarded-For": {"203.0.113.7, 127.0.0.9"},
		"X-Forwarded-Host": {"site.example"}, "X-Forwarded-Method": {"POST"}, "X-Forwarded-Port": {"443"}, "X-Forwarded-Proto": {"wss"},
		"X-Forwarded-Server": {"traefik-0"}, "X-Forwarded-Uri": {"/a%2Fb/../c?q=1?2"}, "X-Real-Ip": {"127.0.0.9"}, "X-Tenant": {"blue"},
	}
}

// What a dialect tells is the request; what it does not tell stays among the fields, for limits that count
// by a header and for who finds the client.
func TestRequestOfEachDialect(t *testing.T) {
	nginx := with(with(with(nginxAsks("/p?x"), "X-Original-Method", "DELETE"), "X-Forwarded-Proto", "https"), "X-Tenant", "blue")
	caddy := with(with(caddyAsks("/p"), "X-Original-Uri", "/the-clients"), "X-Weir-Request-Id", strings.Repeat("a", 32))
	for _, c := range []struct {
		path   string
		header http.Header
		want   weir.Request
	}{
		{"/auth/nginx", nginx, weir.Request{Method: "DELETE", Host: "site.example", Path: "/p", Query: "x", Scheme: "https",
			Header: http.Header{"X-Forwarded-For": {"203.0.113.7"}, "X-Real-Ip": {"203.0.113.7"}, "X-Tenant": {"blue"}}, ID: "0123456789abcdef0123456789abcdef"}},
		{"/auth/caddy", caddy, weir.Request{Method: "GET", Host: "site.example", Path: "/p", Scheme: "http",
			Header: http.Header{"X-Forwarded-For": {"203.0.113.7"}, "X-Original-Uri": {"/the-clients"}, "X-Weir-Request-Id": {strings.Repeat("a", 32)}}}},
		{"/auth/traefik", traefikAsks(), weir.Request{Method: "POST", Host: "site.example", Path: "/a%2Fb/../c", Query: "q=1?2", Scheme: "https",
			Header: http.Header{"Accept-Encoding": {"gzip"}, "User-Agent": {"curl/8.5.0"}, "X-Forwarded-For": {"203.0.113.7, 127.0.0.9"},
				"X-Forwarded-Port": {"443"}, "X-Forwarded-Server": {"traefik-0"}, "X-Real-Ip": {"127.0.0.9"}, "X-Tenant": {"blue"}}}},
	} {
		d, h := dialectAt(c.path), c.header.Clone()
		got := weir.Request{ID: d.readID(h)}
		if f := d.read(h, &got); f != none {
			t.Errorf("%s: fault %s", c.path, remedies[f].name)
		}
		if diff := cmp.Diff(c.want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.path, diff)
		}
	}
}

// What is missing, repeated or not understood is refused; nothing is guessed.
func TestGarbledAsks(t *testing.T) {
	for path, asking := range asks {
		d := dialectAt(path)
		good := asking("/a")
		for name, c := range map[string]struct {
			header http.Header
			want   fault
		}{
			"good":                      {good, none},
			"no target":                 {with(good, d.target), missingField},
			"no method":                 {with(good, d.method), missingField},
			"no host":                   {with(good, d.host), missingField},
			"no scheme":                 {with(good, d.scheme), missingField},
			"two targets":               {with(good, d.target, "/a", "/b"), repeatedField},
			"the same target twice":     {with(good, d.target, "/a", "/a"), repeatedField},
			"two methods":               {with(good, d.method, "GET", "POST"), repeatedField},
			"two hosts":                 {with(good, d.host, "a", "b"), repeatedField},
			"two schemes":               {with(good, d.scheme, "http", "https"), repeatedField},
			"empty target":              {with(good, d.target, ""), badField},
			"absolute target":           {with(good, d.target, "http://other.example/a"), badField},
			"a name for a target":       {with(good, d.target, "a"), badField},
			"an authority for a target": {with(good, d.target, "other.example:443"), badField},
			"a blank in the target":     {with(good, d.target, "/a /b"), badField},
			"a line end in the target":  {with(good, d.target, "/a\r\nX: y"), badField},
			"NUL in the target":         {with(good, d.target, "/a\x00"), badField},
			"an unknown scheme":         {with(good, d.scheme, "ftp"), badField},
			"a list of schemes":         {with(good, d.scheme, "https, http"), badField},
			"asterisk":                  {with(good, d.target, "*"), none},
			"a number sign":             {with(good, d.target, "/a#b?c"), none}, // a path that the policy refuses
			"CONNECT":                   {with(with(good, d.method, "CONNECT"), d.target, "other.example:443"), none},
			"CONNECT to nothing":        {with(with(good, d.method, "CONNECT"), d.target, ""), badField},
			"a host that is none":       {with(good, d.host, "a b"), none}, // the policy refuses it
			"without a host":            {with(good, d.host, ""), none},
		} {
			var req weir.Request
			if got := d.read(c.header.Clone(), &req); got != c.want {
				t.Errorf("%s: %s: fault %q, want %q", path, name, remedies[got].name, remedies[c.want].name)
			}
		}
	}
}

func TestRequestIDs(t *testing.T) {
	good := "0123456789abcdef0123456789abcdef"
	for _, c := range []struct {
		path  string
		lines []string
		want  string
	}{
		{"/auth/nginx", []string{good}, good},
		{"/auth/nginx", nil, ""},
		{"/auth/nginx", []string{""}, ""},
		{"/auth/nginx", []string{good, good}, ""},
		{"/auth/nginx", []string{good[1:]}, ""},
		{"/auth/nginx", []string{good + "0"}, ""},
		{"/auth/nginx", []string{strings.ToUpper(good)}, ""},
		{"/auth/nginx", []string{"g" + good[1:]}, ""},
		{"/auth/nginx", []string{good[:31] + " "}, ""},
		{"/auth/caddy", []string{good}, ""},
		{"/auth/traefik", []string{good}, ""},
	} {
		if got := dialectAt(c.path).readID(http.Header{"X-Weir-Request-Id": c.lines}); got != c.want {
			t.Errorf("%s: %q: %q, want %q", c.path, c.lines, got, c.want)
		}
	}
}

func TestUnknownPathsSpeakNothing(t *testing.T) {
	for _, path := range []string{"", "/", "/auth", "/auth/", "/auth/nginx/", "/auth/nginx/x", "//auth/nginx", "/AUTH/nginx", "/auth/haproxy"} {
		if dialectAt(path) != nil {
			t.Errorf("%q speaks a dialect", path)
		}
	}
}

// Whatever else a client sends, in whatever spelling, the request is the one that the proxy tells of, from
// the client that it tells of; and reading it never fails badly.
func FuzzFields(f *testing.F) {
	for _, name := range []string{"X-Original-Uri", "X-Forwarded-Uri", "X_Original_Uri", "X-Forwarded-Method", "X-Forwarded-Host", "X-Weir-Request-Id", "Forwarded"} {
		f.Add(uint8(0), name, "/open", "/a")
		f.Add(uint8(1), name, "GET", "*")
		f.Add(uint8(2), name, "http://x/", "/a#b")
	}
	resolver, _ := clientip.New(clientip.Config{Path: []clientip.Hop{{Name: "nginx"}}})
	f.Fuzz(func(t *testing.T, which uint8, name, value, target string) {
		d := &dialects[int(which)%len(dialects)]
		honest := heard(d, resolver, asks[d.path](target))
		forged := asks[d.path](target)
		name = http.CanonicalHeaderKey(name)
		switch {
		case name == "X-Forwarded-For":
			forged[name] = []string{value + ", 203.0.113.7"} // proxies append to it
		case forged[name] != nil && name != "X-Real-Ip":
			forged[name] = append(forged[name], value) // what a proxy that does not overwrite it would send
			if got := heard(d, resolver, forged); got.fault == none && got.req.ID == honest.req.ID {
				t.Fatalf("%s twice is believed", name)
			}
			return
		default:
			forged[name] = []string{value}
		}
		got := heard(d, resolver, forged)
		if diff := cmp.Diff(honest, got, cmp.AllowUnexported(hearing{}), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
			t.Fatalf("%s: %q changes the request:\n%s", name, value, diff)
		}
		if got.fault == none && (got.req.Path == "" || got.req.Path[0] != '/' && got.req.Path != "*") {
			t.Fatalf("target %q: path %q", target, got.req.Path)
		}
	})
}

// A hearing is what Weir makes of an ask, but for the fields that are the client's.
type hearing struct {
	req    weir.Request
	client string
	fault  fault
}

func heard(d *dialect, r *clientip.Resolver, h http.Header) hearing {
	req := weir.Request{Peer: netip.MustParseAddr("127.0.0.1"), ID: d.readID(h)}
	f := d.read(h, &req)
	var c weir.Client
	req.Header = h
	r.Resolve(&req, &c)
	req.Header = nil
	return hearing{req, c.Key(), f}
}
