package proxy

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirgate/weir/front/proxy/guard"
	"github.com/weirgate/weir/middleware"
)

// Of 1,000 parallel requests against a limit of 100, exactly 100 pass.
func TestExactlyTheLimitPasses(t *testing.T) {
	const asked, limit = 1000, 100
	for _, protocol := range protocols {
		var seen atomic.Int32
		h := build(t, plan{yaml: "default: {limits: [{rate: 100/1h, per: client}]}", options: options(t, protocol),
			upstream: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen.Add(1) })})
		client := h.client(protocol)
		var statuses [600]atomic.Int32
		var wait sync.WaitGroup
		for range 50 {
			wait.Go(func() {
				for range asked / 50 {
					answer, err := client.Get(h.url("/"))
					if err != nil {
						t.Error(err)
						return
					}
					io.Copy(io.Discard, answer.Body)
					answer.Body.Close()
					statuses[answer.StatusCode].Add(1)
				}
			})
		}
		wait.Wait()
		if statuses[200].Load() != limit || statuses[429].Load() != asked-limit || seen.Load() != limit {
			t.Errorf("%s: %d passed, %d refused, %d at the upstream", protocol, statuses[200].Load(), statuses[429].Load(), seen.Load())
		}
		if got := h.journal.Totals(); got.Requests != asked || got.Refused != asked-limit {
			t.Errorf("%s: recorded %d requests, %d refused", protocol, got.Requests, got.Refused)
		}
	}
}

// frameHTTP2 returns an HTTP/2 frame (RFC 9113 section 4.1).
func frameHTTP2(kind, flags byte, stream uint32, payload ...byte) []byte {
	b := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	return append(binary.BigEndian.AppendUint32(b, stream), payload...)
}

// reset opens and resets up to 10,000 streams on one connection, and returns it with a channel that is
// closed when it is over.
func (h *house) reset() (c net.Conn, ended chan bool) {
	c, ended = h.dial(), make(chan bool)
	go func() { io.Copy(io.Discard, c); close(ended) }()
	io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	c.Write(frameHTTP2(4, 0, 0)) // SETTINGS
	// HEADERS with END_STREAM and END_HEADERS; GET, http and / are in HPACK's static table.
	header := append([]byte{0x82, 0x86, 0x84, 0x41, 1}, 'a')
	for i := range uint32(10_000) {
		stream := 2*i + 1
		both := append(frameHTTP2(1, 5, stream, header...), frameHTTP2(3, 0, stream, 0, 0, 0, 8)...) // RST_STREAM, CANCEL
		if _, err := c.Write(both); err != nil {
			break // it was ended
		}
	}
	return c, ended
}

// A client that opens and resets streams is charged for each; the upstream sees what the limit lets
// pass at most (PRX-22).
func TestRapidResets(t *testing.T) {
	var seen atomic.Int32
	h := build(t, plan{yaml: "default: {limits: [{rate: 100/1h, per: client}]}",
		upstream: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen.Add(1) })})
	c, _ := h.reset()
	c.Close()
	h.eventually("the end", func() bool { return h.InFlight() == 0 })
	if seen.Load() > 100 {
		t.Errorf("the upstream saw %d requests", seen.Load())
	}
	if got := h.journal.Totals(); got.Requests-got.Refused > 100 {
		t.Errorf("%d of %d passed", got.Requests-got.Refused, got.Requests)
	}
}

// Where resets come faster than requests end, the connection is ended for its haste (PRX-22).
func TestResetsInHasteEndTheConnection(t *testing.T) {
	release := make(chan bool)
	h := build(t, plan{next: func(http.ResponseWriter, *http.Request, *middleware.Call) { <-release }})
	_, ended := h.reset()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("the connection goes on")
	}
	close(release)
	h.eventually("the end", func() bool { return h.InFlight() == 0 })
}

// Drain lets requests finish, and takes no new ones.
func TestDrainWaits(t *testing.T) {
	for _, protocol := range protocols {
		release := make(chan bool)
		h := build(t, plan{options: options(t, protocol), upstream: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			<-release
			io.WriteString(w, "done")
		})})
		client := h.client(protocol)
		answered := make(chan string, 1)
		go func() {
			answer, err := client.Get(h.url("/"))
			if err != nil {
				answered <- err.Error()
				return
			}
			body, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			answered <- string(body)
		}()
		h.eventually("the request", func() bool { return h.InFlight() == 1 })
		drained := make(chan error, 1)
		go func() { drained <- h.Drain(context.Background()) }()
		h.eventually("the listener's end", func() bool {
			c, err := net.Dial("tcp", h.address)
			if err == nil {
				c.Close()
			}
			return err != nil
		})
		close(release)
		if got := <-answered; got != "done" {
			t.Errorf("%s: %s", protocol, got)
		}
		if err := <-drained; err != nil {
			t.Errorf("%s: %v", protocol, err)
		}
	}
}

// What does not end in time is cut off: streams, and connections that were upgraded.
func TestDrainCutsOff(t *testing.T) {
	began := make(chan bool, 1)
	h := build(t, plan{upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ws" {
			upgrade(w, r)
			return
		}
		began <- true
		<-r.Context().Done()
	})})
	socket, _ := h.webSocket()
	go func() {
		if answer, err := h.client("HTTP/1.1").Get(h.url("/stream")); err == nil {
			answer.Body.Close()
		}
	}()
	<-began
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := h.Drain(ctx); err == nil || !strings.Contains(err.Error(), "2 requests cut off") {
		t.Errorf("got %v", err)
	}
	if _, err := socket.ReadByte(); err == nil {
		t.Error("the upgraded connection is open")
	}
	if h.InFlight() != 0 {
		t.Errorf("%d in flight", h.InFlight())
	}
	h.recorded(2)
}

