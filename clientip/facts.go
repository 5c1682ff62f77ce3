package clientip

import (
	"net/netip"

	"github.com/weirgate/weir"
)

var strategyNames = [...]string{"", "path", "trusted_proxies", "from_right", "header"}

// Strategy returns the field of the configuration by which clients are found, or "" where the client
// is the peer.
func (r *Resolver) Strategy() string { return strategyNames[r.strategy] }

// FromRight returns the configured position, or 0 where clients are not found by position.
func (r *Resolver) FromRight() int { return r.fromRight }

// Nearest returns the rightmost address of the request's chain, or the zero Addr. Whether anyone
// vouches for it is not asked; it serves the diagnosis.
func (r *Resolver) Nearest(req *weir.Request) netip.Addr {
	c := cursor{lines: req.Header[r.chainName], forwarded: r.forwarded}
	text, _ := c.next(c.limit())
	a, _, _ := c.address(text)
	return a
}
