package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"slices"
	"strings"

	"github.com/weirgate/weir"
)

// A part is one thing that a limit is counted per.
type part struct {
	kind kind
	name string // of a header, canonical, or of a cookie
}

// A kind is what a part is read from.
type kind uint8

const (
	perClient kind = iota // the verified API key, else the address
	perIP
	perKey
	perPlan
	perHost
	perMethod
	perPath
	perRule
	perHeader
	perCookie
)

var kindNames = [...]string{"client", "ip", "key", "plan", "host", "method", "path", "rule", "header:", "cookie:"}

func (p part) String() string { return kindNames[p.kind] + p.name }

// A key is a counter's key and the length of its tag.
type key struct {
	text []byte
	tag  int
}

// A keyWriter appends the keys of one decision to d.Keys. A key is
//
//	{TAG}:LIMIT:ALGORITHM:WINDOW:PARTS
//
// where the parts are joined by bars: =VALUE, or #SHA256 of a value longer than longest, or @ADDRESS
// (!ADDRESS of one with a wrong API key), also in place of a value that is missing. In names and values the bytes that hold a key together
// are escaped, so no value can be taken for another tuple.
//
// The tag is the address where one of the parts is an address (of IPv6 the widest network that is
// counted, so that all tiers of a client share it), else the API key, else the parts themselves,
// which then are not repeated.
type keyWriter struct {
	d       *weir.Decision
	rule    *Rule
	tag     span // where the address's tag was written
	address span // where the client's address was written
}

// A span is a piece of d.Keys.
type span struct{ from, to int }

// longest is how many bytes a value may have before its hash stands for it.
const longest = 64

// whole is in place of a tier's bits where the address is counted as it is.
const whole = 0

// key appends c's key under label. The address, if it is one of the parts, is cut to bits.
func (w *keyWriter) key(c *counter, label string, byAddress bool, bits int) key {
	start := len(w.d.Keys)
	b, parted := w.appendTag(w.d.Keys, c, byAddress)
	tag := len(b) - start
	b = append(b, label...)
	if parted {
		b = w.appendParts(b, c, bits)
	}
	return w.keep(b, start, tag)
}

// keep makes b, which is d.Keys and a key from start on, the new d.Keys. The key stays what it is when that moves.
func (w *keyWriter) keep(b []byte, start, tag int) key {
	w.d.Keys = b
	return key{b[start:len(b):len(b)], tag}
}

// appendTag reports whether the parts have still to follow.
func (w *keyWriter) appendTag(b []byte, c *counter, byAddress bool) (_ []byte, parted bool) {
	b = append(b, '{')
	switch {
	case byAddress:
		b, parted = w.appendAddressTag(b), true
	case len(c.per) == 0:
		b = append(b, "global"...)
	case c.byAPIKey():
		b, parted = appendValue(b, w.d.Client.APIKey), true
	default:
		b = w.appendParts(b, c, whole)
	}
	return append(b, '}'), parted
}

// appendAddressTag appends the address's widest network.
func (w *keyWriter) appendAddressTag(b []byte) []byte {
	if w.tag.to > 0 {
		return append(b, b[w.tag.from:w.tag.to]...)
	}
	w.tag.from = len(b)
	c := &w.d.Client
	if bits := w.rule.widest; bits > 0 && hasTiers(c) && bits < c.Prefix.Bits() {
		network, _ := c.Addr.Prefix(bits)
		b = network.AppendTo(b)
	} else {
		b = c.AppendKey(b)
		w.address = span{w.tag.from, len(b)}
	}
	w.tag.to = len(b)
	return b
}

// appendAddress appends what the client's address is counted under, or its network of bits.
func (w *keyWriter) appendAddress(b []byte, bits int) []byte {
	if bits != whole {
		network, _ := w.d.Client.Addr.Prefix(bits)
		return network.AppendTo(b)
	}
	if w.address.to > 0 {
		return append(b, b[w.address.from:w.address.to]...)
	}
	w.address.from = len(b)
	b = w.d.Client.AppendKey(b)
	w.address.to = len(b)
	return b
}

