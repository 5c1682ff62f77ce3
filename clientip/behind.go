package clientip

import (
	"net/netip"

	"github.com/weirgate/weir"
)

// Behind completes a request that Weir hears of from a proxy which still holds it: req.Peer is that
// proxy, src is who is connected to it, and req.Header, the caller's own map, is what src sent.
// Afterwards req is what would have come through the proxy, so that one configuration finds one
// client wherever it is asked. A proxy that the configuration does not know is passed over: src is
// the peer.
func (r *Resolver) Behind(req *weir.Request, src netip.Addr) {
	if !r.Believes(req.Peer, req.Unix) {
		req.Peer, req.Unix = src, false
		return
	}
	name, appends := r.nearestWrites(req)
	switch {
	case name == "" || !src.IsValid():
	case appends:
		lines := req.Header[name]
		req.Header[name] = append(lines[:len(lines):len(lines)], r.entry(src))
	default:
		req.Header[name] = []string{src.String()}
	}
}

// Believes reports whether the identity headers of a peer are read at all: whether it is the nearest
// proxy, as far as its address tells.
func (r *Resolver) Believes(peer netip.Addr, unix bool) bool {
	t := &r.peers
	if r.strategy == byPath {
		t = &r.hops[0].from
	}
	if unix {
		return t.unix
	}
	return peer.IsValid() && t.contains(peer)
}

// nearestWrites returns the header in which the nearest proxy names who connected to it, or "", and
// whether it appends to what is there. The one header of an edge that lies further out is there
// already.
func (r *Resolver) nearestWrites(req *weir.Request) (name string, appends bool) {
	switch {
	case r.strategy == byPath && r.hops[0].header != "":
		return r.hops[0].header, false
	case r.strategy == byPath && r.hops[0].opaque():
		return "", false
	case r.strategy == byHeader && r.via.empty() && !has(req, r.valueName):
		return r.valueName, false
	case r.strategy == byHeader && r.via.empty():
		return "", false
	}
	return r.chainName, true
}

// entry is a as an entry of the chain.
func (r *Resolver) entry(a netip.Addr) string {
	switch {
	case !r.forwarded:
		return a.String()
	case a.Is4():
		return "for=" + a.String()
	}
	return `for="[` + a.String() + `]"`
}
