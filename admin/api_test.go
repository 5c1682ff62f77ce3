package admin_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/admin"
	"github.com/weirgate/weir/engine"
)

// Who asks most is known, with what was refused, and in which order was asked for.
func TestTop(t *testing.T) {
	h := build(t, nil)
	h.visit("203.0.113.7", "/search", 9)
	h.visit("198.51.100.1", "/users/17", 10)
	top := get[admin.Top](t, h, "/api/v1/top?sort=refused&limit=1")
	if top.Requests != 19 || top.Refused != 11 || len(top.Entries) != 1 || top.By != "client" || top.Window != "1m" || top.Step != 10 {
		t.Fatalf("%+v", top)
	}
	if e := top.Entries[0]; e.Key != "203.0.113.7/32" || e.Source != "forwarded" || e.Requests != 9 || e.Refused != 6 || e.Error != 0 || e.Rank != 1 || len(e.Spark) != 7 {
		t.Errorf("%+v", e)
	}
	paths := get[admin.Top](t, h, "/api/v1/top?by=path&window=24h")
	if len(paths.Entries) != 2 || paths.Entries[0].Key != "/users/*" || paths.Entries[0].Share != 10./19 {
		t.Errorf("%+v", paths)
	}
	if shadow := get[admin.Top](t, h, "/api/v1/top?by=shadow"); len(shadow.Entries) != 1 || shadow.Entries[0].Requests != 8 {
		t.Errorf("%+v", shadow)
	}
}

func TestRulesTellUseAndHeadroom(t *testing.T) {
	h := build(t, nil)
	h.visit("203.0.113.7", "/search", 5)
	h.visit("198.51.100.1", "/search", 1)
	h.visit("198.51.100.1", "/", 2)
	v := get[admin.Rules](t, h, "/api/v1/rules")
	if len(v.Rules) != 2 || v.Requests != 8 || v.Refused != 2 {
		t.Fatalf("%+v", v)
	}
	search := v.Rules[0]
	if search.Name != "search" || search.Requests != 6 || search.Refused != 2 || search.Shadow != 4 || len(search.Limits) != 3 {
		t.Fatalf("%+v", search)
	}
	if site := search.Limits[0]; site.Name != "site" || !site.Global || len(site.Per) != 0 || site.Headroom != nil {
		t.Errorf("%+v", site)
	}
	head := search.Limits[1].Headroom
	if head == nil || head.Remaining != 0 || head.Client != "203.0.113.7/32" || head.Decisions != 6 || head.Refused != 2 {
		t.Errorf("%+v", head)
	}
}

// The shadow figures say who would be hurt before anybody is.
func TestShadow(t *testing.T) {
	h := build(t, nil)
	h.visit("203.0.113.7", "/search", 3)
	h.visit("198.51.100.1", "/search", 1)
	v := get[admin.Shadow](t, h, "/api/v1/shadow")
	want := []admin.ShadowLimit{{Rule: "search", Name: "trial", Rate: "1/1m", Recent: 2, Clients: []string{"203.0.113.7/32"}}}
	if diff := cmp.Diff(want, v.Limits); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(v.Clients) != 1 || v.Clients[0].Key != "203.0.113.7/32" || v.Clients[0].Requests != 2 {
		t.Errorf("%+v", v.Clients)
	}
}

func TestDecisionsAreFiltered(t *testing.T) {
	h := build(t, nil)
	h.visit("203.0.113.7", "/search", 4)
	h.visit("198.51.100.1", "/", 2)
	for path, want := range map[string]int{
		"": 6, "?only=refused": 1, "?only=shadow": 3, "?client=198.51.100.1/32": 2, "?rule=search": 4, "?rule=search&only=refused&client=198.51.100.1/32": 0, "?limit=5": 5,
	} {
		if got := get[admin.Decisions](t, h, "/api/v1/decisions"+path); len(got.Decisions) != want {
			t.Errorf("%s: %d decisions, want %d", path, len(got.Decisions), want)
		}
	}
}

