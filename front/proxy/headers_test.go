package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/clientip"
)

// fields returns the header that echo saw, without what clients and Go add by themselves.
func fields(body string) []string {
	_, body, _ = strings.Cut(body, "\n")
	var got []string
	for _, l := range strings.Split(strings.TrimSuffix(body, "\n"), "\n") {
		if !strings.HasPrefix(l, "User-Agent:") && !strings.HasPrefix(l, "Accept-Encoding:") {
			got = append(got, l)
		}
	}
	return got
}

// behind is the policy of a Weir that stands behind a proxy on loopback.
const behind = watchOnly + "client: {trusted_proxies: [loopback]}\n"

// HTTP/1.0 may leave the host out: then there is none to tell.
func TestNoHostIsNotTold(t *testing.T) {
	h := build(t, plan{upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%q", r.Header["X-Forwarded-Host"])
	})})
	if answer, body, _ := h.say(lines("GET / HTTP/1.0", "X-Forwarded-Host: evil", "", "")); answer.StatusCode != 200 || body != "[]" {
		t.Errorf("%d, told %s", answer.StatusCode, body)
	}
}

func TestWhatTheUpstreamIsTold(t *testing.T) {
	tests := []struct {
		name      string
		yaml      string
		upstreams UpstreamOptions
		sent      []string
		want      []string
	}{
		{"exposed directly", watchOnly, UpstreamOptions{},
			[]string{"X-Forwarded-For: 1.2.3.4", "X-Forwarded-For: 5.6.7.8", "x-real-ip: 1.2.3.4", "X-Forwarded-Proto: https",
				"X-Forwarded-Host: evil", "X-Forwarded-Port: 1", "Forwarded: for=1.2.3.4", "X-Forwarded: 1.2.3.4", "A: b"},
			[]string{"Host: a", "A: b", "X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: a", "X-Forwarded-Proto: http", "X-Real-Ip: 127.0.0.1"}},
		{"behind a proxy", behind, UpstreamOptions{},
			[]string{"X-Forwarded-For: 6.6.6.6, 203.0.113.7", "X-Forwarded-Proto: https", "X-Forwarded-Port: 443", "X-Forwarded-Host: evil"},
			[]string{"Host: a", "X-Forwarded-For: 203.0.113.7", "X-Forwarded-Host: a", "X-Forwarded-Port: 443", "X-Forwarded-Proto: https",
				"X-Real-Ip: 203.0.113.7"}},
		{"another path than the one that was judged", behind, UpstreamOptions{},
			[]string{"X-Forwarded-For: 203.0.113.7", "X-Original-URL: /login", "X_Rewrite.Url: /login", "X-Rewrite-URL: /login", "X-Original-Urls: /a"},
			[]string{"Host: a", "X-Forwarded-For: 203.0.113.7", "X-Forwarded-Host: a", "X-Forwarded-Proto: http", "X-Original-Urls: /a",
				"X-Real-Ip: 203.0.113.7"}},
		{"WebSockets behind Traefik", behind, UpstreamOptions{}, // a service that compares it with Origin refused them
			[]string{"X-Forwarded-For: 203.0.113.7", "X-Forwarded-Proto: wss"},
			[]string{"Host: a", "X-Forwarded-For: 203.0.113.7", "X-Forwarded-Host: a", "X-Forwarded-Proto: https", "X-Real-Ip: 203.0.113.7"}},
		{"protocol in upper case", behind, UpstreamOptions{},
			[]string{"X-Forwarded-For: 203.0.113.7", "X-Forwarded-Proto: HTTPS"},
			[]string{"Host: a", "X-Forwarded-For: 203.0.113.7", "X-Forwarded-Host: a", "X-Forwarded-Proto: https", "X-Real-Ip: 203.0.113.7"}},
		{"odd protocol", behind, UpstreamOptions{},
			[]string{"X-Forwarded-For: 203.0.113.7", "X-Forwarded-Proto: javascript"},
			[]string{"Host: a", "X-Forwarded-For: 203.0.113.7", "X-Forwarded-Host: a", "X-Forwarded-Proto: http", "X-Real-Ip: 203.0.113.7"}},
		{"append", behind, UpstreamOptions{Forward: Append},
			[]string{"X-Forwarded-For: 6.6.6.6, 203.0.113.7", "X-Forwarded-For: 127.0.0.2:80"},
			[]string{"Host: a", "X-Forwarded-For: 203.0.113.7, 127.0.0.2, 127.0.0.1", "X-Forwarded-Host: a", "X-Forwarded-Proto: http",
				"X-Real-Ip: 203.0.113.7"}},
		{"append, exposed directly", watchOnly, UpstreamOptions{Forward: Append},
			[]string{"X-Forwarded-For: 6.6.6.6"},
			[]string{"Host: a", "X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: a", "X-Forwarded-Proto: http", "X-Real-Ip: 127.0.0.1"}},
		{"append, found elsewhere", watchOnly + "client: {header: CF-Connecting-IP, peers: [loopback]}\n", UpstreamOptions{Forward: Append},
			[]string{"CF-Connecting-IP: 203.0.113.7", "X-Forwarded-For: 6.6.6.6"},
			[]string{"Host: a", "Cf-Connecting-Ip: 203.0.113.7", "X-Forwarded-For: 203.0.113.7, 127.0.0.1", "X-Forwarded-Host: a",
				"X-Forwarded-Proto: http", "X-Real-Ip: 203.0.113.7"}},
		{"unresolved", watchOnly + "client: {from_right: 2}\n", UpstreamOptions{},
			[]string{"X-Forwarded-For: 203.0.113.7"},
			[]string{"Host: a", "X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: a", "X-Forwarded-Proto: http", "X-Real-Ip: 127.0.0.1",
				"X-Weir-Client: unresolved"}},
		{"header of an edge that is not asked", behind, UpstreamOptions{},
			[]string{"X-Forwarded-For: 203.0.113.7", "CF-Connecting-IP: 1.2.3.4", "True-Client-IP: 1.2.3.4"},
			[]string{"Host: a", "X-Forwarded-For: 203.0.113.7", "X-Forwarded-Host: a", "X-Forwarded-Proto: http", "X-Real-Ip: 203.0.113.7"}},
		{"append, a chain that nobody vouches for", watchOnly + "client: {header: CF-Connecting-IP, peers: [loopback]}\n", UpstreamOptions{Forward: Append},
			[]string{"CF-Connecting-IP: 203.0.113.7", "X-Forwarded-For: 203.0.113.7, 6.6.6.6"},
			[]string{"Host: a", "Cf-Connecting-Ip: 203.0.113.7", "X-Forwarded-For: 203.0.113.7, 127.0.0.1", "X-Forwarded-Host: a",
				"X-Forwarded-Proto: http", "X-Real-Ip: 203.0.113.7"}},
		{"header of an edge, from nobody", watchOnly, UpstreamOptions{},
			[]string{"CF-Connecting-IP: 1.2.3.4", "CF_Connecting_IP: 1.2.3.4"},
			[]string{"Host: a", "X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: a", "X-Forwarded-Proto: http", "X-Real-Ip: 127.0.0.1"}},
		{"header of an edge", watchOnly + "client: {header: CF-Connecting-IP, peers: [loopback]}\n",
			UpstreamOptions{},
			[]string{"CF-Connecting-IP: 203.0.113.7", "CF_Connecting_IP: 1.2.3.4"},
			[]string{"Host: a", "Cf-Connecting-Ip: 203.0.113.7", "X-Forwarded-For: 203.0.113.7", "X-Forwarded-Host: a",
				"X-Forwarded-Proto: http", "X-Real-Ip: 203.0.113.7"}},
	}
	for _, x := range tests {
		x.upstreams.Default = serve(t, http.HandlerFunc(echo)).URL
		h := build(t, plan{yaml: x.yaml, upstreams: x.upstreams})
		_, body, _ := h.say("GET / HTTP/1.1\r\nHost: a\r\n" + strings.Join(x.sent, "\r\n") + "\r\n\r\n")
		if diff := cmp.Diff(x.want, fields(body)); diff != "" {
			t.Errorf("%s: %s", x.name, diff)
		}
	}
}