// An upgraded connection that ends while Drain waits is enough.
func TestDrainWaitsForUpgraded(t *testing.T) {
	h := build(t, plan{upstream: http.HandlerFunc(upgrade)})
	_, c := h.webSocket()
	drained := make(chan error, 1)
	go func() { drained <- h.Drain(context.Background()) }()
	select {
	case err := <-drained:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	c.Close()
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

// An eager connection is asked for GOAWAY in every write, as soon as it is known.
type eager struct {
	net.Conn
	guarded atomic.Pointer[guard.Conn]
}

func (c *eager) Write(p []byte) (int, error) {
	if g := c.guarded.Load(); g != nil {
		g.GoAway() // is said after this write
	}
	return c.Conn.Write(p)
}

// eagerly is a listener of eager connections. It tells of each.
type eagerly struct {
	net.Listener
	conns chan *eager
}

func (l eagerly) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	e := &eager{Conn: c}
	l.conns <- e
	return e, nil
}

// A client over HTTP/2 that is told to go while a long header is on its way to it, in several frames, gets the header.
func TestLeaveIsNotTakenWithinAHeader(t *testing.T) {
	conns := make(chan *eager, 10)
	long := strings.Repeat("~", 20<<10) // which HPACK cannot shorten; a frame holds 16 KB
	h := build(t, plan{
		listener: func(l net.Listener) net.Listener { return eagerly{l, conns} },
		next: func(w http.ResponseWriter, r *http.Request, _ *middleware.Call) {
			(<-conns).guarded.Store(guard.From(r.Context()))
			w.Header().Set("Long", long)
		},
	})
	if answer, _ := h.get(h.client("h2c"), "/"); answer.Header.Get("Long") != long {
		t.Errorf("%d bytes came", len(answer.Header.Get("Long")))
	}
}

// named answers with a name.
func named(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, name) })
}

func TestRoutesChooseTheUpstream(t *testing.T) {
	shop, rest := serve(t, named("shop")).URL, serve(t, named("rest")).URL
	yaml := fmt.Sprintf("%slisten: \":0\"\nupstream: %s\nroutes: [{path: /shop, upstream: %s}]\n", watchOnly, rest, shop)
	h := build(t, plan{yaml: yaml, upstreams: UpstreamOptions{Routes: []string{shop}, Default: rest}})
	client := h.client("HTTP/1.1")
	for path, want := range map[string]string{"/shop/1": "shop", "/shop": "shop", "/shopping": "rest", "/": "rest"} {
		if _, got := h.get(client, path); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
}

func TestWithoutAnUpstreamForIt(t *testing.T) {
	h := build(t, plan{})
	if answer, _ := h.get(h.client("HTTP/1.1"), "/"); answer.StatusCode != 404 {
		t.Error(answer.StatusCode)
	}
}

// A reload to another upstream fails no request, leaves no connection to the old one, and keeps those to
// upstreams that stay.
func TestUpstreamsAreSwapped(t *testing.T) {
	var conns atomic.Int32
	counting := observed(t, named("stays"), func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	})
	var open atomic.Int32
	old := observed(t, named("old"), func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	})
	yaml := fmt.Sprintf("%slisten: \":0\"\nroutes: [{path: /stays, upstream: %s}]\nupstream: %s\n", watchOnly, counting.URL, old.URL)
	first := plan{yaml: yaml, upstreams: UpstreamOptions{Routes: []string{counting.URL}, Default: old.URL}}
	h := build(t, first)
	client := h.client("HTTP/1.1")
	h.get(client, "/stays")
	h.get(client, "/")
	first.upstreams.Default = serve(t, named("new")).URL
	was := h.engine.Swap(h.snapshot(first, h.engine.Current().Upstreams))
	CloseIdle(was.Upstreams, h.engine.Current().Upstreams)
	if _, got := h.get(client, "/"); got != "new" {
		t.Errorf("got %s", got)
	}
	h.get(client, "/stays")
	if conns.Load() != 1 {
		t.Errorf("%d connections to the upstream that stays, want one", conns.Load())
	}
	h.eventually("the old connection's end", func() bool { return open.Load() == 0 })
}

func TestBadUpstreams(t *testing.T) {
	tests := map[string]string{
		"ftp://a": "want http://", "a:80": "want http://", "http://": "no host", "http://a?b": "scheme, host and path only",
		"http://u:p@a": "scheme, host and path only", "http://a b": "upstream: parse", "": "",
	}
	for text, want := range tests {
		_, err := NewUpstreams(UpstreamOptions{Default: text}, nil)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := NewUpstreams(UpstreamOptions{Routes: []string{"http://a", "x"}}, nil); err == nil || !strings.Contains(err.Error(), "routes[1]") {
		t.Errorf("got %v", err)
	}
}

// A drop leaves no answer, and over TCP a reset.
func TestDrop(t *testing.T) {
	for _, protocol := range protocols {
		h := build(t, plan{yaml: "rules: [{name: r, path: /, action: drop, limits: [{rate: 0/1m}]}]", options: options(t, protocol),
			upstream: http.HandlerFunc(echo)})
		if answer, err := h.client(protocol).Get(h.url("/")); err == nil {
			t.Errorf("%s: answered %d", protocol, answer.StatusCode)
			answer.Body.Close()
		}
		h.recorded(1)
	}
	h := build(t, plan{yaml: "rules: [{name: r, path: /, action: drop, limits: [{rate: 0/1m}]}]", upstream: http.HandlerFunc(echo)})
	c := h.dial()
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if _, err := bufio.NewReader(c).ReadByte(); err == nil || !strings.Contains(err.Error(), "reset") {
		t.Errorf("want a reset, got %v", err)
	}
}
