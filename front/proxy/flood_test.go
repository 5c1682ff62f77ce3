package proxy

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// begun is how a client of HTTP/2 begins.
var begun = append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frameHTTP2(4, 0, 0)...)

// asking is the header of a request in HPACK; the body is announced by nothing.
var asking = []byte{0x83, 0x86, 0x84, 0x41, 1, 'a'} // POST http / and :authority a

// dialHTTP2 opens a connection of HTTP/2, below TLS if h has a certificate.
func (h *house) dialHTTP2() net.Conn {
	h.t.Helper()
	c := h.dial()
	if h.certificate != nil {
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	}
	if _, err := c.Write(begun); err != nil {
		h.t.Fatal(err)
	}
	return c
}

// both runs an attack on a listener in the clear, and on one with TLS.
func both(t *testing.T, attack func(*testing.T, Options)) {
	t.Run("clear", func(t *testing.T) { attack(t, Options{}) })
	t.Run("TLS", func(t *testing.T) { attack(t, secure(t)) })
}

// A flood is what an attacker sends again and again, and how it begins.
type flood struct {
	name, first, again string
	deaf               bool // nothing is read of what comes back
	fault              string
}

func floods() []flood {
	headers := string(frameHTTP2(1, 4, 1, asking...))
	open := string(frameHTTP2(1, 0, 1, asking...)) // and never ended
	many := strings.Repeat
	return []flood{
		{name: "PING", again: string(frameHTTP2(6, 0, 0, make([]byte, 8)...)), fault: "frame_flood"},
		{name: "PING, not reading", again: string(frameHTTP2(6, 0, 0, make([]byte, 8)...)), deaf: true, fault: "frame_flood"},
		{name: "SETTINGS", again: string(frameHTTP2(4, 0, 0, 0, 3, 0, 0, 0, 1)), fault: "frame_flood"},
		{name: "SETTINGS, not reading", again: string(frameHTTP2(4, 0, 0)), deaf: true, fault: "frame_flood"},
		{name: "empty DATA", first: headers, again: string(frameHTTP2(0, 0, 1)), fault: "frame_flood"},
		{name: "padding alone", first: headers, again: string(frameHTTP2(0, 8, 1, append([]byte{200}, make([]byte, 200)...)...))},
		{name: "WINDOW_UPDATE", first: headers, again: string(frameHTTP2(8, 0, 0, 0, 0, 0, 1)), fault: "frame_flood"},
		{name: "PRIORITY", again: string(frameHTTP2(2, 0, 7, 0, 0, 0, 0, 0)), fault: "frame_flood"},
		{name: "unknown frames", again: string(frameHTTP2(0xee, 0, 0, make([]byte, 100)...)), fault: "frame_flood"},
		{name: "empty CONTINUATION", first: open, again: string(frameHTTP2(9, 0, 1)), fault: "frame_flood"},
		{name: "CONTINUATION with fields", first: open, again: string(frameHTTP2(9, 0, 1, []byte(many("\x00\x01a\x01b", 500))...))},
		{name: "headers without streams", again: headers}, // of one that is open
		{name: "RST_STREAM", first: headers, again: string(frameHTTP2(3, 0, 1, 0, 0, 0, 8)), fault: "frame_flood"},
		{name: "no frames at all", again: "GET / HTTP/1.1\r\n\r\n"},
		{name: "a window too wide", again: string(frameHTTP2(8, 0, 0, 0x7f, 0xff, 0xff, 0xff))},
		{name: "a frame too large", again: string(frameHTTP2(0, 0, 1, make([]byte, 1<<20+1)...))},
	}
}

// Every flood on HTTP/2 ends its connection, whatever the flood is made of, while others are served.
func TestFloodsEndTheConnection(t *testing.T) {
	both(t, func(t *testing.T, o Options) {
		told := make(chan string, 1000)
		o.Refused = func(fault string, _ netip.Addr) { told <- fault }
		h := build(t, plan{yaml: watchOnly + "waf: {body_timeout: 500ms}\n", options: o,
			upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })})
		others := h.client("HTTP/1.1")
		for _, f := range floods() {
			c := h.dialHTTP2()
			if !f.deaf {
				go io.Copy(io.Discard, c)
			}
			io.WriteString(c, f.first)
			piece := []byte(strings.Repeat(f.again, 1+4096/len(f.again)))
			sent := 0
			for err := error(nil); err == nil; sent += len(piece) {
				if _, err = c.Write(piece); sent > 256<<20 {
					t.Fatalf("%s goes on after %d bytes", f.name, sent)
				}
				if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
					t.Fatalf("%s: it is neither read nor ended", f.name)
				}
			}
			if answer, _ := h.get(others, "/"); answer.StatusCode != 200 {
				t.Errorf("%s: others are answered %d", f.name, answer.StatusCode)
			}
			got := ""
			select {
			case got = <-told:
			default:
			}
			if got != f.fault && f.fault != "" && !f.deaf {
				t.Errorf("%s: told of %q, want %q", f.name, got, f.fault)
			}
			c.Close()
			h.eventually("the end of "+f.name, func() bool { return h.InFlight() == 0 })
			t.Logf("%s: ended after %d KB", f.name, sent>>10)
		}
	})
}

