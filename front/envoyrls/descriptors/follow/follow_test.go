package follow

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/front/envoyrls/descriptors"
	"github.com/weirgate/weir/internal/leaktest"
	"github.com/weirgate/weir/internal/timed"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// quick is how long a change may take to be told of.
const quick = 2 * time.Second

// ears hear what Watch tells, as the name of the limit of key k in domain d, or what is wrong.
type ears struct {
	mu    sync.Mutex
	heard []string
}

func (e *ears) changed(set *descriptors.Set, problems []config.Problem) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if set == nil {
		e.heard = append(e.heard, "broken: "+problems[0].What)
		return
	}
	var m descriptors.Match
	set.Find("d", []descriptors.Entry{{Key: "k"}}, &m)
	if m.Limit == nil {
		e.heard = append(e.heard, "nothing")
		return
	}
	e.heard = append(e.heard, m.Limit.Name)
}

func (e *ears) all() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.heard, ", ")
}

// hears waits until all that was told is want, within the time that is promised.
func (e *ears) hears(t *testing.T, want string) {
	t.Helper()
	for began := time.Now(); e.all() != want; time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > timed.Bound(quick) {
			t.Fatalf("told of %q, want %q", e.all(), want)
		}
	}
}

// ends waits until what was told last is want.
func (e *ears) ends(t *testing.T, want string) {
	t.Helper()
	for began := time.Now(); !strings.HasSuffix(e.all(), want); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > timed.Bound(quick) {
			t.Fatalf("told of %q, want %q last", e.all(), want)
		}
	}
}

// watched follows path until the test ends.
func watched(t *testing.T, path string, o descriptors.Options) *ears {
	t.Helper()
	e := &ears{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- Watch(ctx, path, o, e.changed) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return e
}

func text(name string) string {
	return "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, name: " + name + "}}]\n"
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// relink makes link lead to target, as kubelet does: at once.
func relink(t *testing.T, target, link string) {
	t.Helper()
	if err := os.Symlink(target, link+"_tmp"); err != nil {
		t.Fatal(err)
	}
	rename(t, link+"_tmp", link)
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

// A ConfigMap is links to a link to a folder, of which the middle one is swapped and the old folder
// removed. Each swap is told of once, within two seconds.
func TestConfigMapSwap(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	version := func(i int) string { return fmt.Sprintf("..2026_%d", i) }
	put := func(i int) {
		t.Helper()
		write(t, filepath.Join(dir, version(i), "a.yaml"), text(fmt.Sprint("v", i)))
		write(t, filepath.Join(dir, version(i), "b.yaml"), fmt.Sprintf("domain: other%d", i))
		relink(t, version(i), filepath.Join(dir, "..data"))
	}
	put(1)
	for _, name := range []string{"a.yaml", "b.yaml"} {
		relink(t, filepath.Join("..data", name), filepath.Join(dir, name))
	}
	e := watched(t, dir, descriptors.Options{IgnoreDotFiles: true})
	e.hears(t, "v1")
	want := "v1"
	for i := 2; i <= 4; i++ {
		put(i)
		remove(t, filepath.Join(dir, version(i-1)))
		want += fmt.Sprint(", v", i)
		e.hears(t, want)
	}
	time.Sleep(2 * settle) // nothing more is told
	e.hears(t, want)
}

// The root of a runtime is a link that is swapped, and the configuration lies deep below it.
func TestRootSwap(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, v := range []string{"one", "two", "three"} {
		write(t, filepath.Join(dir, "versions", v, "ratelimit", "config", "deep", "a"), text(v))
	}
	root := filepath.Join(dir, "current")
	relink(t, filepath.Join("versions", "one"), root)
	e := watched(t, filepath.Join(root, "ratelimit", "config"), descriptors.Options{})
	e.hears(t, "one")
	relink(t, filepath.Join(dir, "versions", "two"), root)
	e.hears(t, "one, two")
	write(t, filepath.Join(dir, "versions", "two", "ratelimit", "config", "deep", "a"), text("new"))
	e.hears(t, "one, two, new")
	relink(t, filepath.Join("versions", "three"), root)
	e.hears(t, "one, two, new, three")
}

// Each way in which files change is told of once.
func TestChanges(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, dir string){
		"written in place": func(t *testing.T, dir string) { write(t, filepath.Join(dir, "a"), text("new")) },
		"renamed over": func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "..", "next"), text("new"))
			rename(t, filepath.Join(dir, "..", "next"), filepath.Join(dir, "a"))
		},
		"removed, then written": func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, "a"))
			write(t, filepath.Join(dir, "a"), text("new"))
		},
		"another file in a new folder": func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, "a"))
			write(t, filepath.Join(dir, "x", "y", "b"), text("new"))
		},
		"the folder replaced": func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "..", "other", "a"), text("new"))
			rename(t, dir, dir+"_old")
			rename(t, filepath.Join(dir, "..", "other"), dir)
		},
		"a burst": func(t *testing.T, dir string) {
			for i := range 20 {
				write(t, filepath.Join(dir, "a"), text(fmt.Sprint("v", i)))
				time.Sleep(settle / 10)
			}
			write(t, filepath.Join(dir, "a"), text("new"))
		},
		"paused in the middle": func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "a"), text("new")[:20])
			time.Sleep(2*settle + 50*time.Millisecond)
			write(t, filepath.Join(dir, "a"), text("new"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "config")
			write(t, filepath.Join(dir, "a"), text("old"))
			e := watched(t, dir, descriptors.Options{})
			e.hears(t, "old")
			change(t, dir)
			e.ends(t, ", new") // a machine that is slow may show what was there meanwhile
			heard := e.all()
			write(t, filepath.Join(dir, "z"), "domain: z") // it goes on
			e.hears(t, heard+", new")
		})
	}
}

