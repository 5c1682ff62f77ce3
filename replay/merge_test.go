package replay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/replay/accesslog"
)

// openTimed writes logs of the timed format and opens them.
func openTimed(t *testing.T, texts map[string]string) []*accesslog.Log {
	t.Helper()
	dir := t.TempDir()
	var names []string
	for name, text := range texts { // in an order of the map's choice
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		names = append(names, path)
	}
	logs, err := accesslog.OpenAll(names, accesslog.OpenOptions{Format: timed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { accesslog.CloseAll(logs) })
	return logs
}

// verdictsOf replays logs and returns who asked for what and what became of it, in the order of decision.
func verdictsOf(t *testing.T, yaml string, logs []*accesslog.Log) ([]string, *Report) {
	t.Helper()
	var got []string
	r := New(Options{Policy: Policy{Policy: compile(t, yaml)}, Has: accesslog.Common(logs), Decided: func(l *accesslog.Line, v Verdict) {
		got = append(got, fmt.Sprint(l.At, l.Client, l.Path, " ", v))
	}})
	defer r.Close()
	if err := r.Read(t.Context(), logs...); err != nil {
		t.Fatal(err)
	}
	return got, r.Report(false)
}

// A log that was cut into those of several servers, and these into rotated ones, is replayed as the one log
// that it was: every request has the same verdict, and none is late.
func TestMergedLogsAreTheOneLog(t *testing.T) {
	const lines, servers, turns = 6000, 3, 4
	r := rand.New(rand.NewPCG(8, 9))
	var whole strings.Builder
	parts := make([]strings.Builder, servers*turns)
	for i := range lines {
		line := fmt.Sprintf("10.0.0.%d %d.%03d 0 GET h /%d 200 -\n", r.IntN(20), 1000+i/3, i%3*300, r.IntN(3))
		whole.WriteString(line)
		parts[r.IntN(servers)*turns+i*turns/lines].WriteString(line)
	}
	texts := map[string]string{}
	for i := range parts {
		texts[fmt.Sprintf("web%d.log.%d", i/turns, turns-i%turns)] = parts[i].String()
	}
	const yaml = "limits: [{name: all, rate: 40/10s, per: global}]\ndefault: {limits: [{rate: 1/7s}]}"
	want, _ := verdictsOf(t, yaml, openTimed(t, map[string]string{"access.log": whole.String()}))
	got, report := verdictsOf(t, yaml, openTimed(t, texts))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-one log +merged):\n%.2000s", diff)
	}
	if report.Lines.Late != 0 || report.Policy.Refused < 100 || len(report.Logs) != len(parts) {
		t.Errorf("%+v of %d logs, %d refused", report.Lines, len(report.Logs), report.Policy.Refused)
	}
}

// Lines that are out of order in their logs by less than the window come out in order, and those of one
// time in the order of the logs' first lines.
func TestMergedDisorder(t *testing.T) {
	_, report := verdictsOf(t, "", openTimed(t, map[string]string{
		"a": "10.0.0.1 1010 0 GET h /3 200 -\n10.0.0.1 1000 0 GET h /1 200 -\n10.0.0.1 1060 0 GET h /6 200 -\n10.0.0.1 1011 0 GET h /5 200 -\n",
		"b": "10.0.0.1 1009 0 GET h /2 200 -\n10.0.0.1 1010 0 GET h /4 200 -\n10.0.0.1 1090 0 GET h /7 200 -\n",
	}))
	if report.Lines.Late != 0 || report.Lines.Decided != 7 {
		t.Errorf("%+v", report.Lines)
	}
	got, _ := verdictsOf(t, "", openTimed(t, map[string]string{
		"z": "10.0.0.1 1000 0 GET h /first 200 -\n10.0.0.1 1001 0 GET h /z1 200 -\n10.0.0.1 1001 0 GET h /z2 200 -\n",
		"a": "10.0.0.1 1001 0 GET h /a1 200 -\n10.0.0.1 1001 0 GET h /a2 200 -\n10.0.0.1 1002 0 GET h /a3 200 -\n",
	}))
	var order []string
	for _, line := range got {
		order = append(order, line[strings.LastIndex(line, "/"):len(line)-2])
	}
	if diff := cmp.Diff([]string{"/first", "/z1", "/z2", "/a1", "/a2", "/a3"}, order); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Of many rotated logs no more are read at once than lie beside one another, or within the window.
func TestMergeOpensLate(t *testing.T) {
	texts := map[string]string{}
	for i := range 30 {
		texts[fmt.Sprintf("access.log.%d", i)] = fmt.Sprintf("10.0.0.1 %d 0 GET h / 200 -\n10.0.0.1 %d 0 GET h / 200 -\n", 1000*i, 1000*i+950)
	}
	texts["empty"], texts["broken"] = "", "this is\nno log\n"
	most, n := 0, 0
	m := merger{ctx: t.Context(), early: int64(DefaultWindow), waiting: byFirst(openTimed(t, texts)), arrived: func(string, *accesslog.Batch) error { return nil }}
	m.take = func(*accesslog.Line) { most, n = max(most, len(m.open)), n+1 }
	defer m.close()
	if err := m.run(); err != nil || n != 60 || most > 2 || len(m.open) != 0 {
		t.Errorf("%d lines of at most %d logs at once, %v; %d are left open", n, most, err, len(m.open))
	}
}

// Who ends the reading gets the reason, wherever the merge is, and no log is read on.
func TestMergeEndsEarly(t *testing.T) {
	var lines strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&lines, "10.0.0.1 %d 0 GET h / 200 -\n", 1000+i)
	}
	texts := map[string]string{"a": lines.String(), "b": lines.String() + "broken\n"}
	ctx, cancel := context.WithCancel(t.Context())
	decided := 0
	r := New(Options{Policy: Policy{Policy: compile(t, "")}, Decided: func(*accesslog.Line, Verdict) { decided++; cancel() }})
	defer r.Close()
	if err := r.Read(ctx, openTimed(t, texts)...); !errors.Is(err, context.Canceled) || decided == 0 || decided > 30_000 {
		t.Errorf("%d are decided, then %v", decided, err)
	}
	strict := New(Options{Policy: Policy{Policy: compile(t, "")}, Strict: true})
	defer strict.Close()
	if err := strict.Read(t.Context(), openTimed(t, texts)...); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "b:20001: ") {
		t.Errorf("strict: %v", err)
	}
}
