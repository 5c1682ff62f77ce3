package fast

import "strings"

// A class is a set of kinds of bytes that decide which rules look at a text.
type class uint16

const (
	space     class = 1 << iota
	quotes          // ' " `
	angle           // < >
	slashes         // / \
	dollar          // $ { (
	separates       // ; | & and the end of a line
	equals          // =
	compares        // : - #
	control         // below space
	words           // letters
)

const (
	sqlBytes    = quotes | equals | compares | separates
	scriptBytes = angle | equals // no markup and no attribute is without
	shellBytes  = separates | dollar
	quoteBytes  = quotes | slashes
)

// A byteSet is what a text is made of.
type byteSet struct {
	has     class
	foreign int // bytes that are not ASCII
}

func (b byteSet) hasAny(c class) bool { return b.has&c != 0 }

// classes is the class of each byte.
var classes = func() (of [256]class) {
	for c, bytes := range map[class]string{space: " \t\n\r\v\f", quotes: "'\"`", angle: "<>", slashes: `/\`, dollar: "${(", separates: ";|&\n", equals: "=", compares: ":-#"} {
		for i := range len(bytes) {
			of[bytes[i]] |= c
		}
	}
	for c := range byte(' ') {
		of[c] |= control
	}
	for c := byte('a'); c <= 'z'; c++ {
		of[c] |= words
		of[c&^0x20] |= words
	}
	return of
}()

func bytesOf(text string) byteSet {
	var b byteSet
	for i := range len(text) {
		b.has |= classes[text[i]]
		b.foreign += int(text[i] >> 7)
	}
	return b
}

func isLetter(c byte) bool { return classes[c]&words != 0 }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isWord(c byte) bool   { return isLetter(c) || isDigit(c) || c == '_' }

// hasPrefixFold reports whether text begins with prefix, which is in lower case, in any case.
func hasPrefixFold(text, prefix string) bool {
	return len(text) >= len(prefix) && strings.EqualFold(text[:len(prefix)], prefix)
}

// indexAny returns where one of chars is in text, or 0.
func indexAny(text, chars string) int { return max(0, strings.IndexAny(text, chars)) }

// unquoted returns text without the quotes and backslashes that a shell takes away.
func unquoted(text string) string {
	var out strings.Builder
	for i := range len(text) {
		if c := text[i]; c != '\'' && c != '"' && c != '\\' && c != '^' {
			out.WriteByte(c)
		}
	}
	return out.String()
}
