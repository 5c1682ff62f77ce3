package crs

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"

	coreruleset "github.com/corazawaf/coraza-coreruleset/v4"
	"github.com/corazawaf/coraza/v3"
	"github.com/corazawaf/coraza/v3/experimental/plugins"
	"github.com/corazawaf/coraza/v3/experimental/plugins/plugintypes"
	"github.com/corazawaf/coraza/v3/types"
	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/internal/racing"
	"github.com/weirgate/weir/waf"
	"github.com/weirgate/weir/waf/feed"
)

// screened returns the ids of the rules that match with the screen, and unscreened without.
func screened(r *Rules, c *waf.Case) (ids []int) {
	r.run(c, func(_ *sheet, m types.MatchedRule) { ids = append(ids, m.Rule().ID()) })
	slices.Sort(ids)
	return ids
}

func unscreened(r *Rules, c *waf.Case) (ids []int) {
	tx := r.engine.NewTransaction()
	defer tx.Close()
	newSheet(tx, c).fill()
	for _, m := range tx.MatchedRules() {
		ids = append(ids, m.Rule().ID())
	}
	slices.Sort(ids)
	return ids
}

// TestScreen runs the requests of the rule set's own tests with and without the screen: the same rules match,
// for all requests as rules are loaded by default, and for some of them at higher paranoia.
func TestScreen(t *testing.T) {
	racing.Skip(t)
	for name, test := range map[string]struct {
		options Options
		limits  feed.Limits
		each    int // of so many tests one is run
	}{
		"default":    {Options{}, limits, 1},
		"paranoia 2": {Options{Paranoia: 2}, thorough, 5},
		"paranoia 4": {Options{Paranoia: 4, stock: true}, thorough, 5},
	} {
		rules, err := New(test.options)
		if err != nil {
			t.Fatal(err)
		}
		var diff string
		l := listen(t, func(in *waf.Input) []int {
			c := &waf.Case{Input: in, Path: feed.Unescape(in.Path)}
			if c.Feed.Read(&feed.Source{Path: in.Path, Query: in.Query, Header: in.Header, Body: in.Body}, test.limits) != nil {
				return nil
			}
			diff = cmp.Diff(unscreened(rules, c), screened(rules, c))
			return nil
		})
		for i, request := range suiteRequests(t) {
			if i%test.each > 0 {
				continue
			}
			diff = ""
			if l.ask(t, request); diff != "" {
				t.Errorf("%s (-without +with the screen): %s\n%.400q", name, diff, request)
			}
		}
		t.Logf("%s: the screen stands for %d rules", name, len(rules.screen.covered))
		if err := rules.Close(); err != nil {
			t.Error(err)
		}
	}
}

// suiteRequests are the requests of the rule set's own tests.
func suiteRequests(t *testing.T) (list [][]byte) {
	for _, file := range suite(t, requestTests) {
		for _, test := range file.Tests {
			for _, stage := range test.Stages {
				list = append(list, stage.Input.bytes(t))
			}
		}
	}
	return list
}

