package clientip

import (
	"encoding/binary"
	"net/netip"
	"strings"
)

// The parsers here are those of net/netip narrowed to what a proxy writes. They exist because an
// asker must not be able to make a refused address cost an allocation.

// A portForm says what may follow an address as its port.
type portForm uint8

const (
	noPort   portForm = iota
	anyPort           // 1 to 5 digits; no port is ever used, so none is out of range
	nodePort          // digits or an obfuscated port, which begins with an underscore (RFC 7239 6.2)
)

// maxZone is the longest zone that is passed over, in bytes. Linux names interfaces with up to 15.
const maxZone = 16

// parseEntry reads an entry of X-Forwarded-For: IPv4, IPv4:port, IPv6, [IPv6] or [IPv6]:port, with
// white space around it. The address is canonical: unmapped and without its zone.
func parseEntry(s string) (netip.Addr, bool) { return parseNode(trimOWS(s), anyPort) }

// parseNode reads an address with or without a port of the given form.
func parseNode(s string, port portForm) (netip.Addr, bool) {
	if s == "" || len(s) > maxEntry {
		return netip.Addr{}, false
	}
	if a, ok := parse4(s); ok {
		return a, true
	}
	if s[0] == '[' {
		return parseBracketed(s, port)
	}
	colon := strings.IndexByte(s, ':')
	if colon < 0 {
		return netip.Addr{}, false
	}
	after := s[colon+1:]
	if strings.IndexByte(after, ':') >= 0 {
		return parse6(s)
	}
	if !port.fits(after) {
		return netip.Addr{}, false
	}
	return parse4(s[:colon])
}

// parseBracketed reads [IPv6] or [IPv6]:port.
func parseBracketed(s string, port portForm) (netip.Addr, bool) {
	end := strings.IndexByte(s, ']')
	if end < 0 {
		return netip.Addr{}, false
	}
	if after := s[end+1:]; after != "" && (after[0] != ':' || !port.fits(after[1:])) {
		return netip.Addr{}, false
	}
	return parse6(s[1:end])
}

// parseValue reads the value of a header that holds one address. With lastColon it ends in a colon
// and a port, and an IPv6 address before them has no brackets.
func parseValue(s string, lastColon bool) (netip.Addr, bool) {
	if len(s) > maxEntry {
		return netip.Addr{}, false
	}
	if !lastColon {
		return parseEntry(s)
	}
	s = trimOWS(s)
	colon := strings.LastIndexByte(s, ':')
	if colon < 0 || !anyPort.fits(s[colon+1:]) {
		return netip.Addr{}, false
	}
	return parseNode(s[:colon], noPort)
}

