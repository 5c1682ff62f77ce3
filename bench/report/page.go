package report

import (
	"fmt"
	"io"
	"strings"
)

const head = `# Benchmarks

Weir beside its peers, on one machine and in one run. This page is written by the run itself, from
[latest.json](../bench/results/latest.json), and is never edited: what was missed is shown as missed. What Weir's own
parts cost (a whole decision, finding the client, many rules), and every figure beside its bar, is in
[latest.md](../bench/results/latest.md). How it is measured, and what to keep in mind: [bench/README.md](../bench/README.md).
What each tool does and does not do is on [another page](comparison.md).

Times are of this machine at that moment: with a load above 1 before the run, others used its processors, too. The ratios say more,
since whoever is compared took turns.

| | |
| --- | --- |
| again | ` + "`%s`" + ` |
| date | %s |
`

// alike is how near to Weir's cost a peer's is neither ahead nor behind.
const alike = 0.01

// Page writes what users read: of each section that has peers its tables, where a peer was ahead of Weir, and the
// bars that were missed.
func (r *Report) Page(w io.Writer) {
	fmt.Fprintf(w, head, r.Command, r.Date)
	for _, facts := range [][]Fact{r.Machine, r.Versions} {
		for _, f := range facts {
			row(w, []string{f.Name, f.Value})
		}
	}
	for i := range r.Sections {
		if s := &r.Sections[i]; len(s.Peers) > 0 {
			s.page(w)
		}
	}
}

func (s *Section) page(w io.Writer) {
	fmt.Fprintf(w, "\n## %s\n\n%s\n\n", s.Title, s.Note)
	for i := range s.Tables {
		s.Tables[i].markdown(w)
	}
	if len(s.Tables) == 0 {
		s.checks(w)
	}
	fmt.Fprintf(w, "%s %s\n", s.ahead(), s.bars())
}

// ahead says what peers do for less than Weir does.
func (s *Section) ahead() string {
	var names []string
	won := map[string][]string{}
	for _, p := range s.Peers {
		if p.Cost > 1-alike {
			continue
		}
		if won[p.Name] == nil {
			names = append(names, p.Name)
		}
		won[p.Name] = append(won[p.Name], fmt.Sprintf("%s %.2f", p.What, p.Cost))
	}
	if names == nil {
		return "**No peer is ahead of Weir here.**"
	}
	for i, name := range names {
		names[i] = fmt.Sprintf("%s (%s)", name, strings.Join(won[name], ", "))
	}
	return "**Ahead of Weir, with their part of its cost:** " + strings.Join(names, "; ") + "."
}

// bars says how many of the bars that were set are met, and names the others.
func (s *Section) bars() string {
	set := 0
	for _, c := range s.Checks {
		if c.Bar != "" {
			set++
		}
	}
	if set == 0 {
		return "No bar was set."
	}
	var missed []string
	for _, c := range s.missed() {
		missed = append(missed, c.short())
	}
	text := fmt.Sprintf("**Bars met:** %d of %d", set-len(missed), set)
	if missed != nil {
		text += "; missed: " + strings.Join(missed, "; ")
	}
	return text + "."
}

// short is the check on one line.
func (c *Check) short() string {
	ratio := ""
	if c.Ratio != 0 {
		ratio = fmt.Sprintf(", ratio %.2f", c.Ratio)
	}
	return fmt.Sprintf("%s (%s%s; bar %s)", c.What, strings.TrimSpace(Figure(c.Measured)+" "+c.Unit), ratio, c.Bar)
}
