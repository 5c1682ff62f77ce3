package clientip

import (
	"net/netip"
	"strings"
)

// parseElement reads the address of the parameter "for" of one Forwarded element (RFC 7239 4). It
// forgives what proxies are seen to write: IPv6 without quotes, with or without brackets, and slips
// in other parameters. A parameter "for" that comes twice is no address.
func parseElement(s string) (netip.Addr, bool) {
	if len(s) > maxElement {
		return netip.Addr{}, false
	}
	var found netip.Addr
	for s != "" {
		pair, rest, ok := cutPair(s)
		if !ok {
			return netip.Addr{}, false
		}
		s = rest
		name, value, _ := strings.Cut(pair, "=")
		if !strings.EqualFold(trimOWS(name), "for") {
			continue
		}
		a, ok := parseFor(trimOWS(value))
		if !ok || found.IsValid() {
			return netip.Addr{}, false
		}
		found = a
	}
	return found, found.IsValid()
}

// cutPair splits s after its first parameter. It fails where a quoted string does not end.
func cutPair(s string) (pair, rest string, ok bool) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && quoted:
			i++
		case s[i] == '"':
			quoted = !quoted
		case s[i] == ';' && !quoted:
			return s[:i], s[i+1:], true
		}
	}
	return s, "", !quoted
}

// parseFor reads a node (RFC 7239 6), quoted or not.
func parseFor(s string) (netip.Addr, bool) {
	if s == "" || s[0] != '"' {
		return parseNode(s, nodePort)
	}
	if len(s) < 2 || s[len(s)-1] != '"' {
		return netip.Addr{}, false
	}
	s = s[1 : len(s)-1]
	if strings.IndexByte(s, '\\') < 0 {
		return parseNode(s, nodePort)
	}
	return parseNode(unescape(s), nodePort)
}

// unescape resolves the quoted-pairs of s (RFC 9110 5.6.4). Nothing that is too long to be an address
// is built.
func unescape(s string) string {
	var buf [maxEntry + 1]byte
	n := 0
	for i := 0; i < len(s) && n < len(buf); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		buf[n] = s[i]
		n++
	}
	return string(buf[:n])
}
