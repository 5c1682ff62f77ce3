package policy

import (
	"bytes"
	"net/url"
	"strings"
	"unicode/utf8"
)

// A form says how a path was written.
type form uint8

const (
	plain     form = iota // every server reads it alike
	varied                // most do; but parameters are cut from it, or its host is not written plainly
	ambiguous             // servers differ: encoded slash, backslash, dot segment, double encoding
	bad                   // no path: NUL, control character, invalid UTF-8, broken escape, raw ? or #, no slash in front
)

// asterisk is the request target of OPTIONS * (RFC 9112 section 3.2.4).
const asterisk = "*"

// matching is how paths are compared.
type matching struct {
	foldCase bool
}

// normal returns the form of raw, a path as sent, that rules are compared with: percent-decoded once,
// backslashes read as slashes, ;params cut from every segment, empty segments dropped, dot segments
// resolved, and no trailing slash. It begins with a slash, or is [asterisk]. A path that is written
// so already is not copied.
func (m matching) normal(raw string) (string, form) {
	if raw == asterisk {
		return raw, plain
	}
	if m.clean(raw) {
		return trimSlash(raw), plain
	}
	if raw != "" && raw[0] != '/' {
		return "", bad
	}
	b, f := m.appendNormal(nil, raw)
	return string(b), f
}

// clean reports whether raw is in normal form but for a trailing slash.
func (m matching) clean(raw string) bool {
	if raw == "" || raw[0] != '/' {
		return false
	}
	for i := 0; i < len(raw); i++ {
		switch classes[raw[i]] {
		case ordinary:
		case slash:
			if i+1 < len(raw) && (raw[i+1] == '/' || raw[i+1] == '.') && !cleanSegment(raw[i+1:]) {
				return false
			}
		case upper:
			if m.foldCase {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// cleanSegment reports whether rest begins with a segment that is neither empty nor a dot segment.
func cleanSegment(rest string) bool {
	s := untilSlash(rest)
	return s != "" && !dotSegment(s)
}

// untilSlash returns what stands before the first slash. Segments are too short for [strings.IndexByte] to pay.
func untilSlash(s string) string {
	for i := range len(s) {
		if s[i] == '/' {
			return s[:i]
		}
	}
	return s
}

func dotSegment[T string | []byte](segment T) bool {
	return string(segment) == "." || string(segment) == ".."
}

func trimSlash(path string) string {
	if len(path) > 1 && path[len(path)-1] == '/' {
		return path[:len(path)-1]
	}
	return path
}

// appendNormal appends the normal form of raw, or nothing if raw is bad. It needs no more room than
// raw does, unless folding case lengthens a letter.
func (m matching) appendNormal(dst []byte, raw string) ([]byte, form) {
	start := len(dst)
	dst, f := appendDecoded(append(dst, '/'), raw)
	decoded := dst[start:]
	if f == bad || !utf8.Valid(decoded) {
		return dst[:start], bad
	}
	if doubleEncoded(decoded) {
		f = ambiguous
	}
	resolved, found := resolve(decoded)
	f = max(f, found)
	if m.foldCase {
		resolved = bytes.ToLower(resolved)
	}
	return append(dst[:start], resolved...), f
}

// appendDecoded appends raw percent-decoded once, its backslashes turned into slashes.
func appendDecoded(dst []byte, raw string) ([]byte, form) {
	f := plain
	for i := 0; i < len(raw); i++ {
		c, escaped := raw[i], false
		if c == '%' {
			if !escapeAt(raw, i) {
				return dst, bad
			}
			c, escaped = unhex(raw[i+1])<<4|unhex(raw[i+2]), true
			i += 2
		}
		switch {
		case c < ' ' || c == 0x7f, !escaped && (c == '?' || c == '#'):
			return dst, bad
		case c == '\\':
			c, f = '/', ambiguous
		case c == '/' && escaped:
			f = ambiguous
		}
		dst = append(dst, c)
	}
	return dst, f
}

// resolve drops parameters, empty segments and dot segments of path, in place. The form that it found
// is varied where there were parameters, ambiguous where there were dot segments. Above the root is
// the root.
func resolve(path []byte) (resolved []byte, found form) {
	out := path[:0]
	for rest := path; len(rest) > 0; {
		var segment []byte
		segment, rest, _ = bytes.Cut(rest, []byte{'/'})
		segment, _, params := bytes.Cut(segment, []byte{';'})
		if params {
			found = max(found, varied)
		}
		switch {
		case len(segment) == 0:
		case !dotSegment(segment):
			out = append(append(out, '/'), segment...)
		default:
			found = ambiguous
			if len(segment) == 2 && len(out) > 0 {
				out = out[:bytes.LastIndexByte(out, '/')]
			}
		}
	}
	if len(out) == 0 {
		out = append(out, '/')
	}
	return out, found
}

// literal returns the other reading of raw, a path as sent: that of servers which split it at its
// slashes before they decode it, and resolve and cut nothing. A segment that decodes to more than one,
// or to none, stays encoded: only * takes it.
func (m matching) literal(raw string) string {
	var out strings.Builder
	for segment := range strings.SplitSeq(raw, "/") {
		if segment == "" {
			continue
		}
		if decoded, err := url.PathUnescape(segment); err == nil && !strings.ContainsAny(decoded, `/\`) {
			segment = decoded
		}
		out.WriteString("/" + segment)
	}
	if out.Len() == 0 {
		return "/"
	}
	if m.foldCase {
		return strings.ToLower(out.String())
	}
	return out.String()
}

// doubleEncoded reports whether a decoded path would decode further.
func doubleEncoded(decoded []byte) bool {
	for i, c := range decoded {
		if c == '%' && escapeAt(decoded, i) {
			return true
		}
	}
	return false
}

// escapeAt reports whether a percent sign at s[i] is followed by two hexadecimal digits.
func escapeAt[T string | []byte](s T, i int) bool {
	return i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2])
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}

// A class says what a byte of a path asks of the quick scan.
type class uint8

const (
	ordinary class = iota
	slash
	upper
	rewritten
)

var classes = classify()

func classify() (t [256]class) {
	for i := range t {
		switch c := byte(i); {
		case c == '/':
			t[i] = slash
		case 'A' <= c && c <= 'Z':
			t[i] = upper
		case c < ' ' || c >= 0x7f || strings.IndexByte(`%;\?#`, c) >= 0:
			t[i] = rewritten
		}
	}
	return t
}
