package crs

import (
	"regexp/syntax"
	"slices"
	"unicode"
)

// A byteSet is a set of bytes.
type byteSet [4]uint64

func (s *byteSet) add(c byte)      { s[c>>6] |= 1 << (c & 63) }
func (s *byteSet) has(c byte) bool { return s[c>>6]&(1<<(c&63)) != 0 }

// meets reports whether a byte is in both.
func (s *byteSet) meets(o *byteSet) bool {
	return s[0]&o[0]|s[1]&o[1]|s[2]&o[2]|s[3]&o[3] != 0
}

func (s *byteSet) union(o *byteSet) {
	for i := range s {
		s[i] |= o[i]
	}
}

// bytesIn returns the bytes of text.
func bytesIn(text string) (s byteSet) {
	for i := range len(text) {
		s.add(text[i])
	}
	return s
}

// maxNeeds is how many needs of a pattern are kept: those that a text meets least often.
const maxNeeds = 6

// needsOf returns what every text that a pattern matches holds: of each set one byte at least. A text that
// lacks one is no match, at a hundredth of the pattern's cost.
func needsOf(tree *syntax.Regexp) []byteSet {
	all := needs(tree)
	slices.SortStableFunc(all, func(a, b byteSet) int { return weight(&a) - weight(&b) })
	all = slices.Compact(all)
	return all[:min(len(all), maxNeeds)]
}

// needs returns the needs of a tree, none if it may match with nothing in particular.
func needs(tree *syntax.Regexp) []byteSet {
	switch tree.Op {
	case syntax.OpLiteral:
		var all []byteSet
		for _, r := range tree.Rune {
			all = append(all, literalNeed(r, tree.Flags&syntax.FoldCase != 0))
		}
		return all
	case syntax.OpCharClass:
		return []byteSet{classNeed(tree.Rune)}
	case syntax.OpCapture, syntax.OpPlus:
		return needs(tree.Sub[0])
	case syntax.OpRepeat:
		if tree.Min > 0 {
			return needs(tree.Sub[0])
		}
	case syntax.OpConcat:
		var all []byteSet
		for _, sub := range tree.Sub {
			all = append(all, needs(sub)...)
		}
		return all
	case syntax.OpAlternate:
		return eitherNeed(tree.Sub)
	}
	return nil
}

// eitherNeed returns the one need of alternatives: a byte that one of them cannot do without.
func eitherNeed(alternatives []*syntax.Regexp) []byteSet {
	var either byteSet
	for _, sub := range alternatives {
		all := needs(sub)
		if len(all) == 0 {
			return nil
		}
		least := slices.MinFunc(all, func(a, b byteSet) int { return weight(&a) - weight(&b) })
		either.union(&least)
	}
	return []byteSet{either}
}

// literalNeed returns the first bytes that a character may have in UTF-8, in every case.
func literalNeed(r rune, fold bool) (s byteSet) {
	s.addRune(r)
	if fold {
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			s.addRune(other)
		}
	}
	return s
}

// classNeed returns the first bytes that the characters of a class may have.
func classNeed(ranges []rune) (s byteSet) {
	for i := 0; i+1 < len(ranges); i += 2 {
		for r := ranges[i]; r <= min(ranges[i+1], 0x7f); r++ {
			s.addRune(r)
		}
		if ranges[i+1] > 0x7f {
			s.addRune(0x80)
		}
	}
	return s
}

// addRune adds what a character may be spelt with: itself, or any byte that is not ASCII.
func (s *byteSet) addRune(r rune) {
	if r < 0x80 {
		s.add(byte(r))
		return
	}
	s[2], s[3] = ^uint64(0), ^uint64(0)
}

// often is how many in a thousand texts hold each letter, roughly; what is not here is rarer.
const often = "etaoinshrdlucmfywgpbvk"

// weight says how often a text meets a set.
func weight(s *byteSet) int {
	total := 0
	for c := range 128 {
		if !s.has(byte(c)) {
			continue
		}
		total += 1
		if lower := byte(c) | 0x20; c >= 'A' {
			for i := range len(often) {
				if often[i] == lower {
					total += 10 * (len(often) - i)
				}
			}
		}
		if c == ' ' || '0' <= c && c <= '9' || c == '.' || c == ',' {
			total += 60
		}
	}
	return total
}
