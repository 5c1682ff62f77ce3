package admin_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/admin"
	"github.com/weirgate/weir/apikey"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/localdb"
)

// keyed returns a house with API keys in a database of their own, and what closes that.
func keyed(t *testing.T) (h *house, closeDB func() error) {
	t.Helper()
	db, err := localdb.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	store := apikey.NewStore(db.SQL(), func(context.Context) error { return db.Migrate("keys", apikey.Tables()) })
	keys, err := apikey.Open(t.Context(), store, apikey.Options{Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(keys.Close)
	h = build(t, func(o *admin.Options) {
		o.Keys, o.AdminToken, o.ReadToken = func() *apikey.Keys { return keys }, "top", "low"
	})
	h.config.Plans = map[string]config.Plan{"free": {}}
	return h, db.Close
}

// as asks with a token.
func (h *house) as(token, method, path, body string) (status int, text string) {
	w := h.do(ask{method: method, path: path, body: body, header: map[string]string{"Authorization": "Bearer " + token}})
	return w.Code, w.Body.String()
}

func TestKeys(t *testing.T) {
	h, closeDB := keyed(t)
	defer closeDB()
	status, text := h.as("top", "POST", "/api/v1/keys", `{"name": "shop", "owner": "ACME", "plan": "free", "scopes": ["read"], "expires": "2100-01-01T00:00:00Z", "reason": "contract 7"}`)
	var made admin.KeyWithSecret
	if err := json.Unmarshal([]byte(text), &made); err != nil || status != http.StatusCreated || !strings.HasPrefix(made.Secret, "weir_"+made.ID+"_") {
		t.Fatalf("%d %s", status, text)
	}
	if made.State != "live" || made.Plan != "free" || made.Expires == nil || made.Revoked != nil || made.LastUsed != nil {
		t.Errorf("%+v", made)
	}
	status, text = h.as("top", "POST", "/api/v1/keys/"+made.ID+"/rotate", `{"overlap": 60}`)
	var rotated admin.KeyWithSecret
	if err := json.Unmarshal([]byte(text), &rotated); err != nil || status != 200 || rotated.ID != made.ID || rotated.Secret == made.Secret || rotated.OldUntil == nil {
		t.Fatalf("%d %s", status, text)
	}
	// Who puts the key itself in the path is answered about it, and it is not told again.
	for _, path := range []string{"/api/v1/keys/" + made.ID, "/api/v1/keys/" + rotated.Secret, "/api/v1/keys?owner=ACME&plan=free&limit=1"} {
		if status, text := h.as("low", "GET", path, ""); status != 200 || !strings.Contains(text, made.ID) || strings.Contains(text, rotated.Secret[18:]) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if status, text := h.as("low", "GET", "/api/v1/keys?limit=1", ""); status != 200 || !strings.Contains(text, `"next":"`+made.ID+`"`) {
		t.Errorf("a full page: %d %s", status, text)
	}
	if status, text := h.as("low", "GET", "/api/v1/keys?after="+made.ID, ""); status != 200 || text != `{"keys":[],"next":""}`+"\n" {
		t.Errorf("the page behind it: %d %s", status, text)
	}
	if status, text := h.as("top", "DELETE", "/api/v1/keys/"+made.ID+"?reason=leaked", ""); status != 200 || !strings.Contains(text, `"state":"revoked"`) {
		t.Errorf("revoked: %d %s", status, text)
	}
	h.audited(t, made, rotated)
}

// Who is over the limits of his plan has his whole limits again after a reset, as the dashboard sends it: without the
// plan, which the key has.
func TestResetOfAnAPIKeyHoldsForItsPlan(t *testing.T) {
	h, closeDB := keyed(t)
	defer closeDB()
	_, p := compile(t, "keys: {}\nplans: {free: {quota: [9/day], limits: [{rate: 2/1h}]}}\ndefault: {limits: [{rate: 5/1m}]}\n")
	s := *h.engine.Current()
	s.Policy = p
	h.engine.Swap(&s)
	_, text := h.as("top", "POST", "/api/v1/keys", `{"name": "shop", "plan": "free"}`)
	var made admin.KeyWithSecret
	if err := json.Unmarshal([]byte(text), &made); err != nil {
		t.Fatal(text)
	}
	use := func() weir.Decision {
		d := weir.Decision{Client: weir.Client{Credential: weir.Verified, APIKey: made.ID, Plan: "free"}, Request: weir.Request{Method: "GET", Path: "/"}}
		rule := p.Match(&d)
		rule.Hits(&d)
		rule.Decide(&d, s.Store.Take(t.Context(), time.Now(), d.Hits, d.Statuses))
		return d
	}
	for range 3 {
		use()
	}
	if d := use(); !d.Refused() {
		t.Fatal("three pass where two may")
	}
	if status, text := h.as("top", "DELETE", "/api/v1/clients/key:"+made.ID, ""); status != 200 || !strings.Contains(text, `"counters":3`) {
		t.Errorf("%d %s", status, text)
	}
	if d := use(); d.Refused() {
		t.Errorf("refused after the reset: %v", d.Statuses)
	}
	if status, text := h.as("low", "GET", "/api/v1/clients/key:"+made.ID, ""); status != 200 || !strings.Contains(text, `"free/day"`) {
		t.Errorf("its limits are not those of its plan: %d %s", status, text)
	}
}

// audited wants every change in the audit log, and no key.
func (h *house) audited(t *testing.T, keys ...admin.KeyWithSecret) {
	t.Helper()
	_, text := h.as("low", "GET", "/api/v1/audit", "")
	for _, want := range []string{`"what":"key.create"`, `"reason":"contract 7"`, `"what":"key.rotate"`, `"what":"key.revoke"`, `"reason":"leaked"`, `"target":"` + keys[0].ID + `"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the audit log lacks %s: %s", want, text)
		}
	}
	for _, k := range keys {
		if strings.Contains(text, k.Secret[18:]) {
			t.Errorf("the audit log has a key: %s", text)
		}
	}
}

func TestKeysRefused(t *testing.T) {
	h, closeDB := keyed(t)
	_, text := h.as("top", "POST", "/api/v1/keys", `{"name": "a"}`)
	var made admin.KeyWithSecret
	if err := json.Unmarshal([]byte(text), &made); err != nil {
		t.Fatal(text)
	}
	h.as("top", "DELETE", "/api/v1/keys/"+made.ID, "")
	tests := []struct {
		token, method, path, body string
		status                    int
		code                      string
	}{
		{"low", "POST", "/api/v1/keys", `{"name": "a"}`, 403, "read_only"},
		{"low", "DELETE", "/api/v1/keys/x", "", 403, "read_only"},
		{"low", "POST", "/api/v1/keys/x/rotate", "", 403, "read_only"},
		{"no", "GET", "/api/v1/keys", "", 401, "unauthorized"},
		{"top", "POST", "/api/v1/keys", `{}`, 400, "bad_request"},
		{"top", "POST", "/api/v1/keys", `{"name": "a", "plan": "gold"}`, 400, "bad_request"},
		{"top", "POST", "/api/v1/keys", `{"name": "a", "scopes": ["a b"]}`, 400, "bad_request"},
		{"top", "POST", "/api/v1/keys", `{"name": "a", "expires": "2000-01-01T00:00:00Z"}`, 400, "bad_request"},
		{"top", "POST", "/api/v1/keys", `{"name": "a", "secret": "mine"}`, 400, "bad_request"},
		{"top", "GET", "/api/v1/keys/nobody", "", 404, "not_found"},
		{"top", "DELETE", "/api/v1/keys/nobody", "", 404, "not_found"},
		{"top", "POST", "/api/v1/keys/nobody/rotate", "", 404, "not_found"},
		{"top", "POST", "/api/v1/keys/" + made.ID + "/rotate", "", 409, "conflict"},
		{"top", "POST", "/api/v1/keys/" + made.ID + "/rotate", `{"overlap": -1}`, 400, "bad_request"},
		{"top", "POST", "/api/v1/keys/" + made.ID + "/rotate", `{"overlap": 1e300}`, 400, "bad_request"},
	}
	for _, c := range tests {
		if status, text := h.as(c.token, c.method, c.path, c.body); status != c.status || !strings.Contains(text, `"code":"`+c.code+`"`) {
			t.Errorf("%s %s %s as %s: %d %s, want %d %s", c.method, c.path, c.body, c.token, status, text, c.status, c.code)
		}
	}
	h.config.Plans = nil
	if _, text := h.as("top", "POST", "/api/v1/keys", `{"name": "a", "plan": "free"}`); !strings.Contains(text, "plan: free: the configuration has no plans") {
		t.Error(text)
	}
	if err := closeDB(); err != nil {
		t.Fatal(err)
	}
	if status, text := h.as("top", "GET", "/api/v1/keys", ""); status != 503 || !strings.Contains(text, `"code":"failed"`) {
		t.Errorf("without a database: %d %s", status, text)
	}
}

// Where requests are asked for no keys, there are none to be made: they would be good for nothing.
func TestNoKeys(t *testing.T) {
	h := build(t, nil)
	for _, method := range []string{"GET", "POST"} {
		if w := h.do(ask{method: method, path: "/api/v1/keys"}); w.Code != 501 || !strings.Contains(w.Body.String(), "not_configured") {
			t.Errorf("%s: %d %s", method, w.Code, w.Body)
		}
	}
}