// One client's counters are shown and forgotten; nobody else's, and none that he shares.
func TestClientIsReset(t *testing.T) {
	h := build(t, nil)
	h.visit("203.0.113.7", "/search", 4)
	h.visit("198.51.100.1", "/search", 3)
	const path = "/api/v1/clients/203.0.113.7%2F32"
	left := func(path string) map[string]int64 {
		remaining := map[string]int64{}
		for _, l := range get[admin.ClientView](t, h, path).Limits {
			remaining[l.Name] = l.Remaining
		}
		return remaining
	}
	v := get[admin.ClientView](t, h, path)
	if v.Windows[1].Requests != 4 || v.Windows[1].Refused != 1 || len(v.Decisions) != 4 {
		t.Errorf("%+v", v)
	}
	if diff := cmp.Diff(map[string]int64{"search/3/1m/client": 0, "trial": 0, "default": 5}, left(path)); diff != "" {
		t.Errorf("before, -want +got:\n%s", diff)
	}
	reset := decode[admin.Reset](t, h.do(ask{method: "DELETE", path: path + "?reason=it+was+a+mistake"}), 200)
	if reset != (admin.Reset{Key: "203.0.113.7/32", Counters: 3}) {
		t.Errorf("%+v", reset)
	}
	if diff := cmp.Diff(map[string]int64{"search/3/1m/client": 3, "trial": 1, "default": 5}, left(path)); diff != "" {
		t.Errorf("afterwards, -want +got:\n%s", diff)
	}
	if got := left("/api/v1/clients/198.51.100.1/32")["search/3/1m/client"]; got != 0 {
		t.Errorf("another client has %d left, want what he had", got)
	}
	line := get[admin.Audit](t, h, "/api/v1/audit").Lines[0]
	if line.Who != "loopback" || line.What != "client.reset" || line.Target != "203.0.113.7/32" || line.Reason != "it was a mistake" || line.Peer == "" {
		t.Errorf("%+v", line)
	}
}

// An API key has counters of its own, by its plan, wherever it asks from.
func TestClientByKey(t *testing.T) {
	h := build(t, nil)
	_, p := compile(t, rules+"plans: {free: {quota: [9/day], limits: [{rule: search, rate: 7/1m}]}}\n")
	s := *h.engine.Current()
	s.Policy = p
	h.engine.Swap(&s)
	left := func(path string) map[string]int64 {
		remaining := map[string]int64{}
		for _, l := range get[admin.ClientView](t, h, path).Limits {
			remaining[l.Name] = l.Remaining
		}
		return remaining
	}
	if diff := cmp.Diff(map[string]int64{"free/search": 7, "free/day": 9, "default": 5}, left("/api/v1/clients/key:jwt:ann?plan=free")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int64{"search/3/1m/client": 3, "trial": 1, "default": 5}, left("/api/v1/clients/key:jwt:ann")); diff != "" {
		t.Errorf("without a plan (-want +got):\n%s", diff)
	}
	reset := decode[admin.Reset](t, h.do(ask{method: "DELETE", path: "/api/v1/clients/key:jwt:ann?plan=free"}), 200)
	if reset != (admin.Reset{Key: "key:jwt:ann", Counters: 3}) {
		t.Errorf("%+v", reset)
	}
	// Of a token nobody here knows the plan: what it has used under any is forgotten.
	reset = decode[admin.Reset](t, h.do(ask{method: "DELETE", path: "/api/v1/clients/key:jwt:ann"}), 200)
	if reset != (admin.Reset{Key: "key:jwt:ann", Counters: 5}) {
		t.Errorf("without a plan: %+v", reset)
	}
	for _, path := range []string{"key:ann?plan=gold", "key:", "203.0.113.7%2F32?plan=free"} {
		if w := h.do(ask{path: "/api/v1/clients/" + path}); w.Code != 400 {
			t.Errorf("%s: HTTP status %d", path, w.Code)
		}
	}
	for _, r := range get[admin.Rules](t, h, "/api/v1/rules").Rules {
		if l := r.Limits[len(r.Limits)-1]; r.Name == "search" && (l.Plan != "free" || len(r.Limits) != 5) {
			t.Errorf("%+v", r.Limits)
		}
	}
}

// Explaining counts nothing and says every hop.
func TestExplain(t *testing.T) {
	h := build(t, nil)
	body := `{"url": "http://example.com/search?q=1", "remote": "127.0.0.1", "headers": [{"name": "X-Forwarded-For", "value": "1.2.3.4, 203.0.113.7"}]}`
	var first, again admin.Explanation
	first = decode[admin.Explanation](t, h.do(ask{method: "POST", path: "/api/v1/explain", body: body}), 200)
	again = decode[admin.Explanation](t, h.do(ask{method: "POST", path: "/api/v1/explain", body: body}), 200)
	for i := range first.Limits {
		first.Limits[i].ResetAfter, again.Limits[i].ResetAfter = 0, 0 // the clock goes on
	}
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("the first explanation changed the second:\n%s", diff)
	}
	if first.Client.Key != "203.0.113.7/32" || len(first.Client.Hops) != 2 || *first.Rule != "search" || first.Action != "pass" || first.Why == "" || len(first.Limits) != 3 {
		t.Errorf("%+v", first)
	}
	if n := get[admin.Rules](t, h, "/api/v1/rules").Requests; n != 0 {
		t.Errorf("%d requests were counted", n)
	}
}

