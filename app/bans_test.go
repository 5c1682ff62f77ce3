package app

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/weirgate/weir/admin"
	"github.com/weirgate/weir/internal/redistest"
)

// refusedAs is the answer to one request of a client behind the proxy, and its problem document.
func (h *house) refusedAs(addr string, header ...string) (answer, map[string]any) {
	h.t.Helper()
	a, err := ask(client(h.t, false), h.url("/shop"), append([]string{"X-Forwarded-For", addr}, header...)...)
	if err != nil {
		h.t.Fatal(err)
	}
	document := map[string]any{}
	_ = json.Unmarshal([]byte(a.body), &document) // what is no document has no members
	return a, document
}

// A banned client is told until when, and neither by whom nor why; metrics, the recent decisions and the log
// say more to operators.
func TestABannedClient(t *testing.T) {
	h := build(t, plan{yaml: nightly("")})
	api[admin.Ban](h, "POST", "/api/v1/bans", `{"subject": "203.0.113.0/24", "for": "10m", "reason": "secret reason"}`)
	a, document := h.refusedAs("203.0.113.66")
	wait := document["retry_after"]
	if a.status != 403 || a.header.Get("Retry-After") != fmt.Sprint(wait) || document["detail"] != fmt.Sprintf("This client is banned. Retry after %v s.", wait) {
		t.Errorf("%d %v: %v", a.status, a.header, document)
	}
	if n, ok := wait.(float64); !ok || n < 590 || n > 600 {
		t.Errorf("retry_after: %v, want at most 600", wait)
	}
	if strings.Contains(a.body, "secret") || strings.Contains(a.body, "loopback") || strings.Contains(a.body, "203.0.113") {
		t.Errorf("the banned are told %s", a.body)
	}
	grpc, _ := h.refusedAs("203.0.113.66", "Content-Type", "application/grpc")
	if grpc.status != 200 || grpc.header.Get("grpc-status") != "7" || !strings.HasPrefix(grpc.header.Get("grpc-message"), "This client is banned. Retry after ") {
		t.Errorf("gRPC: %d %v", grpc.status, grpc.header)
	}
	if n := h.as(client(t, false), "203.0.112.66", 1); n != 1 {
		t.Error("the neighbour is refused")
	}
	if n := h.metric("weir_bans"); n != 1 {
		t.Errorf("weir_bans is %v, want 1", n)
	}
	for _, d := range api[admin.Decisions](h, "GET", "/api/v1/decisions?only=refused", "").Decisions {
		if d.Reason != "banned client" || d.RetryAfter == nil || *d.RetryAfter > 600 {
			t.Errorf("%+v", d)
		}
	}
	if lines := h.logs.lines("refused"); len(lines) != 2 || lines[0]["reason"] != "banned client" || lines[0]["retry_after"] == nil {
		t.Errorf("%v", lines)
	}
	api[admin.Ban](h, "POST", "/api/v1/bans", `{"subject": "203.0.113.0/24"}`)
	if a, document := h.refusedAs("203.0.113.66"); a.status != 403 || a.header.Get("Retry-After") != "" || document["detail"] != "This client is banned." {
		t.Errorf("without an end: %d %v: %v", a.status, a.header, document)
	}
}

