// Package crs is the rule set of that name: the OWASP Core Rule Set on the Coraza engine, under a base
// configuration and an API profile of ours. Bodies are read by package feed, never by Coraza.
package crs

import (
	_ "embed" // the configuration
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	coreruleset "github.com/corazawaf/coraza-coreruleset/v4"
	"github.com/corazawaf/coraza/v3"
	"github.com/corazawaf/coraza/v3/experimental"
	"github.com/corazawaf/coraza/v3/types"

	"github.com/weirgate/weir/waf"
	"github.com/weirgate/weir/waf/feed"
)

var (
	//go:embed base.conf
	baseConf string
	//go:embed api.conf
	apiConf string
	//go:embed api-after.conf
	apiAfterConf string
)

// Options choose the rules.
type Options struct {
	Paranoia  int      // 1 to 4; 0 is 1
	Languages []string // php, java, node: whose rules are loaded; none means all
	Values    int      // how many values the feed lets through; 0 is 2000

	extra string // directives after all others, for tests
	stock bool   // without the API profile, and with every file: as the rule set's own tests want it
}

// Rules is the rule set, loaded. It is safe for concurrent use.
type Rules struct {
	engine   coraza.WAF
	screen   *screen
	paranoia int
	agents   *feed.Words // of scanners
	files    *feed.Words // that are not for the world
	classes  *feed.Words // of Java, that attacks load
}

// always are the files that every set loads, in their order.
var always = []string{"911-METHOD-ENFORCEMENT", "913-SCANNER-DETECTION", "920-PROTOCOL-ENFORCEMENT",
	"921-PROTOCOL-ATTACK", "922-MULTIPART-ATTACK", "930-APPLICATION-ATTACK-LFI", "931-APPLICATION-ATTACK-RFI",
	"932-APPLICATION-ATTACK-RCE", "941-APPLICATION-ATTACK-XSS", "942-APPLICATION-ATTACK-SQLI", "943-APPLICATION-ATTACK-SESSION-FIXATION"}

// byLanguage are the files of one language each. What is generic has most to do with Node.
var byLanguage = map[string]string{"php": "933-APPLICATION-ATTACK-PHP", "java": "944-APPLICATION-ATTACK-JAVA", "node": "934-APPLICATION-ATTACK-GENERIC"}

// New loads the rule set. It takes about a second, and belongs off the road of requests.
func New(o Options) (*Rules, error) {
	registerRX()
	o.Paranoia = max(o.Paranoia, 1)
	text, err := directives(o)
	if err != nil {
		return nil, err
	}
	var loaded reader
	engine, err := coraza.NewWAF(experimental.WAFConfigWithRuleObserver(coraza.NewWAFConfig().WithRootFS(coreruleset.FS).WithDirectives(text), loaded.read))
	if err != nil {
		return nil, fmt.Errorf("core rule set: %w", err)
	}
	r := &Rules{engine: engine, paranoia: o.Paranoia}
	if r.screen, err = newScreen(text, loaded.rules(o.Paranoia)); err != nil {
		return nil, errors.Join(err, engine.(io.Closer).Close())
	}
	r.agents, err = listed("scanners-user-agents.data")
	if err == nil {
		r.files, err = listed("restricted-files.data")
	}
	if err == nil {
		r.classes, err = listed("java-classes.data")
	}
	return r, errors.Join(err, r.probe())
}

// listed returns a list of words that the rule set comes with, to be looked for.
func listed(name string) (*feed.Words, error) {
	list, err := words(name)
	return feed.NewWords(list...), err
}

// words returns a list of words that the rule set comes with, in lower case.
func words(name string) ([]string, error) {
	data, err := fs.ReadFile(coreruleset.FS, "@owasp_crs/"+name)
	if err != nil {
		return nil, fmt.Errorf("core rule set: %w", err)
	}
	var list []string
	for line := range strings.Lines(string(data)) {
		if word := strings.ToLower(strings.TrimSpace(line)); word != "" && word[0] != '#' {
			list = append(list, word)
		}
	}
	return list, nil
}

// stockConf is what the rule set's own tests take for granted.
const stockConf = `SecAction "id:900005,phase:1,nolog,pass,t:none,setvar:tx.crs_validate_utf8_encoding=1,setvar:tx.arg_name_length=100,\
setvar:tx.arg_length=400,setvar:tx.total_arg_length=64000,setvar:tx.max_num_args=255,setvar:tx.max_file_size=64100,setvar:tx.combined_file_sizes=65535"
`

