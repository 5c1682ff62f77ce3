package fast

import (
	"github.com/weirgate/weir/waf/feed"
)

// A signature is a word and what must stand around it.
type signature struct {
	word  string // in lower case
	rule  string
	class string
	score int
	parts partSet
	// near reports whether text is an attack, in which the word stands from begin to end. nil: always.
	near func(text string, begin, end int) bool
}

// A partSet is a set of the parts of a request; the empty set is all of them.
type partSet uint32

func parts(list ...feed.Part) partSet {
	var set partSet
	for _, p := range list {
		set |= 1 << p
	}
	return set
}

func (s partSet) has(p feed.Part) bool { return s == 0 || s&(1<<p) != 0 }

// A table finds signatures by the first two bytes of their words, in any case.
type table struct {
	first [256]bool
	by    map[[2]byte][]signature
}

func newTable(all []signature) table {
	t := table{by: map[[2]byte][]signature{}}
	for _, s := range all {
		key := [2]byte{s.word[0], s.word[1]}
		t.by[key] = append(t.by[key], s)
		t.first[s.word[0]] = true
		if isLetter(s.word[0]) {
			t.first[s.word[0]&^0x20] = true
		}
	}
	return t
}

func fold(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// scan reports the signatures of text, each rule once. A word that begins with a letter counts where no
// letter or digit stands before it.
func (t *table) scan(j *judge, l *feed.Leaf, text string, _ byteSet) {
	var seen []string
	for i := 0; i+1 < len(text); i++ {
		c := text[i]
		if !t.first[c] || i > 0 && isWord(c) && isWord(text[i-1]) {
			continue
		}
		for _, s := range t.by[[2]byte{fold(c), fold(text[i+1])}] {
			end := i + len(s.word)
			if !s.parts.has(l.Part) || !hasPrefixFold(text[i:], s.word) || isWord(s.word[len(s.word)-1]) && end < len(text) && isWord(text[end]) {
				continue
			}
			if s.near != nil && !s.near(text, i, end) || contains(seen, s.rule) {
				continue
			}
			seen = append(seen, s.rule)
			j.report(s.rule, s.class, s.score, l, text, i)
		}
	}
}

func contains(list []string, text string) bool {
	for _, item := range list {
		if item == text {
			return true
		}
	}
	return false
}
