package admin_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/admin"
)

func auditLine(what string) admin.AuditLine {
	return admin.AuditLine{Time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Who: "admin", Peer: "127.0.0.1:1", What: what, Target: "t", Before: "a", After: "b", Reason: "r"}
}

// The log is appended to, by nobody else's reading, and the newest line is the first.
func TestTrail(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "when needed")
	trail := admin.NewTrail(dir)
	if lines, err := trail.Last(5); err != nil || len(lines) != 0 {
		t.Errorf("%v, %v before the first line", lines, err)
	}
	for _, what := range []string{"one", "two", "three"} {
		if err := trail.Append(auditLine(what)); err != nil {
			t.Fatal(err)
		}
	}
	lines, err := admin.NewTrail(dir).Last(2) // also after a restart
	if diff := cmp.Diff([]admin.AuditLine{auditLine("three"), auditLine("two")}, lines); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	about, err := os.Stat(filepath.Join(dir, admin.TrailName))
	if err != nil || about.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: want a file for its owner alone", about, err)
	}
}

// A line with line breaks in it is one line, and what is no line of ours is passed over.
func TestTrailIsOneLineEach(t *testing.T) {
	dir := t.TempDir()
	trail, path := admin.NewTrail(dir), filepath.Join(dir, admin.TrailName)
	forged := auditLine("reload")
	forged.Reason = "x\"}\n{\"who\":\"somebody else\"}"
	if err := trail.Append(forged); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || bytes.Count(text, []byte("\n")) != 1 {
		t.Errorf("%v: %q", err, text)
	}
	if err := os.WriteFile(path, append([]byte("cut off{\n\n"), text...), 0o600); err != nil {
		t.Fatal(err)
	}
	lines, err := trail.Last(5)
	if diff := cmp.Diff([]admin.AuditLine{forged}, lines); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
}

// However long the log is, its end alone is read.
func TestLongTrail(t *testing.T) {
	dir := t.TempDir()
	trail := admin.NewTrail(dir)
	if err := os.WriteFile(filepath.Join(dir, admin.TrailName), []byte(strings.Repeat("x", 1<<20)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := trail.Append(auditLine("last")); err != nil {
		t.Fatal(err)
	}
	if lines, err := trail.Last(5); err != nil || len(lines) != 1 || lines[0].What != "last" {
		t.Errorf("%+v, %v", lines, err)
	}
}
