package crs

import (
	"strconv"
	"strings"

	"github.com/corazawaf/coraza/v3/types"
	"github.com/corazawaf/coraza/v3/types/variables"

	"github.com/weirgate/weir/waf"
	"github.com/weirgate/weir/waf/feed"
)

// maxFindings bounds what is reported of one rule.
const maxFindings = 4

// report reports what a rule matched, once for each parameter.
func (s *sheet) report(rule types.MatchedRule) {
	score := scores[rule.Rule().Severity()]
	if score == 0 || paranoia(rule.Rule().Tags()) == 0 {
		return // a rule that only sets something up
	}
	f := waf.Finding{Rule: strconv.Itoa(rule.Rule().ID()), Class: classOf(rule.Rule()), Score: score}
	seen := map[string]bool{}
	for _, md := range rule.MatchedDatas() {
		if md.ChainLevel() > 0 || seen[md.Key()] || len(seen) == maxFindings {
			continue
		}
		seen[md.Key()] = true
		f.Name, f.Value = md.Key(), md.Value()
		leaf := s.leaf(f.Name)
		if leaf == nil {
			leaf = s.argument(md)
		}
		if f.Part = partOf(md); leaf != nil {
			f.Part, f.Name = leaf.Part, leaf.Name
		}
		if waf.OwnCallback(f.Name, f.Value, 0) && isPlainURL(f.Value) {
			continue
		}
		what := matched(rule.Data())
		f.At = max(strings.Index(f.Value, what), 0)
		f.Score = weigh(rule.Rule().ID(), score, &f, leaf, what)
		s.c.Report(f)
	}
}

// weigh returns what a match counts: less than it takes to refuse where it is chance more often than not.
func weigh(rule, score int, f *waf.Finding, leaf *feed.Leaf, matched string) int {
	switch {
	case rule == lone && leaf != nil && isForeign(leaf.Value): // the finding has it as transformed
		return 3
	case f.Class == "rce" && isProse(f.Value, matched):
		return 1 // several rules take it for a command
	}
	return score
}

// isPlainURL reports whether text is made of nothing that a rule could fear.
func isPlainURL(text string) bool {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:/._~[]-"
	return strings.Trim(text, plain) == "" && !strings.Contains(text, "..")
}

// isProse reports whether the first line of what matched in text is words alone, in a longer text. The
// rules take the end of a line for the end of a command, and time, find, command and del for commands
// wherever they stand.
func isProse(text, matched string) bool {
	line, _, _ := strings.Cut(strings.TrimLeft(matched, " \t\r\n"), "\n")
	if len(text) < 40 || strings.Count(text, " ") < 5 || strings.ContainsAny(line, "|&;`$<>/\\={}*") {
		return false
	}
	_, option, found := strings.Cut(line, " -")
	return !found || option == "" || option[0] == '-' || option[0] == ' '
}

// lone is libinjection's rule for SQL. Its hits on short texts in scripts other than Latin are chance more
// often than not (coreruleset#3193).
const lone = 942100

// isForeign reports whether most of text is not ASCII.
func isForeign(text string) bool {
	n := 0
	for i := range len(text) {
		if text[i] >= 0x80 {
			n++
		}
	}
	return n > len(text)/2
}

// matched returns what the rule's message says it matched.
func matched(data string) string {
	_, data, _ = strings.Cut(data, "Matched Data: ")
	data, _, _ = strings.Cut(data, " found within ")
	return data
}

// scores are what the severities add, as the rule set has it.
var scores = map[types.RuleSeverity]int{
	types.RuleSeverityCritical: 5, types.RuleSeverityError: 4, types.RuleSeverityWarning: 3, types.RuleSeverityNotice: 2,
}

// argument returns what the body says under the name of an argument that matched, or nil.
func (s *sheet) argument(md types.MatchData) *feed.Leaf {
	switch md.Variable() {
	case variables.Args, variables.ArgsNames, variables.ArgsPost, variables.ArgsPostNames:
	default:
		return nil
	}
	for i := range s.c.Feed.Leaves {
		if leaf := &s.c.Feed.Leaves[i]; strings.EqualFold(leaf.Name, md.Key()) {
			return leaf
		}
	}
	return nil
}

// partOf says where in a request a variable of Coraza's is.
func partOf(md types.MatchData) feed.Part {
	switch md.Variable() {
	case variables.RequestCookies, variables.RequestCookiesNames:
		return feed.Cookie
	case variables.RequestHeaders, variables.RequestHeadersNames:
		return feed.Header
	case variables.RequestBody:
		return feed.Form
	case variables.Args, variables.ArgsNames, variables.ArgsGet, variables.ArgsGetNames, variables.QueryString:
		return feed.Query
	case variables.Files, variables.FilesNames, variables.MultipartFilename:
		return feed.File
	case variables.MultipartPartHeaders, variables.MultipartName:
		return feed.PartField
	case variables.RequestXML, variables.XML:
		return feed.Element
	}
	return feed.Path
}

// classes say what a rule is about by its file, or by what its id begins with.
var classes = []struct{ prefix, class string }{
	{"100021", "java"}, {"100022", "sqli"}, {"100023", "sqli"}, {"100024", "node"}, {"100025", "xss"}, {"100026", "sqli"}, {"100027", "sqli"},
	{"1000", "protocol"}, {"911", "protocol"}, {"913", "scanner"}, {"920", "protocol"}, {"921", "protocol"},
	{"922", "multipart"}, {"930", "lfi"}, {"931", "rfi"}, {"932", "rce"}, {"933110", "upload"}, {"933111", "upload"}, {"933", "php"},
	{"934110", "ssrf"}, {"934120", "ssrf"}, {"934190", "ssrf"}, {"934130", "pollution"}, {"934", "node"}, {"941", "xss"}, {"942", "sqli"},
	{"943", "session"}, {"944", "java"},
}

func classOf(rule types.RuleMetadata) string {
	id := strconv.Itoa(rule.ID())
	for _, c := range classes {
		if strings.HasPrefix(id, c.prefix) {
			return c.class
		}
	}
	return "other"
}
