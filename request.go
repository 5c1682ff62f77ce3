package weir

import (
	"net/http"
	"net/netip"
)

// A Request is what a front saw of one request: everything a decision may depend on, and no body.
// A front fills it from the wire without judging any of it.
type Request struct {
	// Front names the way in: proxy, middleware, forward_auth, rls, spoe, ext_authz, grpc,
	// replay.
	Front string

	// Peer is the address at the other end of the connection, or the PROXY protocol's source where
	// that is required: unmapped and without zone. The zero Addr means that there is none.
	Peer netip.Addr
	// Unix is set when the peer is a unix socket, which has no address.
	Unix bool

	Method string
	Host   string // the authority as sent, with any port
	Path   string // as sent: percent-encoded, without the query
	Query  string // as sent, without the question mark
	Scheme string // http or https, as the listener saw it

	// Header holds the header lines under their canonical names (net/textproto); names with an
	// underscore or a dot stay names of their own.
	Header http.Header

	// ID names the request where a front may be asked about it more than once, so that it is charged
	// once: see [AskedBefore]. Whoever asks for the client chose it, never the client. Empty elsewhere.
	ID string

	// OwnLimits is set by a front that answers the request itself, with what the asker's limits have left:
	// it is charged none of them, but falls under a rule of the policy's own.
	OwnLimits bool

	// Trace asks for [Client.Hops]: every step of the resolution, for explain and whoami.
	Trace bool
}

// ParsePeer reads an address as net/http hands it over in RemoteAddr: IP:port, [IPv6%zone]:port, a
// bare IP, or for unix sockets "@" or a path. Anything else is no address, nor are 0.0.0.0 and ::, which
// nobody connects from.
func ParsePeer(remoteAddr string) (addr netip.Addr, unix bool) {
	if ap, err := netip.ParseAddrPort(remoteAddr); err == nil {
		return specified(ap.Addr()), false
	}
	if a, err := netip.ParseAddr(remoteAddr); err == nil {
		return specified(a), false
	}
	return netip.Addr{}, remoteAddr != "" && (remoteAddr[0] == '@' || remoteAddr[0] == '/')
}

func specified(a netip.Addr) netip.Addr {
	if a = Canonical(a); a.IsUnspecified() {
		return netip.Addr{}
	}
	return a
}

// Canonical returns a in the one form that is compared and counted: IPv4-mapped IPv6 as IPv4, and
// without a zone.
func Canonical(a netip.Addr) netip.Addr {
	return a.Unmap().WithZone("")
}
