package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/admin"
	"github.com/weirgate/weir/internal/redistest"
)

// api decodes the answer of the admin API.
func api[T any](h *house, method, path, body string) T {
	h.t.Helper()
	var v T
	r, err := http.NewRequest(method, "http://"+h.admin.listener.Addr().String()+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	c := client(h.t, false)
	defer c.CloseIdleConnections()
	res, err := c.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&v); err != nil || res.StatusCode >= 400 {
		h.t.Fatalf("%s %s: HTTP status %d, %v, %+v", method, path, res.StatusCode, err, v)
	}
	return v
}

// as has a client behind the proxy ask n times, and returns how many passed.
func (h *house) as(c *http.Client, addr string, n int) (passed int) {
	h.t.Helper()
	for range n {
		a, err := ask(c, h.url("/shop"), "X-Forwarded-For", addr)
		if err != nil {
			h.t.Fatal(err)
		}
		if a.status == http.StatusOK {
			passed++
		}
	}
	return passed
}

// What net/http has to say of an upstream breaks no reader of the log, and is for debugging: it may hold a piece of
// an answer.
func TestStandardLog(t *testing.T) {
	for level, want := range map[string]int{"info": 0, "debug": 1} {
		h := build(t, plan{yaml: basics + "log: {level: " + level + "}\n"})
		fmt.Fprintf(h.StandardLog(), "Unsolicited response received on idle HTTP channel starting with %q; err=%v\n", "secret", nil)
		if got := h.logs.lines("Unsolicited response"); len(got) != want || want > 0 && got[0]["level"] != "DEBUG" {
			t.Errorf("at level %s: %v", level, got)
		}
	}
}

// nightly is the configuration of an operator's night, with the limits of the default rule.
func nightly(limits string) string {
	return basics + "client: {path: [nginx]}\ndefault: {limits: [" + limits + "]}\n"
}

// An operator's night. Among 50 clients one asks 100 times as much, and nothing is limited. It is the first
// of the top talkers; a limit on trial says who would be hurt; enforced, it hurts nobody else; it is banned
// and let in again; and every step is written down.
func TestAnOperatorsNight(t *testing.T) {
	t.Run("memory", func(t *testing.T) { anOperatorsNight(t, "") })
	t.Run("redis", func(t *testing.T) {
		anOperatorsNight(t, fmt.Sprintf("store: {redis: {url: %q, timeout: 5s}}\n", redistest.Start(t).URL()))
	})
}

