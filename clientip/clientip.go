// Package clientip finds out who is asking.
//
// A [Resolver] applies one configured strategy to a request. The peer must be trusted before any
// header is read; then only the one configured header is read, all its lines as one list, lazily and
// from the right. Each entry there was written by the hop to its right, so the first address that no
// trusted hop owns is the client, and nothing left of it is believed or even needed: no bytes that
// an asker prepends change the result or what it costs.
package clientip

import (
	"net/netip"

	"github.com/weirgate/weir"
)

// A strategy is how the client is looked for.
type strategy uint8

const (
	byPeer   strategy = iota // the peer is the client
	byPath                   // the known proxies, from the nearest outwards
	byTrust                  // past every trusted address
	byCount                  // the N-th entry from the right
	byHeader                 // one header that the edge overwrites
)

// A Resolver finds the client of a request by one configured strategy. It is never changed, and safe
// for concurrent use. The zero Resolver takes the peer for the client.
type Resolver struct {
	strategy  strategy
	forwarded bool   // the chain is RFC 7239 Forwarded
	chainName string // canonical name of the header that holds the chain

	peers     table // byTrust: every trusted proxy; byCount and byHeader: whose headers are believed
	via       table // byHeader: the edge that stands beyond the peers; empty where there is none
	hops      []hop // byPath: the nearest first
	fromRight int   // byCount

	valueName string // byHeader: canonical name of the header that is read
	lastColon bool   // byHeader: the value is an address, a colon and a port, without brackets

	expected int  // entries that the configured hops write; 0 if that is unknown
	bits4    int  // 0 stands for 32
	bits6    int  // 0 stands for 64
	everyone bool // a trusted network holds every address

	identity   names
	known      []known
	knownTable table // all of known
	picture    picture
	traps      []string
	listed     []string
}

// A hop is a compiled entry of a path.
type hop struct {
	name    string
	from    table
	appends int
	header  string // canonical name of the header that it overwrites; empty where its entries are read
}

// opaque reports whether the hop leaves no trace of who connected to it.
func (h *hop) opaque() bool { return h.appends == 0 && h.header == "" }

// Resolve fills c from req, all but its API key and plan. It allocates nothing unless req.Trace is
// set, and reads a bounded number of bytes of a header, however long that is.
func (r *Resolver) Resolve(req *weir.Request, c *weir.Client) {
	c.Chain, c.Hops = weir.Chain{}, c.Hops[:0]
	var s search // in place: the compiler would copy a literal
	s.r, s.req, s.c, s.hop, s.hopUnix, s.atPeer = r, req, c, req.Peer, req.Unix, true
	switch r.strategy {
	case byPeer:
		s.stranger()
	case byPath:
		s.followPath()
	case byTrust:
		s.passTrusted()
	case byCount:
		s.countFromRight()
	case byHeader:
		s.readHeader()
	}
	if r.everyone {
		c.Chain.Codes |= weir.ConfigTrustsEveryone
	}
}

// prefix returns the network under which a counts as one client. Loopback and link-local addresses
// and those of NAT64 (64:ff9b::/96, RFC 6052) stand for one host each, and a 6to4 site (2002::/16,
// RFC 3056) owns a /48.
func (r *Resolver) prefix(a netip.Addr) netip.Prefix {
	if !a.Is4() {
		return r.prefix6(a)
	}
	bits := orDefault(r.bits4, 32)
	if bits == 32 || a.IsLoopback() || a.IsLinkLocalUnicast() {
		return netip.PrefixFrom(a, 32)
	}
	p, _ := a.Prefix(bits)
	return p
}

func (r *Resolver) prefix6(a netip.Addr) netip.Prefix {
	bits := orDefault(r.bits6, 64)
	switch b := a.As16(); {
	case b[0] == 0 && (a.IsLoopback() || nat64.Contains(a)), b[0] == 0xfe && a.IsLinkLocalUnicast():
		return netip.PrefixFrom(a, 128)
	case b[0] == 0x20 && b[1] == 0x02:
		bits = min(bits, 48)
	}
	p, _ := a.Prefix(bits)
	return p
}

func orDefault(bits, otherwise int) int {
	if bits == 0 {
		return otherwise
	}
	return bits
}

var (
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
	// workers is the one address under which Cloudflare Workers of every zone call.
	workers = netip.MustParseAddr("2a06:98c0:3600::103")
)
