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