// Texts grown from the patterns of the rules, in spellings that transformations undo, match the same rules
// with and without the screen.
func TestScreenOfGrownTexts(t *testing.T) {
	racing.Skip(t)
	rules, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer rules.Close()
	random := rand.New(rand.NewPCG(5, 6))
	spellings := []func(string) string{
		func(s string) string { return s },
		strings.ToUpper,
		url.QueryEscape,
		func(s string) string { return strings.ReplaceAll(s, " ", "/**/") },
		func(s string) string { return strings.ReplaceAll(s, "s", "\u017f") },
		func(s string) string { return strings.ReplaceAll(s, "e", "&#101;") },
		func(s string) string { return strings.ReplaceAll(s, "a", `\x61`) },
		func(s string) string { return "it's " + s + "; and so on" },
		func(s string) string { return strings.ReplaceAll(s, "c", `c\`) },
		func(s string) string { return strings.Join(strings.Split(s, ""), "\x00") },
		func(s string) string { return "\xff" + s + "é" },
	}
	matched := 0
	for _, pattern := range patterns(t) {
		tree, err := syntax.Parse("(?sm)"+pattern, syntax.Perl)
		if err != nil {
			continue
		}
		for i := range 2 * len(spellings) {
			var b strings.Builder
			grow(random, tree.Simplify(), &b)
			text := spellings[i%len(spellings)](b.String())
			c := said(text)
			want := unscreened(rules, c)
			if len(want) > 3 {
				matched++
			}
			if diff := cmp.Diff(want, screened(rules, c)); diff != "" {
				t.Errorf("%q of %.60q (-without +with the screen): %s", text, pattern, diff)
			}
		}
	}
	t.Logf("%d of the texts match", matched)
	if matched < 1000 {
		t.Errorf("%d texts match, want more", matched)
	}
}

// said is a request that says text as a member of JSON.
func said(text string) *waf.Case {
	in := &waf.Input{Method: "POST", Host: "words.test", Proto: "HTTP/1.1", Path: "/v1/x",
		Header: browser("Content-Type", "application/json", "Content-Length", "9")}
	c := &waf.Case{Input: in, Path: in.Path}
	c.Feed.Leaves = []feed.Leaf{{Part: feed.JSON, Name: "a", Value: text}}
	return c
}

// echo is an operator that keeps what it is asked about.
type echo struct{ got *string }

func (e echo) Evaluate(_ plugintypes.TransactionState, text string) bool { *e.got = text; return false }

// What plainTransforms leaves out does nothing to a plain text, by the engine's own word.
func FuzzPlainTransforms(f *testing.F) {
	var got string
	plugins.RegisterOperator("weirEcho", func(plugintypes.OperatorOptions) (plugintypes.Operator, error) { return echo{&got}, nil })
	chains := []string{",t:urlDecodeUni", ",t:htmlEntityDecode", ",t:jsDecode", ",t:cssDecode", ",t:removeNulls", ",t:utf8toUnicode", ",t:replaceComments",
		",t:utf8toUnicode,t:urlDecodeUni,t:lowercase,t:htmlEntityDecode,t:jsDecode", ",t:removeWhitespace,t:urlDecodeUni,t:cmdLine,t:jsDecode", ",t:normalizePath,t:urlDecodeUni", ",t:compressWhitespace,t:replaceComments,t:normalizePathWin"}
	var engines [][2]coraza.WAF
	for _, chain := range chains {
		var pair [2]coraza.WAF
		for i, transforms := range []string{chain, plainTransforms(chain)} {
			engine, err := coraza.NewWAF(coraza.NewWAFConfig().WithRootFS(coreruleset.FS).WithDirectives("SecRuleEngine On\nSecRule RESPONSE_ARGS \"@weirEcho\" \"id:1,phase:1,pass,nolog,t:none" + transforms + "\"\n"))
			if err != nil {
				f.Fatal(err)
			}
			pair[i] = engine
		}
		engines = append(engines, pair)
	}
	for _, seed := range []string{"", "a", "it's all <b>/ one\" -- #$1,2;3:4 ( )", "../x/./y//z", "a\tb\r\n\x0bc", "u0041 x41 #x26; amp;", "//", ".", "^A`"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !isPlain(text) {
			return
		}
		for i, pair := range engines {
			var texts [2]string
			for k, engine := range pair {
				tx := engine.NewTransaction()
				tx.(plugintypes.TransactionState).Variables().ResponseArgs().Add("a", text)
				tx.ProcessRequestHeaders()
				texts[k] = got
				_ = tx.Close()
			}
			if texts[0] != texts[1] {
				t.Errorf("%q: %s makes %q, and %s makes %q", text, chains[i], texts[0], plainTransforms(chains[i]), texts[1])
			}
		}
	})
}

func TestPlainTransforms(t *testing.T) {
	for chain, want := range map[string]string{
		"":                                      "",
		",t:urlDecodeUni":                       "",
		",t:lowercase,t:jsDecode":               ",t:lowercase",
		",t:jsDecode,t:lowercase":               ",t:lowercase",
		",t:cmdLine,t:normalizePath":            ",t:cmdLine,t:normalizePath",
		",t:jsDecode,t:base64Decode,t:jsDecode": ",t:jsDecode,t:base64Decode,t:jsDecode", // whose result is anything
	} {
		if got := plainTransforms(chain); got != want {
			t.Errorf("%s: %s, want %s", chain, got, want)
		}
	}
}

