package app

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// That sockets are handed over and served is proved by package restarts, with real processes.

// A socket is found by the address of the configuration, however that is written.
func TestHandedSocketsAreKnownByTheirAddresses(t *testing.T) {
	tcp := func(ip string, port int) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: port} }
	unix := &net.UnixAddr{Name: "/run/weir.sock", Net: "unix"}
	tests := []struct {
		is   net.Addr
		addr string
		want bool
	}{
		{tcp("127.0.0.1", 80), "127.0.0.1:80", true},
		{tcp("127.0.0.1", 80), "localhost:http", true},
		{tcp("127.0.0.1", 80), "127.0.0.1:81", false},
		{tcp("127.0.0.1", 80), "127.0.0.2:80", false},
		{tcp("127.0.0.1", 80), ":80", false},
		{tcp("::", 80), ":80", true},
		{tcp("::", 80), "0.0.0.0:80", true},
		{tcp("0.0.0.0", 80), ":80", true},
		{tcp("::1", 80), "[::1]:80", true},
		{tcp("::ffff:127.0.0.1", 80), "127.0.0.1:80", true},
		{tcp("127.0.0.1", 80), "nonsense", false},
		{tcp("127.0.0.1", 80), "unix:/run/weir.sock", false},
		{unix, "unix:/run/weir.sock", true},
		{unix, "unix:/run/other.sock", false},
		{unix, "127.0.0.1:80", false},
	}
	for _, c := range tests {
		if got := listensAt(c.is, c.addr); got != c.want {
			t.Errorf("%v as %s: %v", c.is, c.addr, got)
		}
	}
}

// What was meant for another process, or is no socket, is none of ours.
func TestOnlyOurSocketsAreTaken(t *testing.T) {
	own := fmt.Sprintf("LISTEN_PID=%d", os.Getpid())
	tests := []struct {
		env  []string
		want string // of the error
	}{
		{nil, ""},
		{[]string{"LISTEN_FDS=1"}, ""},
		{[]string{"LISTEN_PID=1", "LISTEN_FDS=1"}, ""},
		{[]string{own, "LISTEN_FDS=0"}, ""},
		{[]string{own}, "LISTEN_FDS: "},
		{[]string{own, "LISTEN_FDS=all"}, "LISTEN_FDS: "},
	}
	for _, c := range tests {
		h, err := takeHanded(c.env)
		if len(h) > 0 || (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q: %d sockets, %v, want %q", c.env, len(h), err, c.want)
		}
	}
}

// A socket is served once; Weir listens by itself where it was handed none; one that is left is an error.
func TestHandedSocketsAreServedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	a := &App{handed: handed{l}}
	if err := a.handed.unused(); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("one is left: %v", err)
	}
	if got, err := a.listen("listen", "unix:"+path); got != l || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	if err := a.handed.unused(); err != nil {
		t.Error(err)
	}
	if _, err := a.listen("listen", "unix:"+path); err == nil {
		t.Error("it was served twice")
	}
	own, err := a.listen("admin", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	own.Close()
	a.handed = handed{l}
	a.handed.close()
	if _, err := l.Accept(); err == nil {
		t.Error("it is open")
	}
}
