package crs

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func parse(t testing.TB, pattern string) *syntax.Regexp {
	t.Helper()
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		t.Fatal(err)
	}
	return tree.Simplify()
}

func TestLiteralsOf(t *testing.T) {
	for pattern, want := range map[string][]string{
		`abc`:                        {"abc"},
		`(?i)ABC`:                    {"abc"},
		`ab`:                         nil, // in every text
		`a.*bcd`:                     {"bcd"},
		`abc|def`:                    {"abc", "def"},
		`abc|d`:                      nil,
		`abc(?:d|e)?`:                {"abc"},
		`(?:abc)*`:                   nil,
		`(?:abc)+`:                   {"abc"},
		`(?:abc){2,3}`:               {"abcabc", "abcabcabc"},
		`x[0-9]yz`:                   {"x0yz", "x1yz", "x2yz", "x3yz", "x4yz", "x5yz", "x6yz", "x7yz", "x8yz", "x9yz"},
		`\babc\b`:                    {"abc"},
		`^(?:union|select)\s+[^a]b`:  {"select", "union"},
		`(?i)ſelekt`:                 {"selekt"}, // U+017F is an s in another case
		`[^a]bc`:                     nil,
		`élan`:                       {"lan"},
		`select|union.*from|int[o0]`: {"int0", "into", "select", "union"},
	} {
		got := literalsOf(parse(t, pattern))
		slices.Sort(got)
		if !cmp.Equal(got, want) {
			t.Errorf("%s: %q, want %q", pattern, got, want)
		}
	}
}

// Of the ways of a pattern one fits whatever it matches.
func FuzzWaysOf(f *testing.F) {
	for _, seed := range [][2]string{{`(?i)union.+select`, "UNION select"}, {`a(b|c(d|e)*)?f|gh+`, "acdedf"}, {`[\s\x0b]*(?:x|yy){2}$`, "\x0bxyy"}, {`(?i)k[^\x00-\x7f]s`, "\u212aé\u017f"},
		{`(?:)|a`, ""}, {`\Bfoo\b|^b.r`, "xfoo"}, {"(?s)\".*?`", "\"\n`"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		tree, err := syntax.Parse("(?sm)"+pattern, syntax.Perl)
		if err != nil || len(pattern) > 200 || len(text) > 200 {
			return
		}
		re, err := regexp.Compile("(?sm)" + pattern)
		if err != nil || !re.MatchString(text) {
			return
		}
		if !fits(waysOf(tree.Simplify()), text) {
			t.Errorf("%q matches %q, in none of the ways %+v", text, pattern, waysOf(tree.Simplify()))
		}
	})
}

// fits reports whether text may match in one of the ways.
func fits(ways []way, text string) bool {
	isCandidate := false
	newGroup([]member{{ways: ways}}).candidates(text, func(*member) { isCandidate = true })
	return isCandidate
}

// The finder finds every literal, in any case, wherever it is.
func FuzzFinder(f *testing.F) {
	literals := []string{"abc", "abcd", "bcd", "select", "\xffx\x00", "aaa", "' or"}
	for _, seed := range []string{"", "ab", "xABCd", "aaaa", "SELECTselect", "\xffX\x00", "' OR"} {
		f.Add(seed)
	}
	var ways []groupWay
	for _, l := range literals {
		ways = append(ways, groupWay{way: way{literals: []string{l}}})
	}
	finder := newFinder(ways)
	f.Fuzz(func(t *testing.T, text string) {
		found := newWayset(len(ways))
		finder.find(text, found)
		folded := []byte(text)
		for i := range folded {
			folded[i] = lower(folded[i])
		}
		for i, l := range literals {
			if want := strings.Contains(string(folded), l); want != (found[0]>>i&1 == 1) {
				t.Errorf("%q in %q: %v, want %v", l, text, !want, want)
			}
		}
	})
}

func TestWayset(t *testing.T) {
	s := newWayset(130)
	for _, i := range []int{0, 63, 64, 129} {
		s.add(i)
	}
	var got []int
	for i := s.next(0); i < 130; i = s.next(i + 1) {
		got = append(got, i)
	}
	if diff := cmp.Diff([]int{0, 63, 64, 129}, got); diff != "" {
		t.Error(diff)
	}
}