// directives writes the configuration.
func directives(o Options) (string, error) {
	files := slices.Clone(always)
	for language, file := range byLanguage {
		if len(o.Languages) == 0 || slices.Contains(o.Languages, language) {
			files = append(files, file)
		}
	}
	for _, language := range o.Languages {
		if byLanguage[language] == "" {
			return "", fmt.Errorf("core rule set: language %q: want php, java or node", language)
		}
	}
	var b strings.Builder
	b.WriteString(baseConf)
	// Twice what the feed lets through: it counts pairs, and hands some over in two readings.
	fmt.Fprintf(&b, "SecArgumentsLimit %d\n", 2*max(o.Values, 2000)+100)
	fmt.Fprintf(&b, "SecAction \"id:900990,phase:1,pass,t:none,nolog,setvar:tx.crs_setup_version=4250,setvar:tx.blocking_paranoia_level=%[1]d,setvar:tx.detection_paranoia_level=%[1]d\"\n", o.Paranoia)
	if o.stock {
		b.WriteString(stockConf)
		files = append(files, "901-INITIALIZATION", "905-COMMON-EXCEPTIONS", "949-BLOCKING-EVALUATION", "999-COMMON-EXCEPTIONS-AFTER")
	} else {
		b.WriteString(apiConf)
	}
	slices.Sort(files)
	for _, file := range files {
		fmt.Fprintf(&b, "Include @owasp_crs/REQUEST-%s.conf\n", file)
	}
	if !o.stock {
		b.WriteString(apiAfterConf)
		for _, file := range files { // what skips the rules of higher paranoia, which go
			fmt.Fprintf(&b, "SecRuleRemoveById %[1]s011-%[1]s018\n", file[:3])
		}
		if o.Paranoia < 3 {
			b.WriteString("SecRuleRemoveById 921170\n") // counts for a rule of paranoia 3
		}
		for level := o.Paranoia + 1; level <= 4; level++ {
			fmt.Fprintf(&b, "SecRuleRemoveByTag paranoia-level/%d\n", level)
		}
	}
	b.WriteString("\n" + o.extra)
	return b.String(), nil
}

// Name is crs.
func (*Rules) Name() string { return "crs" }

// Thorough is set above paranoia 1.
func (r *Rules) Thorough() bool { return r.paranoia > 1 }

// Quick reports that no request is sure to be.
func (*Rules) Quick(*waf.Input) bool { return false }

// Close frees the compiled patterns.
func (r *Rules) Close() error {
	return errors.Join(r.engine.(io.Closer).Close(), r.screen.engine.(io.Closer).Close())
}

var errProbe = errors.New("core rule set: does not see an injection that it should")

// probe fails unless the set sees an attack, so that a set that is loaded badly is never put to use.
func (r *Rules) probe() error {
	in := &waf.Input{Method: "GET", Host: "probe.test", Proto: "HTTP/1.1", Path: "/", Query: "q=1'+UNION+SELECT+password+FROM+users--+-"}
	c := &waf.Case{Input: in, Path: "/"}
	r.Judge(c)
	if c.Score() == 0 {
		return errors.Join(errProbe, r.Close())
	}
	return nil
}

// Judge runs the rules over the request and reports those that match.
func (r *Rules) Judge(c *waf.Case) {
	if r.paranoia == 1 && r.isSafe(c) {
		c.Skipped = true
		return
	}
	r.evaluate(c)
}

// evaluate runs the rules, whatever the request is made of.
func (r *Rules) evaluate(c *waf.Case) {
	r.run(c, func(s *sheet, m types.MatchedRule) { s.report(m) })
}

// run runs the rules over a request and hands over those that match.
func (r *Rules) run(c *waf.Case, each func(*sheet, types.MatchedRule)) {
	tx := r.screen.engine.NewTransaction()
	defer tx.Close()
	s := newSheet(tx, c)
	s.seen = map[string]bool{}
	s.fill()
	if list := s.v.TX().Get(suspects); len(list) > 0 {
		r.runWhole(c, list, each)
		return
	}
	for _, m := range tx.MatchedRules() {
		each(s, m)
	}
}

// runWhole runs the whole rules, but for those that the screen found not to match.
func (r *Rules) runWhole(c *waf.Case, suspects []string, each func(*sheet, types.MatchedRule)) {
	tx := r.engine.NewTransaction()
	defer tx.Close()
	without := tx.(interface{ RemoveRuleByID(id int) })
	for _, id := range r.screen.covered {
		if !slices.Contains(suspects, strconv.Itoa(id)) {
			without.RemoveRuleByID(id)
		}
	}
	s := newSheet(tx, c)
	s.fill()
	for _, m := range tx.MatchedRules() {
		each(s, m)
	}
}
