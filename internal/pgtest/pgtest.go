// Package pgtest starts real PostgreSQL servers for tests, and makes them fail. Everything is on free ports of
// the loopback, and ended with the test.
package pgtest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/weirgate/weir/internal/proctest"
)

// A Server is a PostgreSQL server, or one that was and may be again. It is on this machine alone, and everybody
// may do everything.
type Server struct {
	Port string

	t   testing.TB
	bin string // folder of the programs
	dir string
	cmd *exec.Cmd
	log bytes.Buffer // of the process; read when it has ended
}

const (
	ready = 60 * time.Second // that a server may take to answer
	owner = "weir"           // who may do everything
)

// Start starts a server with an empty database, and returns once it answers. The test is skipped where PostgreSQL
// is not installed.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, bin: programs(t), dir: folder(t)}
	s.run("initdb", "--pgdata", s.data(), "--username", owner, "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync")
	s.Port = freePort(t)
	s.Run()
	t.Cleanup(s.Kill)
	return s
}

// programs returns the folder of the newest server's programs: Debian has one for each version, none in PATH.
func programs(t testing.TB) string {
	t.Helper()
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres"); len(found) > 0 {
		return filepath.Dir(slices.Max(found))
	}
	path, err := exec.LookPath("postgres")
	if err != nil {
		t.Skip("postgresql is not installed; tools/install installs it")
	}
	return filepath.Dir(path)
}

// folder returns a new folder that belongs to whom the server runs as.
func folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir-pg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if who := credential(t); who != nil {
		if err := os.Chown(dir, int(who.Uid), int(who.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// credential is whom the server runs as where that cannot be us: PostgreSQL refuses to run as root.
func credential(t testing.TB) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errU := strconv.ParseUint(u.Uid, 10, 32)
		gid, errG := strconv.ParseUint(u.Gid, 10, 32)
		if errors.Join(errU, errG) == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		}
	}
	t.Skip("there is neither a user postgres nor nobody to run PostgreSQL as")
	return nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// command returns one of the server's programs, to be run as who may run it.
func (s *Server) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, program), args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = lifeline()
	cmd.SysProcAttr.Credential = credential(s.t)
	return cmd
}

func (s *Server) run(program string, args ...string) {
	s.t.Helper()
	if out, err := s.command(program, args...).CombinedOutput(); err != nil {
		s.t.Fatalf("%s: %v\n%s", program, err, out)
	}
}

// Run starts the server, again after Kill, and waits until it answers.
func (s *Server) Run() {
	s.t.Helper()
	// What it says to have written need not outlive the machine.
	s.cmd = s.command("postgres", "-D", s.data(), "-p", s.Port, "-h", "127.0.0.1", "-k", s.dir,
		"-c", "fsync=off", "-c", "shared_buffers=16MB", "-c", "max_connections=100")
	s.log.Reset()
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for until := time.Now().Add(ready); ; time.Sleep(50 * time.Millisecond) {
		out, err := s.command("pg_isready", "-h", "127.0.0.1", "-p", s.Port).CombinedOutput()
		if err == nil {
			return
		}
		if time.Now().After(until) {
			s.Kill()
			s.t.Fatalf("PostgreSQL does not answer: %v: %s\n%s", err, out, s.log.String())
		}
	}
}

// Kill ends the server at once, as a crash does: nobody gets an answer any longer. Killing it twice is no error.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGQUIT) // immediate shutdown; it may have ended
	_ = s.cmd.Wait()                          // how does not matter
	s.cmd = nil
}

// URL is what the server is configured as.
func (s *Server) URL() string {
	return fmt.Sprintf("postgres://%s@127.0.0.1:%s/postgres?sslmode=disable", owner, s.Port)
}

func freePort(t testing.TB) string {
	t.Helper()
	addr, err := proctest.QuietAddress()
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(addr)
	return port
}