func anOperatorsNight(t *testing.T, store string) {
	nightly := func(limits string) string { return nightly(limits) + store }
	h := build(t, plan{yaml: nightly("")})
	c := client(t, false)
	traffic := func() (loud int) {
		for i := range 50 {
			if h.as(c, fmt.Sprintf("198.51.100.%d", i), 1) != 1 {
				t.Errorf("client %d was refused", i)
			}
			loud += h.as(c, "203.0.113.66", 4)
		}
		return loud
	}
	if n := traffic(); n != 200 {
		t.Errorf("%d of 200 passed with no limit", n)
	}
	top := api[admin.Top](h, "GET", "/api/v1/top", "")
	if e := top.Entries[0]; e.Key != "203.0.113.66/32" || e.Requests != 200 || e.Refused != 0 || top.Requests != 250 {
		t.Errorf("%+v of %d", e, top.Requests)
	}

	rename(t, h.file, nightly("{name: trial, rate: 60/1h, mode: shadow}"))
	if got := api[admin.Reload](h, "POST", "/api/v1/reload", `{"reason": "who would be hurt?"}`); len(got.NeedsRestart) != 0 {
		t.Errorf("%+v", got)
	}
	traffic()
	hurt := api[admin.Shadow](h, "GET", "/api/v1/shadow", "")
	if len(hurt.Clients) != 1 || hurt.Clients[0].Key != "203.0.113.66/32" || hurt.Clients[0].Requests != 140 {
		t.Errorf("%+v", hurt)
	}

	rename(t, h.file, nightly("{name: trial, rate: 60/1h}"))
	api[admin.Reload](h, "POST", "/api/v1/reload", `{"reason": "only the loud one"}`)
	loud := traffic()
	if loud > 60 {
		t.Errorf("%d of 200 passed, want at most 60", loud)
	}
	reset := api[admin.Reset](h, "DELETE", "/api/v1/clients/203.0.113.66%2F32?reason=sorry", "")
	if n := h.as(c, "203.0.113.66", 61); reset.Counters != 1 || n != 60 {
		t.Errorf("%+v; afterwards %d of 61 passed, want 60", reset, n)
	}

	api[admin.Ban](h, "POST", "/api/v1/bans", `{"subject": "203.0.113.66", "for": "10m", "reason": "asleep"}`)
	if a, _ := h.refusedAs("203.0.113.66"); a.status != http.StatusForbidden || h.as(c, "198.51.100.1", 1) != 1 {
		t.Errorf("banned: answered %d, or the others are refused", a.status)
	}
	api[admin.Lifted](h, "DELETE", "/api/v1/bans/203.0.113.66%2F32?reason=awake", "")
	if a, _ := h.refusedAs("203.0.113.66"); a.status == http.StatusForbidden {
		t.Error("still banned")
	}

	var steps []string
	for _, line := range api[admin.Audit](h, "GET", "/api/v1/audit", "").Lines {
		if line.Who == "file" {
			continue // the watcher may have been first
		}
		steps = append(steps, line.Who+" "+line.What+" "+line.Reason)
	}
	want := []string{"loopback ban.remove awake", "loopback ban.add asleep", "loopback client.reset sorry", "loopback reload only the loud one", "loopback reload who would be hurt?"}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Reloads that nobody asked for through the API are written down, too, done or not.
func TestReloadsAreWrittenDown(t *testing.T) {
	h := build(t, plan{yaml: basics})
	before := api[admin.Config](h, "GET", "/api/v1/config", "").Hash
	rename(t, h.file, basics+"headers: both\n")
	h.waitForMetric("success", 1)
	rename(t, h.file, basics+"headerz: both\n")
	if err := h.Reload(); err == nil {
		t.Error("a broken file was put in force")
	}
	lines := api[admin.Audit](h, "GET", "/api/v1/audit", "").Lines
	after := api[admin.Config](h, "GET", "/api/v1/config", "").Hash
	first := lines[len(lines)-1]
	if first.Who != "file" || first.What != "reload" || first.Before != before || first.After != after || first.Error != "" || first.Target != h.file {
		t.Errorf("%+v", first)
	}
	if last := lines[0]; last.Error == "" || last.Before != after || last.After != after {
		t.Errorf("%+v", last)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(h.file), "data", admin.TrailName)); err != nil {
		t.Error(err)
	}
	inUse := func() admin.InUse { return api[admin.Status](h, "GET", "/api/v1/status", "").Config }
	broken := inUse()
	if r := broken.Refused; r == nil || len(r.Errors) != 1 || !strings.Contains(r.Errors[0], "weir.yaml:4:1: headerz") || !r.Time.After(broken.Since) || broken.File != h.file {
		t.Errorf("after a refusal: %+v", broken)
	}
	rename(t, h.file, basics+"headers: legacy\nlog: {format: text}\n")
	if err := h.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := inUse(); got.Refused != nil || !got.Since.After(broken.Since) || !cmp.Equal(got.NeedsRestart, []string{"log.format"}) {
		t.Errorf("after the next reload: %+v", got)
	}
}

// waitForMetric waits until so many reloads had that result.
func (h *house) waitForMetric(result string, n float64) {
	h.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); h.metric(`weir_config_reload_total{result="`+result+`"}`) < n; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			h.t.Fatalf("no %s within 10 s", result)
		}
	}
}

// Metrics, the API and the page stand at one address: the page alone is for who has no token.
func TestAdminAddress(t *testing.T) {
	h := build(t, plan{yaml: basics + "admin_token: all\nadmin_read_token: look\nmetrics: {top_clients: 5}\n"})
	h.get("/")
	for path, want := range map[string]int{"/": 200, "/livez": 200, "/readyz": 200, "/metrics": 401, "/api/v1/top": 401, "/api/v1/openapi.json": 401, "/nothing": 404} {
		if a := h.adminGet(path); a.status != want {
			t.Errorf("%s: HTTP status %d, want %d", path, a.status, want)
		}
	}
	a := h.adminGet("/metrics", "Authorization", "Bearer look")
	if !strings.Contains(a.body, `weir_top_client_requests{client="127.0.0.0/24",rank="1"} 1`) {
		t.Error("the metric of top clients is not there")
	}
	status := h.adminGet("/api/v1/status", "Authorization", "Bearer look")
	var s admin.Status
	if err := json.Unmarshal([]byte(status.body), &s); err != nil || s.Store.Backend != "memory" || len(s.Fronts) != 1 || s.Requests != 1 || s.Ready != "" || s.ConfigHash == "" {
		t.Errorf("%v, %+v", err, s)
	}
}

