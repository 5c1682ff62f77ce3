package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/config"
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

// A log that was cut off, as one that is still being compressed, is reported as far as it goes, and not taken for a whole one.
func TestReplayOfACutLog(t *testing.T) {
	dir := t.TempDir()
	log, policy := filepath.Join(dir, "access.log.gz"), filepath.Join(dir, "weir.yaml")
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	for i := range 200_000 {
		fmt.Fprintf(z, `203.0.113.%d - - [30/Nov/2026:12:00:00 +0000] "GET /%x HTTP/1.1" 200 5 "-" "curl"`+"\n", i%250, i*i)
	}
	whole := packed.Bytes() // without its end: it is not closed
	if err := errors.Join(z.Flush(), os.WriteFile(log, whole[:len(whole)/2], 0o600), os.WriteFile(policy, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	root := rootCommand()
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs([]string{"replay", "-c", policy, log})
	err := root.ExecuteContext(t.Context())
	if failed, ok := errors.AsType[failure](err); !ok || !strings.Contains(failed.Error(), "access.log.gz") || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v, want an unexpected end of the log", err)
	}
	if !strings.HasPrefix(out.String(), "interrupted: ") || !strings.Contains(out.String(), "\npolicy ") {
		t.Errorf("the report so far: %s", out.String())
	}
}

// A real interrupt ends a replay of standard input that somebody still writes to, with a report of all that
// has come.
func TestReplayInterruptedWhileItWaits(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "weir", "replay", "-c", os.DevNull, "-")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	const lines = 20_000 // far more than a pipe holds
	line := `203.0.113.7 - - [30/Nov/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "curl"` + "\n"
	if _, err := io.WriteString(in, strings.Repeat(line, lines)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != exitFailed {
		t.Errorf("ended with %v", err)
	}
	found := regexp.MustCompile(`^interrupted: .*\n(?s:.*)\nlines +(\d+) read`).FindStringSubmatch(out.String())
	if found == nil || !strings.HasSuffix(errs.String(), "weir: interrupted\n") {
		t.Fatalf("%s%s", out.String(), errs.String())
	}
	if n, _ := strconv.Atoi(found[1]); n < lines/2 || n > lines {
		t.Errorf("%d lines are read of %d", n, lines)
	}
}

// A share is a percentage or a number from 0 to 1.
func TestParseShare(t *testing.T) {
	for text, want := range map[string]float64{"": -1, "0": 0, "0%": 0, "0.1%": 0.001, "100%": 1, "1": 1, "0.25": 0.25, "2 %": 0.02} {
		if got, err := parseShare(text); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"1%%", "%", "-1%", "101%", "1.01", "NaN", "some", "0,1%"} {
		if got, err := parseShare(text); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}

// What is to be enforced is a copy: the configuration stays what it is.
func TestEnforceChangesACopy(t *testing.T) {
	original := config.Config{
		Limits:  []config.Limit{{Mode: "shadow"}, {Mode: "off"}},
		Rules:   []config.Rule{{Mode: "shadow", Limits: []config.Limit{{Mode: "shadow"}, {}}}},
		Default: config.DefaultRule{Mode: "shadow"},
	}
	c := original
	enforce(&c)
	got := []string{c.Limits[0].Mode, c.Limits[1].Mode, c.Rules[0].Mode, c.Rules[0].Limits[0].Mode, c.Rules[0].Limits[1].Mode, c.Default.Mode}
	if diff := cmp.Diff([]string{"enforce", "off", "enforce", "enforce", "", "enforce"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if original.Limits[0].Mode != "shadow" || original.Rules[0].Mode != "shadow" || original.Rules[0].Limits[0].Mode != "shadow" {
		t.Error("the original is changed")
	}
}
