package policy

import "strings"

// foldHost returns the host of an authority in the form that rules are compared with and counters
// are kept under: without user, port and trailing dots, in lower case.
func foldHost(authority string) string {
	h := authority[strings.LastIndexByte(authority, '@')+1:]
	if i := strings.IndexByte(h, ']'); i >= 0 && h[0] == '[' {
		h = h[:i+1]
	} else if i := strings.IndexByte(h, ':'); i >= 0 {
		h = h[:i]
	}
	return strings.ToLower(strings.TrimRight(h, "."))
}

// hostForm returns how an authority is written. Servers that compare hosts byte by byte read a variant
// as another host; an authority with a user, a blank, a slash or a second port is none (RFC 9110
// section 4.2).
func hostForm(authority string) form {
	f, colons := plain, 0
	bracket := strings.IndexByte(authority, ']')
	for i := bracket + 1; i < len(authority); i++ {
		switch hostClasses[authority[i]] {
		case hostOrdinary:
		case hostColon:
			colons++
		case hostDot:
			if i+1 == len(authority) || authority[i+1] == ':' {
				f = varied
			}
		case hostUpper:
			f = varied
		default:
			return bad
		}
	}
	if colons > 1 || bracket > 0 && authority[0] != '[' {
		return bad
	}
	return f
}

// A hostClass says what a byte of an authority asks of hostForm.
type hostClass uint8

const (
	hostOrdinary hostClass = iota
	hostColon
	hostDot
	hostUpper
	hostNever
)

var hostClasses = classifyHost()

func classifyHost() (t [256]hostClass) {
	for i := range t {
		switch c := byte(i); {
		case c == ':':
			t[i] = hostColon
		case c == '.':
			t[i] = hostDot
		case 'A' <= c && c <= 'Z':
			t[i] = hostUpper
		case c <= ' ' || c == 0x7f || strings.IndexByte(`@/\?#`, c) >= 0:
			t[i] = hostNever
		}
	}
	return t
}
