package feed

import (
	"iter"
	"strings"
)

// form lists the pairs of a form or query, separated by & and, where there are any, also as ; separates
// them. Every pair counts, inspected or not: a reader of the whole must keep them all.
func (f *Feed) form(part Part, text string) *Refusal {
	if strings.Count(text, "&")+strings.Count(text, ";") >= f.limits.Values {
		return tooMany
	}
	return EachPair(text, func(name, value string) *Refusal { return f.add(part, name, value) })
}

// EachPair calls visit with every decoded pair of a form or query, in every reading, until it refuses.
func EachPair(text string, visit func(name, value string) *Refusal) *Refusal {
	if refusal := eachPair(text, '&', visit); refusal != nil || strings.IndexByte(text, ';') < 0 {
		return refusal
	}
	for piece := range strings.SplitSeq(text, "&") {
		if strings.IndexByte(piece, ';') < 0 {
			continue
		}
		if refusal := eachPair(piece, ';', visit); refusal != nil {
			return refusal
		}
	}
	return nil
}

func eachPair(text string, separator byte, visit func(name, value string) *Refusal) *Refusal {
	for text != "" {
		pair := text
		if i := strings.IndexByte(text, separator); i >= 0 {
			pair, text = text[:i], text[i+1:]
		} else {
			text = ""
		}
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		if refusal := visit(unescapeForm(name), unescapeForm(value)); refusal != nil {
			return refusal
		}
	}
	return nil
}

// Cookies yields the names and values of a Cookie header line (RFC 6265 section 4.2), as they were sent.
func Cookies(line string) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for pair := range strings.SplitSeq(line, ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
			if (name != "" || value != "") && !yield(name, value) {
				return
			}
		}
	}
}

// Unescape decodes percent escapes (RFC 3986 section 2.1). What is no escape stays.
func Unescape(text string) string {
	if strings.IndexByte(text, '%') < 0 {
		return text
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) && isHex(text[i+1]) && isHex(text[i+2]) {
			out = append(out, unhex(text[i+1])<<4|unhex(text[i+2]))
			i += 2
		} else {
			out = append(out, text[i])
		}
	}
	return string(out)
}

// unescapeForm decodes a name or value of a form, in which a plus is a space.
func unescapeForm(text string) string { return Unescape(strings.ReplaceAll(text, "+", " ")) }

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
