package kept

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var errBad = errors.New("bad")

// A folder holds two files, of which one is made: their contents, unless one says bad or is not there.
type folder struct {
	t       *testing.T
	a, b    string
	reads   int
	written time.Time // of the last file
}

func (f *folder) write(name, text string) {
	f.t.Helper()
	f.written = f.written.Add(time.Second) // the clocks of some file systems are coarse
	err := errors.Join(os.WriteFile(name, []byte(text), 0o600), os.Chtimes(name, f.written, f.written))
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *folder) read() (string, error) {
	f.reads++
	a, errA := os.ReadFile(f.a)
	b, errB := os.ReadFile(f.b)
	if text := string(a) + string(b); errA == nil && errB == nil && !strings.Contains(text, "bad") {
		return text, nil
	}
	return "", errors.Join(errBad, errA, errB)
}

// What was made of the files follows them, a second behind at most; what cannot be used is told of once and
// leaves what there was.
func TestAt(t *testing.T) {
	dir := t.TempDir()
	f := &folder{t: t, a: filepath.Join(dir, "a"), b: filepath.Join(dir, "b"), written: time.Unix(1000, 0)}
	var out bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&out, nil))
	if _, err := Read(f.read, logger, f.a, f.b, ""); !errors.Is(err, errBad) {
		t.Errorf("files that are not there: %v", err)
	}
	f.write(f.a, "1")
	f.write(f.b, "1")
	files, err := Read(f.read, logger, f.a, f.b, "")
	if err != nil {
		t.Fatal(err)
	}
	f.reads = 0
	now := time.Unix(5000, 0)
	for _, step := range []struct {
		name   string
		change func()
		after  time.Duration
		want   string
		reads  int // in sum
		warned int // in sum
	}{
		{"as it was", func() {}, 0, "11", 0, 0},
		{"not looked at yet", func() { f.write(f.a, "2") }, lookEvery - 1, "11", 0, 0},
		{"another size or time", func() {}, 1, "21", 1, 0},
		{"bad", func() { f.write(f.b, "bad") }, lookEvery, "21", 2, 1},
		{"still bad", func() {}, lookEvery, "21", 2, 1},
		{"gone", func() { os.Remove(f.a) }, lookEvery, "21", 3, 2},
		{"half of it mended", func() { f.write(f.a, "3") }, lookEvery, "21", 4, 3},
		{"mended", func() { f.write(f.b, "3") }, lookEvery, "33", 5, 3},
	} {
		step.change()
		now = now.Add(step.after)
		got := files.At(now)
		if warned := strings.Count(out.String(), "level=WARN"); got != step.want || f.reads != step.reads || warned != step.warned {
			t.Errorf("%s: %q, %d reads, %d warnings, want %q, %d, %d", step.name, got, f.reads, warned, step.want, step.reads, step.warned)
		}
	}
}
