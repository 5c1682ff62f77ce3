package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weirgate/weir"
)

// lines joins the lines of a request with CRLF.
func lines(l ...string) string { return strings.Join(l, "\r\n") }

func post(l ...string) string {
	return lines(append([]string{"POST /p HTTP/1.1", "Host: a"}, l...)...)
}

// Requests whose framing has two readings are answered 400, the connection ends, and neither the
// engine nor the upstream sees a thing (PRX-21).
func TestAmbiguousFramingIsRefused(t *testing.T) {
	var seen atomic.Int32
	h := build(t, plan{upstream: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen.Add(1) })})
	smuggled := "GET /admin HTTP/1.1\r\nHost: a\r\n\r\n"
	tests := map[string]string{
		"CL.TE":                post("Content-Length: 6", "Transfer-Encoding: chunked", "", "0", "", "G"),
		"TE.CL":                post("Transfer-Encoding: chunked", "Content-Length: 4", "", "5c", smuggled),
		"chunked with blank":   post("Transfer-Encoding: chunked ", "", "0", "", ""),
		"xchunked":             post("Transfer-Encoding: xchunked", "", "0", "", ""),
		"two lengths":          post("Content-Length: 3", "Content-Length: 30", "", "abc"),
		"equal lengths":        post("Content-Length: 3", "Content-Length: 3", "", "abc"),
		"bare LF":              "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
		"bare LF, all":         "GET / HTTP/1.1\nHost: a\n\n",
		"obs-fold":             post("X: a", " Content-Length: 3", "", ""),
		"obs-fold, coding":     post("Transfer-Encoding:", " chunked", "", "0", "", ""),
		"chunk size with sign": post("Transfer-Encoding: chunked", "", "+1", "x", "0", "", ""),
		"chunk line with LF":   post("Transfer-Encoding: chunked", "", "1\nx", "0", "", ""),
		"NUL in header":        post("X: a\x00b", "", ""),
		"blank before colon":   post("Content-Length : 3", "", "abc"),
		"blank in Host":        lines("GET / HTTP/1.1", "Host: a b", "", ""),
		"two Hosts":            lines("GET / HTTP/1.1", "Host: a", "Host: b", "", ""),
		"no Host":              lines("GET / HTTP/1.1", "", ""),
		"PROXY":                "PROXY TCP4 1.2.3.4 10.0.0.9 56324 443\r\n" + smuggled,
	}
	for name, request := range tests {
		answer, _, ended := h.say(request + smuggled)
		if answer.StatusCode != 400 || !ended {
			t.Errorf("%s: HTTP status %d, connection ended: %v", name, answer.StatusCode, ended)
		}
	}
	if seen.Load() != 0 || h.journal.Totals().Requests != 0 {
		t.Errorf("the upstream saw %d requests, the engine %d", seen.Load(), h.journal.Totals().Requests)
	}
}

func TestRefusedFramingIsAProblemDocument(t *testing.T) {
	h := build(t, plan{upstream: http.HandlerFunc(echo)})
	answer, body, _ := h.say("GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n")
	want := `{"type":"about:blank","title":"Bad Request","status":400,"detail":"a line ends with LF alone"}` + "\n"
	if body != want || answer.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("got %s %s", answer.Header.Get("Content-Type"), body)
	}
}

