package middleware

import (
	"bufio"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/engine"
)

// seen is what of a request target a decision may depend on.
type seen struct {
	Path, Query, Host string
}

// Bytes on a connection, as net/http hands them over.
func TestTarget(t *testing.T) {
	tests := []struct {
		line string
		want seen
	}{
		{"GET /a/b?c=d", seen{"/a/b", "c=d", "x"}},
		{"GET /", seen{"/", "", "x"}},
		{"GET /?", seen{"/", "", "x"}},
		{"GET /a?b?c", seen{"/a", "b?c", "x"}},
		{"GET //a//b/../%2e%2E/%2F;p=1?a=1;b=2&%zz", seen{"//a//b/../%2e%2E/%2F;p=1", "a=1;b=2&%zz", "x"}},
		{"GET /%00", seen{"/%00", "", "x"}},
		{"GET /\xff", seen{"/\xff", "", "x"}},
		{"GET http://y.example:81/a?b", seen{"/a", "b", "y.example:81"}},
		{"GET HTTPS://y.example", seen{"/", "", "y.example"}},
		{"GET http://y.example?b=/c", seen{"/", "b=/c", "y.example"}},
		{"GET http://user@y.example/a", seen{"/a", "", "y.example"}},
		{"OPTIONS *", seen{"*", "", "x"}},
		{"CONNECT y.example:443", seen{"/", "", "y.example:443"}},
		{"GET /a#b", seen{"/a#b", "", "x"}},
		{"GET /a?b#c", seen{"/a?b#c", "", "x"}},
		{"GET http://y.example/#", seen{"http://y.example/#", "", "y.example"}},
		{"GET opaque:a", seen{"opaque:a", "", "x"}},
	}
	m := New(nil, Options{})
	for _, test := range tests {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(test.line + " HTTP/1.1\r\nHost: x\r\n\r\n")))
		if err != nil {
			t.Errorf("%s: %v", test.line, err)
			continue
		}
		req := m.request(r)
		if got := (seen{req.Path, req.Query, req.Host}); got != test.want {
			t.Errorf("%s:\ngot  %+v\nwant %+v", test.line, got, test.want)
		}
	}
}

func TestRequest(t *testing.T) {
	r := httptest.NewRequest("PUT", "https://x.example/a?b", nil)
	r.RemoteAddr, r.TLS = "[::ffff:192.0.2.7%eth0]:80", &tls.ConnectionState{}
	got := New(nil, Options{}).request(r)
	want := weir.Request{Front: "middleware", Peer: addr("192.0.2.7"), Method: "PUT", Host: "x.example", Path: "/a", Query: "b", Scheme: "https", Header: http.Header{}}
	if diff := cmp.Diff(want, got, cmp.Comparer(sameAddr)); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	r.RemoteAddr = "@"
	if got := New(nil, Options{}).request(r); !got.Unix || got.Peer.IsValid() {
		t.Errorf("unix socket: got %v, %v", got.Unix, got.Peer)
	}
}