// A broken file is told of once, as such, and one that is mended as well. What is touched without a
// change is not.
func TestBrokenFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a")
	write(t, file, text("old"))
	e := watched(t, file, descriptors.Options{})
	e.hears(t, "old")
	write(t, file, "domain: d\nx: y")
	e.hears(t, "old, broken: unknown key 'x'")
	write(t, file, "domain: d\nx: y")
	write(t, filepath.Join(filepath.Dir(file), "neighbour"), "x")
	time.Sleep(patience + 2*settle)
	write(t, file, text("new"))
	e.hears(t, "old, broken: unknown key 'x', new")
}

// What is not there at the start may come, whatever part of the way is missing.
func TestMissingAtTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a", "b", "c")
	e := watched(t, path, descriptors.Options{})
	missing := "broken: " + path + ": no such file or directory"
	e.hears(t, missing)
	write(t, filepath.Join(path, "f"), text("new"))
	e.hears(t, missing+", new")
}

// A file that is written through another name tells its folder nothing, as one does that another machine writes.
func TestWithoutEvents(t *testing.T) {
	here, elsewhere := t.TempDir(), t.TempDir()
	write(t, filepath.Join(elsewhere, "a.yaml"), text("one"))
	if err := os.Link(filepath.Join(elsewhere, "a.yaml"), filepath.Join(here, "a.yaml")); err != nil {
		t.Skip(err)
	}
	e := watched(t, here, descriptors.Options{})
	e.hears(t, "one")
	time.Sleep(4 * settle) // beyond the look at the beginning
	write(t, filepath.Join(elsewhere, "a.yaml"), text("two"))
	for began := time.Now(); e.all() != "one, two"; time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > lookAgain+30*time.Second {
			t.Fatalf("told of %q", e.all())
		}
	}
}

// Links that lead round in a circle are an error, and no endless way.
func TestCircle(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	relink(t, "b", path)
	relink(t, "a", filepath.Join(dir, "b"))
	e := watched(t, path, descriptors.Options{})
	for began := time.Now(); !strings.HasPrefix(e.all(), "broken"); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > timed.Bound(quick) {
			t.Fatalf("told of %q", e.all())
		}
	}
	remove(t, path)
	write(t, path, text("new"))
	e.hears(t, e.all()+", new")
}
