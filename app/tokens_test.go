package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/tokentest"
	"github.com/weirgate/weir/respond"
)

// bearing asks for a path with a token and returns the HTTP status; the answer is closed.
func (h *house) bearing(token, path string) *http.Response {
	h.t.Helper()
	req, err := http.NewRequest("GET", "http://"+h.fronts[0].listener.Addr().String()+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	res.Body.Close()
	return res
}

// until asks until the answer has that HTTP status.
func (h *house) until(status int, token, path string) {
	h.t.Helper()
	var got int
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if got = h.bearing(token, path).StatusCode; got == status {
			return
		}
	}
	h.t.Fatalf("HTTP status %d for half a minute, want %d", got, status)
}

// lasting are claims that are good for an hour.
func lasting(sub, plan string) map[string]any {
	return map[string]any{"sub": sub, "iss": "id", "aud": "weir", "plan": plan, "exp": time.Now().Add(time.Hour).Unix()}
}

const byToken = basics + `
jwt: {jwks_file: "${KEYS}", issuer: id, audience: weir, plan_claim: plan}
rules: [{name: api, path: /api, require_key: true, limits: []}]
plans: {free: {quota: [3/day]}}
self_service: true
`

// Tokens are proved on the whole road; a reload keeps what is known of keys, tokens and counts, a key that is taken
// out of the file is good no longer, and one that comes in is.
func TestTokensAcrossReloads(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys.json")
	first, second := tokentest.New(t, "first"), tokentest.New(t, "second")
	tokentest.Write(t, keys, first)
	h := build(t, plan{yaml: byToken, env: []string{"KEYS=" + keys}})
	ann, bob := first.Token(lasting("ann", "free")), second.Token(lasting("bob", "free"))
	h.until(200, ann, "/api") // once the file is read
	for _, c := range []struct {
		token  string
		status int
	}{{"", 401}, {"x.y.z", 401}, {bob, 401}, {first.Token(lasting("eve", "gold")), 401}, {ann, 200}} {
		if res := h.bearing(c.token, "/api"); res.StatusCode != c.status || (res.StatusCode == 401) != (res.Header.Get("WWW-Authenticate") != "") {
			t.Errorf("%.20s: HTTP status %d, %v, want %d", c.token, res.StatusCode, res.Header, c.status)
		}
	}
	if n := len(h.logs.lines("its plan is not in the configuration")); n != 1 {
		t.Errorf("%d lines about a plan that is not there", n)
	}
	before := h.tokens
	write(t, h.file, byToken+"headers: both\n")
	if err := h.Reload(); err != nil {
		t.Fatal(err)
	}
	if h.tokens.verifier != before.verifier || h.tokens.keys != before.keys {
		t.Error("a reload forgot the tokens that were proved")
	}
	if h.bearing(ann, "/api").StatusCode != 200 || h.bearing(ann, "/api").StatusCode != 429 {
		t.Error("a reload refilled the quota, or used it")
	}
	write(t, h.file, strings.Replace(byToken, "3/day", "4/day", 1))
	if err := h.Reload(); err != nil {
		t.Fatal(err)
	}
	if h.bearing(ann, "/api").StatusCode != 200 || h.bearing(ann, "/api").StatusCode != 429 {
		t.Error("a new number did not keep what was used")
	}
	tokentest.Write(t, keys, second)
	h.until(200, bob, "/api")
	if got := h.bearing(ann, "/api").StatusCode; got != 401 {
		t.Errorf("a token by a key that was taken away: HTTP status %d", got)
	}
	write(t, h.file, strings.Replace(byToken, "issuer: id", "issuer: other", 1))
	if err := h.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := h.bearing(bob, "/api").StatusCode; got != 401 || h.tokens.keys != before.keys {
		t.Errorf("another issuer is asked for: HTTP status %d", got)
	}
}

// A server of keys that is away is no reason not to start: tokens are answered 503 until it comes, and whoever has
// none is not hurt.
func TestStartsWithoutTheServerOfKeys(t *testing.T) {
	i := tokentest.New(t, "k1")
	var up atomic.Bool
	ids := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !up.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.Write(tokentest.Set(t, i))
	}))
	defer ids.Close()
	h := build(t, plan{yaml: strings.Replace(byToken, "jwks_file: \"${KEYS}\"", "jwks_url: \""+ids.URL+"\"", 1)})
	ann := i.Token(lasting("ann", "free"))
	if res := h.bearing(ann, "/"); res.StatusCode != 503 || res.Header.Get("Retry-After") != "1" {
		t.Errorf("HTTP status %d, %v", res.StatusCode, res.Header)
	}
	if res := h.bearing("", "/"); res.StatusCode != 200 {
		t.Errorf("without a token: HTTP status %d", res.StatusCode)
	}
	up.Store(true)
	h.until(200, ann, "/")
	up.Store(false)
	if res := h.bearing(ann, "/"); res.StatusCode != 200 {
		t.Errorf("away again: HTTP status %d", res.StatusCode)
	}
	if n := len(h.logs.lines("key set not fetched")); n != 1 {
		t.Errorf("%d lines about the server of keys", n)
	}
}

// A client sees its own limits through the proxy, by its token.
func TestOwnLimitsByToken(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys.json")
	i := tokentest.New(t, "k1")
	tokentest.Write(t, keys, i)
	h := build(t, plan{yaml: byToken, env: []string{"KEYS=" + keys}})
	ann := i.Token(lasting("ann", "free"))
	h.until(200, ann, "/")
	req, err := http.NewRequest("GET", "http://"+h.fronts[0].listener.Addr().String()+"/.well-known/weir/limits", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "bearer "+ann)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var own respond.OwnLimits
	if err := json.NewDecoder(res.Body).Decode(&own); err != nil || own.Client.APIKey == nil || *own.Client.APIKey != "jwt:ann" || *own.Client.Plan != "free" {
		t.Fatalf("%+v, %v", own, err)
	}
	if l := own.Limits[0]; l.Name != "free/day" || l.Limit != 3 || l.Remaining != 2 {
		t.Errorf("%+v", l)
	}
}

// What check can know of tokens is told; what explain can prove is proved.
func TestTokensOffline(t *testing.T) {
	dir := t.TempDir()
	i := tokentest.New(t, "k1")
	tokentest.Write(t, filepath.Join(dir, "keys.json"), i)
	file := filepath.Join(dir, "weir.yaml")
	load := func(keys string) *Loaded {
		write(t, file, strings.NewReplacer("${LISTEN}", ":1", "${ADMIN}", "", "${UPSTREAM}", "http://127.0.0.1:2", "${KEYS}", filepath.Join(dir, keys)).Replace(byToken))
		return Load(Options{Config: file})
	}
	if l := load("none.json"); len(l.Problems) != 1 || !l.Problems[0].Warning || l.Problems[0].Field != "jwt.jwks_file" {
		t.Errorf("%v", l.Problems)
	}
	l := load("keys.json")
	if len(l.Problems) != 0 {
		t.Fatalf("%v", l.Problems)
	}
	for token, want := range map[string]string{"": "401 ", "x": "401 ", i.Token(lasting("ann", "free")): "200 jwt:ann"} {
		req := weir.Request{Front: "proxy", Peer: netip.MustParseAddr("203.0.113.7"), Method: "GET", Host: "a", Path: "/api", Header: http.Header{}}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		d, err := l.Explain(t.Context(), req, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(d.HTTP, " ", d.Client.APIKey); got != want {
			t.Errorf("%.10s: %s, want %s", token, got, want)
		}
	}
}
