package admin_test

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/proctest"
)

// request is one from the proxy.
func request(h http.Header) weir.Request {
	return weir.Request{Front: "proxy", Peer: netip.MustParseAddr("127.0.0.1"), Method: "GET", Host: "example.com", Path: "/", Scheme: "http", Header: h}
}

// serve returns the house at a real address.
func serve(t *testing.T, h *house) string {
	server := httptest.NewServer(h)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server.URL
}

// listen opens the events, and returns how to read the next one of a name.
func listen(t *testing.T, url string) (next func(name string) string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), proctest.Patience)
	r, err := http.NewRequestWithContext(ctx, "GET", url+"/api/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("HTTP status %d, %s", res.StatusCode, res.Header.Get("Content-Type"))
	}
	lines := bufio.NewScanner(res.Body)
	next = func(name string) string {
		found := false
		for lines.Scan() {
			if found && strings.HasPrefix(lines.Text(), "data: ") {
				return lines.Text()
			}
			found = found || lines.Text() == "event: "+name
		}
		t.Fatalf("no %s: %v", name, lines.Err())
		return ""
	}
	return next, func() { cancel(); res.Body.Close() }
}

// Each second is told of, and each refusal once.
func TestEvents(t *testing.T) {
	h := build(t, nil)
	h.visit("192.0.2.1", "/search", 4) // before anybody listens
	next, stop := listen(t, serve(t, h))
	defer stop()
	first := next("point")
	h.visit("203.0.113.7", "/search", 5)
	one, two := next("refused"), next("refused")
	for _, line := range []string{one, two} {
		if !strings.Contains(line, `"client":"203.0.113.7/32"`) {
			t.Error(line)
		}
	}
	if second := next("point"); second == first || !strings.Contains(second, `"p50":`) {
		t.Errorf("%s after %s", second, first)
	}
}

// Listeners are bounded, and whoever goes makes room.
func TestListenersAreBounded(t *testing.T) {
	h := build(t, nil)
	url := serve(t, h)
	var stops []func()
	for range 32 {
		_, stop := listen(t, url)
		stops = append(stops, stop)
	}
	status := func() int {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		r, _ := http.NewRequestWithContext(ctx, "GET", url+"/api/v1/events", nil)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	if got := status(); got != 503 {
		t.Errorf("the 33rd: HTTP status %d, want 503", got)
	}
	for _, stop := range stops {
		stop()
	}
	if err := proctest.Await(proctest.Patience, func() error {
		if status() != 200 {
			return context.DeadlineExceeded
		}
		return nil
	}); err != nil {
		t.Error("nobody listens any more, and there is no room")
	}
	http.DefaultClient.CloseIdleConnections()
}