func TestDisabledTouchesNothing(t *testing.T) {
	h := build(t, plan{yaml: "enabled: false\n", upstreams: UpstreamOptions{Default: serve(t, http.HandlerFunc(echo)).URL}})
	_, body, _ := h.say(lines("GET / HTTP/1.1", "Host: a", "X-Forwarded-For: 1.2.3.4", "X-Forwarded-For: 5.6.7.8", "True-Client-IP: 9.9.9.9", "", ""))
	want := []string{"Host: a", "True-Client-Ip: 9.9.9.9", "X-Forwarded-For: 1.2.3.4", "X-Forwarded-For: 5.6.7.8"}
	if diff := cmp.Diff(want, fields(body)); diff != "" {
		t.Error(diff)
	}
}

// No spelling of a field that we or a proxy of ours set reaches the upstream (PRX-05).
func TestSpellingsOfOurFieldsAreDropped(t *testing.T) {
	h := build(t, plan{upstreams: UpstreamOptions{Default: serve(t, http.HandlerFunc(echo)).URL, Tags: []string{"X-Consumer-Id"}}})
	_, body, _ := h.say(lines("GET / HTTP/1.1", "Host: a", "X-Consumer-Id: admin", "X_Consumer_Id: admin", "X.Consumer.Id: admin",
		"x-consumer-ID: root", "X_Forwarded_For: 1.2.3.4", "x.forwarded-for: 1.2.3.4", "X_Real.IP: 1.2.3.4", "X-Weir-Plan: gold",
		"X_Weir_Plan: gold", "x.weir.key.id: k", "Forwarded_: x", "User_Id: 1", "Team-Id: 1", "Team_Id: 2", "Te.am_Id: 3", "", ""))
	want := []string{"Host: a", "Forwarded_: x", "Te.am_id: 3", "Team-Id: 1", "User_id: 1",
		"X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: a", "X-Forwarded-Proto: http", "X-Real-Ip: 127.0.0.1"}
	if diff := cmp.Diff(want, fields(body)); diff != "" {
		t.Error(diff)
	}
}

