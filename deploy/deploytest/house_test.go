// Package deploytest_test judges what deploy/ ships by the programs that read it: promtool, systemd-analyze,
// Caddy, Redis, and Weir itself.
package deploytest_test

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/weirgate/weir/internal/proctest"
)

// weirBinary returns where the program under test lies.
func weirBinary(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("no real programs in short mode")
	}
	return proctest.Weir(t)
}

// program returns where a program is installed, or skips the test.
func program(t *testing.T, name string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("no real programs in short mode")
	}
	return proctest.Need(t, name)
}

// succeed runs a command in dir, which must exit 0.
func succeed(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = cmp.Or(dir, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}

// shipped returns a file of deploy/.
func shipped(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// write writes a file below dir and returns its name.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// run starts a program that ends with the test, and returns once it listens.
func run(t *testing.T, listens, dir, name string, args ...string) *proctest.Process {
	t.Helper()
	p, err := proctest.Start(filepath.Base(name), dir, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.End(syscall.SIGTERM) })
	if err := proctest.Await(proctest.Patience, func() error { return p.Listening(listens) }); err != nil {
		t.Fatal(err)
	}
	return p
}