// fits reports whether s is a port of the form.
func (f portForm) fits(s string) bool {
	if f == nodePort && len(s) > 1 && s[0] == '_' {
		return isObfuscated(s)
	}
	if f == noPort || len(s) == 0 || len(s) > 5 {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// isObfuscated reports whether s holds the characters of an obfuscated port alone.
func isObfuscated(s string) bool {
	for i := range len(s) {
		c := s[i] | 0x20
		if (c < 'a' || c > 'z') && (s[i] < '0' || s[i] > '9') && s[i] != '.' && s[i] != '_' && s[i] != '-' {
			return false
		}
	}
	return true
}

// parse4 reads four decimal numbers without leading zeros. 0.0.0.0 is nobody's address.
func parse4(s string) (netip.Addr, bool) {
	v, ok := dotted(s)
	if !ok || v == 0 {
		return netip.Addr{}, false
	}
	return address4(v), true
}

// dotted reads four decimal numbers without leading zeros.
func dotted(s string) (uint32, bool) {
	v, before, ok := lastDotted(s)
	return v, ok && before == ""
}

// lastDotted reads the four decimal numbers that s ends with, and returns what stands before them.
func lastDotted(s string) (v uint32, before string, ok bool) {
	for shift := 0; ; shift += 8 {
		part, digits := lastNumber(s)
		if digits == 0 {
			return 0, "", false
		}
		v, s = v|part<<shift, s[:len(s)-digits]
		if shift == 24 {
			return v, s, true
		}
		if s == "" || s[len(s)-1] != '.' {
			return 0, "", false
		}
		s = s[:len(s)-1]
	}
}

// lastNumber reads the number of at most 255 that s ends with, and tells its digits: 0 if there is none.
func lastNumber(s string) (v uint32, digits int) {
	last := byte(0)
	for place := uint32(1); place <= 100 && digits < len(s); place *= 10 {
		d := s[len(s)-1-digits] - '0'
		if d > 9 {
			break
		}
		v, last = v+place*uint32(d), d
		digits++
	}
	if v > 255 || last == 0 && digits > 1 {
		return 0, 0
	}
	return v, digits
}

// parse6 reads an IPv6 address, with or without a zone (RFC 4291 2.2, RFC 4007 11). :: is nobody's
// address, and an IPv4 address in IPv6 form has no zone.
func parse6(s string) (netip.Addr, bool) {
	zoned := false
	if i := strings.IndexByte(s, '%'); i >= 0 {
		if !isZone(s[i+1:]) {
			return netip.Addr{}, false
		}
		s, zoned = s[:i], true
	}
	b, ok := parseGroups(s)
	if !ok {
		return netip.Addr{}, false
	}
	a := netip.AddrFrom16(b)
	if a.IsUnspecified() || zoned && a.Is4In6() {
		return netip.Addr{}, false
	}
	a = a.Unmap()
	return a, !a.IsUnspecified()
}

// isZone reports whether s can name an interface: letters, digits and -._~ (RFC 6874 2).
func isZone(s string) bool {
	if s == "" || len(s) > maxZone {
		return false
	}
	for i := range len(s) {
		c := s[i] | 0x20
		if (c < 'a' || c > 'z') && (s[i] < '0' || s[i] > '9') && strings.IndexByte("-._~", s[i]) < 0 {
			return false
		}
	}
	return true
}

// parseGroups reads up to eight groups of hexadecimal digits, one run of zeros left out, the last
// two perhaps in dotted form.
func parseGroups(s string) (b [16]byte, ok bool) {
	at, gap, digits, value := 0, -1, 0, uint16(0)
	for i := range len(s) {
		if d := hexDigit(s[i]); d <= 15 {
			if digits == 4 || at > 14 {
				return b, false
			}
			value, digits = value<<4|uint16(d), digits+1
			continue
		}
		switch {
		case s[i] == '.':
			return dottedEnd(b, at, gap, s[i-digits:])
		case s[i] != ':':
			return b, false
		case digits > 0: // the end of a group, which something must follow
			b[at], b[at+1] = byte(value>>8), byte(value)
			at, digits, value = at+2, 0, 0
			if i+1 == len(s) {
				return b, false
			}
		case i > 0: // the second colon of two
			if gap >= 0 {
				return b, false
			}
			gap = at
		case len(s) < 2 || s[1] != ':':
			return b, false
		}
	}
	if digits > 0 {
		b[at], b[at+1] = byte(value>>8), byte(value)
		at += 2
	}
	return spread(b, at, gap)
}

// dottedEnd reads the last four bytes in dotted form.
func dottedEnd(b [16]byte, at, gap int, s string) ([16]byte, bool) {
	v, ok := dotted(s)
	if !ok || at > 12 {
		return b, false
	}
	binary.BigEndian.PutUint32(b[at:], v)
	return spread(b, at+4, gap)
}

// hexDigit returns the digit's value, or more than 15.
func hexDigit(c byte) byte {
	if d := c - '0'; d <= 9 {
		return d
	}
	if d := (c | 0x20) - 'a'; d <= 5 {
		return d + 10
	}
	return 16
}

// spread moves what was read after the gap to the end. A gap stands for at least one group.
func spread(b [16]byte, end, gap int) ([16]byte, bool) {
	if gap < 0 || end == 16 {
		return b, gap < 0 && end == 16
	}
	moved := end - gap
	for i := range moved {
		b[15-i] = b[end-1-i]
	}
	clear(b[gap : 16-moved])
	return b, true
}

// trimOWS cuts spaces and tabs from both ends (RFC 9110 5.6.3).
func trimOWS(s string) string {
	for s != "" && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for s != "" && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}
