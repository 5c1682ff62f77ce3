package admin_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weirgate/weir/admin"
	"github.com/weirgate/weir/ban"
)

// guarded is a house with bans, by a configuration.
func guarded(t *testing.T, yaml string, change func(*admin.Options)) *house {
	t.Helper()
	bans := ban.New(ban.Options{})
	h := build(t, func(o *admin.Options) {
		o.Bans = bans
		if change != nil {
			change(o)
		}
	})
	next := *h.engine.Current()
	next.Bans = bans
	_, next.Policy = compile(t, yaml)
	h.engine.Swap(&next)
	return h
}

func post(body string) ask { return ask{method: "POST", path: "/api/v1/bans", body: body} }

// A ban is made, holds, is listed and lifted, and each change is written down with who, why, before and after.
func TestBans(t *testing.T) {
	h := guarded(t, rules, nil)
	if got := get[admin.Bans](t, h, "/api/v1/bans"); got.Total != 0 || got.Bans == nil {
		t.Errorf("at first %+v", got)
	}
	made := decode[admin.Ban](t, h.do(post(`{"subject": "203.0.113.7", "for": "10m", "reason": "flood"}`)), 201)
	if made.Subject != "203.0.113.7/32" || made.Until == nil || made.Until.Sub(made.Since).Round(time.Second) != 10*time.Minute || made.Reason != "flood" || made.Author != "loopback" {
		t.Errorf("made %+v", made)
	}
	longer := decode[admin.Ban](t, h.do(post(`{"subject": "203.0.113.7/32", "reason": "again"}`)), 201)
	decode[admin.Ban](t, h.do(post(`{"subject": "203.0.113.0/24", "for": "1h"}`)), 201)
	decode[admin.Ban](t, h.do(post(`{"subject": "key:k1"}`)), 201)
	if got := get[admin.Bans](t, h, "/api/v1/bans?limit=2"); got.Total != 3 || len(got.Bans) != 2 {
		t.Errorf("listed %+v", got)
	}
	if e := explained(t, h, "203.0.113.7"); e.Ban == nil || *e.Ban != longer || e.Status != 403 || e.Reason != "banned client" || e.Action != "reject" {
		t.Errorf("explained: %+v, ban %+v", e, e.Ban)
	}
	lifted := decode[admin.Lifted](t, h.do(ask{method: "DELETE", path: "/api/v1/bans/203.0.113.7%2F32?reason=sorry"}), 200)
	if diff := cmp.Diff(admin.Lifted{Ban: longer, StillBy: "203.0.113.0/24"}, lifted); diff != "" {
		t.Errorf("lifted, -want +got:\n%s", diff)
	}
	decode[admin.Lifted](t, h.do(ask{method: "DELETE", path: "/api/v1/bans/203.0.113.0/24"}), 200)
	if e := explained(t, h, "203.0.113.7"); e.Ban != nil || e.Status != 200 {
		t.Errorf("afterwards %+v", e)
	}
	decode[admin.Problem](t, h.do(ask{method: "DELETE", path: "/api/v1/bans/203.0.113.0%2F24"}), 404)

	var lines []string
	for _, l := range get[admin.Audit](t, h, "/api/v1/audit").Lines {
		lines = append(lines, fmt.Sprintf("%s %s %s %s: %s to %s %s", l.Who, l.What, l.Target, l.Reason, reasonIn(l.Before), reasonIn(l.After), l.Error))
	}
	want := []string{
		"loopback ban.remove 203.0.113.0/24 : none to none 203.0.113.0/24: there is no such ban",
		`loopback ban.remove 203.0.113.0/24 : "" to none `,
		`loopback ban.remove 203.0.113.7/32 sorry: "again" to none `,
		`loopback ban.add key:k1 : none to "" `,
		`loopback ban.add 203.0.113.0/24 : none to "" `,
		`loopback ban.add 203.0.113.7/32 again: "flood" to "again" `,
		`loopback ban.add 203.0.113.7/32 flood: none to "flood" `,
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// reasonIn is the reason of a ban in the audit log.
func reasonIn(v any) string {
	b, ok := v.(map[string]any)
	if !ok {
		return "none"
	}
	return fmt.Sprintf("%q", b["reason"])
}

func explained(t *testing.T, h *house, client string) admin.Explanation {
	t.Helper()
	body := fmt.Sprintf(`{"url": "http://example.com/", "remote": "127.0.0.1", "headers": [{"name": "X-Forwarded-For", "value": %q}]}`, client)
	return decode[admin.Explanation](t, h.do(ask{method: "POST", path: "/api/v1/explain", body: body}), 200)
}

// Nobody bans his proxies, this machine, himself or whom he allows by accident: the answer says which and how.
func TestProtectedSubjects(t *testing.T) {
	const yaml = "client: {path: [cloudflare, {name: edge, cidrs: [198.51.100.0/28]}]}\nallow: [{cidr: 203.0.113.5, reason: monitoring}, {key: k1}]\n"
	const trusted = "client: {trusted_proxies: [198.51.100.0/28]}\n"
	const header = "client: {header: CF-Connecting-IP, peers: [198.51.100.1], via: [198.51.100.128/25]}\n"
	for _, test := range []struct{ yaml, subject, why string }{
		{yaml, "127.0.0.1", "127.0.0.1/32 holds loopback addresses, which are this machine"},
		{yaml, "126.0.0.0/7", "126.0.0.0/7 holds loopback addresses, which are this machine"},
		{yaml, "::/0", "::/0 holds loopback addresses, which are this machine"},
		{yaml, "198.51.100.3", "198.51.100.3/32 holds 198.51.100.3, a proxy that client.path (edge) trusts: everybody behind it would be banned"},
		{yaml, "198.51.0.0/16", "198.51.0.0/16 holds 198.51.100.0, a proxy that client.path (edge) trusts: everybody behind it would be banned"},
		{yaml, "2606:4700::1", "2606:4700::1/128 holds 2606:4700::1, a proxy that client.path (cloudflare) trusts: everybody behind it would be banned"},
		{yaml, "2606::/16", "2606::/16 holds 2606:4700::, a proxy that client.path (cloudflare) trusts: everybody behind it would be banned"},
		{trusted, "198.51.100.15", "198.51.100.15/32 holds 198.51.100.15, a proxy that client.trusted_proxies trusts: everybody behind it would be banned"},
		{trusted, "198.51.100.16", ""},
		{header, "198.51.100.0/30", "198.51.100.0/30 holds 198.51.100.1, a proxy that client.peers trusts: everybody behind it would be banned"},
		{header, "198.51.100.128", "198.51.100.128/32 holds 198.51.100.128, a proxy that client.via trusts: everybody behind it would be banned"},
		{yaml, "203.0.113.0/24", "203.0.113.0/24 holds 203.0.113.5, which allow lets in whatever is banned"},
		{yaml, "203.0.113.6", ""},
		{yaml, "key:k1", "allow lets key:k1 in whatever is banned"},
		{yaml, "key:k2", ""},
		{yaml, "192.0.2.0/24", "192.0.2.0/24 holds 192.0.2.1, the address that you ask from"}, // as httptest has it
	} {
		h := guarded(t, test.yaml, nil)
		w := h.do(post(fmt.Sprintf(`{"subject": %q}`, test.subject)))
		if test.why == "" {
			decode[admin.Ban](t, w, 201)
			continue
		}
		if p := decode[admin.Problem](t, w, 409); p.Code != "protected" || p.Detail != test.why+". To ban it all the same, say force" {
			t.Errorf("%s: %+v, want %s", test.subject, p, test.why)
		}
		if lines := get[admin.Audit](t, h, "/api/v1/audit").Lines; len(lines) != 0 {
			t.Errorf("%s: %+v", test.subject, lines)
		}
		decode[admin.Ban](t, h.do(post(fmt.Sprintf(`{"subject": %q, "force": true}`, test.subject))), 201)
	}
}

// Who found a leaked key bans it as it stands, or asks for its counts: its id is meant, and the key is written nowhere.
func TestAKeyInPlaceOfItsID(t *testing.T) {
	const id = "vxfwj8krv1gt"
	key := "weir_" + id + "_" + strings.Repeat("Q", 43) + "3uM7DC"
	h := guarded(t, rules, nil)
	if b := decode[admin.Ban](t, h.do(post(`{"subject": "key:`+key+`"}`)), 201); b.Subject != "key:"+id {
		t.Errorf("banned: %+v", b)
	}
	if v := decode[admin.ClientView](t, h.do(ask{path: "/api/v1/clients/key:" + key}), 200); v.Key != "key:"+id {
		t.Errorf("the client: %+v", v)
	}
	decode[admin.Reset](t, h.do(ask{method: "DELETE", path: "/api/v1/clients/key:" + key}), 200)
	decode[admin.Lifted](t, h.do(ask{method: "DELETE", path: "/api/v1/bans/key:" + key}), 200)
	var targets []string
	for _, line := range get[admin.Audit](t, h, "/api/v1/audit").Lines {
		targets = append(targets, line.Target)
	}
	if diff := cmp.Diff([]string{"key:" + id, "key:" + id, "key:" + id}, targets); diff != "" {
		t.Errorf("the audit log's targets (-want +got):\n%s", diff)
	}
}

// What is no ban is refused; so is who may only read, and everybody while bans cannot be kept.
func TestBansThatAreRefused(t *testing.T) {
	h := guarded(t, rules, func(o *admin.Options) { o.AdminToken, o.ReadToken = "all", "look" })
	send := func(a ask, token string) admin.Problem {
		t.Helper()
		a.header = map[string]string{"Authorization": "Bearer " + token}
		w := h.do(a)
		return decode[admin.Problem](t, w, w.Code)
	}
	for _, test := range []struct {
		ask    ask
		token  string
		status int
		detail string
	}{
		{post(`{"subject": "203.0.113.7"}`), "look", 403, "admin_read_token may only read"},
		{ask{method: "DELETE", path: "/api/v1/bans/203.0.113.7"}, "look", 403, "admin_read_token may only read"},
		{post(`{}`), "all", 400, "subject: "},
		{post(`{"subject": "203.0.113.7/24"}`), "all", 400, "want 203.0.113.0/24 for the network"},
		{post(`{"subject": "203.0.113.7", "for": "10"}`), "all", 400, "for: 10: want"},
		{post(`{"subject": "203.0.113.7", "for": "0s"}`), "all", 400, "for: 0s: want"},
		{post(`{"subject": "203.0.113.7", "until": 1}`), "all", 400, "unknown field"},
		{ask{method: "DELETE", path: "/api/v1/bans/nobody"}, "all", 400, "subject: "},
		{ask{method: "DELETE", path: "/api/v1/bans/203.0.113.7"}, "all", 404, "there is no such ban"},
		{ask{path: "/api/v1/bans?limit=10001"}, "all", 400, "want 1 to 10000"},
	} {
		if p := send(test.ask, test.token); p.Status != test.status || !strings.Contains(p.Detail, test.detail) {
			t.Errorf("%+v: %+v, want %d %s", test.ask, p, test.status, test.detail)
		}
	}
	broken := errors.New("redis is away")
	h = guarded(t, rules, func(o *admin.Options) {
		o.Bans = ban.New(ban.Options{Register: ban.KeepIn(func(bool) (ban.Database, error) { return nil, broken })})
	})
	p := decode[admin.Problem](t, h.do(post(`{"subject": "203.0.113.7"}`)), http.StatusServiceUnavailable)
	if p.Detail != "nobody is banned: redis is away" {
		t.Errorf("%+v", p)
	}
	if lines := get[admin.Audit](t, h, "/api/v1/audit").Lines; len(lines) != 1 || lines[0].Error != p.Detail {
		t.Errorf("%+v", lines)
	}
}

// The answers are as the document says.
func TestBansAreDocumented(t *testing.T) {
	h := guarded(t, rules, nil)
	schemas := documented(t, h)
	for _, test := range []struct {
		ask    ask
		schema string
	}{
		{post(`{"subject": "203.0.113.7", "for": "10m"}`), "RespondBan"}, {post(`{"subject": "key:k1"}`), "RespondBan"}, {ask{path: "/api/v1/bans"}, "Bans"},
		{ask{method: "DELETE", path: "/api/v1/bans/203.0.113.7"}, "Lifted"},
	} {
		value, err := jsonschema.UnmarshalJSON(h.do(test.ask).Body)
		if err != nil {
			t.Fatal(err)
		}
		if err := schemas(test.schema).Validate(value); err != nil {
			t.Errorf("%+v: %v", test.ask, err)
		}
	}
	if s := get[admin.Session](t, h, "/api/v1/session"); !s.Bans {
		t.Errorf("%+v", s)
	}
}
