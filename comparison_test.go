package weir_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// rows are the rows of the page's tables below a heading, head first, in cells.
func (p *page) rows(heading string) (rows [][]string) {
	_, section, _ := strings.Cut(p.text, "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| ---") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows
}

const comparison, comparisonSources = "docs/comparison.md", "docs/comparison-sources.md"

var code = regexp.MustCompile("`([^`]+)`")

// TestComparisonNamesWhatIsThere holds what the comparison says of Weir to the program: commands, keys and values.
func TestComparisonNamesWhatIsThere(t *testing.T) {
	commands, settings := commandLine(t), readPage(t, "docs/configuration.md").text
	rows := readPage(t, comparison).rows("Weir")
	if len(rows) < 10 {
		t.Fatalf("%d questions are answered for Weir, want at least 10", len(rows))
	}
	for _, row := range rows[1:] {
		for _, m := range code.FindAllStringSubmatch(row[1], -1) {
			name, isCommand := strings.CutPrefix(m[1], "weir ")
			switch {
			case unicode.IsUpper(rune(name[0])): // a header field
			case isCommand && !slices.Contains(commands, name):
				t.Errorf("%s: %s: there is no command weir %s", comparison, row[0], name)
			case !isCommand:
				for _, part := range strings.FieldsFunc(name, func(r rune) bool { return r == '.' || r == ':' || r == ' ' }) {
					if !strings.Contains(settings, "`"+part+"`") {
						t.Errorf("%s: %s: `%s`: no setting or value is called %s", comparison, row[0], name, part)
					}
				}
			}
		}
	}
}

// commandLine lists the commands of the program, by the first word of their usage.
func commandLine(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("cmd/weir/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`Use: +"(\w+)`).FindAllStringSubmatch(string(source), -1) {
			names = append(names, m[1])
		}
	}
	return names
}

// TestComparisonAnswersEveryQuestion: every question is asked of every tool, and each answer has a source with a version.
func TestComparisonAnswersEveryQuestion(t *testing.T) {
	page, sources := readPage(t, comparison), readPage(t, comparisonSources)
	var questions []string
	for _, row := range page.rows("Weir")[1:] {
		questions = append(questions, row[0])
	}
	for _, heading := range []string{"Services that are asked", "Proxies with limits"} {
		rows := page.rows(heading)
		var asked []string
		for _, row := range rows[1:] {
			asked = append(asked, row[0])
			if len(row) != len(rows[0]) || slices.Contains(row, "") {
				t.Errorf("%s: %s: %q: want an answer of each of %q", comparison, heading, row, rows[0][1:])
			}
		}
		if !slices.Equal(asked, questions) {
			t.Errorf("%s: %s: asks %q, want %q", comparison, heading, asked, questions)
		}
		for _, tool := range rows[0][1:] {
			_, section, found := strings.Cut(sources.text, "\n## "+tool+"\n\nVersion: ")
			if section, _, _ = strings.Cut(section, "\n## "); !found || !strings.Contains(section, "\n- ") {
				t.Errorf("%s: want a section %s with a version and sources", comparisonSources, tool)
			}
			if !strings.Contains(page.text, "\n- **"+tool+"**: ") {
				t.Errorf("%s: does not say when to take %s", comparison, tool)
			}
		}
	}
}
