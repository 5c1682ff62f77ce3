package deploytest_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// Exposure is systemd's own score of how much a service that is broken into could reach: 2.0 at most, of 10.
func TestUnitIsShutIn(t *testing.T) {
	t.Parallel()
	analyze := program(t, "systemd-analyze")
	succeed(t, "../systemd", analyze, "security", "--no-pager", "--offline=true", "--threshold=20", "./weir.service")
}

// TestUnitIsUnderstood has systemd read the unit, with programs that are there in the place of ours.
func TestUnitIsUnderstood(t *testing.T) {
	t.Parallel()
	analyze := program(t, "systemd-analyze")
	unit := strings.ReplaceAll(shipped(t, "systemd/weir.service"), "/usr/local/bin/weir ", weirBinary(t)+" ")
	succeed(t, "", analyze, "verify", "--man=no", write(t, t.TempDir(), "weir.service", unit))
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
