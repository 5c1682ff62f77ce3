package fast

import (
	"slices"

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
	// unless reports whether a parameter of that name may hold the word at begin. nil: none.
	unless func(name, text string, begin int) bool
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

// A table finds signatures by the first bytes of their words, in any case.
type table [256][]signature

func newTable(all []signature) *table {
	t := new(table)
	for _, s := range all {
		c := s.word[0]
		t[c] = append(t[c], s)
		if isLetter(c) {
			t[c&^0x20] = append(t[c&^0x20], s)
		}
	}
	return t
}

// scan reports the signatures of text by each rule once, and by none of those seen, and returns those seen
// then. A word that begins with a letter counts where no letter or digit stands before it.
func (t *table) scan(j *judge, l *feed.Leaf, text string, seen []string) []string {
	for i := 0; i+1 < len(text); i++ {
		list := t[text[i]]
		if len(list) == 0 || i > 0 && isWord(text[i]) && isWord(text[i-1]) {
			continue
		}
		for k := range list {
			s := &list[k]
			if text[i+1]|0x20 != s.word[1]|0x20 || !s.matches(l, text, i) || slices.Contains(seen, s.rule) {
				continue
			}
			seen = append(seen, s.rule)
			j.report(s.rule, s.class, s.score, l, text, i)
		}
	}
	return seen
}

// matches reports whether the signature is in text at begin. A word that ends in a letter ends there.
func (s *signature) matches(l *feed.Leaf, text string, begin int) bool {
	end := begin + len(s.word)
	if !s.parts.has(l.Part) || !hasPrefixFold(text[begin:], s.word) {
		return false
	}
	if isWord(s.word[len(s.word)-1]) && end < len(text) && isWord(text[end]) {
		return false
	}
	return (s.near == nil || s.near(text, begin, end)) && (s.unless == nil || !s.unless(l.Name, text, begin))
}
