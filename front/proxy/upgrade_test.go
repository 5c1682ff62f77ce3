package proxy

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"testing"
)

// upgrade is an upstream that changes to a protocol in which it says everything twice.
func upgrade(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Connection") != "Upgrade" || r.Header.Get("Upgrade") != "websocket" {
		w.WriteHeader(http.StatusUpgradeRequired)
		return
	}
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	for {
		line, err := rw.ReadString('\n')
		if err != nil {
			return
		}
		io.WriteString(c, line+line)
	}
}

// webSocket opens an upgraded connection through h.
func (h *house) webSocket() (*bufio.Reader, net.Conn) {
	h.t.Helper()
	c := h.dial()
	io.WriteString(c, lines("GET /ws HTTP/1.1", "Host: a", "Connection: keep-alive, Upgrade", "Upgrade: websocket", "", ""))
	r := bufio.NewReader(c)
	answer, err := http.ReadResponse(r, nil)
	if err != nil || answer.StatusCode != 101 {
		h.t.Fatalf("no upgrade: %v %v", answer, err)
	}
	return r, c
}

// After an upgrade the bytes are nobody's HTTP, and the request is in flight until the end.
func TestWebSocket(t *testing.T) {
	h := build(t, plan{upstream: http.HandlerFunc(upgrade)})
	r, c := h.webSocket()
	for _, said := range []string{"hello\n", "GET / HTTP/1.1\n", "\x00\x01 : \n"} {
		io.WriteString(c, said)
		for range 2 {
			if heard, err := r.ReadString('\n'); err != nil || heard != said {
				t.Fatalf("said %q, heard %q %v", said, heard, err)
			}
		}
	}
	if h.InFlight() != 1 || h.journal.Totals().Requests != 0 {
		t.Errorf("%d in flight, %d recorded, while it is open", h.InFlight(), h.journal.Totals().Requests)
	}
	c.Close()
	h.recorded(1)
	h.eventually("the end", func() bool { return h.InFlight() == 0 })
}

// An upstream cannot change to what was not asked for.
func TestUnaskedUpgrade(t *testing.T) {
	upstream := raw(t, func(c net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
		io.Copy(io.Discard, c)
	})
	h := build(t, plan{upstreams: UpstreamOptions{Default: upstream}})
	for _, asked := range []string{"", "Connection: Upgrade\r\nUpgrade: websocket\r\n"} {
		if answer, _, _ := h.say("GET / HTTP/1.1\r\nHost: a\r\n" + asked + "\r\n"); answer.StatusCode != 502 {
			t.Errorf("%q: %d", asked, answer.StatusCode)
		}
	}
}

// One side of an upgraded connection may end before the other.
func TestHalfClosedUpgrade(t *testing.T) {
	upstream := raw(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		_, _ = http.ReadRequest(r)
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		all, _ := io.ReadAll(r)
		c.Write(bytes.ToUpper(all))
	})
	h := build(t, plan{upstreams: UpstreamOptions{Default: upstream}})
	r, c := h.webSocket()
	io.WriteString(c, "hello")
	c.(*net.TCPConn).CloseWrite()
	if got, err := io.ReadAll(r); string(got) != "HELLO" || err != nil {
		t.Errorf("got %q %v", got, err)
	}
}