// What a rule is read as.
func TestReadRule(t *testing.T) {
	for raw, want := range map[string]rule{
		`SecRule ARGS|XML:/* "@rx (?i)a\"b\\c" "id:1,phase:2,t:none,t:lowercase,msg:'a,t:cssDecode',multiMatch"`: {id: 7, phase: 2, paranoia: 1, places: []string{"ARGS", "XML:/*"}, transforms: ",t:lowercase", multi: ",multiMatch", operator: "rx", argument: `(?i)a"b\\c`},
		`SecRule ARGS "@detectSQLi" "id:1,t:urlDecode,t:none"`:                                                   {id: 7, phase: 2, paranoia: 1, places: []string{"ARGS"}, operator: "detectSQLi"},
		`SecRule ARGS "!@rx a" "id:1"`:                                                                           {},
		`SecRule ARGS "@eq 1" "id:1"`:                                                                            {},
		`SecAction "id:1"`:                                                                                       {},
	} {
		got, ok := readRule(metadata{raw: raw})
		if ok != (want.id != 0) || !cmp.Equal(got, want, cmp.AllowUnexported(rule{})) {
			t.Errorf("%s: %+v, want %+v", raw, got, want)
		}
	}
}

// A rule that skips others counts rules: those after it are left in their place.
func TestSkippedRules(t *testing.T) {
	var r reader
	for _, raw := range []string{`SecRule ARGS "@rx a" "id:1"`, `SecRule ARGS "@rx b" "id:1,skip:2"`, `SecRule ARGS "@rx c" "id:1"`, `SecAction "id:1"`, `SecRule ARGS "@rx d" "id:1,skipAfter:END"`} {
		r.read(metadata{raw: raw})
	}
	var got []string
	for _, rule := range r.rules(1) {
		got = append(got, rule.argument)
	}
	if diff := cmp.Diff([]string{"a", "d"}, got); diff != "" {
		t.Error(diff)
	}
	if got := r.rules(0); len(got) > 0 {
		t.Errorf("of a lower paranoia: %v", got)
	}
}

// metadata is a rule as it was loaded.
type metadata struct {
	types.RuleMetadata
	raw string
}

func (m metadata) ID() int                { return 7 }
func (m metadata) Raw() string            { return m.raw }
func (m metadata) Phase() types.RulePhase { return types.PhaseRequestBody }
func (m metadata) Tags() []string         { return []string{"attack-sqli", "paranoia-level/1"} }

// The groups of a rule: none for what the screen cannot stand for.
func TestGroups(t *testing.T) {
	for places, want := range map[string][]group{
		"ARGS":                        {{oddTexts, ",t:jsDecode", ""}, {plainTexts, "", ""}},
		"ARGS|!ARGS:id|XML:/*":        {{oddTexts, ",t:jsDecode", ""}, {plainTexts, "", ""}},
		"ARGS|REQUEST_HEADERS:Origin": {{oddTexts, ",t:jsDecode", ""}, {plainTexts, "", ""}, {"REQUEST_HEADERS:Origin", ",t:jsDecode", ""}},
		"&ARGS":                       nil,
		"ARGS:id":                     nil,
		"ARGS|TX:1":                   nil,
		"ARGS|MATCHED_VARS":           nil,
		"REQUEST_HEADERS":             nil,
	} {
		r := rule{phase: types.PhaseRequestBody, places: strings.Split(places, "|"), transforms: ",t:jsDecode"}
		if diff := cmp.Diff(want, r.groups(), cmp.AllowUnexported(group{})); diff != "" {
			t.Errorf("%s (-want +got): %s", places, diff)
		}
	}
	early := rule{phase: types.PhaseRequestHeaders, places: []string{"ARGS"}}
	if got := early.groups(); got != nil {
		t.Errorf("of the first phase: %v", got)
	}
}

func TestGroupOfAnotherScreen(t *testing.T) {
	for _, argument := range []string{"", "x", "0", "9"} {
		if op, err := newGrouped(plugintypes.OperatorOptions{Arguments: argument, Root: coreruleset.FS}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("group %q", argument)) {
			t.Errorf("%q: %v, %v", argument, op, err)
		}
	}
}