// Bans outlive a reload and a restart; a reload changes penalties.
func TestBansAndReloads(t *testing.T) {
	h := build(t, plan{yaml: nightly("{rate: 1/1h}")})
	api[admin.Ban](h, "POST", "/api/v1/bans", `{"subject": "203.0.113.1"}`)
	c := client(t, false)
	h.as(c, "203.0.113.2", 20)
	if n := api[admin.Bans](h, "GET", "/api/v1/bans", "").Total; n != 1 {
		t.Errorf("%d bans without penalties, want the one", n)
	}
	h.reloads(nightly("{rate: 1/1h}") + "penalties: [{after: 5 denials in 1h, ban: 1h}]\n")
	h.as(c, "203.0.113.2", 5)
	banned := func(addr string) func() bool {
		return func() bool { a, _ := h.refusedAs(addr); return a.status == 403 }
	}
	eventually(t, "a ban by the penalty", banned("203.0.113.2"))
	if a, _ := h.refusedAs("203.0.113.1"); a.status != 403 {
		t.Errorf("the ban did not outlive the reload: %d", a.status)
	}
	eventually(t, "the line, which comes after the ban", func() bool { return len(h.logs.lines("banned by a penalty")) > 0 })
	eventually(t, "a ban counted", func() bool { return h.metric(`weir_penalties_total{penalty="5 denials in 1h per ip"}`) == 1 })
	if lines := h.logs.lines("banned by a penalty"); len(lines) != 1 || lines[0]["client"] != "203.0.113.0/24" || lines[0]["penalty"] != "5 denials in 1h per ip" {
		t.Errorf("%v", lines)
	}
	h.reloads(nightly("{rate: 1/1h}") + "penalties: [{after: 1 denial in 1h, ban: 1h}]\n")
	h.as(c, "203.0.113.3", 2)
	eventually(t, "a ban by the stricter penalty", banned("203.0.113.3"))
	if err := h.end(); err != nil {
		t.Fatal(err)
	}

	a, err := Start(h.options)
	if err != nil {
		t.Fatal(err)
	}
	h = run(t, a, h.options, h.logs)
	for _, addr := range []string{"203.0.113.1", "203.0.113.2", "203.0.113.3"} {
		if a, _ := h.refusedAs(addr); a.status != 403 {
			t.Errorf("%s after a restart: %d, want 403", addr, a.status)
		}
	}
}

// WAF-13: an upload of 200 parts by an allowed client, of which some trip a rule, ends in no ban; each part
// is judged by itself. Anybody else is banned after 5.
func TestAllowBeatsPenalties(t *testing.T) {
	h := build(t, plan{yaml: nightly("") + "allow: [{cidr: 203.0.113.0/24, reason: uploads}]\npenalties: [{after: 5 blocks in 10m, ban: 1h}]\n"})
	upload := func(addr string, part int) int {
		body := "part"
		if part%20 == 0 {
			body = "id=1' UNION SELECT password FROM users--"
		}
		r, err := http.NewRequest("PUT", h.url("/upload"), strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("X-Forwarded-For", addr)
		res, err := client(t, false).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		io.Copy(io.Discard, res.Body)
		return res.StatusCode
	}
	statuses := map[int]int{}
	for part := range 200 {
		statuses[upload("203.0.113.5", part)]++
	}
	if statuses[200] != 190 || statuses[403] != 10 {
		t.Errorf("%v, want 10 parts blocked and 190 passed", statuses)
	}
	for range 5 {
		upload("198.51.100.5", 0)
	}
	eventually(t, "a ban of the other client", func() bool { return api[admin.Bans](h, "GET", "/api/v1/bans", "").Total > 0 })
	if got := api[admin.Bans](h, "GET", "/api/v1/bans", ""); got.Total != 1 || got.Bans[0].Subject != "198.51.100.5/32" || got.Bans[0].Author != "penalty" {
		t.Errorf("%+v", got)
	}
	if status := upload("203.0.113.5", 1); status != 200 {
		t.Errorf("the allowed client is answered %d", status)
	}
}

// A ban made while Redis is away is refused with the reason; what held goes on.
func TestBansWithoutRedis(t *testing.T) {
	server := redistest.Start(t)
	h := build(t, plan{yaml: nightly("") + fmt.Sprintf("store: {redis: {url: %q}}\n", server.URL())})
	api[admin.Ban](h, "POST", "/api/v1/bans", `{"subject": "203.0.113.1"}`)
	server.Freeze()
	defer server.Thaw()
	r, err := http.NewRequest("POST", "http://"+h.admin.listener.Addr().String()+"/api/v1/bans", strings.NewReader(`{"subject": "203.0.113.2"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := client(t, false).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, _ := io.ReadAll(res.Body); res.StatusCode != 503 || !strings.Contains(string(text), "nobody is banned: redis "+server.Addr) {
		t.Errorf("%d %s", res.StatusCode, text)
	}
	if a, _ := h.refusedAs("203.0.113.1"); a.status != 403 {
		t.Errorf("the known ban: %d", a.status)
	}
	if a, _ := h.refusedAs("203.0.113.2"); a.status != 200 {
		t.Errorf("the ban that was refused: %d", a.status)
	}
	server.Thaw()
	eventually(t, "bans", func() bool {
		r, _ := http.NewRequest("POST", r.URL.String(), strings.NewReader(`{"subject": "203.0.113.2"}`))
		r.Header.Set("Content-Type", "application/json")
		res, err := client(t, false).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode == 201
	})
}
