package crs

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/corazawaf/coraza/v3/types"
)

// A rule is what the screen must know of one.
type rule struct {
	id         int
	phase      types.RulePhase
	paranoia   int
	places     []string // the variables that it reads
	transforms string   // as actions, each after a comma
	multi      string   // ,multiMatch: or nothing
	operator   string   // rx and its like
	argument   string
}

// A reader reads the rules of a set as they are loaded.
type reader struct {
	all   []rule
	skip  int             // rules that a rule before them may pass by, counting
	phase types.RulePhase // that it counts in
}

// skipForm is the action that passes by the next rules.
var skipForm = regexp.MustCompile(`[\s,"]skip:(\d+)`)

// read notes a rule, if it is of the kind that the screen stands for. Those that another may skip are not:
// without them it would skip others.
func (r *reader) read(m types.RuleMetadata) {
	if skips := skipForm.FindStringSubmatch(m.Raw()); skips != nil {
		r.skip, _ = strconv.Atoi(skips[1])
		r.phase = m.Phase()
	} else if r.skip > 0 && m.Phase() == r.phase {
		r.skip--
	} else if rule, ok := readRule(m); ok {
		r.all = append(r.all, rule)
	}
}

// rules returns the rules of a paranoia and below.
func (r *reader) rules(most int) []rule {
	return slices.DeleteFunc(r.all, func(one rule) bool { return one.paranoia > most })
}

// ruleForm is the first line of a rule: places, operator, actions.
var ruleForm = regexp.MustCompile(`^SecRule\s+(\S+)\s+"@(rx|pm|pmFromFile|detectSQLi|detectXSS)(?: ((?:[^"\\]|\\.)*))?"\s+"((?:[^"\\]|\\.)*)"`)

// quoted is a text within the actions.
var quoted = regexp.MustCompile(`'[^']*'`)

// readRule reads a rule as it was loaded. It reports false for those of another kind than the screen
// stands for.
func readRule(m types.RuleMetadata) (rule, bool) {
	parts := ruleForm.FindStringSubmatch(m.Raw())
	level := paranoia(m.Tags())
	if parts == nil || level == 0 {
		return rule{}, false
	}
	r := rule{id: m.ID(), phase: m.Phase(), paranoia: level, places: strings.Split(parts[1], "|"), operator: parts[2], argument: strings.TrimSpace(strings.ReplaceAll(parts[3], `\"`, `"`))}
	for action := range strings.SplitSeq(quoted.ReplaceAllString(parts[4], ""), ",") {
		switch action = strings.TrimSpace(action); {
		case action == "t:none":
			r.transforms = ""
		case strings.HasPrefix(action, "t:"):
			r.transforms += "," + action
		case action == "multiMatch":
			r.multi = ",multiMatch"
		}
	}
	return r, true
}

// paranoia returns the level of the tags, 0 if they name none.
func paranoia(tags []string) int {
	for _, tag := range tags {
		if level, found := strings.CutPrefix(tag, "paranoia-level/"); found {
			n, _ := strconv.Atoi(level)
			return n
		}
	}
	return 0
}

// common are the places that nearly every rule reads, which the screen reads as one.
var common = []string{"ARGS", "ARGS_NAMES", "REQUEST_COOKIES", "REQUEST_COOKIES_NAMES", "REQUEST_FILENAME", "XML:/*", "XML://@*"}

// groups returns the groups that r belongs to; none if the screen cannot stand for it: it counts, or reads
// what other rules leave.
func (r *rule) groups() []group {
	var rest []string
	readsCommon := false
	for _, place := range r.places {
		switch {
		case slices.Contains(common, place):
			readsCommon = true
		case strings.HasPrefix(place, "!ARGS"), strings.HasPrefix(place, "!REQUEST_COOKIES"):
			// The screen may look where the rule does not.
		case !isSteady(place):
			return nil
		default:
			rest = append(rest, place)
		}
	}
	if r.phase != types.PhaseRequestBody || !readsCommon {
		return nil
	}
	all := []group{{oddTexts, r.transforms, r.multi}, {plainTexts, plainTransforms(r.transforms), r.multi}}
	if rest != nil {
		all = append(all, group{strings.Join(rest, "|"), r.transforms, r.multi})
	}
	return all
}

// plainTransforms returns what is left of transforms, for plain texts, without those that do nothing to such.
func plainTransforms(transforms string) string {
	left := ""
	for transform := range strings.SplitSeq(strings.TrimPrefix(transforms, ","), ",") {
		switch transform {
		case "t:urlDecodeUni", "t:htmlEntityDecode", "t:jsDecode", "t:cssDecode", "t:removeNulls", "t:utf8toUnicode", "t:replaceComments", "":
		case "t:lowercase", "t:removeWhitespace", "t:compressWhitespace", "t:cmdLine", "t:normalizePath", "t:normalizePathWin":
			left += "," + transform // which leaves a plain text plain
		default:
			return transforms
		}
	}
	return left
}

// isPlain reports whether the transformations that plainTransforms leaves out do nothing to text: each
// acts on one of these bytes, and on nothing else.
func isPlain(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case c >= 0x80, c == 0, c == '%', c == '+', c == '&', c == '\\', c == '*':
			return false
		}
	}
	return true
}

// isSteady reports whether a place holds the same throughout the second phase.
func isSteady(place string) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(place, "!"), ":")
	switch name {
	case "REQUEST_HEADERS", "REQUEST_HEADERS_NAMES", "REQUEST_LINE", "REQUEST_URI", "REQUEST_URI_RAW", "REQUEST_BODY", "QUERY_STRING", "REQUEST_BASENAME", "FILES", "FILES_NAMES":
		return true
	}
	return false
}
