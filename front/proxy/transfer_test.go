package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/middleware"
)

// A body of undeclared length is bounded as well, and the upstream sees no more of it (PRX-14).
func TestBodiesAreBoundedInAnyFraming(t *testing.T) {
	const bound = 64 << 10
	var most atomic.Int64
	yaml := "rules: [{name: r, path: /, max_body: 64KiB, limits: [{rate: 1000/1m}]}]"
	for _, protocol := range protocols {
		h := build(t, plan{yaml: yaml, options: options(t, protocol), upstream: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			n, _ := io.Copy(io.Discard, r.Body)
			most.Store(max(most.Load(), n))
		})})
		for size, want := range map[int64]int{bound: 200, bound + 1: 413, 50 * bound: 413} {
			body := io.LimitReader(strings.NewReader(strings.Repeat("x", 50*bound)), size)
			answer, err := h.client(protocol).Post(h.url("/"), "text/plain", io.MultiReader(body))
			if err != nil {
				continue // the connection ended while the body was being written
			}
			answer.Body.Close()
			if answer.StatusCode != want {
				t.Errorf("%s, %d bytes: %d, want %d", protocol, size, answer.StatusCode, want)
			}
		}
		h.eventually("the end", func() bool { return h.InFlight() == 0 })
	}
	if most.Load() > bound {
		t.Errorf("the upstream saw %d bytes", most.Load())
	}
}

// Requests that come at once on one connection are answered in their order, whatever frames them.
func TestPipelining(t *testing.T) {
	h := build(t, plan{upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s", r.URL.Path, body)
	})})
	c := h.dial()
	io.WriteString(c, "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n"+
		"POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na\nb"+
		"POST /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n\n\n\r\n0\r\nT: x\r\n\r\n"+
		"GET /4 HTTP/1.1\r\nHost: a\r\n\r\n")
	r := bufio.NewReader(c)
	for _, want := range []string{"/1 ", "/2 a\nb", "/3 \n\n", "/4 "} {
		if _, got, _ := h.hear(r); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	h.recorded(4)
}

// What belongs to the upstream's connection stays there.
func TestAnswersFields(t *testing.T) {
	upstream := raw(t, func(c net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nProxy-Authenticate: x\r\n"+
			"Set-Cookie: a\r\nSet-Cookie: b\r\nDate: then\r\nServer: s\r\nContent-Length: 2\r\n\r\nok")
	})
	h := build(t, plan{upstreams: UpstreamOptions{Default: upstream}})
	answer, body := h.get(h.client("HTTP/1.1"), "/")
	want := http.Header{"Set-Cookie": {"a", "b"}, "Date": {"then"}, "Server": {"s"}, "Content-Length": {"2"}}
	if diff := cmp.Diff(want, answer.Header); diff != "" || body != "ok" {
		t.Errorf("%s %q", diff, body)
	}
}

func TestHeadKeepsTheLength(t *testing.T) {
	h := build(t, plan{upstream: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "12345")
	})})
	answer, err := h.client("HTTP/1.1").Head(h.url("/"))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.ContentLength != 12345 {
		t.Errorf("got %d", answer.ContentLength)
	}
}

// A kept connection that the upstream closed meanwhile costs nobody a request.
func TestStaleConnectionIsReplaced(t *testing.T) {
	var conns atomic.Int32
	upstream := raw(t, func(c net.Conn) {
		conns.Add(1)
		_, _ = http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") // and closes without saying so
	})
	h := build(t, plan{upstreams: UpstreamOptions{Default: upstream}})
	client := h.client("HTTP/1.1")
	for range 20 {
		if answer, _ := h.get(client, "/"); answer.StatusCode != 200 {
			t.Fatalf("HTTP status %d", answer.StatusCode)
		}
	}
	if conns.Load() != 20 {
		t.Errorf("%d connections", conns.Load())
	}
}

// The outcome holds the time until the upstream's header, not the whole answer's.
func TestOutcomeHoldsTheWait(t *testing.T) {
	waits, seen := make(chan time.Duration, 1), make(chan bool)
	h := build(t, plan{upstream: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(20 * time.Millisecond)
		_ = http.NewResponseController(w).Flush()
		<-seen
	})})
	forward := h.next
	h.next = func(w http.ResponseWriter, r *http.Request, c *middleware.Call) {
		forward(w, r, c)
		waits <- c.Outcome.Upstream
	}
	began := time.Now()
	answer, err := h.client("HTTP/1.1").Get(h.url("/"))
	if err != nil {
		t.Fatal(err)
	}
	most := time.Since(began) // until the header was here
	close(seen)
	_, _ = io.Copy(io.Discard, answer.Body) // who leaves before the end is forwarded nothing, and waits says nothing
	answer.Body.Close()
	if got := <-waits; got < 20*time.Millisecond || got > most {
		t.Errorf("waited %v, want at least 20ms and at most %v", got, most)
	}
}

func TestPour(t *testing.T) {
	broken := errors.New("broken")
	tests := []struct {
		from    io.Reader
		want    string
		flushes int
		err     error
	}{
		{strings.NewReader(""), "", 0, nil},
		{iotest.OneByteReader(strings.NewReader("abc")), "abc", 3, nil},
		{iotest.DataErrReader(strings.NewReader("abc")), "abc", 1, nil},
		{io.MultiReader(strings.NewReader("ab"), iotest.ErrReader(broken)), "ab", 1, broken},
	}
	for _, x := range tests {
		var got strings.Builder
		flushes := 0
		err := pour(&got, x.from, make([]byte, 8), func() error { flushes++; return nil })
		if got.String() != x.want || flushes != x.flushes || err != x.err {
			t.Errorf("got %q, %d flushes, %v; want %q, %d, %v", got.String(), flushes, err, x.want, x.flushes, x.err)
		}
	}
	if err := pour(io.Discard, strings.NewReader("a"), make([]byte, 8), func() error { return broken }); err != errNotTaken {
		t.Errorf("a failed flush: %v", err)
	}
}

func TestRequestBodyEndsWithItsHandler(t *testing.T) {
	b := requestBody{from: strings.NewReader("abc")}
	p := make([]byte, 2)
	if n, err := b.Read(p); n != 2 || err != nil || b.Close() != nil {
		t.Errorf("%d %v", n, err)
	}
	if n, err := b.Read(p); n != 1 || err != nil {
		t.Errorf("after the transport closed it: %d %v", n, err)
	}
	b.done.Store(true)
	if _, err := b.Read(p); err != http.ErrBodyReadAfterClose {
		t.Errorf("after the handler: %v", err)
	}
}