// Where an address is on this machine alone, nobody else is let in without a token, and nobody by another
// machine's name.
func TestNearness(t *testing.T) {
	for addr, want := range map[string]admin.Local{
		"127.0.0.1:9090": admin.Loopback, "localhost:9090": admin.Loopback, "[::1]:9090": admin.Loopback, "127.0.0.2:0": admin.Loopback,
		"unix:/run/weir.sock": admin.Socket, ":9090": admin.Anywhere, "0.0.0.0:9090": admin.Anywhere, "10.0.0.1:9090": admin.Anywhere, "admin.example:9090": admin.Anywhere,
	} {
		if got := nearness(addr); got != want {
			t.Errorf("%s: %d, want %d", addr, got, want)
		}
	}
	h := build(t, plan{yaml: basics})
	r, _ := http.NewRequest("GET", "http://"+h.admin.listener.Addr().String()+"/metrics", nil)
	r.Host = "evil.example"
	res, err := client(t, false).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if res.Body.Close(); res.StatusCode != http.StatusForbidden {
		t.Errorf("the metrics under another name: HTTP status %d, want 403", res.StatusCode)
	}
}

// What a reload changes about seeing takes effect with it.
func TestSeeingIsReloaded(t *testing.T) {
	h := build(t, plan{yaml: basics})
	h.get("/")
	rename(t, h.file, basics+"whoami: true\nmetrics: {top_clients: 1}\nlog: {addresses: full}\n")
	if err := h.Reload(); err != nil {
		t.Fatal(err)
	}
	if a := h.get("/.well-known/weir/whoami"); a.status != 200 || !strings.Contains(a.body, `"key":"127.0.0.1/32"`) {
		t.Errorf("%+v", a)
	}
	if n := h.metric(`weir_top_client_requests{client="127.0.0.1/32",rank="1"}`); n < 1 {
		t.Errorf("%v requests of the first client", n)
	}
}

// Store health tells when Redis was left alone and when it was asked again, while the API goes on; a client's
// counters are reset in Redis, too.
func TestStoreHealthIsSeen(t *testing.T) {
	server := redistest.Start(t)
	h := build(t, plan{yaml: limited(3) + fmt.Sprintf("store: {redis: {url: %q, timeout: 1s}, breaker: {probe_every: 100ms}}\n", server.URL())})
	health := func() admin.StoreHealth { return api[admin.Status](h, "GET", "/api/v1/status", "").Store }
	if got := h.passes(5, "/api"); got != 3 {
		t.Errorf("%d of 5 passed, want 3", got)
	}
	const me = "/api/v1/clients/127.0.0.1%2F32"
	if reset := api[admin.Reset](h, "DELETE", me, ""); reset.Counters == 0 {
		t.Errorf("%+v", reset)
	}
	left := int64(-1)
	for _, l := range api[admin.ClientView](h, "GET", me, "").Limits {
		left = max(left, l.Remaining)
	}
	if left != 3 {
		t.Errorf("%d left after the reset, want 3", left)
	}
	if h.passes(1, "/api") != 1 { // the refusal is remembered by nobody
		t.Error("refused after the reset")
	}
	server.Freeze()
	eventually(t, "the breaker's opening", func() bool { h.passes(1, "/api"); return len(health().History) == 1 })
	if got := health(); !got.Open || got.Backend != "redis" || !got.History[0].Open || got.Fallbacks == 0 || got.History[0].Kind != "timeout" || got.History[0].Cause == "" {
		t.Errorf("%+v", got)
	}
	server.Thaw()
	eventually(t, "the breaker's closing", func() bool { return len(health().History) == 2 })
	if got := health(); got.Open || got.History[0].Open || got.History[0].Time.Before(got.History[1].Time) {
		t.Errorf("%+v", got)
	}
}
