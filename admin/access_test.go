package admin_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weirgate/weir/admin"
)

func withTokens(o *admin.Options) { o.AdminToken, o.ReadToken, o.Local = "all", "look", admin.Anywhere }

// Whoever may not, gets nothing; GET is for both tokens, a change for one.
func TestTokens(t *testing.T) {
	h := build(t, withTokens)
	const reset = "/api/v1/clients/203.0.113.7%2F32"
	for _, tc := range []struct {
		method, path, bearer string
		want                 int
	}{
		{"GET", "/api/v1/top", "", 401},
		{"GET", "/api/v1/top", "Bearer ", 401},
		{"GET", "/api/v1/top", "Bearer al", 401},
		{"GET", "/api/v1/top", "Bearer alll", 401},
		{"GET", "/api/v1/top", "Basic all", 401},
		{"GET", "/api/v1/top", "all", 401},
		{"GET", "/api/v1/nothing", "", 401},
		{"GET", "/api/v1/openapi.json", "", 401},
		{"GET", "/api/v1/top", "Bearer look", 200},
		{"GET", "/api/v1/top", "bearer all", 200}, // RFC 9110 section 11.1
		{"GET", "/api/v1/nothing", "Bearer look", 404},
		{"DELETE", reset, "Bearer look", 403},
		{"POST", "/api/v1/reload", "Bearer look", 403},
		{"POST", "/api/v1/verify", "Bearer look", 403},
		{"POST", "/api/v1/reload", "", 401},
		{"DELETE", reset, "Bearer all", 200},
		{"POST", "/api/v1/top", "Bearer all", 405},
		{"HEAD", "/api/v1/top", "Bearer look", 200},
	} {
		w := h.do(ask{method: tc.method, path: tc.path, header: map[string]string{"Authorization": tc.bearer}})
		if w.Code != tc.want {
			t.Errorf("%s %s as %q: HTTP status %d, want %d", tc.method, tc.path, tc.bearer, w.Code, tc.want)
		}
		if w.Code == 401 && w.Header().Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s %s: 401 without WWW-Authenticate", tc.method, tc.path)
		}
	}
	body := `{"url": "http://example.com/"}`
	if w := h.do(ask{method: "POST", path: "/api/v1/explain", body: body, header: map[string]string{"Authorization": "Bearer look"}}); w.Code != 200 {
		t.Errorf("explain, which changes nothing, by the read token: HTTP status %d: %s", w.Code, w.Body)
	}
}

// Without a token, only this machine is let in, and only by a name that is surely its own: a page whose
// name was bound to 127.0.0.1 asks under that name.
func TestDNSRebinding(t *testing.T) {
	for host, want := range map[string]int{
		"127.0.0.1:9090": 200, "localhost:9090": 200, "LOCALHOST": 200, "localhost.:9090": 200, "weir.localhost": 200, "[::1]:9090": 200, "127.9.9.9": 200,
		"evil.example": 403, "evil.example:9090": 403, "localhost.evil.example": 403, "10.0.0.1:9090": 403, "127.0.0.1.evil.example": 403, "": 200,
		"notlocalhost": 403, "[::ffff:127.0.0.1]:9090": 200, "0.0.0.0:9090": 403,
	} {
		if w := build(t, nil).do(ask{path: "/api/v1/top", host: host}); w.Code != want {
			t.Errorf("Host %q: HTTP status %d, want %d", host, w.Code, want)
		}
	}
	if w := build(t, func(o *admin.Options) { o.Local = admin.Socket }).do(ask{path: "/api/v1/top", host: "anything"}); w.Code != 200 {
		t.Errorf("at a unix socket: HTTP status %d", w.Code)
	}
	if w := build(t, func(o *admin.Options) { o.Local = admin.Anywhere }).do(ask{path: "/api/v1/top"}); w.Code != 403 {
		t.Errorf("without a token, off loopback: HTTP status %d, want 403", w.Code)
	}
}