// What net/http refuses by itself is a problem document, too, and the connection ends: requests without
// exactly one valid Host, with a target of no form, and with an expectation that is none.
func TestEveryRefusalIsAProblemDocument(t *testing.T) {
	refused := make(chan string, 100)
	h := build(t, plan{upstream: http.HandlerFunc(echo), options: Options{Refused: func(fault string, _ netip.Addr) { refused <- fault }}})
	tests := []struct {
		name, request string
		status        int
		fault         string
	}{
		{"no Host", lines("GET / HTTP/1.1", "", ""), 400, "invalid"},
		{"two Hosts", lines("GET / HTTP/1.1", "Host: a", "Host: a", "", ""), 400, "invalid"},
		{"malformed Host", lines("GET / HTTP/1.1", "Host: a b", "", ""), 400, "invalid"},
		{"a target of no form", lines("GET z HTTP/1.1", "Host: a", "", ""), 400, "invalid"},
		{"a broken escape", lines("GET /%zz HTTP/1.1", "Host: a", "", ""), 400, "invalid"},
		{"an expectation", lines("GET / HTTP/1.1", "Host: a", "Expect: tea", "", ""), 417, "expectation"},
		{"after a good one", lines("GET / HTTP/1.1", "Host: a", "", "GET / HTTP/1.1", "", ""), 400, "invalid"},
		{"a bare LF", "GET / HTTP/1.1\nHost: a\n\n", 400, "bare_lf"},
	}
	for _, x := range tests {
		c := h.dial()
		io.WriteString(c, x.request)
		r := bufio.NewReader(c)
		answer, body, ended := h.hear(r)
		if answer.StatusCode == 200 { // to the first of two
			answer, body, ended = h.hear(r)
		}
		if answer.StatusCode != x.status || !ended || answer.Header.Get("Content-Type") != "application/problem+json" ||
			!strings.Contains(body, fmt.Sprintf(`"status":%d,"detail":"`, x.status)) {
			t.Errorf("%s: %d %v %s, ended %v", x.name, answer.StatusCode, answer.Header, body, ended)
		}
		if got := told(refused); got != x.fault || len(refused) > 0 {
			t.Errorf("%s: told of %q and %d more, want %s", x.name, got, len(refused), x.fault)
		}
	}
	if answer, _, _ := h.say(lines("GET / HTTP/1.0", "", "")); answer.StatusCode != 200 {
		t.Errorf("HTTP/1.0 without Host: %d", answer.StatusCode)
	}
	h.recorded(2)
}

// Whatever is refused without a decision is told of, once, by a name that is known beforehand.
func TestRefusalsWithoutADecisionAreTold(t *testing.T) {
	type refusal struct{ fault, peer string }
	refused := make(chan refusal, 100)
	h := build(t, plan{upstream: http.HandlerFunc(echo), options: Options{HeaderTimeout: headerTime, MaxHeader: 4096,
		Refused: func(fault string, peer netip.Addr) { refused <- refusal{fault, peer.String()} }}})
	for request, fault := range map[string]string{
		"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n":                           "bare_lf",
		post("X: a", " b", "", ""):                                          "folded",
		post("Content-Length: 6", "Transfer-Encoding: chunked", "", "", ""): "length_and_coding",
		"GET / HTTP/1.1\r\nHost: a\r\n":                                     "header_too_slow",
		post("X: "+strings.Repeat("x", 5000), "", ""):                       "header_too_large",
		"GET /\r\n\r\n": "bad_request_line",
	} {
		h.say(request)
		if got, want := told(refused), (refusal{fault, "127.0.0.1"}); got != want || !slices.Contains(Faults(), fault) {
			t.Errorf("%q: told of %v, want %v", request, got, want)
		}
	}
	h.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if len(refused) > 0 {
		t.Errorf("more was told: %v", <-refused)
	}
}

// A fault in a pipelined request neither harms the one before nor overtakes its answer.
func TestRequestsBeforeAFaultAreAnswered(t *testing.T) {
	release := make(chan bool)
	h := build(t, plan{upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-release
		echo(w, r)
	})})
	c := h.dial()
	io.WriteString(c, "GET /good HTTP/1.1\r\nHost: a\r\n\r\nGET /bad HTTP/1.1\nHost: a\r\n\r\n"+strings.Repeat("x", 5000))
	h.eventually("the first request", func() bool { return h.InFlight() == 1 })
	close(release)
	r := bufio.NewReader(c)
	if answer, body, _ := h.hear(r); answer.StatusCode != 200 || !strings.HasPrefix(body, "GET /good") {
		t.Errorf("first: %d %s", answer.StatusCode, body)
	}
	if answer, _, ended := h.hear(r); answer.StatusCode != 400 || !ended {
		t.Errorf("second: %d, ended %v", answer.StatusCode, ended)
	}
	h.recorded(1)
}

