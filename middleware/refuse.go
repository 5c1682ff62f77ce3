package middleware

import (
	"net"
	"net/http"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/engine"
)

// refuse answers r as d says, and records it.
func (m *Middleware) refuse(w http.ResponseWriter, r *http.Request, s *engine.Snapshot, d *weir.Decision) {
	if d.Action == weir.Drop {
		m.drop(w, s, d)
		return
	}
	var o weir.Outcome
	defer func() { m.engine.Record(s, d, o) }()
	if d.Action == weir.Tarpit {
		m.hold(w, r, d)
	}
	o.HTTP = s.Respond.Refusal(w, r, d)
	o.Err = r.Context().Err()
}

// drop ends the connection (HTTP/1) or the stream (HTTP/2) without an answer. The decision is recorded
// first: the asker cannot tell, and what follows may not return.
func (m *Middleware) drop(w http.ResponseWriter, s *engine.Snapshot, d *weir.Decision) {
	m.engine.Record(s, d, weir.Outcome{})
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
