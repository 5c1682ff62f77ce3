package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func sample() *Report {
	return &Report{
		Date: "today", Command: "bench", Machine: []Fact{{"CPUs", "2"}},
		Sections: []Section{{
			Title: "Section", Note: "How.",
			Checks: []Check{
				{What: "met", Measured: 12.34, Unit: "ns", Beside: "other 20", Ratio: 0.617, Bar: "<= 15", Met: true},
				{What: "missed", Measured: 123.4, Unit: "ns", Bar: "<= 100"},
				{What: "no bar", Measured: 1, Unit: "ns"},
			},
			Tables: []Table{{Title: "Table", Head: []string{"a", "b"}, Rows: [][]string{{"1", "2"}}}},
		}},
	}
}

func TestMarkdownShowsEveryCheckWithItsBar(t *testing.T) {
	var b strings.Builder
	sample().Markdown(&b)
	want := "# What Weir costs\n\ntoday, `bench`\n\n- CPUs: 2\n\n\n## Section\n\nHow.\n\n" +
		"| what | measured | beside | ratio | bar | met |\n| --- | --- | --- | --- | --- | --- |\n" +
		"| met | 12.3 ns | other 20 | 0.62 | <= 15 | yes |\n" +
		"| missed | 123 ns |  |  | <= 100 | **no** |\n" +
		"| no bar | 1.00 ns |  |  |  |  |\n\n" +
		"Table\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\n"
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestMissedAreTheChecksWithABarThatIsNotMet(t *testing.T) {
	missed := sample().Missed()
	if len(missed) != 1 || missed[0].What != "missed" {
		t.Errorf("missed %v, want the one", missed)
	}
}

func TestSaveWritesBothForms(t *testing.T) {
	dir := t.TempDir()
	if err := sample().Save(dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "latest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(text, &back); err != nil || len(back.Sections[0].Checks) != 3 {
		t.Errorf("read back %+v, %v", back, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "latest.md")); err != nil {
		t.Error(err)
	}
}

// The page names what a peer does for less, and what was missed.
func TestPageShowsWhoIsAheadAndWhatIsMissed(t *testing.T) {
	r := sample()
	r.Sections[0].Peers = []Peer{{"a", "time", 0.8}, {"a", "memory", 1.5}, {"b", "time", 0.995}, {"c", "memory", 0.5}, {"a", "CPU", 0.25}}
	r.Sections = append(r.Sections, Section{Title: "Weir alone", Checks: r.Sections[0].Checks})
	var b strings.Builder
	r.Page(&b)
	_, got, _ := strings.Cut(b.String(), "| CPUs | 2 |\n")
	want := "\n## Section\n\nHow.\n\nTable\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\n" +
		"**Ahead of Weir, with their part of its cost:** a (time 0.80, CPU 0.25); c (memory 0.50). " +
		"**Bars met:** 1 of 2; missed: missed (123 ns; bar <= 100).\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestPageSaysThatNobodyIsAhead(t *testing.T) {
	r := &Report{Sections: []Section{{Peers: []Peer{{"a", "time", 1}}}}}
	var b strings.Builder
	if r.Page(&b); !strings.HasSuffix(b.String(), "**No peer is ahead of Weir here.** No bar was set.\n") {
		t.Errorf("got %s", b.String())
	}
}

// The page of users is that of the run whose figures are kept: `make bench` writes both, BENCH=-page the page alone.
func TestPageIsOfTheRunThatIsKept(t *testing.T) {
	r, err := Load("../results")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	r.Page(&want)
	got, err := os.ReadFile("../../docs/benchmarks.md")
	if err != nil || string(got) != want.String() {
		t.Errorf("docs/benchmarks.md is not what results/latest.json says (%v): write it by make bench BENCH=-page", err)
	}
}
