package app

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// limited is a configuration with a limit of n, to be told from others.
func limited(n int) string {
	return basics + fmt.Sprintf("default: {limits: [{rate: %d/1h}]}\n", n)
}

// follows waits until the limit in force is n, and wants one reload for it and no complaint.
func (h *house) follows(n int) {
	h.t.Helper()
	eventually(h.t, fmt.Sprint("limit ", n), func() bool {
		return strings.Contains(h.get("/").header.Get("RateLimit-Policy"), fmt.Sprintf("q=%d;", n))
	})
}

// reloaded returns how many reloads there were, good and bad.
func (h *house) reloaded() (good, bad int) {
	return len(h.logs.lines(changedLine)) + len(h.logs.lines(sameLine)), len(h.logs.lines(refusedLine))
}

// wantReloads waits for the last line of that many reloads, and wants no more.
func (h *house) wantReloads(good, bad int) {
	h.t.Helper()
	eventually(h.t, "the reloads", func() bool { g, b := h.reloaded(); return g >= good && b >= bad })
	if g, b := h.reloaded(); g != good || b != bad {
		h.t.Errorf("%d reloads and %d refusals, want %d and %d", g, b, good, bad)
	}
}

// Each way in which editors and orchestrators replace a file is one reload, within a second or two
// (CFG-08).
func TestFileChangesAreFollowed(t *testing.T) {
	ways := map[string]func(t *testing.T, file, text string){
		"written in place": func(t *testing.T, file, text string) { write(t, file, text) },
		"renamed over":     func(t *testing.T, file, text string) { rename(t, file, text) },
		"removed, then written": func(t *testing.T, file, text string) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			write(t, file, text)
		},
		"an editor's backup": func(t *testing.T, file, text string) {
			if err := os.Rename(file, file+"~"); err != nil {
				t.Fatal(err)
			}
			write(t, file, text)
		},
		// The pause is longer than the time that a file has to be left alone.
		"written in two steps": func(t *testing.T, file, text string) {
			write(t, file, text[:len(text)-10])
			time.Sleep(2*settle + 50*time.Millisecond)
			write(t, file, text)
		},
		"emptied, then written": func(t *testing.T, file, text string) {
			write(t, file, "")
			time.Sleep(2*settle + 50*time.Millisecond)
			write(t, file, text)
		},
	}
	for name, change := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // with one another only: others send signals to the process
			h := build(t, plan{yaml: limited(11)})
			change(t, h.file, limited(22))
			h.follows(22)
			rename(t, h.file, limited(33)) // the watch goes on
			h.follows(33)
			h.wantReloads(2, 0)
		})
	}
}

// A Kubernetes ConfigMap is a link to a link to a folder, and the middle link is swapped.
func TestConfigMapSwapIsFollowed(t *testing.T) {
	dir := t.TempDir()
	swap := func(version string, n int) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, version, "weir.yaml"), limited(n))
		next := filepath.Join(dir, "..data_tmp")
		if err := os.Symlink(version, next); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	swap("..1", 11)
	file := filepath.Join(dir, "weir.yaml")
	if err := os.Symlink("..data/weir.yaml", file); err != nil {
		t.Fatal(err)
	}
	h := build(t, plan{edit: func(o *Options) { o.Config = file }})
	h.follows(11)
	for i, n := range []int{22, 33} {
		swap(fmt.Sprint("..", i+2), n)
		if err := os.RemoveAll(filepath.Join(dir, fmt.Sprint("..", i+1))); err != nil {
			t.Fatal(err)
		}
		h.follows(n)
	}
	h.wantReloads(2, 0)
}

// A deployment swaps a link to the folder that the file is in, and the folder tells nobody.
func TestLinkOnTheWayIsFollowed(t *testing.T) {
	dir := t.TempDir()
	release := func(n int) {
		t.Helper()
		folder := filepath.Join(dir, fmt.Sprint(n))
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(folder, "weir.yaml"), limited(n))
		if err := os.Symlink(folder, filepath.Join(dir, "next")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "current")); err != nil {
			t.Fatal(err)
		}
	}
	release(11)
	file := filepath.Join(dir, "current", "weir.yaml")
	h := build(t, plan{edit: func(o *Options) { o.Config = file }})
	h.follows(11)
	time.Sleep(4 * settle) // beyond the look at the beginning
	release(22)
	h.follows(22)
	h.wantReloads(1, 0)
}

// Other files in the folder are nothing to Weir, broken or not, however busy they are.
func TestNeighboursAreNotRead(t *testing.T) {
	h := build(t, plan{yaml: limited(11)})
	dir := filepath.Dir(h.file)
	for _, name := range []string{".weir.yaml.swp", "weir.yaml~", "#weir.yaml#", "weir.yaml.bak", "other.yaml", "4913"} {
		write(t, filepath.Join(dir, name), "limits: [broken")
	}
	stop, busy := make(chan bool), make(chan bool)
	go func() {
		defer close(busy)
		for {
			select {
			case <-stop:
				return
			case <-time.After(settle / 5):
				_ = os.WriteFile(filepath.Join(dir, "access.log"), []byte(time.Now().String()), 0o600)
			}
		}
	}()
	rename(t, h.file, limited(22))
	h.follows(22) // although the folder is never quiet
	close(stop)
	<-busy
	h.wantReloads(1, 0)
}

