// Package bounded keeps the connections that a listener holds to a number.
package bounded

import (
	"errors"
	"net"
	"net/netip"
	"sync/atomic"

	"github.com/weirgate/weir"
)

// A Listener holds at most Most connections and closes further ones at once. It does not let them wait to be
// accepted: a proxy whose connection is open waits for an answer with all its patience, while one whose
// connection is closed goes elsewhere, or decides by itself.
type Listener struct {
	net.Listener
	Most int
	// Refused is told of each connection that is closed for want of room. The peer is the zero Addr at a
	// unix socket.
	Refused func(peer netip.Addr)

	held atomic.Int64
}

// Accept returns the next connection for which there is room.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.held.Add(1) <= int64(l.Most) {
			return &conn{Conn: c, held: &l.held}, nil
		}
		l.held.Add(-1)
		peer, _ := weir.ParsePeer(c.RemoteAddr().String())
		c.Close()
		l.Refused(peer)
	}
}

// A conn leaves its place when it is closed for the first time.
type conn struct {
	net.Conn
	held *atomic.Int64
	left atomic.Bool
}

// CloseWrite says that nothing more follows, where the connection below can: an HTTP server that refuses what it has
// not read lets its answer be read so, before it closes.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

func (c *conn) Close() error {
	if !c.left.Swap(true) {
		c.held.Add(-1)
	}
	return c.Conn.Close()
}
