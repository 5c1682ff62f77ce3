// Package restarts_test proves that Weir is restarted and upgraded without a failed request: real processes
// under load, with sockets that the test hands over as systemd does, and counts that go on.
package restarts_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirgate/weir/internal/leaktest"
	"github.com/weirgate/weir/internal/proctest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// patience is how long anything that must happen is waited for.
const patience = 30 * time.Second

// A service stands behind Weir, and knows how many requests came through.
type service struct {
	*httptest.Server
	served atomic.Int64
}

// slowPath is answered only after slowTime: longer than connections that a drain finds unused are kept.
const (
	slowPath = "/slow"
	slowTime = 400 * time.Millisecond
)

func startService(t *testing.T) *service {
	s := new(service)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.served.Add(1)
		if r.URL.Path == slowPath {
			time.Sleep(slowTime)
		}
		io.WriteString(w, "yes")
	}))
	t.Cleanup(s.Close)
	return s
}

// sockets are what systemd holds for Weir: they are open whichever process runs.
type sockets struct {
	addrs []string
	files []*os.File
}

// open opens n TCP sockets and one unix socket, which is the last.
func open(t *testing.T, n int) *sockets {
	t.Helper()
	s := new(sockets)
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s.hold(t, l.Addr().String(), l)
	}
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	s.hold(t, "unix:"+path, l)
	return s
}

// hold keeps the socket of l, and closes l itself.
func (s *sockets) hold(t *testing.T, addr string, l net.Listener) {
	t.Helper()
	defer l.Close()
	file, err := l.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	copied, err := syscall.Dup(int(file.Fd())) // which blocks from here on, as os.NewFile must find it
	if err != nil {
		t.Fatal(err)
	}
	kept := os.NewFile(uintptr(copied), addr)
	t.Cleanup(func() { kept.Close() })
	if err := syscall.SetNonblock(copied, true); err != nil { // as the unit's NonBlocking= does, for all who hold it
		t.Fatal(err)
	}
	s.addrs, s.files = append(s.addrs, addr), append(s.files, kept)
}

// A process is one `weir run`.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	ended chan struct{} // closed once it has
	err   error         // how it ended
	runs  chan struct{} // closed once it serves

	mu  sync.Mutex
	log bytes.Buffer
}

// start starts a process that is handed s, and does not wait for it. It is killed when the test ends, if not
// before. Only the process itself knows its LISTEN_PID: the shell becomes it.
func (s *sockets) start(t *testing.T, config string) *process {
	t.Helper()
	p := &process{t: t, ended: make(chan struct{}), runs: make(chan struct{})}
	p.cmd = exec.Command("sh", "-c", `LISTEN_PID=$$ exec "$0" run -c "$1"`, proctest.Weir(t), config)
	p.cmd.Env = append(os.Environ(), "LISTEN_FDS="+strconv.Itoa(len(s.files)), "LISTEN_FDNAMES="+strings.Repeat(":weir.socket", len(s.files))[1:])
	p.cmd.ExtraFiles = s.files
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.follow(stderr)
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.ended
	})
	return p
}

// follow keeps what the process writes, until it ends.
func (p *process) follow(stderr io.Reader) {
	defer close(p.ended)
	running := sync.OnceFunc(func() { close(p.runs) })
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		p.mu.Lock()
		fmt.Fprintln(&p.log, lines.Text())
		p.mu.Unlock()
		if strings.Contains(lines.Text(), "weir is running") {
			running()
		}
	}
	p.err = p.cmd.Wait()
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// serves waits until the process serves.
func (p *process) serves() {
	p.t.Helper()
	select {
	case <-p.runs:
	case <-p.ended:
		p.t.Fatalf("weir ended: %v\n%s", p.err, p.text())
	case <-time.After(patience):
		p.t.Fatalf("weir does not run:\n%s", p.text())
	}
}

// stop asks the process to stop, and waits until it has. It must have drained within its time.
func (p *process) stop() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatalf("weir does not stop:\n%s", p.text())
	}
	if p.err != nil || strings.Contains(p.text(), "cut off") {
		p.t.Errorf("weir ended: %v\n%s", p.err, p.text())
	}
}
