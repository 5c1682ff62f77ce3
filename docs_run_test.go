package weir_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirgate/weir/internal/proctest"
	"github.com/weirgate/weir/internal/redistest"
)

// TestDocumentedCommands runs the pages' commands in a copy of the checkout, before a service.
func TestDocumentedCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs the program")
	}
	dir, bin := checkout(t), filepath.Dir(proctest.Weir(t))
	for _, p := range userPages(t) {
		if slices.ContainsFunc(p.fences, runs) {
			t.Run(p.name, func(t *testing.T) { newSession(t, dir, bin).play(p) })
		}
	}
}

// runs reports whether f is a block of commands that are run.
func runs(f fence) bool { return f.lang == "sh" && (f.tag == "run" || f.tag == "ctrl-c") }

// checkout returns a copy of what a checkout holds, without tests and their data.
func checkout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == ".git" || name == "weir-data" || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(dir, name), 0o700)
		case !d.Type().IsRegular() || name == "weir" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, name), data, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// A session is a reader who does what a page says. Where the page says 8080, 9090, 8000 and 3000, free ports
// are used, and for the ports that the environment of envoyproxy/ratelimit names; a service of the reader's
// listens on 3000. 6379 is a Redis, if what the page has the reader write or run names it.
type session struct {
	t          *testing.T
	ctx        context.Context
	dir, bin   string
	front      string   // host:port where what runs in the background listens
	admin      string   // host:port in place of the admin address's default
	pairs      []string // the page's ports, each with the one that is used
	ports      *strings.Replacer
	env        []string
	output     string // of the last block of commands
	background *process
}

func newSession(t *testing.T, dir, bin string) *session {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // the first build of a copy is slow on a busy machine
	t.Cleanup(cancel)
	service := listenAnywhere(t)
	serveHello(t, service)
	front, admin, nginx, grpc := quietAddress(t), quietAddress(t), quietAddress(t), quietAddress(t)
	s := &session{t: t, ctx: ctx, dir: dir, bin: bin, front: front, admin: admin}
	s.pairs = []string{":8080", portOf(front), ":9090", portOf(admin), ":3000", portOf(service.Addr().String()), ":8000", portOf(nginx)}
	for setting, addr := range map[string]string{" PORT=8080": front, "GRPC_PORT=8081": grpc, "DEBUG_PORT=6070": admin} {
		s.pairs = append(s.pairs, setting, setting[:strings.Index(setting, "=")+1]+portOf(addr)[1:])
	}
	s.ports = strings.NewReplacer(s.pairs...)
	t.Cleanup(s.tidy)
	return s
}

func listenAnywhere(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// quietAddress returns one that stays free while what listens there is started again.
func quietAddress(t *testing.T) string {
	t.Helper()
	addr, err := proctest.QuietAddress()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

func portOf(addr string) string { return addr[strings.LastIndexByte(addr, ':'):] }

// serveHello is the reader's own service. It says what reached it; /login finds every password wrong.
func serveHello(t *testing.T, l net.Listener) {
	server := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/login" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		fmt.Fprintf(w, "%s %s for %s\n", r.Method, r.RequestURI, r.Header.Get("X-Forwarded-For"))
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }() // ends by Close
	t.Cleanup(func() { server.Close(); <-done })
}

// serveRedis starts a server for a page that names one. It is waited for so long that a busy machine
// does not make the page wrong.
func (s *session) serveRedis() {
	s.pairs = append(s.pairs, ":6379", ":"+redistest.Start(s.t).Port())
	s.ports = strings.NewReplacer(s.pairs...)
	s.env = append(s.env, "WEIR_STORE_REDIS_TIMEOUT=1s")
}

// asksRedis reports whether f is a file, or commands, that name a Redis.
func asksRedis(f fence) bool { return (isFile(f) || runs(f)) && strings.Contains(f.text, ":6379") }

// isFile reports whether f is a file that the page has the reader write.
func isFile(f fence) bool {
	return (f.lang == "yaml" || f.lang == "go" || f.lang == "nginx") && strings.Contains(f.tag, ".")
}

func (s *session) play(p *page) {
	if slices.ContainsFunc(p.fences, asksRedis) {
		s.serveRedis()
	}
	for _, f := range p.fences {
		where := fmt.Sprintf("%s:%d", p.name, f.line)
		text := s.ports.Replace(f.text)
		switch {
		case f.lang == "sh" && f.tag == "run":
			s.commands(where, text)
		case f.lang == "sh" && f.tag == "ctrl-c":
			s.untilInterrupted(where, text)
		case f.lang == "text" && f.tag == "output":
			s.expect(where, text)
		case isFile(f):
			s.write(f.tag, text)
		}
	}
}

// write makes the file that a page has the reader write.
func (s *session) write(name, text string) {
	s.t.Helper()
	name = filepath.Join(s.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { os.Remove(name) })
}

// untilInterrupted runs a block whose last command goes on, and interrupts that as Ctrl-C does: it, and what it
// started. To it that is no failure.
func (s *session) untilInterrupted(where, text string) {
	text = strings.TrimSpace(text)
	last := strings.LastIndex(text, "\n") + 1
	s.commands(where, text[:last])
	s.env = append(s.env, "WEIR_LISTEN="+s.front) // the default is 8080
	s.start(text[last:])
	s.listens(where, text[last:])
	p := s.background
	if err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT); err != nil {
		s.t.Fatal(err)
	}
	s.stopped()
	if code := p.cmd.ProcessState.ExitCode(); code != 0 && !strings.HasPrefix(text[last:], "go run ") { // go itself says 1 then
		s.t.Errorf("%s: %s: exit code %d after Ctrl-C, want 0%s", where, text[last:], code, p.written())
	}
}

