package road

import (
	"fmt"
	"strings"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/bench/report"
	"github.com/weirgate/weir/bench/rounds"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/policy"
)

const (
	fewRules, manyRules = 2, 1000
	barMany             = 1.20                  // the time of manyRules over that of fewRules
	barCompile          = 50 * time.Millisecond // of manyRules
)

const policyNote = "`policy.Match` with 2 and with 1,000 rules below one segment: the same request again and again, and 1,000 requests in turns, " +
	"one for each of the 1,000 rules, to both. `policy.Compile` of 1,000 rules with a limit each; before it the file is parsed."

// Policy measures how the number of rules matters.
func Policy(o Options) (report.Section, error) {
	s := report.Section{Title: "Many rules", Note: policyNote}
	few, err := compile(ruleFile(fewRules))
	if err != nil {
		return s, err
	}
	many, err := compile(ruleFile(manyRules))
	if err != nil {
		return s, err
	}
	parsed, err := parse(ruleFile(manyRules))
	if err != nil {
		return s, err
	}
	t := o.run([]rounds.Contender{
		matching("2 rules", few, 1, 1), matching("1,000 rules", many, 1, 1),
		matching("2 rules", few, 0, manyRules), matching("1,000 rules", many, 0, manyRules),
		{Name: "compile", Do: repeat(func() { policy.Compile(parsed) })},
		{Name: "parse", Do: repeat(func() { config.Parse("bench", []byte(ruleFile(manyRules)), nil) })},
	})
	compiled := time.Duration(t[4].NS)
	s.Checks = []report.Check{
		manyCheck("match of 1,000 rules, one request", t[1], t[0]),
		manyCheck("match of 1,000 rules, all in turns", t[3], t[2]),
		{What: "compile of 1,000 rules", Measured: compiled.Seconds() * 1e3, Unit: "ms",
			Beside: fmt.Sprintf("parse %s ms", report.Figure(t[5].NS/1e6)), Bar: fmt.Sprintf("< %v", barCompile), Met: compiled < barCompile},
	}
	return s, nil
}

func manyCheck(what string, many, few rounds.Timing) report.Check {
	ratio := rounds.Ratio(many.Rounds, few.Rounds)
	return report.Check{What: what, Measured: many.NS, Unit: "ns", Beside: fmt.Sprintf("%s %s ns", few.Name, report.Figure(few.NS)),
		Ratio: ratio, Bar: fmt.Sprintf("<= %.2f", barMany), Met: ratio <= barMany}
}

// ruleFile is a configuration of n rules.
func ruleFile(n int) string {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - {name: rule%d, path: /api/v1/resource%d/, limits: [{rate: 100/1m, per: client}]}\n", i, i)
	}
	return b.String()
}

// matching asks for the rules from first on, n of them in turns.
func matching(name string, p *policy.Policy, first, n int) rounds.Contender {
	paths := make([]string, n)
	for i := range paths {
		paths[i] = fmt.Sprintf("/api/v1/resource%d/item", first+i)
	}
	d := &weir.Decision{Request: request()}
	p.Identify(d)
	return rounds.Contender{Name: name, Do: func(times int) {
		at := 0
		for range times {
			d.Request.Path = paths[at]
			if p.Match(d) == nil {
				panic(name + ": no rule")
			}
			if at++; at == len(paths) {
				at = 0
			}
		}
	}}
}

func repeat(f func()) func(int) {
	return func(n int) {
		for range n {
			f()
		}
	}
}
