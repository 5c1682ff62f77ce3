package noise

import (
	"bytes"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
)

// What a stranger can cause is not logged, nor is his address with what is.
func TestLog(t *testing.T) {
	var out bytes.Buffer
	l := Log(slog.New(slog.NewTextHandler(&out, nil)))
	for _, line := range []string{"timeout waiting for SETTINGS frames from 203.0.113.77:1", "http: TLS handshake error from 203.0.113.77:1"} {
		l.Print(line)
		if out.Len() > 0 {
			t.Errorf("logged: %s", &out)
		}
	}
	l.Print("http: panic serving 203.0.113.77:1: boom\ngoroutine 1")
	got := out.String()
	if !strings.Contains(got, "level=ERROR") || !strings.Contains(got, `cause="boom\ngoroutine 1"`) || strings.Contains(got, "203.0.113.77") {
		t.Errorf("a panic is logged as %s", got)
	}
}

// A proxy is named, and who may be a client is not.
func TestPeer(t *testing.T) {
	for addr, want := range map[string]string{
		"10.0.0.1": "10.0.0.1", "127.0.0.1": "127.0.0.1", "fe80::1": "fe80::1", "fd00::1": "fd00::1",
		"203.0.113.77": "a public address", "2001:db8::1": "a public address",
	} {
		if got := Peer(netip.MustParseAddr(addr), false); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
	if got := Peer(netip.Addr{}, true); got != "unix" {
		t.Errorf("a unix socket: %s", got)
	}
}
