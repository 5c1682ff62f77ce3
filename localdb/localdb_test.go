package localdb

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/internal/leaktest"
	"github.com/weirgate/weir/internal/timed"
	"github.com/weirgate/weir/store/memory"
)

// TestMain is also the program of the processes that tests kill or starve.
func TestMain(m *testing.M) {
	switch role, dir := os.Getenv("LOCALDB_ROLE"), os.Getenv("LOCALDB_DIR"); role {
	case "count":
		os.Exit(countForEver(dir))
	case "full":
		os.Exit(countOnFullDisk(dir))
	case "hold":
		os.Exit(hold(dir))
	}
	leaktest.Main(m)
}

// child starts this program in another role, and returns what it says, line by line.
func child(t *testing.T, role, dir string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "LOCALDB_ROLE="+role, "LOCALDB_DIR="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

// countForEver charges one quota and says how far it is.
func countForEver(dir string) int {
	h := open(new(testing.T), dir, Options{})
	for n := int64(1); ; n++ {
		h.take(h.hit(monthly(1_000_000), "a", 1))
		fmt.Println(h.used("a"))
		time.Sleep(time.Millisecond)
	}
}

// kill -9 loses at most the last second's counts, at whatever moment it comes, and damages nothing.
func TestKilled(t *testing.T) {
	dir, before := t.TempDir(), int64(0)
	lost := min(timed.Bound(time.Second), 3*time.Second) // a busy disk takes its time
	for _, least := range []time.Duration{0, 0, 0, lost} {
		cmd, lines := child(t, "count", dir)
		lifetime := least + 600*time.Millisecond + rand.N(900*time.Millisecond)
		killed := time.AfterFunc(lifetime, func() { _ = cmd.Process.Kill() })
		type mark struct {
			at time.Time
			n  int64
		}
		var marks []mark
		for lines.Scan() {
			n, err := strconv.ParseInt(lines.Text(), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			marks = append(marks, mark{time.Now(), n})
		}
		killed.Stop()
		_ = cmd.Wait() // says that it was killed
		if len(marks) == 0 {
			t.Fatal("the process counted nothing")
		}
		if first := marks[0].n; first != before+1 {
			t.Errorf("went on from %d, want %d", first-1, before)
		}
		last := marks[len(marks)-1]
		least := before
		for _, m := range marks {
			if last.at.Sub(m.at) >= lost {
				least = m.n
			}
		}
		h := open(t, dir, Options{})
		before = h.used("a")
		h.close()
		if before < least || before > last.n {
			t.Errorf("killed at %d after %v: %d are kept, want at least %d", last.n, lifetime, before, least)
		}
	}
	if before == 0 {
		t.Error("nothing was ever kept")
	}
}

// countOnFullDisk goes on counting while its file may not grow.
func countOnFullDisk(dir string) int {
	h := open(new(testing.T), dir, Options{})
	info, err := os.Stat(h.db.path)
	if err != nil {
		return 1
	}
	signal.Ignore(syscall.SIGXFSZ)
	size := uint64(info.Size())
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size, Max: size}); err != nil {
		fmt.Println(err)
		return 1
	}
	for i := range 4000 {
		if st := h.take(h.hit(daily(2), fmt.Sprint(i), 1))[0]; !st.Allowed || st.Remaining != 1 {
			fmt.Printf("%d: %+v\n", i, st)
			return 1
		}
	}
	h.flush()
	fmt.Println(h.Err())
	fmt.Print(h.log.String())
	return 0
}

// A full disk refuses no request, is said, and leaves the file whole.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir, Options{})
	h.take(h.hit(monthly(1_000_000), "a", 3))
	h.close()
	cmd, lines := child(t, "full", dir)
	var said []string
	for lines.Scan() {
		said = append(said, lines.Text())
	}
	err := cmd.Wait()
	if text := strings.Join(said, "\n"); err != nil || !strings.Contains(text, "disk I/O error") || !strings.Contains(text, "level=WARN") {
		t.Errorf("%v: %s", err, text)
	}
	h = open(t, dir, Options{})
	defer h.close()
	if got := h.used("a"); got != 3 {
		t.Errorf("%d counted, want the 3 from before", got)
	}
}

// hold holds the database until it is killed.
func hold(dir string) int {
	db, err := Open(dir)
	fmt.Println(err)
	time.Sleep(time.Minute)
	_ = db.Close()
	return 0
}

