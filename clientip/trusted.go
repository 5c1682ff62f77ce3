package clientip

import "net/netip"

// TrustedIn returns an address within n, or around it, from which a proxy is believed, and the setting that says
// so, as in client.path (nginx). ok is false if there is none, and where every address is believed.
func (r *Resolver) TrustedIn(n netip.Prefix) (at netip.Addr, setting string, ok bool) {
	if r.everyone {
		return netip.Addr{}, "", false
	}
	names := [...]string{byTrust: "client.trusted_proxies", byCount: "client.peers", byHeader: "client.peers"}
	if r.strategy != byPeer && r.strategy != byPath {
		if at, ok = r.peers.within(n); ok {
			return at, names[r.strategy], true
		}
	}
	if at, ok = r.via.within(n); ok {
		return at, "client.via", true
	}
	for i := range r.hops {
		if at, ok = r.hops[i].from.within(n); ok {
			return at, "client.path (" + r.hops[i].name + ")", true
		}
	}
	return netip.Addr{}, "", false
}

// within returns the first address of n that is in the set.
func (t *table) within(n netip.Prefix) (netip.Addr, bool) {
	first := n.Masked().Addr()
	if t.contains(first) {
		return first, true
	}
	if first.Is4() {
		lo := number4(first)
		for _, s := range t.v4 {
			if s.lo > lo {
				a := address4(s.lo)
				return a, n.Contains(a)
			}
		}
		return netip.Addr{}, false
	}
	lo := number6(first)
	for _, s := range t.v6 {
		if lo.less(s.lo) {
			a := s.lo.address()
			return a, n.Contains(a)
		}
	}
	return netip.Addr{}, false
}

func address4(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

func (n number) address() netip.Addr {
	var b [16]byte
	for i := range 8 {
		b[i], b[8+i] = byte(n.hi>>(56-8*i)), byte(n.lo>>(56-8*i))
	}
	return netip.AddrFrom16(b)
}