// Where the header has passed already, the handler's answer is 400, not 502, and the upstream's body
// has no end.
func TestFaultInABodyIsTheClients(t *testing.T) {
	complete := make(chan error, 1)
	h := build(t, plan{upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		complete <- err
	})})
	c := h.dial()
	io.WriteString(c, post("Transfer-Encoding: chunked", "", "3", "abc", ""))
	h.eventually("the request", func() bool { return h.InFlight() == 1 })
	io.WriteString(c, "3\ndef\r\n0\r\n\r\nGET /admin HTTP/1.1\r\nHost: a\r\n\r\n")
	answer, body, ended := h.hear(bufio.NewReader(c))
	if answer.StatusCode != 400 || !ended || !strings.Contains(body, "a chunk is malformed") {
		t.Errorf("%d %s, ended %v", answer.StatusCode, body, ended)
	}
	if err := <-complete; err == nil {
		t.Error("the upstream saw a complete body")
	}
	h.recorded(1)
}

func TestSlowHeaderIsAnswered408(t *testing.T) {
	h := build(t, plan{upstream: http.HandlerFunc(echo), options: Options{HeaderTimeout: headerTime}})
	for _, began := range []string{"GET / HTTP/1.1\r\nHost: a\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTT"} {
		c := h.dial()
		io.WriteString(c, began)
		r := bufio.NewReader(c)
		answer, _, ended := h.hear(r)
		if answer.StatusCode == 200 { // to the first of two
			answer, _, ended = h.hear(r)
		}
		if answer.StatusCode != 408 || !ended || answer.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%q: %d, ended %v", began, answer.StatusCode, ended)
		}
	}
	c := h.dial()
	if b, err := io.ReadAll(c); len(b) > 0 || err != nil {
		t.Errorf("a connection without a request: %q %v", b, err)
	}
}

func TestLargeHeaderIsAnswered431(t *testing.T) {
	h := build(t, plan{upstream: http.HandlerFunc(echo), options: Options{MaxHeader: 4096}})
	head := "GET / HTTP/1.1\r\nHost: a\r\nX: "
	fits := head + strings.Repeat("x", 4096-len(head)-4) + "\r\n\r\n"
	if answer, _, _ := h.say(fits); answer.StatusCode != 200 {
		t.Errorf("%d bytes: %d", len(fits), answer.StatusCode)
	}
	answer, _, ended := h.say(strings.Replace(fits, "X: ", "X: x", 1))
	if answer.StatusCode != 431 || !ended || answer.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("one more: %d, ended %v", answer.StatusCode, ended)
	}
}

// The upstream gets the request target as it was sent (PRX-23, MAT-03, MAT-12).
func TestTargetArrivesByteForByte(t *testing.T) {
	h := build(t, plan{upstream: http.HandlerFunc(echo)})
	targets := []string{
		"/", "//", "//evil/x", "/a//b/", "/a/../b", "/a/./b/.", "/%2e%2e/a", "/a%2Fb%2fc", "/a;p=1/b;q", "/a%3Bx", "/login%3Fx=1",
		"/a%20b", "/caf%C3%A9", "/caf\xc3\xa9", "/%", "/a%zz", `/"<>^|{}` + "`", "/a[1]", "/a:b@c!$&'()*+,=~",
		"/q?", "/q?a=1;b=2", "/q?a=%zz&b=1", "/q?a;b=c", "/q?=x", "/q?a=1&a=2", "/q?a?b", `/q?"<>`, "/q?a=\xc3\xa9", "/q?x=//",
		"/q?" + strings.Repeat("a=1&", 3000), "/q?x=%00%0d%0a",
	}
	for _, target := range targets {
		answer, body, _ := h.say("GET " + target + " HTTP/1.1\r\nHost: a\r\n\r\n")
		got, _, _ := strings.Cut(body, "\n")
		if answer.StatusCode == 400 && strings.Contains(target, "%zz") || target == "/%" && answer.StatusCode == 400 {
			continue // net/http cannot read a broken escape in a path
		}
		if answer.StatusCode != 200 || got != "GET "+target {
			t.Errorf("%q: %d, arrived as %q", target, answer.StatusCode, got)
		}
	}
}

func TestTargetsBeforeABasePath(t *testing.T) {
	s := serve(t, http.HandlerFunc(echo))
	h := build(t, plan{upstreams: UpstreamOptions{Default: s.URL + "/base%20x/"}})
	for _, target := range []string{"/", "/a%2Fb", "//x", "/a?b;c"} {
		_, body, _ := h.say("GET " + target + " HTTP/1.1\r\nHost: a\r\n\r\n")
		if got, _, _ := strings.Cut(body, "\n"); got != "GET /base%20x"+target {
			t.Errorf("%q: arrived as %q", target, got)
		}
	}
}

