package forwardauth

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
)

const once = "default: {limits: [{rate: 1/1m}]}\n" + behind

// paths are those of all dialects, those whose proxies relay any answer first.
var paths = []string{"/auth/caddy", "/auth/traefik", "/auth/nginx"}

// A pass is exactly 200, empty, and tells what is left.
func TestPass(t *testing.T) {
	for _, path := range paths {
		w := build(t, once).ask(path, asks[path]("/a?b"))
		if w.Code != http.StatusOK || w.Body.Len() > 0 || w.Header().Get("RateLimit") != `"default";r=0;t=60` ||
			w.Header().Get("RateLimit-Policy") != `"default";q=1;w=60` {
			t.Errorf("%s: HTTP status %d, %v, %q", path, w.Code, w.Header(), w.Body)
		}
	}
}

// refusal asks until the second ask, by another request, is refused.
func refusal(t *testing.T, h *house, path string, header http.Header) *httptest.ResponseRecorder {
	t.Helper()
	h.ask(path, asks[path]("/a"))
	w := h.ask(path, with(header, "X-Weir-Request-Id", strings.Repeat("f", 32)))
	if w.Code == http.StatusOK {
		t.Errorf("%s: the second request passes", path)
	}
	return w
}

// Caddy and Traefik hand on the whole answer, so it is the one that the client shall have, and nothing else.
func TestRefusalIsWhole(t *testing.T) {
	for _, path := range paths[:2] {
		w := refusal(t, build(t, once), path, caddyAsks("/a"))
		want := http.Header{
			"Access-Control-Expose-Headers": {"Retry-After, RateLimit, RateLimit-Policy"}, "Cache-Control": {"no-store"},
			"Content-Type": {"application/problem+json"}, "Ratelimit": {`"default";r=0;t=60`}, "Ratelimit-Policy": {`"default";q=1;w=60`}, "Retry-After": {"60"},
		}
		if diff := cmp.Diff(want, w.Header()); diff != "" || w.Code != http.StatusTooManyRequests {
			t.Errorf("%s: HTTP status %d, header (-want +got):\n%s", path, w.Code, diff)
		}
		problemOf(t, w.Body.String(), 429)
	}
}

