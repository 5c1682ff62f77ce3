package behind_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	patience = 15 * time.Second      // for anything that should come soon
	glance   = 10 * time.Millisecond // between two looks at a condition
)

var errNotYet = errors.New("not yet")

// await returns nil once done does, or what done said last when it was asked for long enough.
func await(within time.Duration, done func() error) error {
	deadline := time.Now().Add(within)
	for {
		err := done()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(glance)
	}
}

// A process is a real program that runs beside the test.
type process struct {
	name  string
	cmd   *exec.Cmd
	log   transcript
	ended chan struct{} // closed once it has ended, and err says how
	err   error
}

// launch starts a program in dir, which is all that it may write to.
func launch(name, dir, program string, args ...string) (*process, error) {
	p := &process{name: name, cmd: exec.Command(program, args...), ended: make(chan struct{})}
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

// end ends the process with a signal, or by force if that does not do, and returns how it ended.
func (p *process) end(s syscall.Signal) error {
	p.cmd.Process.Signal(s)
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.cmd.Process.Kill()
		<-p.ended
		return fmt.Errorf("%s did not end within %s", p.name, patience)
	}
	return p.err
}

// gone returns an error once the process has ended.
func (p *process) gone() error {
	select {
	case <-p.ended:
		return fmt.Errorf("%s ended: %v\n%s", p.name, p.err, p.log.String())
	default:
		return nil
	}
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

// freeAddress returns a loopback address and a port that were free a moment ago. The address is one
// that hardly anybody else uses: HAProxy and Caddy would share a port with others of their kind
// without a word.
func freeAddress() (string, error) {
	host := fmt.Sprintf("127.%d.%d.%d", 64+rand.IntN(64), rand.IntN(256), 1+rand.IntN(254))
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// need skips the test where a program is not installed, and returns where it is.
func need(t testing.TB, program string) string {
	t.Helper()
	for _, dir := range []string{"", "/usr/sbin/", "/usr/local/sbin/"} {
		if path, err := exec.LookPath(dir + program); err == nil {
			return path
		}
	}
	t.Skipf("%s is not installed; tools/install installs it", program)
	return ""
}

// drop reads the rest of a body, so that its connection can be used again, and closes it.
func drop(body io.ReadCloser) {
	io.Copy(io.Discard, io.LimitReader(body, 1<<20))
	body.Close()
}
