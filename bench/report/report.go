// Package report is what a run of the benchmarks leaves behind: tables of what was measured, and checks
// of it against the bars that were set.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// A Report is one run.
type Report struct {
	Date     string    `json:"date"`
	Command  string    `json:"command"`
	Machine  []Fact    `json:"machine"`
	Versions []Fact    `json:"versions"`
	Sections []Section `json:"sections"`
}

// A Fact is something that the figures depend on.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// A Section is one subject.
type Section struct {
	Title  string  `json:"title"`
	Note   string  `json:"note"` // how it was measured
	Checks []Check `json:"checks"`
	Tables []Table `json:"tables"`
	Peers  []Peer  `json:"peers"`
}

// A Check is one figure beside its bar.
type Check struct {
	What     string  `json:"what"`
	Measured float64 `json:"measured"`
	Unit     string  `json:"unit"`
	Beside   string  `json:"beside"` // what it is compared with, measured in the same run
	Ratio    float64 `json:"ratio"`  // to that; 0: compared with nothing
	Bar      string  `json:"bar"`    // empty: no bar was set
	Met      bool    `json:"met"`
}

// A Peer is another program's cost beside Weir's, measured in the same run.
type Peer struct {
	Name string  `json:"name"`
	What string  `json:"what"`
	Cost float64 `json:"cost"` // in Weir's: below 1 the peer is ahead
}

// A Table is figures side by side.
type Table struct {
	Title string     `json:"title"`
	Head  []string   `json:"head"`
	Rows  [][]string `json:"rows"`
}

// Missed returns the checks whose bar was not met.
func (r *Report) Missed() (missed []Check) {
	for _, s := range r.Sections {
		missed = append(missed, s.missed()...)
	}
	return missed
}

func (s *Section) missed() (missed []Check) {
	for _, c := range s.Checks {
		if c.Bar != "" && !c.Met {
			missed = append(missed, c)
		}
	}
	return missed
}

// Save writes the report to latest.md and latest.json in dir, which is made if it is not there.
func (r *Report) Save(dir string) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "latest.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	var b strings.Builder
	r.Markdown(&b)
	return os.WriteFile(filepath.Join(dir, "latest.md"), []byte(b.String()), 0o644)
}

// Load reads what Save wrote to latest.json in dir.
func Load(dir string) (*Report, error) {
	text, err := os.ReadFile(filepath.Join(dir, "latest.json"))
	if err != nil {
		return nil, err
	}
	r := new(Report)
	return r, json.Unmarshal(text, r)
}

// Markdown writes the report for people.
func (r *Report) Markdown(w io.Writer) {
	fmt.Fprintf(w, "# What Weir costs\n\n%s, `%s`\n\n", r.Date, r.Command)
	facts(w, r.Machine)
	facts(w, r.Versions)
	for i := range r.Sections {
		r.Sections[i].markdown(w)
	}
}

func facts(w io.Writer, all []Fact) {
	for _, f := range all {
		fmt.Fprintf(w, "- %s: %s\n", f.Name, f.Value)
	}
	fmt.Fprintln(w)
}

func (s *Section) markdown(w io.Writer) {
	fmt.Fprintf(w, "## %s\n\n%s\n\n", s.Title, s.Note)
	if len(s.Checks) > 0 {
		s.checks(w)
	}
	for i := range s.Tables {
		s.Tables[i].markdown(w)
	}
}

// checks writes every figure beside its bar.
func (s *Section) checks(w io.Writer) {
	t := Table{Head: []string{"what", "measured", "beside", "ratio", "bar", "met"}}
	for _, c := range s.Checks {
		t.Rows = append(t.Rows, c.cells())
	}
	t.markdown(w)
}

func (c *Check) cells() []string {
	ratio, met := "", ""
	if c.Ratio != 0 {
		ratio = fmt.Sprintf("%.2f", c.Ratio)
	}
	if c.Bar != "" {
		met = map[bool]string{true: "yes", false: "**no**"}[c.Met]
	}
	return []string{c.What, Figure(c.Measured) + " " + c.Unit, c.Beside, ratio, c.Bar, met}
}

func (t *Table) markdown(w io.Writer) {
	if t.Title != "" {
		fmt.Fprintf(w, "%s\n\n", t.Title)
	}
	row(w, t.Head)
	row(w, strings.Split(strings.Repeat("---|", len(t.Head)-1)+"---", "|"))
	for _, cells := range t.Rows {
		row(w, cells)
	}
	fmt.Fprintln(w)
}

func row(w io.Writer, cells []string) { fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")) }

// Figure writes a number with three digits that say something.
func Figure(x float64) string {
	switch {
	case x == 0:
		return "0"
	case x >= 100 || x <= -100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10 || x <= -10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}