// A tag that the decision set arrives, whatever the client says about it.
func TestTagArrives(t *testing.T) {
	h := build(t, plan{
		yaml:      `rules: [{name: r, path: /r, action: tag, tag_header: X-Over, limits: [{rate: 0/1m}]}, {name: s, path: /s, exempt: true}]`,
		upstreams: UpstreamOptions{Default: serve(t, http.HandlerFunc(echo)).URL, Tags: []string{"x-over"}},
	})
	_, body, _ := h.say(lines("GET /r HTTP/1.1", "Host: a", "X-Over: no", "Connection: X-Over", "", ""))
	if !strings.Contains(body, "\nX-Over: r\n") || strings.Contains(body, "no") {
		t.Errorf("tagged: %s", body)
	}
	if _, body, _ = h.say(lines("GET /s HTTP/1.1", "Host: a", "X-Over: r", "", "")); strings.Contains(body, "X-Over") {
		t.Errorf("not tagged: %s", body)
	}
}

// What Connection names is removed, but for what is the upstream's to read (PRX-03).
func TestNominatedFields(t *testing.T) {
	h := build(t, plan{upstream: http.HandlerFunc(echo)})
	_, body, _ := h.say(lines("GET / HTTP/1.1", "Host: a", "X-Foo: 1", "Authorization: Basic YTpi", "Cookie: s=1", "Proxy-Authorization: x",
		"Keep-Alive: 5", "TE: trailers", "Http2-Settings: x",
		"Connection: close, X-Foo", "Connection: X-Forwarded-For, X-Real-IP, authorization ,Cookie,Host, X-Weir-Client, TE, HTTP2-Settings", "", ""))
	want := []string{"Host: a", "Authorization: Basic YTpi", "Cookie: s=1", "Te: trailers",
		"X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: a", "X-Forwarded-Proto: http", "X-Real-Ip: 127.0.0.1"}
	if diff := cmp.Diff(want, fields(body)); diff != "" {
		t.Error(diff)
	}
}

