package forwardauth

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/internal/proctest"
	"github.com/weirgate/weir/internal/timed"
	"github.com/weirgate/weir/store/memory"
)

// soon is within what an answer must come that waits for nothing.
const soon = time.Second

// dial opens a connection for bytes that net/http would not send.
func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(proctest.Patience))
	return c
}

// head is an ask of nginx's, by method, with more header lines.
func head(method string, more ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s /auth/nginx HTTP/1.1\r\nHost: weir\r\n", method)
	for name, lines := range nginxAsks("/a") {
		fmt.Fprintf(&b, "%s: %s\r\n", name, lines[0])
	}
	for _, line := range more {
		b.WriteString(line + "\r\n")
	}
	return b.String() + "\r\n"
}

// Public case PRX-07: what belongs to the client's connection, and bodies that are announced and never
// come, keep no answer back; nor does a body that comes.
func TestForeignFieldsAndBodies(t *testing.T) {
	addr := build(t, "default: {limits: [{name: many, rate: 1000/1m}]}\n"+behind).serve()
	upgrade := []string{"Connection: Upgrade, HTTP2-Settings", "Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "HTTP2-Settings: AAMAAABkAAQAAP__"}
	for name, bytes := range map[string]string{
		"upgrade":                    head("GET", upgrade...),
		"h2c":                        head("GET", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"),
		"length 0":                   head("GET", append(upgrade, "Content-Length: 0")...),
		"length without a body":      head("GET", append(upgrade, "Content-Length: 1000")...),
		"huge length":                head("POST", "Content-Length: 1000000000000"),
		"chunked without a body":     head("GET", "Transfer-Encoding: chunked"),
		"expect":                     head("POST", "Expect: 100-continue", "Content-Length: 10"),
		"expect, no body":            head("GET", "Expect: 100-continue"),
		"a body":                     head("POST", "Content-Length: 5") + "hello",
		"a long body":                head("POST", "Content-Length: 300000") + strings.Repeat("x", 300_000),
		"a chunked body":             head("PUT", "Transfer-Encoding: chunked") + "5\r\nhello\r\n0\r\n\r\n",
		"OPTIONS":                    head("OPTIONS"),
		"CONNECT":                    head("CONNECT"),
		"a method of its own":        head("BREW"),
		"another Content-Type, TE":   head("GET", "TE: trailers", "Content-Type: application/grpc"),
		"a trailer that is promised": head("POST", "Trailer: X-Forwarded-Uri", "Transfer-Encoding: chunked"),
	} {
		c, began := dial(t, addr), time.Now()
		go io.WriteString(c, bytes) // a long one is not read to its end
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if took := time.Since(began); res.StatusCode != http.StatusOK || res.Header.Get("X-Weir-Status") != "200" || took > timed.Bound(soon) {
			t.Errorf("%s: HTTP status %d after %v", name, res.StatusCode, took)
		}
		c.Close()
	}
	c := dial(t, addr)
	io.WriteString(c, head("HEAD"))
	if res, err := http.ReadResponse(bufio.NewReader(c), httptest.NewRequest(http.MethodHead, "/", nil)); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("HEAD: %v", err)
	}
}

// Without a body a connection is used again and again; what was announced as one is not taken for the next
// ask.
func TestConnections(t *testing.T) {
	addr := build(t, "default: {limits: [{name: many, rate: 1000/1m}]}\n"+behind).serve()
	c := dial(t, addr)
	r := bufio.NewReader(c)
	for range 100 {
		io.WriteString(c, head("GET"))
		if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != http.StatusOK || res.Close {
			t.Fatalf("%v, %+v", err, res)
		}
	}
	smuggled := head("GET")
	io.WriteString(c, head("POST", fmt.Sprintf("Content-Length: %d", len(smuggled)))+smuggled)
	if res, err := http.ReadResponse(r, nil); err != nil || !res.Close {
		t.Fatalf("%v, %+v", err, res)
	}
	if rest, err := io.ReadAll(r); len(rest) > 0 {
		t.Errorf("a body was answered: %s, %v", rest, err)
	}
}

func TestHeaderBounds(t *testing.T) {
	h := build(t, behind)
	addr := h.serve()
	c := dial(t, addr)
	go io.WriteString(c, head("GET", "X-Long: "+strings.Repeat("x", 100<<10)))
	if res, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header above the bound: %v, %+v", err, res)
	}
	slow := dial(t, addr)
	io.WriteString(slow, "GET /auth/nginx HTTP/1.1\r\n")
	if _, err := io.ReadAll(slow); err != nil {
		t.Errorf("a header that does not end: %v, want the end of the connection", err)
	}
	for _, line := range []string{"X-Original-URI: /b\r\n /c", "X-Original-URI : /b", "X-Original-URI: /\x00", "X-Original-URI: /a\rX: y"} {
		c := dial(t, addr)
		io.WriteString(c, head("GET", line))
		if res, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil && res.StatusCode == http.StatusOK {
			t.Errorf("%q passes", line)
		}
	}
}

