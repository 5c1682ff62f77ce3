package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Who interrupts gets the report of what was read, and an exit code that no script takes for a whole one.
func TestReplayInterrupted(t *testing.T) {
	dir := t.TempDir()
	log, policy := filepath.Join(dir, "access.log"), filepath.Join(dir, "weir.yaml")
	line := `203.0.113.7 - - [30/Nov/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "curl"` + "\n"
	if err := errors.Join(os.WriteFile(log, []byte(strings.Repeat(line, 100_000)), 0o600), os.WriteFile(policy, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var out, errs bytes.Buffer
	root := rootCommand()
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs([]string{"replay", "-c", policy, "--max-refused", "100%", log})
	err := root.ExecuteContext(ctx)
	if failed, ok := errors.AsType[failure](err); !ok || failed.Error() != "interrupted" {
		t.Errorf("got %v", err)
	}
	if !strings.HasPrefix(out.String(), "interrupted: ") || !strings.Contains(out.String(), "\npolicy ") {
		t.Errorf("the report so far: %s", out.String())
	}
}
