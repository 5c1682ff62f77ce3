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

// A class is what a byte of a segment does.
type class uint8

const (
	strange class = iota // makes a name: *, %, ;, :, { and what is no ASCII
	between              // ends a word
	digit
	hexLetter
	letter
)

// classes are those of all bytes.
var classes = classify()

func classify() (of [256]class) {
	for _, c := range []byte(".-_~@,+!$()=&'") {
		of[c] = between
	}
	for c := byte('0'); c <= '9'; c++ {
		of[c] = digit
	}
	for c := byte('a'); c <= 'z'; c++ {
		of[c], of[c-'a'+'A'] = letter, letter
		if c <= 'f' {
			of[c], of[c-'a'+'A'] = hexLetter, hexLetter
		}
	}
	return of
}

// names reports whether a segment names one thing of many: a number, or something that holds a long
// number, a hash or a token. Bytes that a path pattern cannot hold make a name, too.
func names(segment string) bool {
	var w word
	for i := range len(segment) {
		switch c := classes[segment[i]]; c {
		case strange:
			return true
		case between:
			if w.isName() {
				return true
			}
			w = word{}
		default:
			w.add(c)
		}
	}
	return w.isName() || w.digits == len(segment) || len(segment) > longWord || segment == "." || segment == ".."
}

// A word is a run of letters and digits.
type word struct {
	length, digits, hex int
	row, longestRow     int // digits in a row
}

func (w *word) add(c class) {
	w.length++
	switch c {
	case digit:
		w.digits++
		w.hex++
		w.row++
		w.longestRow = max(w.longestRow, w.row)
		return
	case hexLetter:
		w.hex++
	}
	w.row = 0
}

func (w *word) isName() bool {
	return w.longestRow >= longDigits || w.digits > 0 && (w.hex == w.length && w.length >= longHex || w.length >= longToken && w.digits < w.length)
}
