package logs

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The generated log is the same each time, of so many lines, and of nginx's combined format.
func TestTheLogIsTheSameEachTime(t *testing.T) {
	dir := t.TempDir()
	var texts [2][]byte
	for i := range texts {
		name := filepath.Join(dir, "access.log")
		if err := (shape{lines: 1000, clients: 50, perSecond: 10}).write(name); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = text
	}
	if !bytes.Equal(texts[0], texts[1]) || bytes.Count(texts[0], []byte("\n")) != 1000 {
		t.Errorf("%d and %d bytes, %d lines", len(texts[0]), len(texts[1]), bytes.Count(texts[0], []byte("\n")))
	}
	if last := string(texts[0][bytes.LastIndexByte(bytes.TrimSpace(texts[0]), '\n')+1:]); !strings.Contains(last, " - - [01/Nov/2026:00:01:39 +0000] \"GET /") {
		t.Errorf("the last line: %s", last)
	}
	if err := (shape{lines: 1, clients: 2, perSecond: 1}).write(filepath.Join(dir, "none", "access.log")); err == nil {
		t.Error("a log is written where there is no folder")
	}
}

// Ratios say how many times faster and cheaper weir is, and a bar that is met is told as met.
func TestChecks(t *testing.T) {
	costs := []cost{
		{name: "weir replay", wall: []float64{1000, 1000}, ns: []float64{1600, 1600}, resident: 60},
		{name: "other", wall: []float64{4000, 2000}, ns: []float64{3200, 3200}, resident: 90},
	}
	all := checks(costs)
	got := []any{len(all), all[0].Measured, all[0].Met, all[1].Met, all[2].Ratio, all[2].Met, all[3].Ratio, all[3].Measured}
	want := []any{4, 1e6, true, true, 2.0, true, 2.0, 625_000.0}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%d: %v, want %v", i, got[i], want[i])
		}
	}
	slow := checks([]cost{{wall: []float64{2000}, ns: []float64{1}, resident: 300}})
	if len(slow) != 2 || slow[0].Met || slow[1].Met {
		t.Errorf("alone: %+v", slow)
	}
}

// A program that fails says what it said.
func TestAFailingReader(t *testing.T) {
	var c cost
	err := c.add(reader{"sh", []string{"sh", "-c", "echo why >&2; exit 3"}}, 1)
	if err == nil || !strings.Contains(err.Error(), "why") || c.wall != nil {
		t.Errorf("got %v, %v", err, c.wall)
	}
}
