package proxy

import (
	"bytes"
	"log"
	"log/slog"
	"strings"
	"testing"
)

// What a stranger can cause is not logged, nor is his address with what is.
func TestNoise(t *testing.T) {
	var out bytes.Buffer
	l := log.New(noise{slog.New(slog.NewTextHandler(&out, nil))}, "", 0)
	l.Print("timeout waiting for SETTINGS frames from 203.0.113.77:1")
	if out.Len() > 0 {
		t.Errorf("logged: %s", &out)
	}
	l.Print("http: panic serving 203.0.113.77:1: boom\ngoroutine 1")
	if got := out.String(); !strings.Contains(got, "boom") || strings.Contains(got, "203.0.113.77") {
		t.Errorf("a panic is logged as %s", got)
	}
}
