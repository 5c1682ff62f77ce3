package descriptors

import (
	"bytes"
	"strings"
)

// A pattern is a key_value that has a *, which stands for zero or more characters of any kind.
type pattern struct {
	text        string
	first, last []byte   // what stands before the first and behind the last *
	middle      [][]byte // what stands between two
	node        *node
}

func newPattern(text string, n *node) *pattern {
	parts := bytes.Split([]byte(text), []byte("*"))
	return &pattern{text: text, first: parts[0], middle: parts[1 : len(parts)-1], last: parts[len(parts)-1], node: n}
}

// matches reports whether text is what p stands for. What is between two * is looked for once, from
// the left, in what is left of text: that is enough, and the cost is linear.
func (p *pattern) matches(text []byte) bool {
	rest, ok := bytes.CutPrefix(text, p.first)
	if !ok {
		return false
	}
	if rest, ok = bytes.CutSuffix(rest, p.last); !ok {
		return false
	}
	for _, part := range p.middle {
		at := bytes.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return true
}

// patternValue returns the part of a pattern of key and value that stands for the value of an entry
// with that key: all of it where the key is not what the pattern begins with.
func patternValue(pattern, key string) string {
	if rest, ok := strings.CutPrefix(pattern, key); ok && strings.HasPrefix(rest, "_") {
		return rest[1:]
	}
	return pattern
}
