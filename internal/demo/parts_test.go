package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Every line fits into 80 columns, words are not broken, and tables are aligned.
func TestVoiceKeepsToItsColumns(t *testing.T) {
	var out bytes.Buffer
	v := voice{out: &out}
	v.title(3, "Ten replicas")
	v.say("%s", strings.Repeat("fifteen letters ", 11)+"end")
	v.quote("client:\r\n  path: [nginx]\n")
	v.table([]string{"", "held"}, []string{"a tarpit", "1,000"}, []string{"…and more", "0", "x"})
	v.hint("nobody sees this")()
	v.total(1, 2, 1499*time.Millisecond)
	want := `
3. Ten replicas
   fifteen letters fifteen letters fifteen letters fifteen letters fifteen
   letters fifteen letters fifteen letters fifteen letters fifteen letters
   fifteen letters fifteen letters end
      client:
        path: [nginx]
                                   held
      a tarpit                    1,000
      …and more                       0  x

1 of 2 promises kept, in 1 s.
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// On a terminal titles stand out, unless NO_COLOR is set, and hints are gone when what they hint at is there.
func TestVoiceOnATerminal(t *testing.T) {
	for _, tc := range []struct {
		v    voice
		want string
	}{
		{voice{terminal: true}, "\n\x1b[1m1. A count\x1b[0m\n   … counting\r\x1b[K"},
		{voice{terminal: true, plain: true}, "\n1. A count\n   … counting\r\x1b[K"},
		{voice{}, "\n1. A count\n"},
	} {
		var out bytes.Buffer
		tc.v.out = &out
		tc.v.title(1, "A count")
		tc.v.hint("counting")()
		if out.String() != tc.want {
			t.Errorf("%+v: got %q, want %q", tc.v, out.String(), tc.want)
		}
	}
}

func TestFigures(t *testing.T) {
	got := []string{count(0), count(999), count(1000), count(1_234_567), count(-1000), milliseconds(1500 * time.Microsecond), megabytes(-5), megabytes(1_999_999), megabytes(2_000_000)}
	want := []string{"0", "999", "1,000", "1,234,567", "-1,000", "1.5 ms", "under 2 MB", "under 2 MB", "+2 MB"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Who comes to a full door waits, and is let in when somebody has gone.
func TestDoorHasRoomForSoMany(t *testing.T) {
	d, err := openDoor(echoes(t), 2)
	if err != nil {
		t.Fatal(err)
	}
	first, second, third := enter(t, d), enter(t, d), enter(t, d)
	said(t, first)
	said(t, second)
	_ = third.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := third.Read(make([]byte, 8)); err == nil {
		t.Errorf("the third was let in, and got %d bytes", n)
	}
	if d.held() != 2 {
		t.Errorf("%d inside, want 2", d.held())
	}
	first.Close()
	said(t, third)
	second.Close()
	third.Close()
	if err := d.close(); err != nil || d.held() != 0 {
		t.Errorf("closed with %v and %d inside", err, d.held())
	}
}

// A door to nowhere closes what comes.
func TestDoorToNowhere(t *testing.T) {
	d, err := openDoor("127.0.0.1:1", 1)
	if err != nil {
		t.Fatal(err)
	}
	c := enter(t, d)
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if _, err := c.Read(make([]byte, 8)); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want a closed connection", err)
	}
	c.Close()
	if err := d.close(); err != nil {
		t.Error(err)
	}
}

// echoes is the address of a server that says what it is told.
func echoes(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); c.Close() }()
		}
	}()
	return l.Addr().String()
}

// enter connects to a door and says hello.
func enter(t *testing.T, d *door) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", d.addr())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "hello"); err != nil {
		t.Fatal(err)
	}
	return c
}

// said wants the hello back.
func said(t *testing.T, c net.Conn) {
	t.Helper()
	var b [5]byte
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.ReadFull(c, b[:]); err != nil || string(b[:]) != "hello" {
		t.Fatalf("got %q, %v", b, err)
	}
}

// The log's line that says where Weir serves is told once, and every line is passed on.
func TestHerald(t *testing.T) {
	var out bytes.Buffer
	h := &herald{out: &out, served: make(chan places, 1)}
	lines := []string{
		`{"msg":"configuration"}` + "\n",
		`{"msg":"weir is running","listen":"127.0.0.1:1","admin":"127.0.0.1:2"}` + "\n",
		`{"msg":"weir is running","listen":"127.0.0.1:3"}` + "\n",
	}
	for _, line := range lines {
		if _, err := io.WriteString(h, line); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := <-h.served, (places{"127.0.0.1:1", "127.0.0.1:2"}); got != want || out.String() != strings.Join(lines, "") {
		t.Errorf("got %v and %q", got, out.String())
	}
}

// A Weir that cannot be started says why, and one whose question is refused says what is wrong.
func TestReplicaSaysWhatIsWrong(t *testing.T) {
	if _, err := startReplica(t.Context(), t.TempDir(), "weir", "listen: 1.5\n"); err == nil || !strings.Contains(err.Error(), "listen") {
		t.Errorf("got %v, want what is wrong with listen", err)
	}
	s, _ := newStage(t)
	if err := s.weir.reload(t.Context(), "rulez: []\n"); err == nil || !strings.Contains(err.Error(), "422") || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v, want a refused reload", err)
	}
	var out json.RawMessage
	if err := s.weir.question(t.Context(), "GET", "/api/v1/nothing", &out); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("got %v, want 404", err)
	}
}

// A Redis of the demo's answers once it is started, is gone once it is closed, and comes back at the same address.
func TestRedisComesBack(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed")
	}
	r, err := startRedis(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if !r.answers() {
			t.Error("it does not answer after its start")
		}
		for range 2 { // the second time there is nothing to close
			if err := r.close(); err != nil || r.answers() {
				t.Errorf("closed with %v; or it answers still", err)
			}
		}
		if err := r.start(); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.close(); err != nil {
		t.Error(err)
	}
}

func TestWithoutRedis(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := startRedis(t.TempDir()); !errors.Is(err, errNoRedis) {
		t.Errorf("got %v, want %v", err, errNoRedis)
	}
}
