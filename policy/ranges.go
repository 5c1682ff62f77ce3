package policy

import (
	"cmp"
	"net/netip"
	"slices"
)

// ranges is a set of addresses: sorted, and none touching the next. IPv4 comes before IPv6.
type ranges []addressRange

type addressRange struct{ from, to netip.Addr }

// newRanges returns the set of all addresses of networks.
func newRanges(networks []netip.Prefix) ranges {
	networks = slices.Clone(networks)
	slices.SortFunc(networks, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	var set ranges
	for _, n := range networks {
		// Networks either nest or are apart, and the wider of two that begin alike comes first.
		if len(set) == 0 || set[len(set)-1].to.Less(n.Addr()) {
			set = append(set, addressRange{n.Addr(), lastOf(n)})
		}
	}
	return set
}

// lastOf returns the last address of a network.
func lastOf(n netip.Prefix) netip.Addr {
	b := n.Addr().AsSlice()
	for i := n.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// contain reports whether a, in canonical form, is in the set.
func (r ranges) contain(a netip.Addr) bool {
	i, found := slices.BinarySearchFunc(r, a, func(s addressRange, a netip.Addr) int { return s.from.Compare(a) })
	return found || i > 0 && !r[i-1].to.Less(a)
}
