package shared

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// ready is how long a server may take to answer.
const ready = 5 * time.Second

// A server is a redis-server process that keeps nothing on disk.
type server struct {
	addr   string
	cmd    *exec.Cmd
	dir    string
	client *goredis.Client // to ask it about itself
}

// start starts a server on a free port of the loopback, with these arguments besides, and returns once
// it answers.
func start(arguments ...string) (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	l.Close()
	dir, err := os.MkdirTemp("", "weir-bench-redis")
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr) // it was just made
	s := &server{addr: addr, dir: dir, client: goredis.NewClient(&goredis.Options{Addr: addr, Protocol: 2})}
	arguments = append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir}, arguments...)
	s.cmd = exec.Command("redis-server", arguments...)
	if err := s.cmd.Start(); err != nil {
		s.client.Close()
		os.RemoveAll(dir)
		return nil, fmt.Errorf("redis-server: %w", err)
	}
	for began := time.Now(); s.client.Ping(context.Background()).Err() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > ready {
			s.close()
			return nil, fmt.Errorf("redis-server on %s does not answer", addr)
		}
	}
	return s, nil
}

func (s *server) close() {
	s.client.Close()
	_ = s.cmd.Process.Kill() // it may have ended
	_ = s.cmd.Wait()
	os.RemoveAll(s.dir)
}

// cpu is the processor time that the server has used, in seconds.
func (s *server) cpu() float64 {
	return s.number("cpu", "used_cpu_sys") + s.number("cpu", "used_cpu_user")
}

// number returns a field of INFO, or 0.
func (s *server) number(section, field string) float64 {
	text := s.client.Info(context.Background(), section).Val()
	for l := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(l), field+":"); ok {
			n, _ := strconv.ParseFloat(value, 64) // INFO writes numbers
			return n
		}
	}
	return 0
}
