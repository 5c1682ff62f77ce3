package deploytest_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weirgate/weir/internal/proctest"
)

// Exposure is systemd's own score of how much a service that is broken into could reach: 2.0 at most, of 10.
func TestUnitIsShutIn(t *testing.T) {
	t.Parallel()
	analyze := program(t, "systemd-analyze")
	succeed(t, "../systemd", analyze, "security", "--no-pager", "--offline=true", "--threshold=20", "./weir.service")
}

// TestUnitsAreUnderstood has systemd read the units, with programs that are there in the place of ours: the
// service alone, with the socket, and with a second service that shares the sockets (docs/restarting.md).
func TestUnitsAreUnderstood(t *testing.T) {
	t.Parallel()
	analyze := program(t, "systemd-analyze")
	dir := t.TempDir()
	unit := strings.ReplaceAll(shipped(t, "systemd/weir.service"), "/usr/local/bin/weir ", weirBinary(t)+" ")
	service := write(t, dir, "weir.service", unit)
	succeed(t, "", analyze, "verify", "--man=no", service)
	socket := write(t, dir, "weir.socket", shipped(t, "systemd/weir.socket"))
	next := write(t, dir, "weir-next.service", unit)
	write(t, dir, "weir-next.service.d/sockets.conf", besideAnother(t))
	succeed(t, "", analyze, "verify", "--man=no", service, socket, next)
}

// besideAnother is what the documentation adds to a copy of the unit.
func besideAnother(t *testing.T) string {
	t.Helper()
	_, rest, _ := strings.Cut(shipped(t, "../docs/restarting.md"), "/etc/systemd/system/weir-next.service.d/sockets.conf\n")
	text, _, found := strings.Cut(rest, "```")
	if !found || !strings.Contains(text, "Sockets=weir.socket\n") {
		t.Fatal("docs/restarting.md does not say how two share the sockets")
	}
	return text
}

// Sockets of systemd's, by its own program, are served.
func TestSocketsOfSystemdAreServed(t *testing.T) {
	t.Parallel()
	activate, weir := program(t, "systemd-socket-activate"), weirBinary(t)
	dir, front, admin := t.TempDir(), proctest.Free(t), proctest.Free(t)
	file := write(t, dir, "weir.yaml", fmt.Sprintf("listen: %q\nadmin: %q\nupstream: \"http://127.0.0.1:1\"\n", front, admin))
	p := run(t, front, dir, activate, "-l", front, "-l", admin, weir, "run", "-c", file)
	answers := func() error {
		res, err := http.Get("http://" + admin + "/readyz")
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("HTTP status %d", res.StatusCode)
		}
		return nil
	}
	if err := proctest.Await(proctest.Patience, answers); err != nil {
		t.Fatalf("%v\n%s", err, p.Log())
	}
	if err := p.End(syscall.SIGTERM); err != nil || !strings.Contains(p.Log(), "draining") {
		t.Errorf("%v\n%s", err, p.Log())
	}
}

// What the unit sets in the environment is what Weir reads: a secret from a file, and where it may write.
func TestUnitsEnvironmentIsRead(t *testing.T) {
	t.Parallel()
	weir, dir := weirBinary(t), t.TempDir()
	for name := range strings.Lines("admin_token\nredis_password\n") {
		write(t, dir, strings.TrimSpace(name), "a secret of thirty-two characters")
	}
	unit := strings.ReplaceAll(shipped(t, "systemd/weir.service"), "\n#Environment", "\nEnvironment")
	env := []string{}
	for line := range strings.Lines(unit) {
		if kv, ok := strings.CutPrefix(line, "Environment="); ok {
			env = append(env, strings.NewReplacer("%d", dir, "%S", filepath.Dir(dir)).Replace(strings.TrimSpace(kv)))
		}
	}
	if len(env) != 3 {
		t.Fatalf("the unit sets %q, want three variables", env)
	}
	file := write(t, dir, "weir.yaml", "listen: \":8080\"\nadmin: \":9090\"\nupstream: \"http://127.0.0.1:3000\"\nstore: {redis: {url: \"redis://127.0.0.1\"}}\n")
	succeed(t, "", "env", append(env, weir, "check", "--strict", "-c", file)...)
}