func TestUpgradeToAnotherHTTPIsDeclined(t *testing.T) {
	h := build(t, plan{upstream: http.HandlerFunc(echo)})
	for _, protocol := range []string{"h2c", "H2C", "websocket, h2c", "TLS/1.2", "HTTP/2.0"} {
		_, body, _ := h.say(lines("GET / HTTP/1.1", "Host: a", "Connection: Upgrade, HTTP2-Settings", "Upgrade: "+protocol,
			"HTTP2-Settings: AAMAAABkAAQAAP__", "", ""))
		if strings.Contains(body, "Upgrade") || strings.Contains(body, "Settings") {
			t.Errorf("%s: %s", protocol, body)
		}
	}
}

func TestEncodingIsTheClients(t *testing.T) {
	h := build(t, plan{upstream: http.HandlerFunc(echo)})
	if _, body, _ := h.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n"); strings.Contains(body, "Accept-Encoding") || strings.Contains(body, "User-Agent") {
		t.Errorf("added: %s", body)
	}
	if _, body, _ := h.say("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br\r\n\r\n"); !strings.Contains(body, "Accept-Encoding: br\n") {
		t.Errorf("changed: %s", body)
	}
}

func TestSchemeIsAsTheListenerSawIt(t *testing.T) {
	h := build(t, plan{upstream: http.HandlerFunc(echo), options: secure(t)})
	for _, protocol := range []string{"HTTP/1.1", "h2"} {
		answer, body := h.get(h.client(protocol), "/", "X-Forwarded-Proto", "http")
		if !strings.Contains(body, "\nX-Forwarded-Proto: https\n") || (protocol == "h2") != (answer.ProtoMajor == 2) {
			t.Errorf("%s (%s): %s", protocol, answer.Proto, body)
		}
	}
}

// A unix socket has no address to tell.
func TestUnixPeers(t *testing.T) {
	x := newHeaders(UpstreamOptions{})
	in := &http.Request{Header: http.Header{"X-Real-Ip": {"1.2.3.4"}, "X-Forwarded-For": {"1.2.3.4"}, "User-Agent": {"u"}}}
	d := &weir.Decision{Request: weir.Request{Unix: true, Host: "a", Scheme: "http"}, Client: weir.Client{Source: weir.Unresolved, ViaUnix: true}}
	r, _ := clientip.New(clientip.Config{})
	h := x.request(in, asker{d, r})
	want := http.Header{"User-Agent": {"u"}, "X-Forwarded-Host": {"a"}, "X-Forwarded-Proto": {"http"}, "X-Weir-Client": {"unresolved"}}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Error(diff)
	}
}

func TestUpstreamsOwnRateLimitFieldsAreReplaced(t *testing.T) {
	h := build(t, plan{yaml: "default: {limits: [{rate: 5/1m}]}", upstream: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("RateLimit", `"theirs";r=1`)
		w.Header().Set("RateLimit-Policy", `"theirs";q=1`)
	})})
	answer, _ := h.get(h.client("HTTP/1.1"), "/")
	if got := answer.Header["Ratelimit"]; len(got) != 1 || strings.Contains(got[0], "theirs") {
		t.Errorf("RateLimit: %q", got)
	}
	if got := answer.Header["Ratelimit-Policy"]; len(got) != 1 || strings.Contains(got[0], "theirs") {
		t.Errorf("RateLimit-Policy: %q", got)
	}
}

// Whom a request is traced for passes as it came while Weir traces nothing: the fields of W3C Trace Context and
// Baggage, in several lines, of a version to come, and broken ones.
func TestTraceContextPasses(t *testing.T) {
	got := make(chan http.Header, 1)
	h := build(t, plan{upstream: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header })})
	for _, sent := range []http.Header{
		{"Traceparent": {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}, "Tracestate": {"a=1", "b=2,c=3"}, "Baggage": {"user=x", "k=v;p=1"}},
		{"Traceparent": {"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-the-future-brings"}},
		{"Traceparent": {"no trace"}, "Tracestate": {""}},
		{},
	} {
		r, err := http.NewRequest("GET", h.url("/"), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = sent.Clone()
		r.Header.Set("Connection", "traceparent, tracestate, baggage") // which names no field of a connection
		answer, err := h.client("HTTP/1.1").Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		arrived := <-got
		for _, name := range []string{"Traceparent", "Tracestate", "Baggage"} {
			if diff := cmp.Diff(sent[name], arrived[name]); diff != "" {
				t.Errorf("%s (-sent +arrived):\n%s", name, diff)
			}
		}
	}
}