// A header that is small in HPACK and enormous out of it is refused, and costs no memory: one field of 4000 bytes in
// the table, and 16,000 references to it.
func TestHPACKBomb(t *testing.T) {
	both(t, func(t *testing.T, o Options) {
		h := build(t, plan{options: o, upstream: http.HandlerFunc(echo)})
		field := append([]byte{0x40, 1, 'x', 0x7f}, binary.AppendUvarint(nil, 4000-127)...)
		field = append(field, bytes.Repeat([]byte{'y'}, 4000)...)
		bomb := append(append(append([]byte{}, asking...), field...), bytes.Repeat([]byte{0xbe}, 12_000)...)
		c := h.dialHTTP2()
		c.Write(frameHTTP2(1, 5, 1, bomb...))
		answers := frames(c)
		for f := range answers {
			if f.kind == 7 { // GOAWAY
				return
			}
			if f.kind == 1 && f.stream == 1 {
				if !strings.Contains(string(f.payload), "431") && !bytes.Contains(f.payload, []byte{0x08, 0x83}) { // literal, or in Huffman's code
					t.Errorf("answered %q", f.payload)
				}
				if h.journal.Totals().Requests != 0 {
					t.Error("it was decided about")
				}
				return
			}
		}
		t.Error("no answer, and no GOAWAY")
	})
}

// framed is what comes back over HTTP/2.
type framed struct {
	kind, flags byte
	stream      uint32
	payload     []byte
}

// frames returns what comes over c, until that ends.
func frames(c net.Conn) <-chan framed {
	all := make(chan framed, 1000)
	go func() {
		defer close(all)
		for {
			var head [9]byte
			if _, err := io.ReadFull(c, head[:]); err != nil {
				return
			}
			f := framed{kind: head[3], flags: head[4], stream: binary.BigEndian.Uint32(head[5:]), payload: make([]byte, binary.BigEndian.Uint32(head[:])>>8)}
			if _, err := io.ReadFull(c, f.payload); err != nil {
				return
			}
			select {
			case all <- f:
			default:
			}
		}
	}()
	return all
}

// Who opens his window by one byte at a time is given up like one who does not open it: what is written to him has
// to be taken within the idle time. Other streams of the connection live on.
func TestATrickledWindow(t *testing.T) {
	both(t, func(t *testing.T, o Options) {
		o.IdleTimeout = 300 * time.Millisecond
		large := strings.Repeat("a large answer ", 1<<16)
		h := build(t, plan{options: o, upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, large) })})
		c := h.dialHTTP2()
		c.Write(frameHTTP2(4, 0, 0, 0, 4, 0, 0, 0, 0)) // INITIAL_WINDOW_SIZE 0
		c.Write(frameHTTP2(1, 5, 1, asking...))
		answers := frames(c)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.After(20 * time.Second); ; {
			select {
			case f, open := <-answers:
				if !open || f.kind == 7 || f.kind == 3 && f.stream == 1 {
					h.eventually("the end", func() bool { return h.InFlight() == 0 })
					return
				}
			case <-tick.C:
				c.Write(frameHTTP2(8, 0, 1, 0, 0, 0, 1))
			case <-deadline:
				t.Fatal("the stream goes on")
			}
		}
	})
}

// A header that is never ended holds a connection for the idle time at most.
func TestAHeaderWithoutEnd(t *testing.T) {
	h := build(t, plan{options: Options{IdleTimeout: 200 * time.Millisecond}, upstream: http.HandlerFunc(echo)})
	for _, last := range [][]byte{frameHTTP2(1, 0, 1, asking...), {0, 0}, frameHTTP2(4, 1, 0)} {
		c := h.dialHTTP2()
		c.Write(last)
		if _, err := io.ReadAll(c); err != nil && strings.Contains(err.Error(), "timeout") {
			t.Errorf("after %x the connection is held", last)
		}
	}
}
