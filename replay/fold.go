package replay

import "strings"

// deepest is how many segments of a path make its group.
const deepest = 4

// appendGroup appends the group of a path: its first segments, with * for those that name one thing of
// many, such as numbers, UUIDs and hashes.
func appendGroup(dst []byte, path string) []byte {
	start := len(dst)
	for n := 0; n < deepest && path != ""; n++ {
		var segment string
		segment, path, _ = strings.Cut(strings.TrimLeft(path, "/"), "/")
		switch {
		case segment == "":
		case names(segment):
			dst = append(dst, "/*"...)
		default:
			dst = append(append(dst, '/'), segment...)
		}
	}
	if len(dst) == start {
		dst = append(dst, '/')
	}
	return dst
}

const (
	longDigits = 5  // so many in a row name one thing
	longHex    = 8  // a word of hexadecimal digits, one of them a decimal one
	longToken  = 20 // a word with digits and letters
	longWord   = 48 // any word
)

// names reports whether a segment names one thing of many: a number, or something that holds a long
// number, a hash or a token. Bytes that a path pattern cannot hold make a name, too.
func names(segment string) bool {
	var w word
	for i := range len(segment) {
		switch c := segment[i]; {
		case '0' <= c && c <= '9', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
			w.add(c)
		case c == '.', c == '-', c == '_', c == '~', c == '@', c == ',', c == '+', c == '!', c == '$', c == '(', c == ')', c == '=', c == '&', c == '\'':
			if w.isName() {
				return true
			}
			w = word{}
		default:
			return true // *, %, ;, :, { and what is no ASCII
		}
	}
	return w.isName() || w.digits == len(segment) || len(segment) > longWord || segment == "." || segment == ".."
}

// A word is a run of letters and digits.
type word struct {
	length, digits, hex int
	row, longestRow     int // digits in a row
}

func (w *word) add(c byte) {
	w.length++
	if c <= '9' {
		w.digits++
		w.row++
		w.longestRow = max(w.longestRow, w.row)
	} else {
		w.row = 0
	}
	if c <= '9' || c|0x20 <= 'f' {
		w.hex++
	}
}

func (w *word) isName() bool {
	return w.longestRow >= longDigits || w.digits > 0 && (w.hex == w.length && w.length >= longHex || w.length >= longToken && w.digits < w.length)
}
