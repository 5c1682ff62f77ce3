package crs

import (
	"regexp/syntax"
	"slices"
)

const (
	minLiteral  = 3   // bytes: shorter ones are in every text
	maxExact    = 64  // texts that a part of a pattern may be, before it counts as anything
	maxLiterals = 800 // of a pattern
)

// A part is what is known of a part of a pattern, in lower case: that it matches nothing but some texts, or
// that whatever it matches holds one of some literals.
type part struct {
	exact []string // nil: anything
	needs []string // nil: nothing in particular
}

// maxWays is into how many alternatives a pattern is taken apart.
const maxWays = 16

// A way is what a text must have that a pattern matches in one of its ways.
type way struct {
	literals []string  // one of these, in any case; nil: in no case
	needs    []byteSet // a byte of each of these
}

// waysOf returns the ways in which a pattern matches.
func waysOf(tree *syntax.Regexp) []way {
	var all []way
	for _, one := range alternatives(tree, maxWays) {
		all = append(all, way{literalsOf(one), needsOf(one)})
	}
	return all
}

// alternatives returns at most n patterns of which one matches whatever tree matches.
func alternatives(tree *syntax.Regexp, n int) []*syntax.Regexp {
	var all []*syntax.Regexp
	switch tree.Op {
	case syntax.OpCapture:
		return alternatives(tree.Sub[0], n)
	case syntax.OpAlternate:
		for _, sub := range tree.Sub {
			all = append(all, alternatives(sub, max(1, n/len(tree.Sub)))...)
		}
	case syntax.OpConcat:
		all = []*syntax.Regexp{{Op: syntax.OpConcat, Flags: tree.Flags}}
		for _, sub := range tree.Sub {
			all = eachThen(all, alternatives(sub, n/len(all)))
		}
	}
	if len(all) == 0 || len(all) > n {
		return []*syntax.Regexp{tree}
	}
	return all
}

// eachThen returns each of the sequences with each of the next patterns at its end.
func eachThen(sequences, next []*syntax.Regexp) []*syntax.Regexp {
	var all []*syntax.Regexp
	for _, begin := range sequences {
		for _, end := range next {
			one := *begin
			one.Sub = append(slices.Clone(begin.Sub), end)
			all = append(all, &one)
		}
	}
	return all
}

// literalsOf returns literals in lower case of which every text that a pattern matches holds one, in any
// case; nil if there are none such.
func literalsOf(tree *syntax.Regexp) []string {
	p := partOfPattern(tree)
	return p.best()
}

// best returns the literals of which one is in whatever p matches.
func (p *part) best() []string {
	if usable(p.exact) && (p.needs == nil || shortest(p.exact) > shortest(p.needs)) {
		return p.exact
	}
	return p.needs
}

// usable reports whether it tells something that one of list is in a text.
func usable(list []string) bool { return len(list) > 0 && shortest(list) >= minLiteral }

func shortest(list []string) int {
	n := len(list[0])
	for _, text := range list {
		n = min(n, len(text))
	}
	return n
}

func partOfPattern(tree *syntax.Regexp) part {
	switch tree.Op {
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return part{exact: []string{""}}
	case syntax.OpLiteral:
		return sequence(len(tree.Rune), func(i int) part { return oneOf(tree.Rune[i : i+1]) })
	case syntax.OpCharClass:
		return class(tree.Rune)
	case syntax.OpCapture:
		return partOfPattern(tree.Sub[0])
	case syntax.OpPlus:
		sub := partOfPattern(tree.Sub[0])
		return part{needs: sub.best()}
	case syntax.OpRepeat:
		if sub := partOfPattern(tree.Sub[0]); tree.Min > 0 {
			return part{needs: sub.best()}
		}
	case syntax.OpQuest:
		if sub := partOfPattern(tree.Sub[0]); sub.exact != nil {
			return part{exact: union(sub.exact, []string{""})}
		}
	case syntax.OpConcat:
		return sequence(len(tree.Sub), func(i int) part { return partOfPattern(tree.Sub[i]) })
	case syntax.OpAlternate:
		return either(tree.Sub)
	}
	return part{}
}

// class returns the part of a class of characters, given as ranges.
func class(ranges []rune) part {
	var all []rune
	for i := 0; i+1 < len(ranges); i += 2 {
		if len(all)+int(ranges[i+1]-ranges[i]) > 2*maxExact {
			return part{}
		}
		for r := ranges[i]; r <= ranges[i+1]; r++ {
			all = append(all, r)
		}
	}
	return oneOf(all)
}

// oneOf returns the part of one of some characters.
func oneOf(runes []rune) part {
	var exact []string
	for _, r := range runes {
		switch {
		case r == '\u212a': // the sign of the kelvin
			r = 'k'
		case r == '\u017f': // the long s
			r = 's'
		case r >= 0x80:
			return part{}
		}
		exact = append(exact, string(lower(byte(r))))
	}
	return part{exact: union(exact, nil)}
}

// sequence returns the part of n parts one after another.
func sequence(n int, at func(i int) part) part {
	var whole part
	run := []string{""} // what the parts since the last unknown one may be together
	isExact := true
	for i := range n {
		next := at(i)
		whole.prefer(next.best())
		if joined := product(run, next.exact); joined != nil {
			run = joined
			continue
		}
		whole.prefer(run)
		isExact = false
		if run = next.exact; run == nil {
			run = []string{""}
		}
	}
	whole.prefer(run)
	if isExact {
		whole.exact = run
	}
	return whole
}

// prefer takes list for what p needs if it tells more than what it has.
func (p *part) prefer(list []string) {
	if usable(list) && (p.needs == nil || shortest(list) > shortest(p.needs) || shortest(list) == shortest(p.needs) && len(list) < len(p.needs)) {
		p.needs = list
	}
}

// product returns each of a followed by each of b, or nil if those are too many or not known.
func product(a, b []string) []string {
	if len(a)*len(b) > maxExact {
		return nil
	}
	var all []string
	for _, begin := range a {
		for _, end := range b {
			all = append(all, begin+end)
		}
	}
	return union(all, nil)
}

// either returns the part of alternatives.
func either(alternatives []*syntax.Regexp) part {
	var all part
	isExact, isNeedy := true, true
	for _, sub := range alternatives {
		p := partOfPattern(sub)
		needs := p.best()
		isExact, isNeedy = isExact && p.exact != nil, isNeedy && needs != nil
		all.exact, all.needs = append(all.exact, p.exact...), append(all.needs, needs...)
	}
	if all.exact = union(all.exact, nil); !isExact || len(all.exact) > maxExact {
		all.exact = nil
	}
	if all.needs = union(all.needs, nil); !isNeedy || len(all.needs) > maxLiterals {
		all.needs = nil
	}
	return all
}

// union returns the texts of both, each once; nil if there are none or too many.
func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// lower returns c in lower case.
func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}
