package clientip

import (
	"net/netip"
	"net/textproto"
	"slices"
	"strings"

	"github.com/weirgate/weir"
)

// identityHeaders are the headers in which proxies and frameworks look for a client's address.
const identityHeaders = `Forwarded Forwarded-For X-Forwarded X-Forwarded-For X-Original-Forwarded-For X-Forwarded-Client-Ip
X-Real-Ip X-Client-Ip Client-Ip Http-Client-Ip X-Cluster-Client-Ip X-Remote-Ip X-Remote-Addr Remote-Addr X-Originating-Ip X-Proxyuser-Ip
Cf-Connecting-Ip Cf-Connecting-Ipv6 Cf-Pseudo-Ipv4 True-Client-Ip Fastly-Client-Ip Fly-Client-Ip Cloudfront-Viewer-Address
X-Azure-Clientip X-Azure-Socketip X-Appengine-User-Ip X-Envoy-External-Address X-Vercel-Forwarded-For X-Nf-Client-Connection-Ip
X-True-Client-Ip X-Real-Client-Ip Real-Ip Ali-Cdn-Real-Ip Incap-Client-Ip Proxy-Client-Ip Wl-Proxy-Client-Ip X-Coming-From X-Host-Ip`

// maxName is the longest name that can be one of a set of names, in bytes.
const maxName = 64

// names is a set of header names. Names that differ in case alone, or in _ or . for -, are one: some
// upstreams fold them (RFC 9110 17.10).
type names struct {
	list []string // canonical names
	// lengths and initials tell most other names apart at no cost.
	lengths  [maxName + 1]bool
	initials [256]bool
}

func newNames(list []string) names {
	var n names
	for _, name := range list {
		name = textproto.CanonicalMIMEHeaderKey(name)
		if name == "" || len(name) > maxName || n.has(name) {
			continue
		}
		n.list = append(n.list, name)
		n.lengths[len(name)] = true
		n.initials[weir.FoldField(name[0])] = true
	}
	return n
}

// has reports whether name is in the set.
func (n *names) has(name string) bool {
	if name == "" || len(name) > maxName || !n.lengths[len(name)] || !n.initials[weir.FoldField(name[0])] {
		return false
	}
	for _, known := range n.list {
		if weir.SameField(known, name) {
			return true
		}
	}
	return false
}

// IsIdentity reports whether name, in any case and with _ or . for -, is that of a header that says who
// a client is. None of them reaches the upstream as it came. It allocates nothing.
func (r *Resolver) IsIdentity(name string) bool { return r.identity.has(name) }

// Vouches reports whether the identity header called name, in canonical form, came from the edge that
// c was found by, and not from c itself.
func (r *Resolver) Vouches(name string, c *weir.Client) bool {
	return c.Source == weir.FromHeader && (name == r.valueName ||
		slices.ContainsFunc(r.hops, func(h hop) bool { return h.header == name }))
}

// ForwardChain returns the chain that an upstream may believe: the client, the trusted hops that
// its request passed, and the peer. It is empty where there is no address at all, and the peer alone
// where c is unresolved.
func (r *Resolver) ForwardChain(req *weir.Request, c *weir.Client) string {
	if c.Source == weir.Unresolved {
		return addressText(req.Peer)
	}
	traced := *req
	traced.Trace = true
	var again weir.Client
	r.Resolve(&traced, &again)
	parts := make([]string, 0, len(again.Hops))
	for _, h := range slices.Backward(again.Hops) {
		if _, err := netip.ParseAddr(h.Address); err == nil {
			parts = append(parts, h.Address)
		}
	}
	return strings.Join(parts, ", ")
}

func addressText(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// KnownProxy returns the name of the CDN or load balancer whose published ranges hold a, or "".
func (r *Resolver) KnownProxy(a netip.Addr) string {
	if !a.IsValid() || !r.knownTable.contains(a) {
		return ""
	}
	for i := range r.known {
		if r.known[i].table.contains(a) {
			return r.known[i].name
		}
	}
	return ""
}

// IdentityHeaders returns the names of the headers in which proxies and frameworks look for a client's
// address.
func IdentityHeaders() []string { return strings.Fields(identityHeaders) }
