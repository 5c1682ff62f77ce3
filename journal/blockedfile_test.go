package journal

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
)

// written is a data directory, and who writes to it.
type written struct {
	t   *testing.T
	dir string
	now time.Time
	log logbook
}

func newWritten(t *testing.T) *written {
	return &written{t: t, dir: filepath.Join(t.TempDir(), "data"), now: noon}
}

// start returns a journal as a process has it after its start.
func (w *written) start(keep int) *Journal {
	return New(Options{Rules: []string{"search"}, Dir: w.dir, Keep: keep, Log: w.log.logger(), Now: func() time.Time { return w.now }})
}

// block has the journal note a block with an incident's name.
func (w *written) block(j *Journal, incident string) {
	d := attacked("/items/7", match("942100", 5))
	d.At, d.Inspection.Incident = w.now, incident
	j.Record(d, weir.Outcome{HTTP: 403})
}

func (w *written) file() string { return filepath.Join(w.dir, BlockedName) }

// lines returns how many lines the file has.
func (w *written) lines() int {
	w.t.Helper()
	text, err := os.ReadFile(w.file())
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}

func incidents(list []Blocked) string {
	var names []string
	for _, b := range list {
		names = append(names, b.Incident)
	}
	return strings.Join(names, " ")
}

// What was blocked is known after the next start, all of it as it was.
func TestBlockedOutlivesTheProcess(t *testing.T) {
	w := newWritten(t)
	j := w.start(10)
	j.Save()
	if _, err := os.Stat(w.dir); err == nil {
		t.Error("a folder is made before there is anything to write")
	}
	w.block(j, "A")
	w.block(j, "B")
	j.Save()
	w.block(j, "C")
	j.Save()
	if diff := cmp.Diff(j.Blocked(10), w.start(10).Blocked(10)); diff != "" || incidents(j.Blocked(10)) != "C B A" {
		t.Errorf("(-before +after)\n%s", diff)
	}
	about, err := os.Stat(w.file())
	if err != nil || about.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", about.Mode(), err)
	}
}

// Lines that are torn, foreign or too old are passed over, and gone with the next look.
func TestTornLines(t *testing.T) {
	w := newWritten(t)
	j := w.start(10)
	w.block(j, "old")
	w.now = noon.Add(time.Hour)
	w.block(j, "young")
	j.Save()
	text, err := os.ReadFile(w.file())
	if err != nil {
		t.Fatal(err)
	}
	torn := append([]byte("not JSON\n{}\n"), text...)
	torn = append(torn, text[:len(text)/3]...) // the process was killed here
	for _, test := range []struct {
		at   time.Duration
		want string
	}{{0, "young old"}, {Retention, "young old"}, {Retention + 1, "young"}, {Retention + time.Hour + 1, ""}} {
		if err := os.WriteFile(w.file(), torn, 0o600); err != nil {
			t.Fatal(err)
		}
		w.now = noon.Add(test.at)
		after := w.start(10)
		if got := incidents(after.Blocked(10)); got != test.want {
			t.Errorf("after %v: %q, want %q", test.at, got, test.want)
		}
		after.Save()
		if got, want := w.lines(), len(strings.Fields(test.want)); got != want {
			t.Errorf("after %v: %d lines, want %d", test.at, got, want)
		}
		w.block(after, "new")
		after.Save()
		if got, want := incidents(w.start(10).Blocked(10)), strings.TrimSpace("new "+test.want); got != want {
			t.Errorf("after %v and one more: %q, want %q", test.at, got, want)
		}
	}
}

// The file has at most twice as many lines as the list may hold, and nothing in it for longer than a day after its
// time is over.
func TestTheFileIsBounded(t *testing.T) {
	w := newWritten(t)
	j := w.start(10)
	for i := range 100 {
		w.block(j, fmt.Sprint(i))
		j.Save()
		if n := w.lines(); n > 20 {
			t.Fatalf("%d lines after %d blocks", n, i+1)
		}
	}
	for i := range 1000 { // more than the list holds between two looks
		w.block(j, fmt.Sprint(i))
	}
	j.Save()
	if n := w.lines(); n > 20 || incidents(w.start(3).Blocked(10)) != "999 998 997" {
		t.Errorf("%d lines, %q", n, incidents(w.start(3).Blocked(10)))
	}
	j.SetFirewall(nil, 2)
	w.now = w.now.Add(rewriteIdle)
	j.Save()
	if n := w.lines(); n != 2 {
		t.Errorf("%d lines after a day, want 2", n)
	}
	w.now = w.now.Add(Retention + 1)
	j.Save()
	if n := w.lines(); n != 0 || len(j.Blocked(10)) != 0 {
		t.Errorf("%d lines and %d in the list when their time is over", n, len(j.Blocked(10)))
	}
}

// A folder that cannot be written costs a line in the log, and is tried again after a minute.
func TestADirectoryThatCannotBeWritten(t *testing.T) {
	w := newWritten(t)
	if err := os.WriteFile(w.dir, nil, 0o600); err != nil { // a file where the folder should be
		t.Fatal(err)
	}
	j := w.start(10)
	for i := range 3 {
		w.block(j, fmt.Sprint(i))
		j.Save()
		w.now = w.now.Add(time.Second)
	}
	if n := strings.Count(w.log.buf.String(), "a restart forgets"); n != 1 || len(j.Blocked(10)) != 3 {
		t.Errorf("%d lines in the log, %d in the list: %s", n, len(j.Blocked(10)), w.log.buf.String())
	}
	if err := os.Remove(w.dir); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(retryAfter)
	j.Save()
	if got := incidents(w.start(10).Blocked(10)); got != "2 1 0" {
		t.Errorf("afterwards %q", got)
	}
}

// Run writes every second.
func TestRunSaves(t *testing.T) {
	w := newWritten(t)
	synctest.Test(t, func(t *testing.T) {
		j := New(Options{Dir: w.dir, Now: func() time.Time { return noon }})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go j.Run(ctx)
		w.block(j, "A")
		time.Sleep(saveEvery + 1)
		synctest.Wait()
		if n := w.lines(); n != 1 {
			t.Errorf("%d lines", n)
		}
	})
}
