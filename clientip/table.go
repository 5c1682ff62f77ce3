package clientip

import (
	"cmp"
	"encoding/binary"
	"math"
	"net/netip"
	"slices"
)

// A table is a set of addresses, and perhaps unix sockets: sorted ranges that do not touch, so that
// asking costs a binary search.
type table struct {
	v4   []span4
	v6   []span6
	unix bool
}

// A span4 is the IPv4 addresses from lo to hi.
type span4 struct{ lo, hi uint32 }

// A span6 is the IPv6 addresses from lo to hi.
type span6 struct{ lo, hi number }

// A number is an IPv6 address in two halves.
type number struct{ hi, lo uint64 }

func (n number) compare(m number) int {
	return cmp.Or(cmp.Compare(n.hi, m.hi), cmp.Compare(n.lo, m.lo))
}

func (n number) less(m number) bool { return n.hi < m.hi || n.hi == m.hi && n.lo < m.lo }

// after returns the number that follows n; the greatest has none and is returned itself.
func (n number) after() number {
	switch {
	case n.lo < math.MaxUint64:
		return number{n.hi, n.lo + 1}
	case n.hi < math.MaxUint64:
		return number{n.hi + 1, 0}
	}
	return n
}

func number6(a netip.Addr) number {
	b := a.As16()
	return number{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

func number4(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

// newTable returns the set of all addresses of networks.
func newTable(networks []netip.Prefix, unix bool) table {
	t := table{unix: unix}
	for _, p := range networks {
		if p = p.Masked(); p.Addr().Is4() {
			lo := number4(p.Addr())
			t.v4 = append(t.v4, span4{lo, lo | uint32(uint64(1)<<(32-p.Bits())-1)})
			continue
		}
		lo := number6(p.Addr())
		t.v6 = append(t.v6, span6{lo, last6(lo, p.Bits())})
	}
	t.v4, t.v6 = merge4(t.v4), merge6(t.v6)
	return t
}

// last6 returns the last address of the network of bits bits that begins with lo.
func last6(lo number, bits int) number {
	if bits >= 64 {
		return number{lo.hi, lo.lo | math.MaxUint64>>(bits-64)}
	}
	return number{lo.hi | math.MaxUint64>>bits, math.MaxUint64}
}

func merge4(spans []span4) []span4 {
	slices.SortFunc(spans, func(a, b span4) int { return cmp.Compare(a.lo, b.lo) })
	merged := spans[:0]
	for _, s := range spans {
		if n := len(merged); n > 0 && (merged[n-1].hi == math.MaxUint32 || s.lo <= merged[n-1].hi+1) {
			merged[n-1].hi = max(merged[n-1].hi, s.hi)
			continue
		}
		merged = append(merged, s)
	}
	return merged
}

func merge6(spans []span6) []span6 {
	slices.SortFunc(spans, func(a, b span6) int { return a.lo.compare(b.lo) })
	merged := spans[:0]
	for _, s := range spans {
		if n := len(merged); n > 0 && !merged[n-1].hi.after().less(s.lo) {
			if merged[n-1].hi.less(s.hi) {
				merged[n-1].hi = s.hi
			}
			continue
		}
		merged = append(merged, s)
	}
	return merged
}

// contains reports whether a, in canonical form, is in the set.
func (t *table) contains(a netip.Addr) bool {
	if a.Is4() {
		return t.contains4(number4(a))
	}
	return t.contains6(number6(a))
}

func (t *table) contains4(x uint32) bool {
	i, j := 0, len(t.v4)
	for i < j {
		if m := (i + j) / 2; t.v4[m].hi < x {
			i = m + 1
		} else {
			j = m
		}
	}
	return i < len(t.v4) && t.v4[i].lo <= x
}

func (t *table) contains6(x number) bool {
	i, j := 0, len(t.v6)
	for i < j {
		if m := (i + j) / 2; t.v6[m].hi.less(x) {
			i = m + 1
		} else {
			j = m
		}
	}
	return i < len(t.v6) && !x.less(t.v6[i].lo)
}

// has reports whether an entry, an address or a unix socket, is in the set.
func (t *table) has(a netip.Addr, unix bool) bool {
	if unix {
		return t.unix
	}
	return t.contains(a)
}

// empty reports whether the set holds nothing.
func (t *table) empty() bool { return len(t.v4) == 0 && len(t.v6) == 0 && !t.unix }

// everyone reports whether the set holds every address of a family.
func (t *table) everyone() bool {
	all4 := len(t.v4) == 1 && t.v4[0] == span4{0, math.MaxUint32}
	all6 := len(t.v6) == 1 && t.v6[0] == span6{number{}, number{math.MaxUint64, math.MaxUint64}}
	return all4 || all6
}