// A file that stays broken is reported once; one that was touched without a change is not read.
func TestBrokenFileIsReportedOnce(t *testing.T) {
	h := build(t, plan{yaml: limited(11)})
	rename(t, h.file, "rules: [")
	eventually(t, "the report", func() bool { _, bad := h.reloaded(); return bad == 1 })
	rename(t, h.file, "rules: [")
	rename(t, h.file, limited(11)) // as it was before
	rename(t, h.file, limited(22))
	h.follows(22)
	h.wantReloads(1, 1)
}

// A content that was put in force or refused at a signal is not tried again because the file changed,
// and one that is wrong is looked at until it is final.
func TestOneContentIsTriedOnce(t *testing.T) {
	h := build(t, plan{yaml: limited(11)})
	put := func(yaml string) { rename(t, h.file, yaml) }
	for _, step := range []struct {
		name             string
		do               func() (again bool)
		again            bool
		reloads, refused int
	}{
		{"as at the start", func() bool { return h.changed(sum(h.file), true) }, false, 0, 0},
		{"a signal", func() bool { put(limited(22)); return h.Reload() != nil }, false, 1, 0},
		{"the change that it was for", func() bool { return h.changed(sum(h.file), true) }, false, 1, 0},
		{"a signal for what is wrong", func() bool { put("rules: ["); return h.Reload() == nil }, false, 1, 1},
		{"the change that it was for", func() bool { return h.changed(sum(h.file), true) }, false, 1, 1},
		{"a change to what is wrong", func() bool { put("rules: {"); return h.changed(sum(h.file), false) }, true, 1, 1},
		{"it stays", func() bool { return h.changed(sum(h.file), true) }, false, 1, 2},
		{"it stays for ever", func() bool { return h.changed(sum(h.file), true) }, false, 1, 2},
		{"a signal tries again", func() bool { return h.Reload() == nil }, false, 1, 3},
		{"mended", func() bool { put(limited(22)); return h.changed(sum(h.file), false) }, false, 2, 3},
	} {
		again := step.do()
		if good, bad := h.reloaded(); again != step.again || good != step.reloads || bad != step.refused {
			t.Fatalf("%s: again %v, %d reloads, %d refusals; want %v, %d, %d", step.name, again, good, bad, step.again, step.reloads, step.refused)
		}
	}
}

// hangUp sends SIGHUP to this process, which survives it even if nobody else listens.
func hangUp(t *testing.T) {
	t.Helper()
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(caught) })
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	<-caught
}

// The signal and the change of the file are one reload, not two, whether it is good or bad.
func TestHangUpReloads(t *testing.T) {
	h := build(t, plan{yaml: limited(11)})
	eventually(t, "start", func() bool { return len(h.logs.lines("weir is running")) == 1 })
	rename(t, h.file, limited(22))
	hangUp(t)
	h.follows(22)
	rename(t, h.file, "rules: [")
	hangUp(t)
	eventually(t, "the report", func() bool { _, bad := h.reloaded(); return bad == 1 })
	rename(t, h.file, limited(33))
	h.follows(33)
	h.wantReloads(2, 1)
}

// Without a file, the signal is no reason to die.
func TestHangUpWithoutAFile(t *testing.T) {
	h := build(t, plan{edit: func(o *Options) { o.Config, o.Upstream, o.Listen = "", new(serve(t, nil)), new("127.0.0.1:0") }, env: []string{"WEIR_ADMIN=localhost:0"}})
	eventually(t, "start", func() bool { return len(h.logs.lines("weir is running")) == 1 })
	hangUp(t)
	eventually(t, "the reload", func() bool { good, _ := h.reloaded(); return good == 1 })
	if a := h.get("/"); a.status != 404 || a.header.Get("RateLimit") == "" {
		t.Errorf("got %d, %v", a.status, a.header)
	}
}

// A change between reading the file and watching it is not lost.
func TestChangeAtTheStartIsFollowed(t *testing.T) {
	o, written := options(t, plan{yaml: limited(11)})
	a, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	write(t, o.Config, limited(22))
	h := run(t, a, o, written)
	h.follows(22)
}

// A pipe can be read once: the program may be started with one, but a reload must not wait at it.
func TestPipeIsNotReadAgain(t *testing.T) {
	h := build(t, plan{yaml: limited(11)})
	if err := os.Remove(h.file); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(h.file, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := sum(h.file); got != ([32]byte{}) {
		t.Errorf("the sum of a pipe: %x", got)
	}
	if err := h.Reload(); !errors.Is(err, errIrregular) {
		t.Errorf("reload at a pipe: %v", err)
	}
	h.follows(11)
}
