package proctest

import (
	"errors"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

var errNotYet = errors.New("not yet")

func TestProcess(t *testing.T) {
	p, err := Start("cat", t.TempDir(), Need(t, "sh"), "-c", "pwd; trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.01; done")
	if err != nil {
		t.Fatal(err)
	}
	if err := Await(Patience, func() error { return says(p, "ready") }); err != nil {
		t.Fatal(err)
	}
	if err := p.Gone(); err != nil {
		t.Errorf("while it runs: %v", err)
	}
	if err := p.End(syscall.SIGTERM); err == nil || err.Error() != "exit status 3" {
		t.Errorf("it ended with %v, want exit status 3", err)
	}
	if err := p.Gone(); err == nil || !strings.Contains(err.Error(), "bye") {
		t.Errorf("afterwards: %v, want what it wrote", err)
	}
}

func says(p *Process, word string) error {
	if !strings.Contains(p.Log(), word) {
		return errNotYet
	}
	return nil
}

func TestAwaitEnds(t *testing.T) {
	if err := Await(time.Millisecond, func() error { return errNotYet }); !errors.Is(err, errNotYet) {
		t.Errorf("got %v, want what was said last", err)
	}
}

func TestEventually(t *testing.T) {
	looks := 0
	Eventually(t, "the third look", func() bool { looks++; return looks == 3 })
	if looks != 3 {
		t.Errorf("it looked %d times", looks)
	}
}

func TestListening(t *testing.T) {
	p, err := Start("sleep", t.TempDir(), Need(t, "sleep"), "60")
	if err != nil {
		t.Fatal(err)
	}
	free := Free(t)
	socket := "unix:" + filepath.Join(t.TempDir(), "s")
	for _, addr := range []string{free, socket} {
		if p.Listening(addr) == nil {
			t.Errorf("%s: somebody listens", addr)
		}
		network, where := "tcp", addr
		if path, unix := strings.CutPrefix(addr, "unix:"); unix {
			network, where = "unix", path
		}
		l, err := net.Listen(network, where)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Listening(addr); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
		l.Close()
	}
	if err := p.End(syscall.SIGKILL); err == nil || p.Listening(free) == nil {
		t.Errorf("a killed process ended with %v", err)
	}
}

// The program runs from where it is kept, which is the same for all that ask.
func TestWeir(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	again, err := Build()
	if path := Weir(t); err != nil || path != again {
		t.Fatalf("%s, then %s, %v", path, again, err)
	}
	out, err := exec.Command(again, "version").Output()
	if err != nil || !strings.HasPrefix(string(out), "weir ") {
		t.Errorf("it says %q, %v", out, err)
	}
}