func TestReload(t *testing.T) {
	h := build(t, nil)
	h.next = rules + "headers: both\n"
	got := decode[admin.Reload](t, h.do(ask{method: "POST", path: "/api/v1/reload", body: `{"reason": "try"}`}), 200)
	if diff := cmp.Diff([]string{"headers"}, got.Changed); diff != "" || got.NeedsRestart == nil {
		t.Errorf("%+v, -want +got:\n%s", got, diff)
	}
	h.next = ""
	p := decode[admin.Problem](t, h.do(ask{method: "POST", path: "/api/v1/reload"}), 422)
	if p.Code != "refused" || len(p.Errors) != 1 || p.Errors[0] != errBroken.Error() {
		t.Errorf("%+v", p)
	}
	lines := get[admin.Audit](t, h, "/api/v1/audit").Lines
	if len(lines) != 2 || lines[0].Error != errBroken.Error() || lines[0].Before != lines[0].After || lines[1].Reason != "try" || lines[1].Before == lines[1].After {
		t.Errorf("%+v", lines)
	}
}

// What cannot be written down is not done.
func TestNoChangeWithoutTrail(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, trail := range map[string]*admin.Trail{"none": nil, "no folder": admin.NewTrail(file)} {
		reloaded := false
		h := build(t, func(o *admin.Options) {
			o.Trail, o.Reload = trail, func() (admin.InForce, error) { reloaded = true; return admin.InForce{}, nil }
		})
		if w := h.do(ask{method: "POST", path: "/api/v1/reload"}); w.Code < 500 || reloaded {
			t.Errorf("%s: HTTP status %d, reloaded: %v", name, w.Code, reloaded)
		}
	}
}

// A secret is in no answer.
func TestConfigIsBlanked(t *testing.T) {
	h := build(t, nil)
	h.config.AdminToken, h.config.Store.Redis.URL = "hush", "redis://:hush@127.0.0.1"
	w := h.do(ask{path: "/api/v1/config"})
	if strings.Contains(w.Body.String(), "hush") || !strings.Contains(w.Body.String(), "(blanked)") {
		t.Error(w.Body)
	}
}

// How one request arrived is told to who has its nonce, once it is there.
func TestVerify(t *testing.T) {
	h := build(t, nil)
	n := decode[admin.Nonce](t, h.do(ask{method: "POST", path: "/api/v1/verify"}), 201)
	if w := h.do(ask{path: "/api/v1/verify/" + n.Nonce}); w.Code != 404 {
		t.Errorf("before: HTTP status %d", w.Code)
	}
	s := h.engine.Current()
	d := h.engine.Decide(t.Context(), s, request(http.Header{
		n.Header: {n.Nonce}, "X-Forwarded-For": {"198.18.0.1, 203.0.113.7"}, "Authorization": {"secret"}, "Connection": {"close"},
	}))
	d.Reset()
	got := get[admin.Sighting](t, h, "/api/v1/verify/"+n.Nonce)
	want := []admin.FieldLine{{Name: "Connection", Value: "close"}, {Name: "X-Forwarded-For", Value: "198.18.0.1, 203.0.113.7"}}
	if diff := cmp.Diff(want, got.Headers); diff != "" || got.Client.Key != "203.0.113.7/32" || got.Peer != "127.0.0.1" || !got.Trusted || got.Strategy != "path" {
		t.Errorf("%+v, -want +got:\n%s", got, diff)
	}
	for range 20 {
		if w := h.do(ask{method: "POST", path: "/api/v1/verify"}); w.Code != 201 && decode[admin.Problem](t, w, 503).Code != "busy" {
			t.Errorf("HTTP status %d", w.Code)
		}
	}
	if n.Header != engine.NonceHeader || n.Expires != 60 {
		t.Errorf("%+v", n)
	}
}