func TestAnotherProcessHoldsIt(t *testing.T) {
	dir := t.TempDir()
	cmd, lines := child(t, "hold", dir)
	lines.Scan()
	if lines.Text() != "<nil>" {
		t.Fatal(lines.Text())
	}
	began := time.Now()
	_, err := Open(dir)
	if want := filepath.Join(dir, fileName) + ": another process holds it"; !errors.Is(err, ErrLocked) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if took := time.Since(began); took > timed.Bound(5*time.Second) {
		t.Errorf("that took %v", took)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	db, err := Open(dir)
	if err != nil {
		t.Fatalf("after its end: %v", err)
	}
	_ = db.Close()
}

// filled returns the bytes of a file with some thousand quotas.
func filled(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	h := open(t, dir, Options{})
	for i := range 5000 {
		h.take(h.hit(monthly(10), fmt.Sprint(i), 1))
	}
	h.close()
	data, err := os.ReadFile(filepath.Join(dir, fileName))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// openBytes opens a file with that content.
func openBytes(t *testing.T, data []byte) (*DB, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, fileName), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return Open(dir)
}

// A file that is no database, or was cut, is refused in words that say what to do.
func TestDamagedFile(t *testing.T) {
	whole := filled(t)
	for name, data := range map[string][]byte{
		"text":           []byte("these are notes of mine\n"),
		"zeros":          make([]byte, 64<<10),
		"cut in a page":  whole[:len(whole)/3+100],
		"cut to a page":  whole[:4*4096],
		"two pages only": whole[:2*4096],
		"no roots":       append(make([]byte, 2*4096), whole[2*4096:]...),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := openBytes(t, data)
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), fileName+": the file is damaged") {
				t.Errorf("%v, want ErrDamaged", err)
			}
		})
	}
	db, err := openBytes(t, nil)
	if err != nil {
		t.Fatalf("an empty file is a new one: %v", err)
	}
	_ = db.Close()
}

// Whatever is broken in a file, the process lives: it is refused, or it is read.
func TestAnyDamageIsSurvived(t *testing.T) {
	whole, rng := filled(t), rand.New(rand.NewPCG(9, 77))
	for range 100 {
		data := bytes.Clone(whole)
		for range 1 + rng.IntN(200) {
			at := rng.IntN(len(data) - 8)
			binary.LittleEndian.PutUint64(data[at:], rng.Uint64()>>rng.IntN(64))
		}
		db, err := openBytes(t, data)
		if err != nil {
			continue
		}
		behind := memory.New(memory.Options{})
		s, err := NewStore(db, behind, time.Now(), Options{})
		if err == nil {
			h := &house{Store: s, t: t, db: db, behind: behind}
			h.take(h.hit(monthly(10), "a", 1))
			_ = s.Close() // may not be able to save
		}
		behind.Close()
		_ = db.Close() // nor to close it in peace
	}
}

func TestNewerFile(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.sql.Exec(`UPDATE parts SET steps = 2 WHERE name = 'quota'`)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); !errors.Is(err, ErrNewer) {
		t.Errorf("%v, want ErrNewer", err)
	}
}

func TestPlaces(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	db, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
	for name, want := range map[string]os.FileMode{dir: os.ModeDir | 0o700, filepath.Join(dir, fileName): 0o600} {
		if info, err := os.Stat(name); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", name, info.Mode(), err, want)
		}
	}
	file := filepath.Join(dir, fileName)
	if _, err := Open(file); !errors.Is(err, syscall.ENOTDIR) || !strings.HasPrefix(err.Error(), "data_dir: ") {
		t.Errorf("a file in place of the directory: %v", err)
	}
	if os.Getuid() == 0 {
		t.Skip("to the superuser every directory is writable")
	}
	closed := t.TempDir()
	if err := os.Chmod(closed, 0o500); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(closed); !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), fileName) {
		t.Errorf("a directory that may not be written to: %v", err)
	}
}

// What is saved comes back, the longest-lived first; what expired, or was reset, does not.
func TestSaveAndLoad(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	a := Quota{Key: []byte("a"), Until: 100, Last: 5, Used: 1}
	b := Quota{Key: []byte("b"), Until: 300, Last: 6, Used: 1 << 63}
	c := Quota{Key: []byte{0, 255}, Until: 200, Last: 7, Used: 3}
	gone := Quota{Key: []byte("gone"), Until: 400, Last: 8, Used: 3}
	load := func(now int64) []Quota {
		t.Helper()
		var got []Quota
		if err := db.LoadQuotas(now, func(q Quota) bool {
			q.Key = bytes.Clone(q.Key)
			got = append(got, q)
			return true
		}); err != nil {
			t.Fatal(err)
		}
		return got
	}
	save := func(now int64, quotas ...Quota) {
		t.Helper()
		if err := db.SaveQuotas(now, quotas); err != nil {
			t.Fatal(err)
		}
	}
	save(0, a, b, c, gone)
	gone.Used = 0
	save(0, gone)
	for _, step := range []struct {
		now  int64
		want []Quota
	}{{0, []Quota{b, c, a}}, {99, []Quota{b, c, a}}, {100, []Quota{b, c}}, {299, []Quota{b}}, {300, nil}} {
		if d := cmp.Diff(step.want, load(step.now)); d != "" {
			t.Errorf("at %d (-want +got):\n%s", step.now, d)
		}
	}
	save(200)
	if d := cmp.Diff([]Quota{b}, load(0)); d != "" {
		t.Errorf("what expired was not dropped (-want +got):\n%s", d)
	}
}