// What a page of another site makes a browser send is refused, whatever it is and whatever it bears.
func TestCrossSite(t *testing.T) {
	for _, tc := range []struct {
		header map[string]string
		want   int
	}{
		{map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": "http://127.0.0.1:9090"}, 200},
		{map[string]string{"Sec-Fetch-Site": "none"}, 200},
		{map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		{map[string]string{"Sec-Fetch-Site": "same-site"}, 403},
		{map[string]string{"Origin": "http://127.0.0.1:9090"}, 200},
		{map[string]string{"Origin": "http://127.0.0.1:9091"}, 403},
		{map[string]string{"Origin": "http://evil.example"}, 403},
		{map[string]string{"Origin": "null"}, 403},
		{nil, 200},
	} {
		for _, method := range []string{"GET", "POST"} {
			path := map[string]string{"GET": "/api/v1/top", "POST": "/api/v1/reload"}[method]
			if w := build(t, nil).do(ask{method: method, path: path, header: tc.header}); w.Code != tc.want {
				t.Errorf("%s with %v: HTTP status %d, want %d", method, tc.header, w.Code, tc.want)
			}
		}
	}
	form := ask{method: "POST", path: "/api/v1/reload", body: "reason=x", header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}}
	if w := build(t, nil).do(form); w.Code != 415 {
		t.Errorf("a form: HTTP status %d, want 415", w.Code)
	}
}

// The same guard stands before what is served beside the API.
func TestProtect(t *testing.T) {
	inner := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("metrics")) })
	guarded := build(t, withTokens).Protect(inner)
	for bearer, want := range map[string]int{"": 401, "Bearer look": 200, "Bearer all": 200} {
		r := httptest.NewRequest("GET", "/metrics", nil)
		r.Header.Set("Authorization", bearer)
		w := httptest.NewRecorder()
		guarded.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("as %q: HTTP status %d, want %d", bearer, w.Code, want)
		}
	}
}

// A browser guesses nothing, frames nothing, keeps nothing.
func TestSecurityHeaders(t *testing.T) {
	h := build(t, func(o *admin.Options) { o.Page = http.NotFoundHandler() })
	for _, path := range []string{"/api/v1/top", "/api/v1/openapi.json", "/api/nothing", "/"} {
		got := h.do(ask{path: path}).Header()
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Resource-Policy": "same-origin", "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
		} {
			if got.Get(name) != want {
				t.Errorf("%s: %s: %q, want %q", path, name, got.Get(name), want)
			}
		}
		if got.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s lets pages of other origins read", path)
		}
	}
	if got := h.do(ask{path: "/api/v1/top"}).Header().Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control: %q", got)
	}
}

// Bodies and queries are bounded, and strict.
func TestWhatIsSentIsBounded(t *testing.T) {
	h := build(t, nil)
	explain := func(body string) ask { return ask{method: "POST", path: "/api/v1/explain", body: body} }
	for _, tc := range []struct {
		name string
		ask  ask
		want int
	}{
		{"a body that is too large", explain(`{"url": "http://` + strings.Repeat("a", 64<<10) + `/"}`), 413},
		{"no JSON", explain("url"), 400},
		{"two values", explain(`{"url": "http://a/"} {}`), 400},
		{"an unknown field", explain(`{"url": "http://a/", "uri": 1}`), 400},
		{"no URL", explain(`{}`), 400},
		{"no URL of HTTP", explain(`{"url": "ftp://a/"}`), 400},
		{"no address", explain(`{"url": "http://a/", "remote": "nobody"}`), 400},
		{"no method", explain(`{"url": "http://a/", "method": "G T"}`), 400},
		{"no header", explain(`{"url": "http://a/", "headers": [{"name": "a b", "value": ""}]}`), 400},
		{"too many headers", explain(`{"url": "http://a/", "headers": [` + strings.Repeat(`{"name":"a","value":""},`, 100) + `{"name":"a","value":""}]}`), 400},
		{"an unknown parameter", ask{path: "/api/v1/top?windw=1m"}, 400},
		{"a parameter twice", ask{path: "/api/v1/top?limit=1&limit=2"}, 400},
		{"an unknown word", ask{path: "/api/v1/top?window=2m"}, 400},
		{"too many", ask{path: "/api/v1/top?limit=101"}, 400},
		{"none", ask{path: "/api/v1/top?limit=0"}, 400},
		{"no number", ask{path: "/api/v1/top?limit=many"}, 400},
		{"a text that is too long", ask{path: "/api/v1/decisions?client=" + strings.Repeat("a", 201)}, 400},
		{"no client", ask{path: "/api/v1/clients/203.0.113.7"}, 400},
		{"a path below", ask{path: "/api/v1/top/203.0.113.7"}, 404},
		{"a nonce that nobody gave out", ask{path: "/api/v1/verify/abc"}, 404},
		{"bans", ask{path: "/api/v1/bans"}, 501},
		{"blocked", ask{path: "/api/v1/blocked"}, 501},
	} {
		w := h.do(tc.ask)
		p := decode[admin.Problem](t, w, tc.want)
		if w.Header().Get("Content-Type") != "application/problem+json" || p.Status != tc.want || p.Code == "" || p.Detail == "" || len(p.Detail) > 500 {
			t.Errorf("%s: %+v", tc.name, p)
		}
	}
}
