package accesslog

import "strings"

// An escape is how a format writes bytes that would end a field.
type escape uint8

const (
	plain     escape = iota // not at all, or undone already
	backslash               // \" \\ \n \t and \xHH: nginx, Apache
	hash                    // #HH: HAProxy
)

// undo returns text as it was before it was escaped. What is no escape stays.
func (e escape) undo(text string) string {
	switch {
	case e == backslash && strings.IndexByte(text, '\\') >= 0:
		return undoBackslashes(text)
	case e == hash && strings.IndexByte(text, '#') >= 0:
		return undoHashes(text)
	}
	return text
}

func undoBackslashes(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			out.WriteByte(text[i])
			continue
		}
		i++
		if c, ok := unhex(text[i+1:]); ok && text[i] == 'x' {
			out.WriteByte(c)
			i += 2
			continue
		}
		if at := strings.IndexByte("ntrvbf", text[i]); at >= 0 {
			out.WriteByte("\n\t\r\v\b\f"[at])
		} else {
			out.WriteByte(text[i])
		}
	}
	return out.String()
}

func undoHashes(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if c, ok := unhex(text[i+1:]); ok && text[i] == '#' {
			out.WriteByte(c)
			i += 2
			continue
		}
		out.WriteByte(text[i])
	}
	return out.String()
}

// unhex reads the byte that two hexadecimal digits stand for.
func unhex(s string) (c byte, ok bool) {
	if len(s) < 2 {
		return 0, false
	}
	for i := range 2 {
		switch d := s[i]; {
		case '0' <= d && d <= '9':
			c = c<<4 | (d - '0')
		case 'a' <= d|0x20 && d|0x20 <= 'f':
			c = c<<4 | (d | 0x20 - 'a' + 10)
		default:
			return 0, false
		}
	}
	return c, true
}