// Every operation answers what the document says, on a house that has seen something.
func TestAnswersAreAsDocumented(t *testing.T) {
	h := build(t, func(o *admin.Options) {
		list := []admin.BlockedRequest{{Incident: "1", Time: time.Now()}}
		o.Blocked = func(int) admin.Blocked {
			return admin.Blocked{Blocked: list, Insights: list, Proposals: []admin.Proposal{{Excludes: []admin.Exclude{{Rule: "1"}}}}}
		}
	})
	h.visit("203.0.113.7", "/search", 9)
	h.visit("198.51.100.1", "/users/17", 3)
	h.do(ask{method: "DELETE", path: "/api/v1/clients/203.0.113.7%2F32"})
	schemas := documented(t, h)
	for _, tc := range []struct {
		ask    ask
		schema string
		status int
	}{
		{ask{path: "/api/v1/session"}, "Session", 200},
		{ask{path: "/api/v1/status"}, "Status", 200},
		{ask{path: "/api/v1/top"}, "Top", 200},
		{ask{path: "/api/v1/top?by=path"}, "Top", 200},
		{ask{path: "/api/v1/series"}, "Series", 200},
		{ask{path: "/api/v1/decisions"}, "Decisions", 200},
		{ask{path: "/api/v1/rules"}, "Rules", 200},
		{ask{path: "/api/v1/shadow"}, "Shadow", 200},
		{ask{path: "/api/v1/diagnosis"}, "Diagnosis", 200},
		{ask{path: "/api/v1/clients/203.0.113.7%2F32"}, "ClientView", 200},
		{ask{path: "/api/v1/clients/unresolved:none"}, "ClientView", 200},
		{ask{method: "DELETE", path: "/api/v1/clients/198.51.100.1%2F32"}, "Reset", 200},
		{ask{path: "/api/v1/blocked"}, "Blocked", 200},
		{ask{path: "/api/v1/bans"}, "Problem", 501},
		{ask{method: "POST", path: "/api/v1/explain", body: `{"url": "http://example.com/"}`}, "Explanation", 200},
		{ask{method: "POST", path: "/api/v1/reload"}, "Reload", 200},
		{ask{path: "/api/v1/config"}, "Config", 200},
		{ask{path: "/api/v1/audit"}, "Audit", 200},
		{ask{method: "POST", path: "/api/v1/verify"}, "Nonce", 201},
		{ask{path: "/api/v1/verify/none"}, "Problem", 404},
		{ask{path: "/api/v1/nothing"}, "Problem", 404},
	} {
		w := h.do(tc.ask)
		value, err := jsonschema.UnmarshalJSON(w.Body)
		if err != nil || w.Code != tc.status {
			t.Errorf("%+v: HTTP status %d, %v", tc.ask, w.Code, err)
			continue
		}
		if err := schemas(tc.schema).Validate(value); err != nil {
			t.Errorf("%+v: %v", tc.ask, err)
		}
	}
}

// documented returns the schemas of the document that the server itself hands out.
func documented(t *testing.T, h *house) func(name string) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(h.do(ask{path: "/api/v1/openapi.json"}).Body)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("mem:openapi.json", document); err != nil {
		t.Fatal(err)
	}
	return func(name string) *jsonschema.Schema {
		s, err := c.Compile("mem:openapi.json#/components/schemas/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// The document names every operation that is served, each with a name of its own.
func TestDocumentIsWhole(t *testing.T) {
	var document struct {
		Paths map[string]map[string]struct{ OperationID, Summary string }
	}
	if err := json.Unmarshal(admin.Document(), &document); err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{}
	for path, operations := range document.Paths {
		for method, o := range operations {
			if other, taken := ids[o.OperationID]; taken || o.OperationID == "" || o.Summary == "" {
				t.Errorf("%s %s is called %q, as is %s: %s", method, path, o.OperationID, other, o.Summary)
			}
			ids[o.OperationID] = method + " " + path
			if w := build(t, nil).do(ask{method: "TRACE", path: path}); w.Code != 405 || !strings.Contains(strings.ToLower(w.Header().Get("Allow")), method) {
				t.Errorf("TRACE %s: HTTP status %d, Allow: %s; want %s", path, w.Code, w.Header().Get("Allow"), method)
			}
		}
	}
	if len(ids) < 20 {
		t.Errorf("%d operations", len(ids))
	}
}

// GET changes nothing: no counter, no line in the audit log.
func TestGetChangesNothing(t *testing.T) {
	h := build(t, nil)
	h.visit("203.0.113.7", "/search", 2)
	before := h.journal.Totals()
	for _, path := range []string{"session", "status", "top", "series", "decisions", "rules", "shadow", "diagnosis", "clients/203.0.113.7%2F32", "config", "audit", "bans", "blocked"} {
		h.do(ask{path: "/api/v1/" + path})
	}
	if diff := cmp.Diff(before, h.journal.Totals()); diff != "" {
		t.Error(diff)
	}
	if lines := get[admin.Audit](t, h, "/api/v1/audit").Lines; len(lines) != 0 {
		t.Errorf("%+v", lines)
	}
}

// Requests that pass uninspected for a fault of ours are seen in the status.
func TestAFailingFirewallIsSeen(t *testing.T) {
	h := build(t, nil)
	if got := get[admin.Status](t, h, "/api/v1/status").Firewall; len(got) != 0 {
		t.Errorf("before: %+v", got)
	}
	d := &weir.Decision{At: time.Now(), Inspection: weir.Inspection{Verdict: weir.FailedOpen, Ruleset: "crs", Fault: "panic"}}
	h.journal.Record(d, weir.Outcome{HTTP: 200})
	got := get[admin.Status](t, h, "/api/v1/status").Firewall
	if len(got) != 1 || got[0].Code != "waf.panic" || !got[0].Since.Equal(d.At) || !strings.HasPrefix(got[0].Text, "1 requests: ") {
		t.Errorf("afterwards: %+v", got)
	}
}