func TestInvalidTargetsAreRefused(t *testing.T) {
	h := build(t, plan{upstream: http.HandlerFunc(echo)})
	for _, target := range []string{"/a#b", "/a?b#c", "/a%00b", "/a b", "/\x01", "a", "/a%00\xff"} {
		if answer, _, _ := h.say("GET " + target + " HTTP/1.1\r\nHost: a\r\n\r\n"); answer.StatusCode != 400 {
			t.Errorf("%q: %d", target, answer.StatusCode)
		}
	}
}

// What HTTP/2 can carry and a request line cannot does not split the request line.
func TestBlankInAnHTTP2TargetIsEncoded(t *testing.T) {
	h := build(t, plan{upstream: http.HandlerFunc(echo)})
	r, _ := http.NewRequest("GET", h.url("/"), nil)
	r.URL.Opaque = "/a HTTP/1.1?b c"
	answer, err := h.client("h2c").Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	if got, _, _ := strings.Cut(string(body), "\n"); answer.StatusCode != 400 && got != "GET /a%20HTTP/1.1?b%20c" {
		t.Errorf("%d, arrived as %q", answer.StatusCode, got)
	}
}

// An absolute form's authority wins over Host; OPTIONS * is decided and passed on (MAT-10).
func TestOtherFormsOfTarget(t *testing.T) {
	h := build(t, plan{upstream: http.HandlerFunc(echo)})
	tests := []struct{ request, line, host string }{
		{"GET http://b.test/api?x HTTP/1.1\r\nHost: other\r\n\r\n", "GET /api?x", "b.test"},
		{"GET http://b.test HTTP/1.1\r\nHost: other\r\n\r\n", "GET /", "b.test"},
		{"GET http://b.test//c HTTP/1.1\r\nHost: other\r\n\r\n", "GET //c", "b.test"},
		{"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS *", "a"},
		{"GET / HTTP/1.1\r\nHost: API.Example.com.:8080\r\n\r\n", "GET /", "API.Example.com.:8080"},
	}
	for _, x := range tests {
		_, body, _ := h.say(x.request)
		l := strings.SplitN(body, "\n", 3)
		if l[0] != x.line || l[1] != "Host: "+x.host {
			t.Errorf("%q: arrived as %q", x.request, l[:2])
		}
	}
	h.recorded(len(tests))
}

func TestConnectIsNotServed(t *testing.T) {
	h := build(t, plan{upstream: http.HandlerFunc(echo)})
	if answer, _, _ := h.say("CONNECT b.test:443 HTTP/1.1\r\nHost: b.test:443\r\n\r\n"); answer.StatusCode != 501 {
		t.Error(answer.StatusCode)
	}
	h.recorded(1)
}

// Whatever path is asked for, the request line to the upstream has two spaces; and what can stand in it
// stands in it as it was sent.
func FuzzAim(f *testing.F) {
	for _, path := range []string{"/", "//x", "/a b", "/a%2Fb", "/\xff", "*", "/a\"^", "//a^ b", "/;=%zz"} {
		f.Add(path, "a=1;b")
	}
	up := &upstream{service: service{url: &url.URL{Host: "u"}, scheme: "http"}}
	f.Fuzz(func(t *testing.T, path, query string) {
		sent, err := url.ParseRequestURI(path)
		if err != nil || strings.ContainsAny(path, "?#") || path[0] != '/' || strings.ContainsFunc(query, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			return // net/http or the middleware refuses it
		}
		var u url.URL
		up.aim(&u, sent, &weir.Decision{Request: weir.Request{Path: path, Query: query}})
		got := u.RequestURI()
		if strings.ContainsFunc(got, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
			t.Errorf("%q: %q has a byte that ends a request line's part", path, got)
		}
		if gotPath, _, _ := strings.Cut(got, "?"); plain(path) && !strings.HasPrefix(path, "//") && gotPath != path {
			t.Errorf("%q arrives as %q", path, gotPath)
		}
		if u.Host != "u" {
			t.Errorf("%q goes to %s", path, u.Host)
		}
	})
}
