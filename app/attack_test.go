package app

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weirgate/weir/internal/proctest"
)

// Without a token the admin address serves the page, which says nothing of anybody, and two words of health. Nothing
// that shows memory, files or who asks is there by any name that others gave it, or by any method.
func TestWhatIsOpenWithoutAToken(t *testing.T) {
	h := build(t, plan{yaml: basics + "admin_token: all\n"})
	h.get("/shop")
	for path, want := range map[string]int{
		"/": 200, "/livez": 200, "/readyz": 200, "/dashboard/js/main.js": 200,
		"/metrics": 401, "/api": 401, "/api/": 401, "/api/v1": 401, "/api/v1/": 401, "/api/v1/config": 401, "/api/v1/events": 401, "/api/v2/top": 401,
		"/debug/pprof/": 404, "/debug/pprof/heap": 404, "/debug/pprof/goroutine?debug=2": 404, "/debug/pprof/cmdline": 404, "/debug/vars": 404, "/debug/requests": 404, "/debug": 404,
		"/metrics/": 404, "/federate": 404, "/config": 404, "/configz": 404, "/env": 404, "/actuator/env": 404, "/healthz": 404, "/status": 404, "/stats": 404,
		"/weir.yaml": 404, "/weir-data/audit.log": 404, "/audit.log": 404, "/.git/config": 404, "/.env": 404, "/server-status": 404, "/favicon.ico": 404, "/robots.txt": 404,
		"/dashboard/": 404, "/dashboard/js/": 404, "/dashboard/%2e%2e/%2e%2e/etc/passwd": 404, "/dashboard/..%2f..%2fgo.mod": 404, "/%2e%2e%2fgo.mod": 404, "/dashboard/dashboard.go": 404,
	} {
		a := h.adminGet(path)
		if a.status != want {
			t.Errorf("%s: HTTP status %d, want %d", path, a.status, want)
		}
		if (path == "/livez" || path == "/readyz") && a.body != "ok\n" {
			t.Errorf("%s says %q", path, a.body)
		}
		if server := a.header.Get("Server"); server != "" || strings.Contains(a.body, "/shop") || strings.Contains(a.body, "goroutine") {
			t.Errorf("%s: Server %q, %.100q", path, server, a.body)
		}
	}
	c := client(t, false)
	for _, path := range []string{"/metrics", "/livez", "/readyz", "/", "/debug/pprof/"} {
		for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"} {
			r, _ := http.NewRequest(method, "http://"+h.admin.listener.Addr().String()+path, nil)
			r.Header.Set("Origin", "https://evil.example")
			r.Header.Set("Access-Control-Request-Method", "GET")
			res, err := c.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != 405 && res.StatusCode != 404 || strings.Contains(fmt.Sprint(res.Header), "Access-Control") {
				t.Errorf("%s %s: HTTP status %d, %v", method, path, res.StatusCode, res.Header)
			}
		}
	}
}

// A wrong token is counted, and in the log, which never has what was tried, nor the right one.
func TestWrongTokensAreSeen(t *testing.T) {
	const series = `weir_refused_connections_total{fault="admin_wrong_token"}`
	h := build(t, plan{yaml: basics + "admin_token: the-right-one\n"})
	for _, path := range []string{"/metrics", "/api/v1/top", "/api/v1/config?token=the-right-one"} {
		if a := h.adminGet(path, "Authorization", "Bearer guess"); a.status != 401 {
			t.Errorf("%s: HTTP status %d", path, a.status)
		}
	}
	h.adminGet("/metrics") // nobody's token is no wrong one
	if a := h.adminGet("/metrics", "Authorization", "Bearer the-right-one"); !strings.Contains(a.body, "\n"+series+" 3\n") {
		t.Errorf("%s is not 3", series)
	}
	lines := h.logs.lines("refused connection")
	if len(lines) != 3 || lines[0]["fault"] != "admin_wrong_token" || lines[0]["peer"] != "127.0.0.0/24" {
		t.Errorf("%v", lines)
	}
	h.logs.mu.Lock()
	defer h.logs.mu.Unlock()
	if text := h.logs.text.String(); strings.Contains(text, "guess") || strings.Contains(text, "the-right-one") {
		t.Error(text)
	}
}

// Whoever takes nothing of his answer is let go of, and holds no connection for ever.
func TestSlowReadersAreLetGo(t *testing.T) {
	o, written := options(t, plan{yaml: basics})
	a, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	if a.admin.server.WriteTimeout <= 0 || a.admin.server.WriteTimeout > time.Minute {
		t.Errorf("an answer may take %s", a.admin.server.WriteTimeout)
	}
	a.admin.server.WriteTimeout = time.Second // the same, sooner
	closed := make(chan struct{}, 1)
	a.admin.server.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			closed <- struct{}{}
		}
	}
	h := run(t, a, o, written)
	c, err := net.Dial("tcp", h.admin.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ask := "GET /dashboard/vendor/uPlot.esm.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
	if _, err := io.WriteString(c, strings.Repeat(ask, 200)); err != nil { // 29 MB, more than any socket holds
		t.Fatal(err)
	}
	select {
	case <-closed:
	case <-time.After(proctest.Patience):
		t.Error("the connection is held still")
	}
}

// Who reaches the admin address cannot take the descriptors that the fronts live on: so many connections are held, a
// further one is closed at once, and that is counted.
func TestAdminConnectionsAreBounded(t *testing.T) {
	h := build(t, plan{yaml: basics})
	var held []net.Conn
	t.Cleanup(func() {
		for _, c := range held {
			c.Close()
		}
	})
	ask := func(c net.Conn) error {
		_ = c.SetDeadline(time.Now().Add(proctest.Patience)) // fails with what follows
		if _, err := io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			return err
		}
		_, err := c.Read(make([]byte, 1))
		return err
	}
	for range h.room.admin + 1 {
		c, err := net.Dial("tcp", h.admin.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
		if err = ask(c); (err != nil) != (len(held) > h.room.admin) {
			t.Fatalf("connection %d of %d: %v", len(held), h.room.admin, err)
		}
	}
	if a := h.get("/shop"); a.status != 200 {
		t.Errorf("meanwhile the proxy answers %d", a.status)
	}
	held[0].Close()
	if err := proctest.Await(proctest.Patience, func() error {
		c := client(t, false)
		defer c.CloseIdleConnections()
		a, err := askFor(c, h)
		if err == nil && !strings.Contains(a.body, "\nweir_refused_connections_total{fault=\"admin_too_many_connections\"} ") {
			return fmt.Errorf("not counted: HTTP status %d", a.status)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// askFor asks for the metrics.
func askFor(c *http.Client, h *house) (answer, error) {
	return ask(c, "http://"+h.admin.listener.Addr().String()+"/metrics")
}
