package proxy

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
)

// NoLink is the fault of a request that is not sent, for want of room for a connection to its upstream.
// [Options.Refused] may be told of very many.
const NoLink = "too_many_upstream_connections"

// errNoLink is why a request is not sent: one connection to an upstream too many.
var errNoLink = errors.New("as many connections to upstreams are open as may be")

// Links are the connections to all upstreams: at most so many. A request that would need a further one, and for
// which no unused one can be closed, is refused, since over HTTP/2 one client's connection can ask for hundreds.
type Links struct {
	most int64
	open atomic.Int64
}

// NewLinks returns room for most connections to upstreams.
func NewLinks(most int) *Links { return &Links{most: int64(most)} }

// idle is how many connections to one upstream may be kept unused.
func (l *Links) idle() int {
	if l == nil {
		return maxIdle
	}
	return int(min(maxIdle, 1+l.most/4))
}

type dial = func(ctx context.Context, network, addr string) (net.Conn, error)

// bound returns d within l, which may be nil: no bound.
func (l *Links) bound(d dial) dial {
	if l == nil {
		return d
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if l.open.Add(1) > l.most {
			l.open.Add(-1)
			return nil, errNoLink
		}
		c, err := d(ctx, network, addr)
		if err != nil {
			l.open.Add(-1)
			return nil, err
		}
		return &link{Conn: c, links: l}, nil
	}
}

// A link gives its place back when it is closed for the first time.
type link struct {
	net.Conn
	links  *Links
	closed atomic.Bool
}

func (c *link) Close() error {
	if !c.closed.Swap(true) {
		c.links.open.Add(-1)
	}
	return c.Conn.Close()
}

// CloseWrite tells the upstream that nothing more will come.
func (c *link) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
