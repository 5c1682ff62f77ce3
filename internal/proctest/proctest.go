// Package proctest runs real programs beside a test: on addresses that nobody else uses, awaited, and
// ended with the tests however those end.
package proctest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// Patience is for anything that should come soon.
	Patience = 30 * time.Second

	glance = 10 * time.Millisecond  // between two looks at a condition
	blink  = 100 * time.Microsecond // between the first two at what another goroutine is about to do
)

// Await returns nil once done does, or what done said last when it was asked for long enough.
func Await(within time.Duration, done func() error) error {
	deadline := time.Now().Add(within)
	for {
		err := done()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(glance)
	}
}

// Eventually waits until is, and ends the test if that takes longer than anybody has patience.
func Eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(Patience)
	for pause := blink; !is(); pause = min(2*pause, glance) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v not yet: %s", Patience, what)
		}
		time.Sleep(pause)
	}
}

// A Process is a real program that runs beside the test.
type Process struct {
	Name string

	cmd   *exec.Cmd
	log   transcript
	ended chan struct{} // closed once it has ended, and err says how
	err   error
}

// Start starts a program in dir, which is all that it may write to.
func Start(name, dir, program string, args ...string) (*Process, error) {
	p := &Process{Name: name, cmd: exec.Command(program, args...), ended: make(chan struct{})}
	p.cmd.Dir = dir
	p.cmd.Env = []string{"HOME=" + dir, "XDG_DATA_HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "GOMAXPROCS=2"}
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	p.cmd.SysProcAttr = lifeline()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// Signal sends the process a signal.
func (p *Process) Signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// End ends the process with a signal, or by force if that does not do, and returns how it ended.
func (p *Process) End(s syscall.Signal) error {
	_ = p.Signal(s) // it may have ended
	select {
	case <-p.ended:
	case <-time.After(Patience):
		_ = p.cmd.Process.Kill() // it may have ended by now
		<-p.ended
		return fmt.Errorf("%s did not end within %s", p.Name, Patience)
	}
	return p.err
}

// Gone returns an error once the process has ended.
func (p *Process) Gone() error {
	select {
	case <-p.ended:
		return fmt.Errorf("%s ended: %v\n%s", p.Name, p.err, p.Log())
	default:
		return nil
	}
}

// Log is what the process has written so far.
func (p *Process) Log() string { return p.log.String() }

// Listening returns nil if something listens at addr, host:port or unix:PATH, and p still runs.
func (p *Process) Listening(addr string) error {
	if err := p.Gone(); err != nil {
		return err
	}
	network := "tcp"
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, addr = "unix", path
	}
	c, err := net.DialTimeout(network, addr, Patience)
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", p.Name, err, p.Log())
	}
	return c.Close()
}

// A transcript keeps what a process writes.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *transcript) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *transcript) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// FreeAddress returns a loopback address and a port that were free a moment ago. The address is one
// that hardly anybody else uses: HAProxy and Caddy would share a port with others of their kind
// without a word.
func FreeAddress() (string, error) {
	host := fmt.Sprintf("127.%d.%d.%d", 64+rand.IntN(64), rand.IntN(256), 1+rand.IntN(254))
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// Free is [FreeAddress], and ends the test where there is none.
func Free(t testing.TB) string {
	t.Helper()
	addr, err := FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// QuietAddress returns an address of 127.0.0.1 that nobody listens on, for who can be nowhere else. Its port is none
// of those that a system gives to connections and to who listens on port 0 (from 32768 on, ip(7)), so that nobody takes
// it before the program does, or while the program is away.
func QuietAddress() (string, error) {
	for range 1000 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(22_768)))
		if err == nil {
			defer l.Close()
			return l.Addr().String(), nil
		}
	}
	return "", errors.New("no port is free")
}

// Need skips the test where a program is not installed, and returns where it is.
func Need(t testing.TB, program string) string {
	t.Helper()
	for _, dir := range []string{"", "/usr/sbin/", "/usr/local/sbin/"} {
		if path, err := exec.LookPath(dir + program); err == nil {
			return path
		}
	}
	t.Skipf("%s is not installed; tools/install installs it", program)
	return ""
}
