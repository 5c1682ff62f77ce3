package clientip

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/weirgate/weir"
)

// A known is a CDN or load balancer with published ranges.
type known struct {
	name  string
	table table
}

// knownRanges compiles the published lists, or those that replace them.
func (b *builder) knownRanges() {
	var all []netip.Prefix
	for i := range presets {
		p := &presets[i]
		given, replaced := b.cfg.Ranges[p.name]
		if p.dated == "" && !replaced {
			continue
		}
		field := "ranges_file[" + p.name + "]"
		if replaced && len(given) == 0 {
			b.refuse(field, "the list is empty", "name at least one network")
		}
		var list []netip.Prefix
		for j, word := range p.networks(b.cfg.Ranges) {
			if q, ok := b.network(fmt.Sprintf("%s[%d]", field, j), word); ok {
				list = append(list, q)
			}
		}
		b.r.known = append(b.r.known, known{p.name, newTable(list, false)})
		all = append(all, list...)
	}
	for _, name := range slices.Sorted(maps.Keys(b.cfg.Ranges)) {
		if findPreset(name) == nil {
			b.refuse("ranges_file["+name+"]", "no preset is called "+name, "write "+nearest(name, presetNames()))
		}
	}
	b.r.knownTable = newTable(all, false)
}

// table compiles a list of networks and words.
func (b *builder) table(field string, list []string) table {
	var networks []netip.Prefix
	unix := false
	for i, word := range list {
		at := fmt.Sprintf("%s[%d]", field, i)
		if word == "unix" {
			unix = true
			continue
		}
		found := b.word(at, word)
		if outer, ok := covering(networks, found); ok {
			b.warn(at, fmt.Sprintf("%s lies within %s, which is trusted whole", word, outer), "keep the narrower one alone, if that is what is meant")
		}
		networks = append(networks, found...)
	}
	t := newTable(networks, unix)
	if t.everyone() {
		b.everyone(field)
	}
	return t
}

// everyone refuses, or warns of, trusting the whole internet.
func (b *builder) everyone(field string) {
	const what = "every address is trusted, so anyone can choose the address he is counted under"
	if b.cfg.DangerouslyTrustEveryone {
		b.r.everyone = true
		b.warn(field, what, "name the networks of your proxies")
		return
	}
	b.refuse(field, what, "name the networks of your proxies, or, if nobody else can connect, set dangerously_trust_everyone: true")
}

// covering returns the network of list that holds all of found, where found is one network.
func covering(list, found []netip.Prefix) (netip.Prefix, bool) {
	if len(found) != 1 {
		return netip.Prefix{}, false
	}
	for _, p := range list {
		if p.Bits() <= found[0].Bits() && p.Overlaps(found[0]) {
			return p, true
		}
	}
	return netip.Prefix{}, false
}

// word returns the networks that one entry of a list stands for.
func (b *builder) word(field, word string) []netip.Prefix {
	switch word {
	case "private":
		return mustPrefixes(privateRanges)
	case "loopback":
		return mustPrefixes(loopbackRanges)
	}
	if p := findPreset(word); p != nil {
		return b.presetNetworks(field, p)
	}
	if p, ok := b.network(field, word); ok {
		return []netip.Prefix{p}
	}
	return nil
}

// presetNetworks returns a preset's networks, without a warning for those of its own list.
func (b *builder) presetNetworks(field string, p *preset) []netip.Prefix {
	words := p.networks(b.cfg.Ranges)
	if len(words) == 0 {
		b.refuse(field, "the ranges of "+p.name+" cannot be known beforehand", "name its networks, or put them under "+p.name+" in ranges_file")
	}
	var list []netip.Prefix
	for _, w := range words {
		switch {
		case w == "private":
			list = append(list, mustPrefixes(privateRanges)...)
		case w != "unix":
			if q, ok := ParseNetwork(w); ok { // a bad one was reported for ranges_file
				list = append(list, q)
			}
		}
	}
	return list
}

// network reads one network or address.
func (b *builder) network(field, word string) (netip.Prefix, bool) {
	p, ok := ParseNetwork(word)
	switch {
	case ok && p.Masked() != p:
		b.warn(field, fmt.Sprintf("%s names an address inside its network", word), fmt.Sprintf("write %s", p.Masked()))
	case ok:
	case word == "":
		b.refuse(field, "the entry is empty", "write a network, or remove it; is a variable unset?")
	case strings.Contains(word, "%"):
		b.refuse(field, word+" has a zone, which no compared address has", "write it without the part from % on")
	case strings.ContainsAny(word, ".:/"):
		b.refuse(field, word+" is not a network", "write it as 10.0.0.0/8 or 2001:db8::/32, or a single address")
	default:
		words := append([]string{"private", "loopback", "unix"}, presetNames()...)
		b.refuse(field, word+" is neither a network nor a known name", "write "+nearest(word, words))
	}
	return p, ok
}

// ParseNetwork reads a network, or a single address as the network of itself. IPv4 networks in IPv6 form
// are IPv4 networks. The network may name an address inside of itself.
func ParseNetwork(word string) (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(word); err == nil && a.Zone() == "" {
		a = weir.Canonical(a)
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	p, err := netip.ParsePrefix(word)
	if err != nil {
		return netip.Prefix{}, false
	}
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p, true
}

// nearest returns the name that is most like word, and the others where none is.
func nearest(word string, list []string) string {
	best, distance := "", len(word)/2+1
	for _, name := range list {
		if d := edits(word, name); d < distance {
			best, distance = name, d
		}
	}
	if best == "" {
		return "one of " + strings.Join(list, ", ")
	}
	return best
}

// edits returns the Levenshtein distance of two words.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
