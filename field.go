package weir

// FoldField returns a byte of a header field's name as those servers see it that read '_' and '.' as
// '-' and know no case, as in CGI (RFC 9110 section 17.10).
func FoldField(c byte) byte {
	switch {
	case c == '_', c == '.':
		return '-'
	case 'A' <= c && c <= 'Z':
		return c + 'a' - 'A'
	}
	return c
}

// SameField reports whether a and b name one field to such a server.
func SameField(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if FoldField(a[i]) != FoldField(b[i]) {
			return false
		}
	}
	return true
}
