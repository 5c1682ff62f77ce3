package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	columns = 78 // of a line of prose at most
	margin  = "   "
	inset   = "      "

	bold      = "\x1b[1m"
	normal    = "\x1b[0m"
	clearLine = "\r\x1b[K"
)

// A voice tells the reader what happens, in lines that fit into 80 columns.
type voice struct {
	out      io.Writer
	terminal bool
	plain    bool
}

// title begins a promise.
func (v *voice) title(n int, text string) {
	line := fmt.Sprintf("%d. %s", n, text)
	if v.terminal && !v.plain {
		line = bold + line + normal
	}
	fmt.Fprintf(v.out, "\n%s\n", line)
}

// say writes a paragraph.
func (v *voice) say(format string, args ...any) {
	for _, line := range wrap(fmt.Sprintf(format, args...), columns-len(margin)) {
		fmt.Fprintf(v.out, "%s%s\n", margin, line)
	}
}

// quote writes lines of a file or an answer as they are.
func (v *voice) quote(text string) {
	for line := range strings.Lines(text) {
		fmt.Fprintf(v.out, "%s%s\n", inset, strings.TrimRight(line, "\r\n"))
	}
}

// label is the least width of a table's first column, so that tables stand below one another.
const label = 26

// table writes rows whose columns are aligned: the first to the left, the others to the right.
func (v *voice) table(rows ...[]string) {
	wide := []int{label}
	for _, row := range rows {
		for len(wide) < len(row) {
			wide = append(wide, 0)
		}
		for i, cell := range row {
			wide[i] = max(wide[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		line := fmt.Sprintf("%s%-*s", inset, wide[0], row[0])
		for i, cell := range row[1:] {
			line += fmt.Sprintf("  %*s", wide[i+1], cell)
		}
		fmt.Fprintln(v.out, line)
	}
}

// hint says on a terminal what takes a while, until the function that it returns is called.
func (v *voice) hint(what string) (done func()) {
	if !v.terminal {
		return func() {}
	}
	fmt.Fprintf(v.out, "%s… %s", margin, what)
	return func() { fmt.Fprint(v.out, clearLine) }
}

// total says how many promises were kept.
func (v *voice) total(kept, all int, took time.Duration) {
	fmt.Fprintf(v.out, "\n%d of %d promises kept, in %.0f s.\n", kept, all, took.Seconds())
}

// missing says how many promises were shown in part only, without a Redis.
func (v *voice) missing(inPart int) {
	fmt.Fprintf(v.out, "%d shown in part: there is no redis-server on the PATH.\n", inPart)
}

// wrap breaks a text into lines of so many columns.
func wrap(text string, columns int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= columns:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}

// count writes a number with commas between thousands.
func count(n int) string {
	if n < 0 {
		return "-" + count(-n)
	}
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", count(n/1000), n%1000)
}

// milliseconds writes a short time.
func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}
