// Package redistest starts real Redis servers for tests: one, with replicas, or as a Cluster; and
// makes them fail. Everything is on free ports of the loopback, and ended with the test.
package redistest

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirgate/weir/internal/proctest"
)

// A Server is a redis-server process, or one that was and may be again.
type Server struct {
	Addr string // host and port

	t    testing.TB
	dir  string
	file string // of its configuration, if it has one
	args []string
	cmd  *exec.Cmd
}

// ready is how long a server may take to answer.
const ready = 30 * time.Second

// Start starts a server that keeps nothing on disk, with further arguments, and returns once it
// answers. The test is skipped where redis-server is not installed.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed")
	}
	s := &Server{Addr: freeAddr(t), t: t, dir: t.TempDir(), args: args}
	s.Run()
	t.Cleanup(s.Kill)
	return s
}

// freeAddr returns an address that nobody takes before the server does, or while the server is away.
func freeAddr(t testing.TB) string {
	t.Helper()
	addr, err := proctest.QuietAddress()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// URL is what the server is configured as.
func (s *Server) URL() string { return "redis://" + s.Addr }

// Port is the port of Addr.
func (s *Server) Port() string {
	_, port, _ := net.SplitHostPort(s.Addr)
	return port
}

// Run starts the server, again after Kill, and waits until it answers.
func (s *Server) Run() {
	s.t.Helper()
	args := []string{"--port", s.Port(), "--bind", "127.0.0.1", "--dir", s.dir, "--loglevel", "warning"}
	if s.file != "" {
		args = append([]string{s.file}, args...)
	} else {
		args = append(args, "--save", "", "--appendonly", "no")
	}
	s.cmd = exec.Command("redis-server", append(args, s.args...)...)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	until := time.Now().Add(ready)
	for {
		_, err := s.Try("PING")
		var answer Error
		if err == nil || errors.As(err, &answer) {
			return // it may want a password, but it answers
		}
		if time.Now().After(until) {
			s.t.Fatalf("redis-server %s does not answer: %v", s.Addr, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Kill ends the server at once, frozen or not. Killing it twice is no error.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it may have ended
	_ = s.cmd.Wait()         // how does not matter
	s.cmd = nil
}

// Freeze stops the process: its connections stay open and nothing answers, until Thaw.
func (s *Server) Freeze() { s.signal(syscall.SIGSTOP) }

// Thaw lets a frozen server go on.
func (s *Server) Thaw() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// CPU is the processor time that the server has used.
func (s *Server) CPU() time.Duration {
	s.t.Helper()
	total := 0.0
	for _, field := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(s.Info("cpu", field), 64)
		if err != nil {
			s.t.Fatal(err)
		}
		total += seconds
	}
	return time.Duration(total * float64(time.Second))
}

// Commands is how many commands the server has executed, those of scripts and this question included.
func (s *Server) Commands() int { return s.number("stats", "total_commands_processed") }

// Calls is how often clients called a command, such as evalsha.
func (s *Server) Calls(command string) int {
	s.t.Helper()
	text, _ := s.Do("INFO", "commandstats").(string)
	calls, _, _ := strings.Cut(strings.TrimPrefix(fieldOf(text, "cmdstat_"+command), "calls="), ",")
	n, _ := strconv.Atoi(calls) // a command that was not called is not in the list
	return n
}

// Memory is how many bytes the server has in use.
func (s *Server) Memory() int { return s.number("memory", "used_memory") }

func (s *Server) number(section, field string) int {
	s.t.Helper()
	n, err := strconv.Atoi(s.Info(section, field))
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// Info returns a field of INFO.
func (s *Server) Info(section, field string) string {
	s.t.Helper()
	text, ok := s.Do("INFO", section).(string)
	if v := fieldOf(text, field); ok && v != "" {
		return v
	}
	s.t.Fatal(fmt.Errorf("INFO %s: no %s", section, field))
	return ""
}
