package feed

import (
	"strings"
	"unicode/utf8"
)

// The longest word, in bytes, that is left out, and the shortest base64.
const maxWord = 64

// notPlain are pieces of words, in lower case, that make a rule match though all is harmless characters:
// what the core rule set takes for an attack without any context, and what pollutes a prototype. A test
// of package crs finds those that are missing.
var notPlain = NewWords("__proto__", "constructor", "prototype", "__js_function", "union", "select", "alter", "exec", "xp_cmd",
	"information_schema", "schema_name", "msdb", "msys", "northwind", "pg_", "sqlite", "sysaux", "tempdb",
	"ognl", "propertyutils", "classloader", "declaredclass", "javassist", "ro0ab",
	"addgroup", "useradd", "userdel", "groupmod", "visudo", "whoami", "mkfifo", "coproc", "powershell", "base64", "0x2e",
	"sessi", "jwsess", "jservsess", "cfid", "cfsid", "cftoken", "gitlab_config", "initial_root_password", "moz-binding", "wp-config", "wp_config", "set-cookie",
	"214748364", "429496729", "0000012345", "0000023456", "2250738585072", "1e309")

// serialised is what base64 makes of _$$ND_FUNC$$_, a function that Node is to run, at each place in a
// group of three bytes.
var serialised = NewWords("xyqktkrfrlvoqyqk", "8kje5ex0zvtkmk", "fjcrorf9gvu5djcrf")

// Plain reports whether no rule at the lowest paranoia matches text: it is empty, a number, a short
// word or base64.
func Plain(text string) bool {
	if serialised.In(text) {
		return false
	}
	if len(text) > maxWord {
		return isBase64(text)
	}
	return isWord(text) || isNumber(text)
}

// isWord reports whether text is made of letters, digits, _ and single - alone, and nothing in notPlain.
// With a - it holds a digit as well: names of commands do not.
func isWord(text string) bool {
	hasDash, hasDigit := false, false
	for i := range len(text) {
		c := text[i]
		if !isWordByte(c) || c == '-' && i > 0 && text[i-1] == '-' {
			return false
		}
		hasDash, hasDigit = hasDash || c == '-', hasDigit || '0' <= c && c <= '9'
	}
	return (!hasDash || hasDigit) && !notPlain.In(text)
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
	return !strings.Contains(text, "..") && !notPlain.In(text)
}

// notBase64 are pieces, in lower case, that attacks hold which keep to the alphabet of base64. Chance
// makes none of them in a million bytes.
var notBase64 = NewWords("select+", "union+", "insert+", "delete+", "update+", "passwd", "shadow", "system32",
	"/etc/", "/proc/", "/bin/", "/sys/", "/var/", "/usr/", "/opt/", "/home/", "/root/", "/tmp/")

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
	return !notBase64.In(text) && !notBase64.In("/"+text[:8]) // a path may lack its first slash
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

// Words are texts in lower case to be looked for in texts of any case.
type Words struct {
	by [256][]string // by what they begin with, in either case
}

// NewWords returns the words of a list, each of at least two bytes.
func NewWords(list ...string) *Words {
	w := new(Words)
	for _, word := range list {
		c := word[0]
		w.by[c] = append(w.by[c], word)
		if 'a' <= c && c <= 'z' {
			w.by[c&^0x20] = append(w.by[c&^0x20], word)
		}
	}
	return w
}

// In reports whether one of the words is in text.
func (w *Words) In(text string) bool {
	for i := 0; i+1 < len(text); i++ {
		for _, word := range w.by[text[i]] {
			if text[i+1]|0x20 == word[1]|0x20 && len(text)-i >= len(word) && strings.EqualFold(text[i:i+len(word)], word) {
				return true
			}
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