func (w *keyWriter) appendParts(b []byte, c *counter, bits int) []byte {
	for i, p := range c.per {
		if i > 0 {
			b = append(b, '|')
		}
		if v := w.rule.value(p, w.d); v != "" {
			b = appendValue(b, v)
			continue
		}
		b = w.appendAddress(append(b, addressMark(&w.d.Client)), bits)
	}
	return b
}

// addressMark begins an address in a key. Who guesses keys from an address has a count of his own, so that he
// does not use up that of those who have none.
func addressMark(c *weir.Client) byte {
	if wrongKey(c) {
		return '!'
	}
	return '@'
}

// byAddress reports whether a part of c is the client's address, by its kind or for want of a value.
func (r *Rule) byAddress(c *counter, d *weir.Decision) bool {
	for _, p := range c.per {
		if r.missing(p, d) {
			return true
		}
	}
	return false
}

func (c *counter) byAPIKey() bool {
	return slices.ContainsFunc(c.per, func(p part) bool { return p.kind == perClient || p.kind == perKey })
}

// missing reports whether d has no value for p.
func (r *Rule) missing(p part, d *weir.Decision) bool {
	switch p.kind {
	case perMethod, perPath, perRule:
		return false
	}
	return r.value(p, d) == ""
}

// value returns what d is counted under for p, or nothing if that is the address.
func (r *Rule) value(p part, d *weir.Decision) string {
	switch p.kind {
	case perClient, perKey:
		return d.Client.APIKey
	case perPlan:
		return d.Client.Plan
	case perHost:
		return foldHost(d.Request.Host)
	case perMethod:
		return knownMethod(d.Request.Method)
	case perPath:
		path, _ := r.paths.normal(d.Request.Path)
		return path
	case perRule:
		return r.Name
	case perHeader:
		return first(d.Request.Header[p.name])
	case perCookie:
		return cookie(d.Request.Header["Cookie"], p.name)
	}
	return ""
}

// knownMethod folds the methods that an asker makes up into one.
func knownMethod(method string) string {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE":
		return method
	}
	return "other"
}

// cookie returns the value of the first cookie of that name (RFC 6265 section 4.2), or nothing.
func cookie(lines []string, name string) string {
	for _, line := range lines {
		for rest, more := line, true; more; {
			var pair string
			pair, rest, more = strings.Cut(rest, ";")
			if n, v, ok := strings.Cut(strings.TrimSpace(pair), "="); ok && n == name {
				return v
			}
		}
	}
	return ""
}

// appendValue appends a value as a part of a key, in at most 1 + 3 × longest bytes.
func appendValue(dst []byte, value string) []byte {
	if len(value) > longest {
		sum := sha256.Sum256([]byte(value))
		return hex.AppendEncode(append(dst, '#'), sum[:])
	}
	return appendEscaped(append(dst, '='), value)
}

// appendEscaped appends text without the bytes that hold a key together, and without control bytes.
func appendEscaped(dst []byte, text string) []byte {
	const digits = "0123456789abcdef"
	for i := range len(text) {
		switch c := text[i]; c {
		case '%', ':', '|', '{', '}', 0x7f:
			dst = append(dst, '%', digits[c>>4], digits[c&15])
		default:
			if c < ' ' {
				dst = append(dst, '%', digits[c>>4], digits[c&15])
				continue
			}
			dst = append(dst, c)
		}
	}
	return dst
}

// hasTiers reports whether c is counted in wider networks, too. Those of addresses that stand for
// one host each (loopback, link-local, NAT64) or for one IPv4 site (6to4) would hold strangers.
func hasTiers(c *weir.Client) bool {
	a := c.Addr
	return a.Is6() && c.Source != weir.Unresolved && !a.IsLoopback() && !a.IsLinkLocalUnicast() &&
		!nat64.Contains(a) && !sixToFour.Contains(a)
}

var (
	nat64     = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052
	sixToFour = netip.MustParsePrefix("2002::/16")    // RFC 3056
)
