package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The demo goes on after the tour, follows edits of its policy, and ends with nothing left.
func TestDemoRunsOnUntilItIsStopped(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	r, w := io.Pipe()
	cmd := rootCommand()
	cmd.SetArgs([]string{"demo"})
	cmd.SetOut(w)
	done := make(chan error, 1)
	go func() {
		err := cmd.ExecuteContext(ctx)
		w.Close()
		done <- err
	}()
	text := readUntil(t, r, "Ctrl-C stops the demo.\n")
	policy := between(t, text, "edit ", " and save it")
	front := between(t, text, "curl -i ", "/search")
	yaml, err := os.ReadFile(policy)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(policy, bytes.ReplaceAll(yaml, []byte("300/1m"), []byte("777/1m")), 0o600); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(rateLimit(t, front), "q=777;"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the demo did not follow its edited policy")
		}
	}
	stop()
	go io.Copy(io.Discard, r)
	if err := <-done; err != nil {
		t.Errorf("stopped with %v, want nil", err)
	}
	if _, err := os.Stat(filepath.Dir(policy)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is left: %v", err)
	}
	if res, err := http.Get(front); err == nil {
		res.Body.Close()
		t.Error("the front is open")
	}
}

// readUntil returns what r says up to and with end.
func readUntil(t *testing.T, r io.Reader, end string) string {
	t.Helper()
	var text strings.Builder
	for b := make([]byte, 512); !strings.HasSuffix(text.String(), end); {
		n, err := r.Read(b)
		text.Write(b[:n])
		if err != nil {
			t.Fatalf("%v after %s", err, text.String())
		}
	}
	return text.String()
}

func between(t *testing.T, text, before, after string) string {
	t.Helper()
	_, rest, _ := strings.Cut(text, before)
	found, _, ok := strings.Cut(rest, after)
	if !ok {
		t.Fatalf("nothing between %q and %q in %s", before, after, text)
	}
	return found
}

// rateLimit returns the policy that an answer names.
func rateLimit(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res.Header.Get("RateLimit-Policy")
}