// A request that a program made has no target as sent.
func TestTargetOfAMadeRequest(t *testing.T) {
	r, _ := http.NewRequest("GET", "http://x.example/a%2Fb?c#d", nil)
	path, query := target(r)
	if got, want := (seen{path, query, r.Host}), (seen{"/a%2Fb", "c", "x.example"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Whatever a target is, its parts stand in it as they were sent.
func FuzzTarget(f *testing.F) {
	for _, seed := range []string{"/a?b", "http://h/p?q#f", "*", "x:y", "//", "http:", "http://h"} {
		f.Add("GET", seed)
	}
	f.Add("CONNECT", "h:443")
	f.Fuzz(func(t *testing.T, method, sent string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(method + " " + sent + " HTTP/1.1\r\nHost: x\r\n\r\n")))
		if err != nil {
			return
		}
		path, query := target(r)
		if path == "" || path[0] != '/' && path != "*" && (path != sent || query != "") {
			t.Fatalf("%q: path %q and query %q", sent, path, query)
		}
		if strings.Contains(query, "#") {
			t.Fatalf("%q: a raw # in the query %q", sent, query)
		}
		if !strings.HasSuffix(r.RequestURI, query) || path != "/" && !strings.Contains(r.RequestURI, path) {
			t.Fatalf("%q: path %q and query %q are not as sent", sent, path, query)
		}
	})
}

func TestARawHashIsRefusedAndRecorded(t *testing.T) {
	h := build(t, ``)
	_, server := serve(t, http1, h.Wrap(http.HandlerFunc(ok)))
	conn := dial(t, server)
	io.WriteString(conn, "GET /a#b HTTP/1.1\r\nHost: x\r\n\r\n")
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if e := h.records(t, 1)[0]; answer.StatusCode != 400 || e.Status != 400 || e.Reason != string(weir.BadRequest) {
		t.Errorf("got %d, recorded %d: %s", answer.StatusCode, e.Status, e.Reason)
	}
}

// dfds/infrastructure-modules#2475: a server took X_Consumer_Id for the header that the proxy had set.
func TestWhatTheUpstreamSees(t *testing.T) {
	const config = `
limits: [{name: trial, rate: 1/1h, per: client, mode: shadow}, {name: trial2, rate: 0/1h, per: client, mode: shadow}]
rules:
  - {name: tagged, path: /tagged, action: tag, tag_header: X-Over, limits: [{rate: 1/1h, per: client}]}
`
	forged := http.Header{
		"X-Weir-Shadow": {"forged"}, "X_weir_shadow": {"forged"}, "X.weir-Shadow": {"forged"}, "X-Weir-Anything": {"forged"},
		"X-Over": {"forged"}, "X_over": {"forged"}, "X-Weird": {"kept"},
	}
	h := build(t, config)
	var got http.Header
	handler := h.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got = r.Header }))
	steps := []struct {
		target string
		want   http.Header
	}{
		{"/", http.Header{"X-Over": {"forged"}, "X_over": {"forged"}, "X-Weird": {"kept"}, "X-Weir-Shadow": {"trial2"}}}, // no rule's header here
		{"/tagged", http.Header{"X-Weird": {"kept"}, "X-Weir-Shadow": {"trial, trial2"}}},
		{"/tagged", http.Header{"X-Weird": {"kept"}, "X-Weir-Shadow": {"trial, trial2"}, "X-Over": {"tagged"}}},
	}
	for i, step := range steps {
		r := local("GET", step.target, "192.0.2.1")
		r.Header = forged.Clone()
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if diff := cmp.Diff(step.want, got); diff != "" || w.Code != 200 {
			t.Errorf("step %d: %d, header (-want +got):\n%s", i, w.Code, diff)
		}
		if diff := cmp.Diff(forged, r.Header); diff != "" {
			t.Errorf("step %d: the caller's header changed:\n%s", i, diff)
		}
		if shown := w.Header().Get("RateLimit") + w.Header().Get("X-Weir-Shadow"); strings.Contains(shown, "trial") {
			t.Errorf("step %d: the asker sees %s", i, shown)
		}
	}
}

// Where nothing is to be told, the request goes on as it came.
func TestAnUnmarkedRequestIsNotCopied(t *testing.T) {
	h := build(t, ``)
	r := local("GET", "/", "192.0.2.1")
	h.Serve(httptest.NewRecorder(), r, func(_ http.ResponseWriter, got *http.Request, _ *Call) {
		if got != r {
			t.Error("the request was copied")
		}
	})
}

// A decision need not be under a rule: then nothing is tagged, and no body is too long.
func TestWithoutARule(t *testing.T) {
	r := local("POST", "/", "192.0.2.1")
	r.ContentLength = 1 << 40
	d := &weir.Decision{Action: weir.Tag}
	x := &exchange{call: Call{Decision: d, Snapshot: new(engine.Snapshot)}, request: r}
	if got := marked(r, &x.call); got != r || !x.take() || d.Refused() {
		t.Errorf("marked %v, refused %v", got != r, d.Refused())
	}
}

// Where no limit was passed, the reason is what the upstream is told.
func TestTagTellsTheReason(t *testing.T) {
	d := &weir.Decision{Action: weir.Tag, Reason: weir.StoreFailed, Rule: &weir.Rule{TagHeader: "X-Weir-Tag"}}
	c := &Call{Decision: d, Snapshot: new(engine.Snapshot)}
	if got, want := marked(local("GET", "/", "192.0.2.1"), c).Header.Get("X-Weir-Tag"), string(weir.StoreFailed); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
