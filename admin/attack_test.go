package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/admin"
	"github.com/weirgate/weir/apikey"
	"github.com/weirgate/weir/ban"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/localdb"
)

// A fortress is a house of which every part of the API can be asked, and what it must not lose.
type fortress struct {
	*house
	keys *apikey.Keys
	bans *ban.Bans
	dir  string // data_dir, beside which nothing may change
	log  *bytes.Buffer
	id   string // of the one API key
}

// besiege returns a fortress that has seen something. change may change the options.
func besiege(t testing.TB, change func(*admin.Options)) *fortress {
	t.Helper()
	f := &fortress{bans: ban.New(ban.Options{}), dir: filepath.Join(t.TempDir(), "data"), log: new(bytes.Buffer)}
	db, err := localdb.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // the folder goes with it
	store := apikey.NewStore(db.SQL(), func(context.Context) error { return db.Migrate("keys", apikey.Tables()) })
	if f.keys, err = apikey.Open(t.Context(), store, apikey.Options{Timeout: 20 * time.Second}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.keys.Close)
	f.house = build(t, func(o *admin.Options) {
		o.Bans, o.Keys = f.bans, func() *apikey.Keys { return f.keys }
		o.Trail, o.Log = admin.NewTrail(f.dir), slog.New(slog.NewJSONHandler(f.log, nil))
		o.Blocked = func(int) admin.Blocked { return admin.Blocked{} }
		o.AdminToken, o.ReadToken, o.Local = "all", "look", admin.Anywhere
		now := time.Now() // time passes, and this is about everything else
		o.Now = func() time.Time { return now }
		if change != nil {
			change(o)
		}
	})
	f.config.Plans = map[string]config.Plan{"free": {}}
	k, _, err := f.keys.Create(t.Context(), apikey.Spec{Name: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	f.id = k.ID
	f.visit("203.0.113.7", "/search", 4)
	return f
}

// state is all that a question could change.
func (f *fortress) state(t testing.TB) string {
	t.Helper()
	keys, err := f.keys.List(t.Context(), apikey.Query{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	bans, n := f.bans.List(1000)
	files := map[string]string{}
	err = filepath.WalkDir(filepath.Dir(f.dir), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		files[strings.TrimPrefix(name, filepath.Dir(f.dir))] = string(text)
		return err
	})
	left := map[string]int64{}
	for _, l := range decode[admin.ClientView](t, f.as1(t, "look", operation{method: "GET", path: "/api/v1/clients/203.0.113.7%2F32"}), 200).Limits {
		left[l.Name] = l.Remaining
	}
	text, more := json.Marshal(map[string]any{
		"keys": keys, "bans": bans, "total": n, "files": files, "totals": f.journal.Totals(), "recent": f.journal.Recent(1000), "left": left,
		"configuration": fmt.Sprintf("%p %p", f.config, f.engine.Current()), "top": f.journal.Top(journal.TopQuery{Most: 100, Within: journal.Hour}).Talkers,
	})
	if err != nil || more != nil {
		t.Fatal(err, more)
	}
	return string(text)
}

// An operation is one of those that the OpenAPI document names.
type operation struct {
	method, path string
	names, query []string          // parameters of the path and of the query
	body         map[string]string // types of the fields, by name
	changes      bool
}

// operations are all of the document's, so that a new one is attacked without another line here.
func operations(t testing.TB) []operation {
	t.Helper()
	type schema struct {
		Ref        string `json:"$ref"`
		Type       string
		Properties map[string]schema
	}
	var document struct {
		Paths map[string]map[string]struct {
			Description string
			Parameters  []struct{ Name, In string }
			RequestBody struct {
				Content map[string]struct{ Schema schema }
			}
		}
		Components struct{ Schemas map[string]schema }
	}
	if err := json.Unmarshal(admin.Document(), &document); err != nil {
		t.Fatal(err)
	}
	var all []operation
	for _, path := range slices.Sorted(maps.Keys(document.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(document.Paths[path])) {
			described := document.Paths[path][method]
			o := operation{method: strings.ToUpper(method), path: path, changes: described.Description != "", body: map[string]string{}}
			for _, p := range described.Parameters {
				if p.In == "path" {
					o.names = append(o.names, p.Name)
				} else {
					o.query = append(o.query, p.Name)
				}
			}
			ref := described.RequestBody.Content["application/json"].Schema.Ref
			for name, field := range document.Components.Schemas[ref[strings.LastIndexByte(ref, '/')+1:]].Properties {
				o.body[name] = field.Type
			}
			all = append(all, o)
		}
	}
	if len(all) < 20 {
		t.Fatalf("%d operations", len(all))
	}
	return all
}

// with returns o about a sound thing, or about the values that are given by the names of the path.
func (f *fortress) with(o operation, values map[string]string) operation {
	sound := map[string]string{"key": "203.0.113.7/32", "subject": "203.0.113.9/32", "id": f.id, "nonce": "none"}
	for _, name := range o.names {
		value, given := values[name]
		if !given {
			value = sound[name]
		}
		o.path = strings.ReplaceAll(o.path, "{"+name+"}", url.PathEscape(value))
	}
	return o
}

// as1 asks with a token, and listens to nobody for longer than one answer.
func (f *fortress) as1(t testing.TB, token string, o operation) *httptest.ResponseRecorder {
	t.Helper()
	return f.send(t, o, "", http.Header{"Authorization": {"Bearer " + token}})
}

// send asks as whoever wrote the header would. A Host among it is the request's, a Remote its peer.
func (f *fortress) send(t testing.TB, o operation, body string, header http.Header) *httptest.ResponseRecorder {
	t.Helper()
	path, query, _ := strings.Cut(o.path, "?")
	plain, err := url.PathUnescape(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	if strings.HasSuffix(path, "/events") {
		leave() // who listens is told once
	}
	r := httptest.NewRequestWithContext(ctx, "GET", "/", io.NopCloser(strings.NewReader(body)))
	r.Method, r.Host, r.ContentLength = o.method, "127.0.0.1:9090", int64(len(body))
	r.URL = &url.URL{Path: plain, RawPath: path, RawQuery: query}
	if host := header.Get("Host"); host != "" {
		r.Host = host
	}
	if peer := header.Get("Remote"); peer != "" {
		r.RemoteAddr = peer
	}
	if body != "" && header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/json")
	}
	maps.Copy(r.Header, header)
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w
}

// Whoever may not is refused by every operation there is, in the same words for right and wrong things, and nothing
// has changed.
func TestEveryOperationIsGuarded(t *testing.T) {
	f := besiege(t, nil)
	loopback := besiege(t, func(o *admin.Options) { o.AdminToken, o.ReadToken, o.Local = "", "", admin.Loopback })
	outside := besiege(t, func(o *admin.Options) { o.AdminToken, o.ReadToken = "", "" })
	bears := func(fields ...string) http.Header {
		h := http.Header{"Authorization": {"Bearer all"}}
		for i := 0; i < len(fields); i += 2 {
			h[fields[i]] = []string{fields[i+1]}
		}
		return h
	}
	before, alone := f.state(t), loopback.state(t)
	for i, o := range operations(t) {
		o, guesser := f.with(o, nil), fmt.Sprintf("198.51.100.%d:1", i)
		for name, attack := range map[string]struct {
			of     *fortress
			header http.Header
			query  string
			want   int
		}{
			"nothing":                     {f, nil, "", 401},
			"a wrong token":               {f, http.Header{"Authorization": {"Bearer al"}, "Remote": {guesser}}, "", 401},
			"one that begins alike":       {f, http.Header{"Authorization": {"Bearer alll"}, "Remote": {guesser}}, "", 401},
			"another scheme":              {f, http.Header{"Authorization": {"Basic all"}, "Remote": {guesser}}, "", 401},
			"no scheme":                   {f, http.Header{"Authorization": {"all"}, "Remote": {guesser}}, "", 401},
			"two tokens":                  {f, http.Header{"Authorization": {"Bearer no", "Bearer all"}, "Remote": {guesser}}, "", 401},
			"a cookie":                    {f, http.Header{"Cookie": {"token=all; weir-token=all"}}, "", 401},
			"the token in the query":      {f, nil, "?token=all&access_token=all&admin_token=all&authorization=Bearer+all", 401},
			"the token in other fields":   {f, http.Header{"X-Api-Key": {"all"}, "X-Token": {"all"}, "Proxy-Authorization": {"Bearer all"}}, "", 401},
			"another method by a field":   {f, http.Header{"X-Http-Method-Override": {"DELETE"}, "X-Original-Url": {"/livez"}, "X-Forwarded-For": {"127.0.0.1"}}, "", 401},
			"a page of another site":      {f, bears("Sec-Fetch-Site", "cross-site"), "", 403},
			"a page of the same site":     {f, bears("Sec-Fetch-Site", "same-site"), "", 403},
			"another origin":              {f, bears("Origin", "https://evil.example"), "", 403},
			"no origin":                   {f, bears("Origin", "null"), "", 403},
			"an origin that begins alike": {f, bears("Origin", "http://127.0.0.1:9090.evil.example"), "", 403},
			"another name":                {loopback, http.Header{"Host": {"evil.example"}}, "", 403},
			"a name that begins alike":    {loopback, http.Header{"Host": {"localhost.evil.example:9090"}}, "", 403},
			"the proxy's name":            {loopback, http.Header{"Host": {"evil.example"}, "X-Forwarded-Host": {"localhost"}}, "", 403},
			"from outside, no token":      {outside, http.Header{"Host": {"localhost"}}, "", 403},
		} {
			attacked := o
			attacked.path += attack.query
			w := attack.of.send(t, attacked, "", attack.header)
			wantProblem(t, w, attack.want, o.method+" "+attacked.path+" with "+name)
		}
		if w := f.as1(t, "look", o); o.changes != (w.Code == 403) || w.Code == 401 {
			t.Errorf("%s %s by the read token: HTTP status %d", o.method, o.path, w.Code)
		}
	}
	if diff := cmp.Diff(before, f.state(t)); diff != "" {
		t.Errorf("with tokens, something has changed: %s", diff)
	}
	if diff := cmp.Diff(alone, loopback.state(t)); diff != "" {
		t.Errorf("at loopback, something has changed: %s", diff)
	}
}

// wantProblem wants a refusal of one line, and nothing in it that a browser would take for something else.
func wantProblem(t testing.TB, w *httptest.ResponseRecorder, status int, what string) admin.Problem {
	t.Helper()
	var p admin.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != status || p.Status != status || p.Code == "" || p.Detail == "" || len(p.Detail) > 1000 {
		t.Errorf("%s: HTTP status %d, want %d: %v %s", what, w.Code, status, err, w.Body)
	}
	if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("%s: Content-Type %q", what, got)
	}
	return p
}

// What is no operation is none for anybody, and a preflight is told nothing.
func TestOtherMethods(t *testing.T) {
	f := besiege(t, nil)
	known := map[string]bool{}
	for _, o := range operations(t) {
		known[o.method+" "+o.path] = true
		known["HEAD "+o.path] = known["HEAD "+o.path] || o.method == "GET"
	}
	before := f.state(t)
	for _, o := range operations(t) {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "get", "A"} {
			if known[method+" "+o.path] {
				continue
			}
			tried := f.with(operation{method: method, path: o.path, names: o.names}, nil)
			if w := f.as1(t, "all", tried); w.Code != 405 || w.Header().Get("Allow") == "" {
				t.Errorf("%s %s: HTTP status %d", method, o.path, w.Code)
			}
			w := f.send(t, tried, "", http.Header{"Origin": {"http://127.0.0.1:9090"}, "Access-Control-Request-Method": {"GET"}})
			if w.Code != 401 || strings.Contains(fmt.Sprint(w.Header()), "Access-Control") {
				t.Errorf("%s %s without a token: HTTP status %d, %v", method, o.path, w.Code, w.Header())
			}
		}
	}
	if diff := cmp.Diff(before, f.state(t)); diff != "" {
		t.Errorf("something has changed: %s", diff)
	}
}

// Whatever is read, and by whatever of its parameters, stays what it is. Explaining is no change either.
func TestReadingChangesNothing(t *testing.T) {
	f := besiege(t, nil)
	before := f.state(t)
	for _, o := range operations(t) {
		if o.changes {
			continue
		}
		for _, method := range []string{o.method, "HEAD"} {
			read := f.with(operation{method: method, path: o.path, names: o.names}, nil)
			if w := f.send(t, read, "", http.Header{"Authorization": {"Bearer all"}}); method == "GET" && w.Code != 200 && w.Code != 404 {
				t.Errorf("GET %s: HTTP status %d: %s", read.path, w.Code, w.Body)
			}
		}
	}
	asked := f.send(t, operation{method: "POST", path: "/api/v1/explain"}, `{"url": "http://example.com/search", "remote": "127.0.0.1", "headers": [{"name": "X-Forwarded-For", "value": "203.0.113.7"}]}`, http.Header{"Authorization": {"Bearer look"}})
	if asked.Code != 200 {
		t.Errorf("explain: HTTP status %d: %s", asked.Code, asked.Body)
	}
	if diff := cmp.Diff(before, f.state(t)); diff != "" {
		t.Errorf("something has changed: %s", diff)
	}
}

// A form can send these without a preflight; nothing that changes anything takes one, not even without a body.
func TestWhatAFormCanSend(t *testing.T) {
	f := besiege(t, nil)
	before := f.state(t)
	for _, o := range operations(t) {
		if o.method == "GET" {
			continue
		}
		o := f.with(o, nil)
		for _, kind := range []string{"application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", "text/plain;application/json", "application/jsonp", "Application", ";"} {
			for _, body := range []string{"", `{"reason": "x"}`} {
				w := f.send(t, o, body, http.Header{"Authorization": {"Bearer all"}, "Content-Type": {kind}})
				wantProblem(t, w, 415, o.method+" "+o.path+" as "+kind)
			}
		}
	}
	if diff := cmp.Diff(before, f.state(t)); diff != "" {
		t.Errorf("something has changed: %s", diff)
	}
}

// Tokens are not found by trying: whoever bore 300 wrong ones in a minute is not listened to, unless he bears a right one
// that is too long to be found, and others are. The log says so, once in a while, and never what was tried.
func TestGuessing(t *testing.T) {
	long := strings.Repeat("l", config.LeastToken)
	short := long[1:]
	f := besiege(t, func(o *admin.Options) { o.AdminToken, o.ReadToken = config.Secret(long), config.Secret(short) })
	ask := func(peer, token string) int {
		r := httptest.NewRequest("GET", "/api/v1/session", nil)
		r.RemoteAddr = peer
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		f.ServeHTTP(w, r)
		if w.Code == 429 && w.Header().Get("Retry-After") == "" {
			t.Error("429 without Retry-After")
		}
		return w.Code
	}
	answers := map[int]int{}
	for i := range 370 {
		answers[ask("203.0.113.7:1", fmt.Sprint("guess-", i))]++
	}
	if diff := cmp.Diff(map[int]int{401: 300, 429: 70}, answers); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for token, want := range map[string]int{short: 429, long: 200, long + "l": 429} {
		if got := ask("203.0.113.7:2", token); got != want {
			t.Errorf("%s among them: HTTP status %d, want %d", token, got, want)
		}
	}
	for _, peer := range []string{"203.0.113.8:1", "[2001:db8::1]:1", "@"} {
		if got := ask(peer, short); got != 200 {
			t.Errorf("another asker, %s: HTTP status %d", peer, got)
		}
	}
	if strings.Contains(f.log.String(), "guess-") {
		t.Errorf("the log has what was tried: %s", f.log)
	}
}
