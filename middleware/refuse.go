package middleware

import (
	"io"
	"net"
	"net/http"
	"time"

	"github.com/weirgate/weir"
)

// refuse answers r as v says, and records it.
func (m *Middleware) refuse(w http.ResponseWriter, r *http.Request, v verdict) {
	d := v.decision
	if d.Action == weir.Drop {
		m.drop(w, v)
		return
	}
	var o weir.Outcome
	defer func() { m.record(v, o) }()
	if d.Action == weir.Tarpit {
		m.hold(w, r, d)
	}
	dispose(w, r)
	o.HTTP = v.snapshot.Respond.Refusal(w, r, d)
	o.Err = r.Context().Err()
}

const (
	lateBody  = 500 * time.Millisecond // how long the rest of a body is waited for that nobody wants
	maxUnread = 64 << 10               // how much of it is read, in bytes
)

// dispose reads the body of r that nobody wants, so that the connection can be used again. One that
// is long, or does not come, ends the connection with the answer: net/http would wait for it before
// answering, for as long as the asker likes.
func dispose(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 1 || r.ContentLength == 0 || r.Header["Expect"] != nil {
		return
	}
	c := http.NewResponseController(w)
	if r.ContentLength <= maxUnread {
		_ = c.SetReadDeadline(time.Now().Add(lateBody))
		if _, err := io.CopyN(io.Discard, r.Body, maxUnread+1); err == io.EOF {
			_ = c.SetReadDeadline(time.Time{})
			return
		}
	}
	closing(w, r)
}

// closing ends the connection with the answer, whose body will not be read any further.
func closing(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 1 {
		return
	}
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(longAgo)
}

// longAgo as a deadline ends all reading.
var longAgo = time.Unix(1, 0)

// drop ends the connection (HTTP/1) or the stream (HTTP/2) without an answer. The decision is recorded
// first: the asker cannot tell, and what follows may not return.
func (m *Middleware) drop(w http.ResponseWriter, v verdict) {
	m.record(v, weir.Outcome{})
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2, where this resets the stream alone
	}
	reset(conn)
}

// reset closes conn with an RST where it is TCP, below any TLS and PROXY protocol, so that nothing is
// said and nothing is left to wait for.
func reset(conn net.Conn) {
	for {
		switch c := conn.(type) {
		case interface{ SetLinger(int) error }:
			_ = c.SetLinger(0) // closing is all that matters
			conn.Close()
			return
		case interface{ NetConn() net.Conn }:
			conn = c.NetConn()
		case interface{ Raw() net.Conn }:
			conn = c.Raw()
		default:
			conn.Close()
			return
		}
	}
}
