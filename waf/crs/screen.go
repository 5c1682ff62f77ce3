package crs

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	coreruleset "github.com/corazawaf/coraza-coreruleset/v4"
	"github.com/corazawaf/coraza/v3"
	"github.com/corazawaf/coraza/v3/experimental/plugins/plugintypes"
	"github.com/corazawaf/libinjection-go"

	"github.com/weirgate/weir/waf/feed"
)

// The screen. Most of what the rules do for a request is to read the same texts over and over: each rule
// by itself, after transformations that it shares with ten others. The screen reads a text once for each
// transformation, and asks all rules that want it so whether their operator matches. Rules of which none
// does are not run. It may look where a rule does not, and say yes too often, since then the whole rule
// decides; it never says no too often, which TestScreen holds it to.

// A screen is the rule set in which each group of rules is one.
type screen struct {
	engine  coraza.WAF
	covered []int // the rules that it stands for
}

// Where the screen has the texts of the common places: variables that are not used for a request.
const (
	plainTexts = "RESPONSE_HEADERS"
	oddTexts   = "RESPONSE_ARGS"
)

// A group are the rules that read the same places after the same transformations.
type group struct {
	places     string
	transforms string
	multi      string
}

// A groupFS is the rule set's files, and the rules of each group of a screen for its operator.
type groupFS struct {
	fs.FS
	rules [][]rule
}

// newScreen returns the screen for the rules that directives load.
func newScreen(directives string, rules []rule) (*screen, error) {
	s := new(screen)
	groups := map[group][]rule{}
	for i := range rules {
		list := rules[i].groups()
		for _, g := range list {
			groups[g] = append(groups[g], rules[i])
		}
		if list != nil {
			s.covered = append(s.covered, rules[i].id)
		}
	}
	var text strings.Builder
	text.WriteString(directives + "\nSecRuleRemoveById")
	for _, id := range s.covered {
		fmt.Fprintf(&text, " %d", id)
	}
	root := groupFS{FS: coreruleset.FS}
	for i, g := range slices.SortedFunc(maps.Keys(groups), compareGroups) {
		root.rules = append(root.rules, groups[g])
		fmt.Fprintf(&text, "\nSecRule %s \"@weirScreen %d\" \"id:%d,phase:2,pass,nolog,t:none%s%s\"", g.places, i, 200_000+i, g.transforms, g.multi)
	}
	var err error
	s.engine, err = coraza.NewWAF(coraza.NewWAFConfig().WithRootFS(root).WithDirectives(text.String() + "\n"))
	if err != nil {
		return nil, fmt.Errorf("core rule set, screen: %w", err)
	}
	return s, nil
}

func compareGroups(a, b group) int {
	return cmp.Or(cmp.Compare(a.places, b.places), cmp.Compare(a.transforms, b.transforms), cmp.Compare(a.multi, b.multi))
}

// A member is a rule of a group.
type member struct {
	id      string
	ways    []way
	matches func(text string) bool // nil: a literal is a match
}

// newMember returns what asks r's operator.
func newMember(o plugintypes.OperatorOptions, r *rule) (member, error) {
	m := member{id: strconv.Itoa(r.id), ways: []way{{}}}
	switch r.operator {
	case "rx":
		o.Arguments = r.argument
		op, err := newRX(o)
		if err != nil {
			return member{}, err
		}
		m.matches = op.(*rx).matches
		if ways := op.(*rx).ways; ways != nil {
			m.ways = ways
		}
	case "detectSQLi":
		m.matches = func(text string) bool { is, _ := libinjection.IsSQLi(text); return is }
	case "detectXSS":
		m.matches = libinjection.IsXSS
	case "pm":
		m.find(strings.Fields(strings.ToLower(r.argument)))
	default:
		list, err := words(r.argument)
		if err != nil {
			return member{}, err
		}
		m.find(list)
	}
	return m, nil
}

// find makes m match texts that hold one of the words, which are in lower case.
func (m *member) find(words []string) {
	if usable(words) {
		m.ways[0].literals = words
	} else {
		m.matches = feed.NewWords(words...).In
	}
}

// suspects is where the screen notes the rules that are to run, among the variables of a transaction.
const suspects = "weir_suspects"

// A grouped asks all rules of a group.
type grouped struct {
	members []member
	ways    []groupWay
	finder  *finder
	open    wayset // those without literals
}

// A groupWay is a way of one of the members.
type groupWay struct {
	way
	of int
}

func newGrouped(o plugintypes.OperatorOptions) (plugintypes.Operator, error) {
	n, err := strconv.Atoi(o.Arguments)
	root, ok := o.Root.(groupFS)
	if err != nil || !ok || n >= len(root.rules) {
		return nil, fmt.Errorf("group %q: not of this screen", o.Arguments)
	}
	var members []member
	for i := range root.rules[n] {
		m, err := newMember(o, &root.rules[n][i])
		if err != nil {
			return nil, err
		}
		members = append(members, m)
	}
	return newGroup(members), nil
}

func newGroup(members []member) *grouped {
	g := &grouped{members: members}
	for i := range members {
		for _, w := range members[i].ways {
			g.ways = append(g.ways, groupWay{w, i})
		}
	}
	g.open = newWayset(len(g.ways))
	for i := range g.ways {
		if g.ways[i].literals == nil {
			g.open.add(i)
		}
	}
	g.finder = newFinder(g.ways)
	return g
}

// Evaluate notes the rules that may match text. The screen's own rules never match.
func (g *grouped) Evaluate(tx plugintypes.TransactionState, text string) bool {
	g.candidates(text, func(m *member) {
		if m.matches == nil || m.matches(text) {
			note(tx, m.id)
		}
	})
	return false
}

// candidates calls each for the rules of which text has what it takes.
func (g *grouped) candidates(text string, each func(*member)) {
	has := bytesIn(text)
	found := append(make(wayset, 0, 8), g.open...)
	if has.has(0xaa) && has.has(0xe2) || has.has(0xbf) && has.has(0xc5) {
		found.fill() // U+212A is a k in another case, U+017F an s
	} else {
		g.finder.find(text, found)
	}
	for i := found.next(0); i < len(g.ways); i = found.next(i + 1) {
		if !g.ways[i].isOpen(&has) {
			continue
		}
		each(&g.members[g.ways[i].of])
		for i+1 < len(g.ways) && g.ways[i+1].of == g.ways[i].of {
			i++
		}
	}
}

// isOpen reports whether a text of these bytes may match in this way.
func (w *way) isOpen(has *byteSet) bool {
	for i := range w.needs {
		if !w.needs[i].meets(has) {
			return false
		}
	}
	return true
}

// note adds a rule to the suspects of tx.
func note(tx plugintypes.TransactionState, id string) {
	if noted := tx.Variables().TX(); !slices.Contains(noted.Get(suspects), id) {
		noted.Add(suspects, id)
	}
}