// A waiting store holds every ask until it is let go or the asker has gone.
type waiting struct {
	*memory.Store
	asked chan struct{}
	let   chan struct{}
	gone  atomic.Bool
}

func newWaiting(t *testing.T) *waiting {
	w := &waiting{Store: memory.New(memory.Options{}), asked: make(chan struct{}, 10), let: make(chan struct{})}
	t.Cleanup(w.Store.Close)
	return w
}

func (w *waiting) Take(ctx context.Context, now time.Time, hits []weir.Hit, out []weir.Status) error {
	w.asked <- struct{}{}
	select {
	case <-w.let:
	case <-ctx.Done():
		w.gone.Store(true)
		return ctx.Err()
	}
	return w.Store.Take(ctx, now, hits, out)
}

var _ engine.Store = (*waiting)(nil)

// A drain lets what is asked be answered, and cuts off what is left when its time is over.
func TestDrain(t *testing.T) {
	for _, patient := range []time.Duration{proctest.Patience, 0} {
		store := newWaiting(t)
		h := buildOver(t, once, store)
		addr := h.serve()
		c := dial(t, addr)
		io.WriteString(c, head("GET"))
		<-store.asked
		drained := make(chan error, 1)
		ctx, cancel := context.WithTimeout(context.Background(), patient)
		defer cancel()
		go func() { drained <- h.Drain(ctx) }()
		if patient > 0 {
			if err := proctest.Await(proctest.Patience, func() error { return refuses(addr) }); err != nil {
				t.Error(err)
			}
			close(store.let)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if answered := err == nil && res.StatusCode == http.StatusOK; answered != (patient > 0) {
			t.Errorf("patience %v: %v, %v", patient, res, err)
		}
		if err := <-drained; (err == nil) != (patient > 0) || err != nil && !strings.Contains(err.Error(), "1 asks cut off") {
			t.Errorf("patience %v: the drain says %v", patient, err)
		}
	}
}

// refuses returns nil once nobody listens at addr any more.
func refuses(addr string) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil
	}
	c.Close()
	return fmt.Errorf("%s is still listened at", addr)
}

// A proxy that goes away, as its client did, ends the ask; it is recorded once.
func TestClientAbort(t *testing.T) {
	store := newWaiting(t)
	h := buildOver(t, once, store)
	c := dial(t, h.serve())
	io.WriteString(c, head("GET"))
	<-store.asked
	c.Close()
	err := proctest.Await(proctest.Patience, func() error {
		if n, _ := h.asked(); n != 1 {
			return fmt.Errorf("%d requests are recorded", n)
		}
		return nil
	})
	if err != nil || !store.gone.Load() {
		t.Errorf("%v; the store knows of it: %v", err, store.gone.Load())
	}
}

// A panic on the way out is recorded as any other end.
func TestPanicIsRecorded(t *testing.T) {
	h := build(t, once)
	defer func() {
		if n, _ := h.asked(); recover() == nil || n != 1 {
			t.Errorf("%d requests are recorded, want a panic and one", n)
		}
	}()
	r := httptest.NewRequest(http.MethodGet, "/auth/caddy", nil)
	r.RemoteAddr, r.Header = "127.0.0.1:4242", caddyAsks("/a")
	h.ServeHTTP(broken{httptest.NewRecorder()}, r)
}

// A broken writer panics.
type broken struct{ http.ResponseWriter }

func (broken) WriteHeader(int) { panic("broken") }