// waits is part of the line by which a page waits until what it started listens.
const waits = " --retry-connrefused "

// commands runs a block, line by line.
func (s *session) commands(where, text string) {
	s.output = ""
	previous := ""
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		s.pasted(where, previous, line)
		previous = line
		command, isBackground := strings.CutSuffix(line, " &")
		switch {
		case isBackground:
			s.start(command)
		case line == "kill $!" || line == "kill $!; wait $!":
			s.stop()
		default:
			s.run(where, line)
		}
	}
}

// pasted fails the test where a line comes too soon after the one before it in a block that is pasted: before what that
// started listens, or before what it ended is gone.
func (s *session) pasted(where, previous, line string) {
	switch {
	case strings.HasSuffix(previous, " &") && !strings.Contains(line, waits):
		s.t.Errorf("%s: %s: does not wait until what was started listens", where, line)
	case strings.HasSuffix(line, " &") && (previous == "kill $!" || s.background != nil):
		s.t.Errorf("%s: %s: does not wait until what ran before has ended", where, line)
	}
}

func (s *session) command(script string) *exec.Cmd {
	cmd := exec.CommandContext(s.ctx, "bash", "-o", "pipefail", "-c", script)
	cmd.Dir, cmd.WaitDelay = s.dir, 5*time.Second
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "WEIR_") })
	cmd.Env = append(slices.Concat(env, proctest.AsShipped, s.env), "PATH="+s.bin+":"+os.Getenv("PATH"), "NO_PROXY=*", "WEIR_ADMIN="+s.admin, "TMPDIR="+s.t.TempDir())
	return cmd
}

func (s *session) run(where, line string) {
	if s.background != nil {
		line = strings.ReplaceAll(line, "$!", fmt.Sprint(s.background.cmd.Process.Pid))
	}
	out, err := s.command(line).CombinedOutput()
	s.output += string(out)
	if err != nil {
		s.t.Fatalf("%s: %s: %v\n%s%s", where, line, err, out, s.background.written())
	}
}

// expect compares what the last block wrote with the lines of text.
func (s *session) expect(where, text string) {
	rest := s.output
	for line := range strings.Lines(text) {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimRight(line, " \n")), "…", ".*")
		at := regexp.MustCompile("(?m)^" + pattern + `[ \r]*$`).FindStringIndex(rest)
		if at == nil {
			s.t.Errorf("%s: this line is not written, or not here:\n%s\nwhat is written:\n%s%s", where, line, s.output, s.background.written())
			return
		}
		rest = rest[at[1]:]
	}
}

// A process runs in the background. Its output is kept.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
	mu    sync.Mutex
	out   bytes.Buffer
}

// Write keeps what the process says.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *process) written() string {
	if p == nil {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return "\nin the background:\n" + p.out.String()
}

// start runs a command in the background.
func (s *session) start(line string) {
	p := &process{cmd: s.command("exec " + line), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what it starts is interrupted with it
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.background = p
	go func() { defer close(p.ended); _ = p.cmd.Wait() }() // how it ended is seen by what it did
}

// listens waits until what runs in the background listens, or tells where its dashboard is.
func (s *session) listens(where, line string) {
	p := s.background
	for {
		if c, err := net.Dial("tcp", s.front); err == nil {
			c.Close()
			return
		}
		if strings.Contains(p.written(), "Dashboard ") {
			return
		}
		select {
		case <-p.ended:
			s.t.Fatalf("%s: %s: ended%s", where, line, p.written())
		case <-s.ctx.Done():
			s.t.Fatalf("%s: %s: does not listen%s", where, line, p.written())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// stop ends what runs in the background, by its pid.
func (s *session) stop() {
	if s.background == nil {
		return
	}
	_ = s.background.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	s.stopped()
}

// stopped waits for the end of what runs in the background.
func (s *session) stopped() {
	select {
	case <-s.background.ended:
	case <-time.After(20 * time.Second):
		s.t.Errorf("does not end after a signal%s", s.background.written())
		_ = s.background.cmd.Process.Kill()
		<-s.background.ended
	}
	_, _ = io.WriteString(s.background, "(stopped)\n")
	s.background = nil
}

// tidy ends what the page left running, nginx by the pid that it wrote down, and removes what Weir kept.
func (s *session) tidy() {
	s.stop()
	if text, err := os.ReadFile(filepath.Join(s.dir, "nginx.pid")); err == nil {
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGTERM) // it may have ended
		}
	}
	if err := os.RemoveAll(filepath.Join(s.dir, "weir-data")); err != nil {
		s.t.Error(err)
	}
}
