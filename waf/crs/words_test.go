package crs

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"

	coreruleset "github.com/corazawaf/coraza-coreruleset/v4"
	"github.com/corazawaf/coraza/v3/types"

	"github.com/weirgate/weir/internal/racing"
	"github.com/weirgate/weir/waf"
	"github.com/weirgate/weir/waf/feed"
)

// TestPlainWords makes words of everything that the rule set looks for: its lists of words, and texts that
// its patterns match. Each that we would leave out must be one that no rule blocks.
func TestPlainWords(t *testing.T) {
	racing.Skip(t)
	rules, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer rules.Close()
	words := append(listedWords(t), patternWords(t, rules)...)
	slices.Sort(words)
	words = slices.Compact(words)
	t.Logf("%d words", len(words))
	for batch := range slices.Chunk(words, 200) {
		if !rules.blocksAny(batch) {
			continue
		}
		for _, word := range batch {
			if ids := rules.blocks(word); ids != "" {
				t.Errorf("%q is plain, but %s", word, ids)
			}
		}
	}
}

// listedWords are the plain words of the rule set's lists.
func listedWords(t *testing.T) []string {
	t.Helper()
	names, err := fs.Glob(coreruleset.FS, "@owasp_crs/*.data")
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, name := range names {
		data, err := fs.ReadFile(coreruleset.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			if word := strings.TrimSpace(line); word != "" && feed.Plain(word) {
				words = append(words, word)
			}
		}
	}
	return words
}

// patternWords are plain words that the patterns match, several for each.
func patternWords(t *testing.T, rules *Rules) []string {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	var words []string
	for _, pattern := range patterns(t) {
		tree, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			continue // bytes that are not UTF-8
		}
		for range 500 {
			var b strings.Builder
			grow(random, tree.Simplify(), &b)
			if word := b.String(); len(word) > 1 && feed.Plain(word) {
				words = append(words, word)
			}
		}
	}
	return words
}

// patterns are those of all rules.
func patterns(t *testing.T) []string {
	t.Helper()
	names, err := fs.Glob(coreruleset.FS, "@owasp_crs/REQUEST-*.conf")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, name := range names {
		data, err := fs.ReadFile(coreruleset.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			if _, after, found := strings.Cut(line, `"@rx `); found {
				all = append(all, strings.ReplaceAll(strings.TrimSuffix(strings.TrimRight(after, "\\ \n"), `"`), `\"`, `"`))
			}
		}
	}
	return all
}

// grow writes a text that tree matches, of word characters where there is a choice.
func grow(r *rand.Rand, tree *syntax.Regexp, b *strings.Builder) {
	switch tree.Op {
	case syntax.OpLiteral:
		b.WriteString(string(tree.Rune))
	case syntax.OpCharClass:
		var choice []rune
		for i := 0; i < len(tree.Rune); i += 2 {
			for c := tree.Rune[i]; c <= min(tree.Rune[i+1], 'z'); c++ {
				if c == '_' || c == '-' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' {
					choice = append(choice, c)
				}
			}
		}
		if len(choice) == 0 {
			choice = append(tree.Rune[:1:1], '\'')
		}
		b.WriteRune(choice[r.IntN(len(choice))])
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		b.WriteByte('a')
	case syntax.OpStar, syntax.OpQuest:
		if r.IntN(4) == 0 {
			grow(r, tree.Sub[0], b)
		}
	case syntax.OpPlus, syntax.OpCapture:
		grow(r, tree.Sub[0], b)
	case syntax.OpConcat:
		for _, sub := range tree.Sub {
			grow(r, sub, b)
		}
	case syntax.OpAlternate:
		grow(r, tree.Sub[r.IntN(len(tree.Sub))], b)
	}
}

// wordsCase is a request that says words as members of JSON and as parameters.
func wordsCase(words []string) *waf.Case {
	var query []string
	for i, word := range words {
		query = append(query, fmt.Sprintf("a%d=%s", i, url.QueryEscape(word)))
	}
	in := &waf.Input{Method: "GET", Host: "words.test", Proto: "HTTP/1.1", Path: "/", Query: strings.Join(query, "&"),
		Header: map[string][]string{"Accept": {"*/*"}, "User-Agent": {"curl/8"}}}
	return &waf.Case{Input: in, Path: "/"}
}

func (r *Rules) blocksAny(words []string) bool {
	c := wordsCase(words)
	r.evaluate(c)
	return c.Score() > 0
}

// blocks names the rules that match word, if they would block it.
func (r *Rules) blocks(word string) string {
	c := wordsCase([]string{word})
	var ids []int
	r.run(c, func(s *sheet, rule types.MatchedRule) {
		if rule.Rule().ID() == 932260 {
			return
		}
		if s.report(rule); rule.Rule().Severity() == types.RuleSeverityCritical {
			ids = append(ids, rule.Rule().ID())
		}
	})
	if c.Score() < 5 {
		return ""
	}
	return fmt.Sprint(ids)
}