// problemOf checks that text is a problem document about an HTTP status.
func problemOf(t *testing.T, text string, status int) {
	t.Helper()
	var doc struct {
		Type, Title, Detail string
		Status              int
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil || doc.Status != status || doc.Type == "" || doc.Title == "" || doc.Detail == "" {
		t.Errorf("%q is no problem document about %d: %v", text, status, err)
	}
}

// nginx is told in fields what the client shall have.
func TestRefusalIsSpelledForNginx(t *testing.T) {
	w := refusal(t, build(t, once), "/auth/nginx", nginxAsks("/a"))
	got := map[string]string{}
	for _, name := range []string{"Status", "Retry-After", "RateLimit", "RateLimit-Policy"} {
		got[name] = w.Header().Get("X-Weir-" + name)
	}
	want := map[string]string{"Status": "429", "Retry-After": "60", "RateLimit": `"default";r=0;t=60`, "RateLimit-Policy": `"default";q=1;w=60`}
	if diff := cmp.Diff(want, got); diff != "" || w.Code != http.StatusForbidden {
		t.Errorf("HTTP status %d (-want +got):\n%s", w.Code, diff)
	}
	problemOf(t, w.Header().Get("X-Weir-Problem"), 429)
	for _, name := range []string{"X-Weir-RateLimit", "X-Weir-RateLimit-Policy"} {
		if _, err := httpsfv.UnmarshalList(w.Header()[http.CanonicalHeaderKey(name)]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	w = build(t, once).ask("/auth/nginx", nginxAsks("/a"))
	if h := w.Header(); h.Get("X-Weir-Status") != "200" || h.Get("X-Weir-RateLimit") == "" || h.Get("X-Weir-Problem") != "" || h.Get("X-Weir-Retry-After") != "" {
		t.Errorf("a pass says %v", h)
	}
}

// nginx takes an answer with a longer header for a fault of Weir's, and may pass what was refused.
func TestSpelledAnswersAreShort(t *testing.T) {
	var limits []string
	for i := range 60 {
		limits = append(limits, fmt.Sprintf(`{name: "%s-%d", rate: 1/1m}`, strings.Repeat("long", 20), i))
	}
	for _, action := range []string{"reject", "tag"} {
		h := build(t, "rules: [{name: r, path: /a, action: "+action+", limits: ["+strings.Join(limits, ",")+"]}]\n"+behind)
		for n := range 2 {
			w := h.ask("/auth/nginx", with(nginxAsks("/a"), "X-Weir-Request-Id", fmt.Sprintf("%032x", n)))
			size := 0
			for name, lines := range w.Header() {
				size += len(name) + len(lines[0]) + len(": \r\n")
			}
			if size > 3<<10 || w.Header().Get("X-Weir-Status") == "" || action == "tag" && n == 1 && !strings.HasPrefix(w.Header().Get("X-Weir-Tag"), "longlong") {
				t.Errorf("%s: %d bytes of header: %v", action, size, w.Header())
			}
		}
	}
}

// Whatever a client says that it speaks, a refusal is no 200: gRPC's form of one is, and would pass.
func TestRefusalsAreNeverPasses(t *testing.T) {
	for _, contentType := range []string{"application/grpc", "application/grpc-web+proto", "application/grpc-web-text", "text/html"} {
		for path, status := range map[string]int{"/auth/nginx": 403, "/auth/caddy": 429, "/auth/traefik": 429} {
			h := build(t, "html: true\n"+once)
			header := with(with(asks[path]("/a"), "Content-Type", contentType), "Accept", "text/html")
			w := refusal(t, h, path, header)
			if w.Code != status {
				t.Errorf("%s: %s: HTTP status %d, want %d", path, contentType, w.Code, status)
			}
			if html := strings.HasPrefix(w.Header().Get("Content-Type"), "text/html"); html != (path != "/auth/nginx") {
				t.Errorf("%s: a page: %v", path, html)
			}
			// An ask that is not understood is refused in the same way.
			if w = h.ask(path, with(header, dialectAt(path).target)); w.Code != 403 && w.Code != 400 {
				t.Errorf("%s: %s: HTTP status %d without a target", path, contentType, w.Code)
			}
		}
	}
}

// Every refusal has its own status in the dialects that can say it, and in X-Weir-Status.
func TestStatuses(t *testing.T) {
	for name, c := range map[string]struct {
		yaml   string
		target string
		status int
		reason weir.Reason
	}{
		"bad path":       {"", "/a%00b", 400, weir.BadRequest},
		"number sign":    {"", "/a#b", 400, weir.BadRequest},
		"ambiguous path": {"matching: {ambiguous_paths: reject}\n", "/a/../b", 400, weir.AmbiguousPath},
		"over limit":     {"default: {limits: [{rate: 0/1m}]}\n", "/a", 429, weir.OverLimit},
		"drop":           {"rules: [{name: r, path: /a, action: drop, limits: [{rate: 0/1m}]}]\n", "/a", 429, weir.OverLimit},
		"tarpit":         {"rules: [{name: r, path: /a, action: tarpit, tarpit: {delay: 5m}, limits: [{rate: 0/1m}]}]\n", "/a", 429, weir.OverLimit},
	} {
		for _, path := range paths {
			h := build(t, c.yaml+behind)
			w := h.ask(path, asks[path](c.target))
			if path == "/auth/nginx" && (w.Code != http.StatusForbidden || w.Header().Get("X-Weir-Status") != strconv.Itoa(c.status)) ||
				path != "/auth/nginx" && w.Code != c.status {
				t.Errorf("%s: %s: HTTP status %d, X-Weir-Status %s, want %d", path, name, w.Code, w.Header().Get("X-Weir-Status"), c.status)
			}
			e := h.journal.Recent(2)
			if len(e) != 1 || e[0].Front != "forward_auth" || e[0].Action != "reject" || e[0].Reason != string(c.reason) || e[0].Status != c.status {
				t.Errorf("%s: %s: recorded %+v", path, name, e)
			}
		}
	}
}

// The service is told of tags and shadows by fields that the proxy copies.
func TestTheServiceIsTold(t *testing.T) {
	for _, path := range paths {
		h := build(t, "rules: [{name: r, path: /a, action: tag, tag_header: X-Slow, limits: [{name: few, rate: 0/1m}, {name: trial, rate: 0/1m, mode: shadow}]}]\n"+behind)
		w := h.ask(path, asks[path]("/a"))
		got := []any{w.Code, w.Header().Get("X-Slow"), w.Header().Get("X-Weir-Shadow")}
		if diff := cmp.Diff([]any{200, "few", "trial"}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

// Limits by the service's answer are looked at, since other fronts may have filled them; the 200 to the
// proxy is not that answer, and charges nothing.
func TestNoAnswerIsCharged(t *testing.T) {
	h := build(t, "rules: [{name: r, path: /a, count: {only_statuses: [200, 401]}, limits: [{rate: 1/1m}]}]\n"+behind)
	for i := range 3 {
		if w := h.ask("/auth/caddy", caddyAsks("/a")); w.Code != 200 {
			t.Fatalf("ask %d: HTTP status %d", i, w.Code)
		}
	}
	s := h.engine.Current()
	d := h.engine.Decide(context.Background(), s, weir.Request{Front: "proxy", Peer: proxyAddr, Method: "GET", Path: "/a", Header: http.Header{"X-Forwarded-For": {"203.0.113.7"}}})
	h.engine.Record(s, d, weir.Outcome{HTTP: http.StatusUnauthorized})
	if w := h.ask("/auth/caddy", caddyAsks("/a")); w.Code != http.StatusTooManyRequests {
		t.Errorf("a limit that another front filled: HTTP status %d", w.Code)
	}
}

// Limits count by what the client sent, its headers too, and one client is one in every dialect.
func TestOneCountInAllDialects(t *testing.T) {
	h := build(t, "limits: [{name: site, rate: 4/1m, per: ip}]\ndefault: {limits: [{name: tenant, rate: 2/1m, per: \"header:X-Tenant\"}]}\n"+behind)
	var got []int
	for i, path := range []string{"/auth/caddy", "/auth/traefik", "/auth/caddy", "/auth/nginx", "/auth/traefik", "/auth/caddy"} {
		tenant := []string{"a", "a", "a", "b", "b", "c"}[i]
		got = append(got, h.ask(path, with(asks[path]("/"), "X-Tenant", tenant)).Code)
	}
	if diff := cmp.Diff([]int{200, 200, 429, 200, 200, 429}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// An unanswered ask is one that has no verdict.
type unanswered struct {
	yaml, peer, path string
	header           http.Header
	status           int    // that the client shall have
	fault            string // that Refused is told of
	mend             string // a part of what is logged
}

// A stranger gets no verdict, nor does who asks at no dialect's path, or what cannot be read; nothing is
// counted, and the log says what mends it, once a minute.
func TestNoVerdict(t *testing.T) {
	here, there := "127.0.0.1:4242", "203.0.113.5:4242"
	for name, c := range map[string]unanswered{
		"no client section": {"", here, "/auth/caddy", caddyAsks("/a"), 403, "ask_untrusted_peer 127.0.0.1", "client:"},
		"a stranger":        {behind, there, "/auth/traefik", caddyAsks("/a"), 403, "ask_untrusted_peer 203.0.113.5", "client:"},
		"a stranger, nginx": {behind, there, "/auth/nginx", nginxAsks("/a"), 403, "ask_untrusted_peer 203.0.113.5", "client:"},
		"another socket":    {"client: {path: [{name: nginx, cidrs: [127.0.0.1]}]}\n", "@", "/auth/caddy", caddyAsks("/a"), 403, "ask_untrusted_peer invalid IP", "client:"},
		"no such path":      {behind, here, "/auth/other", caddyAsks("/a"), 404, "ask_unknown_path 127.0.0.1", "/auth/nginx"},
		"another dialect":   {behind, here, "/auth/nginx", caddyAsks("/a"), 400, "ask_missing_field 127.0.0.1", "deploy/forward-auth-nginx.conf"},
		"twice":             {behind, here, "/auth/caddy", with(caddyAsks("/a"), "X-Forwarded-Uri", "/a", "/b"), 400, "ask_repeated_field 127.0.0.1", "overwrite"},
		"absolute":          {behind, here, "/auth/caddy", caddyAsks("http://x/"), 400, "ask_bad_field 127.0.0.1", "absolute"},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, c.check) })
	}
}

func (c *unanswered) check(t *testing.T) {
	h := build(t, c.yaml)
	asking := func() *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, c.path, nil)
		r.RemoteAddr, r.Header = c.peer, c.header.Clone()
		return h.send(r)
	}
	w := asking()
	status := w.Code
	if c.path == "/auth/nginx" && status == http.StatusForbidden {
		status, _ = strconv.Atoi(w.Header().Get("X-Weir-Status"))
	}
	if status != c.status || w.Header().Get("Content-Type") != "application/problem+json" || strings.Contains(w.Body.String(), "203.0.113.5") {
		t.Errorf("HTTP status %d, %s: %s", status, w.Header().Get("Content-Type"), w.Body)
	}
	if got := <-h.faults; got != c.fault || !slices.Contains(Faults(), strings.Fields(got)[0]) {
		t.Errorf("told of %s, want %s", got, c.fault)
	}
	if n, _ := h.asked(); n != 0 {
		t.Errorf("%d requests are recorded", n)
	}
	for range 5 {
		asking()
	}
	time.Sleep(time.Minute)
	asking()
	lines := h.log.lines(t)
	if len(lines) != 2 || !strings.Contains(lines[0]["mend"].(string), c.mend) || lines[0]["asks"] != 1.0 || lines[1]["asks"] != 6.0 {
		t.Errorf("logged %v", lines)
	}
	if text := fmt.Sprint(lines); strings.Contains(text, "203.0.113.5") {
		t.Errorf("the log has a stranger's address: %s", text)
	}
}

// nginx without the line that names the request is told to add it: else index and error pages count twice.
func TestMissingIDIsNoticed(t *testing.T) {
	h := build(t, behind)
	for _, id := range []string{"", "short", strings.Repeat("a", 32)} {
		if w := h.ask("/auth/nginx", with(nginxAsks("/a"), "X-Weir-Request-Id", id)); w.Code != http.StatusOK {
			t.Errorf("%q: HTTP status %d", id, w.Code)
		}
	}
	lines := h.log.lines(t)
	if len(lines) != 1 || !strings.Contains(lines[0]["mend"].(string), "X-Weir-Request-Id $request_id") || len(h.faults) != 0 {
		t.Errorf("logged %v, %d faults", lines, len(h.faults))
	}
}

// Where Weir is turned off everything passes, whoever asks and however.
func TestDisabled(t *testing.T) {
	h := build(t, "enabled: false\n")
	for _, path := range append(paths, "/other") {
		if w := h.ask(path, http.Header{}); w.Code != http.StatusOK || w.Header().Get("RateLimit") != "" {
			t.Errorf("%s: HTTP status %d, %v", path, w.Code, w.Header())
		}
	}
}

// No query is an option of Weir's.
func TestQueriesAreNotRead(t *testing.T) {
	h := build(t, "default: {limits: [{rate: 0/1m}]}\n"+behind)
	for _, query := range []string{"?status=200", "?map=200&rule=open", "?", "?/auth/caddy", "?X-Forwarded-Uri=/open"} {
		if w := h.ask("/auth/caddy"+query, caddyAsks("/a")); w.Code != http.StatusTooManyRequests {
			t.Errorf("%s: HTTP status %d, want 429", query, w.Code)
		}
	}
}

// nginx's name for a request makes it one for 5 seconds; in the other dialects such a name is the client's,
// and makes nothing free.
func TestTheNameOfARequest(t *testing.T) {
	for path, want := range map[string][]string{
		"/auth/nginx":   {"r=4", "r=4", "r=4", "r=3"},
		"/auth/caddy":   {"r=4", "r=3", "r=2", "r=1"},
		"/auth/traefik": {"r=4", "r=3", "r=2", "r=1"},
	} {
		h := build(t, "default: {limits: [{rate: 5/1h, algorithm: sliding_log}]}\n"+behind)
		var got []string
		for _, at := range []time.Duration{0, time.Second, 5*time.Second - 1, 5 * time.Second} {
			h.at(at)
			w := h.ask(path, with(asks[path]("/a"), "X-Weir-Request-Id", strings.Repeat("a", 32)))
			got = append(got, strings.Split(w.Header().Get("RateLimit"), ";")[1])
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

// Public cases MAT-01, MAT-03, MAT-05 and CNT-65: however a path is spelled, its rule is not escaped, and what
// is exempt is so by its plain path and for the client that the proxy names.
func TestSpellings(t *testing.T) {
	yaml := few + "  - {name: health, path: =/health, exempt: true}\nexempt_addresses: [127.0.0.1]\n" + behind
	for _, path := range paths {
		h := build(t, yaml)
		for _, target := range []string{
			"/shut", "/shut/", "//shut", "/shut//x", "/./shut", "/x/../shut", "/%73hut", "/shut;a=b", "/;x/shut", "/x/%2e%2e/shut", "/shut?a", "/%2e;/shut",
		} {
			if w := h.ask(path, asks[path](target)); w.Code == http.StatusOK {
				t.Errorf("%s: %s passes", path, target)
			}
		}
		var got []int
		for n, target := range []string{"/health", "/health", "/health", "/health", "/health/../a", "/open/../a", "/health%2f..%2fa", "/health/%2e%2e/a"} {
			header := with(asks[path](target), "X-Weir-Request-Id", fmt.Sprintf("%032x", n))
			got = append(got, h.ask(path, with(header, "X-Forwarded-For", "127.0.0.1, 203.0.113.7")).Code)
		}
		want := []int{200, 200, 200, 200, 200, 200, 200, 429}
		if path == "/auth/nginx" {
			want[7] = 403
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

// Public case HDR-01: a wait of less than a second is told as one.
func TestRetryAfterIsWhole(t *testing.T) {
	for _, path := range paths {
		w := refusal(t, build(t, "default: {limits: [{rate: 10/1s, burst: 1, algorithm: token_bucket}]}\n"+behind), path, asks[path]("/a"))
		for _, name := range []string{"Retry-After", "X-Weir-Retry-After"} {
			if got := w.Header().Get(name); got != "1" && (got != "" || path == "/auth/nginx") {
				t.Errorf("%s: %s: %q", path, name, got)
			}
		}
	}
}
