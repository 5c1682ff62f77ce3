package crs

import "math/bits"

// A finder looks for the literals of many ways in one pass over a text.
type finder struct {
	at    [1 << finderBits]uint16 // by the hash of the first three bytes: 1 + the index in lists, or 0
	lists [][]needle
}

const finderBits = 12

// A needle is a literal in lower case, of at least three bytes, and the ways that look for it.
type needle struct {
	text string
	of   wayset
}

// A wayset is a set of the ways of a group, by their index.
type wayset []uint64

func newWayset(n int) wayset { return make(wayset, (n+63)/64) }

func (s wayset) add(i int) { s[i>>6] |= 1 << (i & 63) }

func (s wayset) fill() {
	for i := range s {
		s[i] = ^uint64(0)
	}
}

// next returns the first of s from i on; beyond the last it is beyond all.
func (s wayset) next(i int) int {
	for ; i < 64*len(s); i = (i | 63) + 1 {
		if rest := s[i>>6] >> (i & 63); rest != 0 {
			return i + bits.TrailingZeros64(rest)
		}
	}
	return i
}

// hashOf mixes three bytes in lower case.
func hashOf(a, b, c byte) uint32 {
	return (uint32(a)<<16 | uint32(b)<<8 | uint32(c)) * 2654435761 >> (32 - finderBits)
}

// newFinder returns a finder of the literals of ways.
func newFinder(ways []groupWay) *finder {
	f := new(finder)
	known := map[string]wayset{}
	for i := range ways {
		for _, text := range ways[i].literals {
			of := known[text]
			if of == nil {
				of = newWayset(len(ways))
				known[text] = of
				f.add(needle{text, of})
			}
			of.add(i)
		}
	}
	return f
}

func (f *finder) add(n needle) {
	h := hashOf(n.text[0], n.text[1], n.text[2])
	if f.at[h] == 0 {
		f.lists = append(f.lists, nil)
		f.at[h] = uint16(len(f.lists))
	}
	list := &f.lists[f.at[h]-1]
	*list = append(*list, n)
}

// find adds to found the ways of which a literal is in text, in any case.
func (f *finder) find(text string, found wayset) {
	if len(text) < minLiteral {
		return
	}
	a, b := lower(text[0]), lower(text[1])
	for i := 2; i < len(text); i++ {
		c := lower(text[i])
		if k := f.at[hashOf(a, b, c)]; k != 0 {
			for j := range f.lists[k-1] {
				if n := &f.lists[k-1][j]; begins(text[i-2:], n.text) {
					for w := range found {
						found[w] |= n.of[w]
					}
				}
			}
		}
		a, b = b, c
	}
}

// begins reports whether text begins with prefix, which is in lower case, in any case of ASCII.
func begins(text, prefix string) bool {
	if len(text) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		if lower(text[i]) != prefix[i] {
			return false
		}
	}
	return true
}
