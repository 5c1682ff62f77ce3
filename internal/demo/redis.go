package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// errNoRedis says that this machine has no Redis to show anything with.
var errNoRedis = errors.New("neither redis-server nor valkey-server is on the PATH")

// A redisServer is a Redis of the demo's own, which keeps nothing on disk. It may be killed and started again.
type redisServer struct {
	addr    string
	program string
	dir     string
	cmd     *exec.Cmd
}

// startRedis starts a Redis on a free port, if this machine has one.
func startRedis(dir string) (*redisServer, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		if program, err = exec.LookPath("valkey-server"); err != nil {
			return nil, errNoRedis
		}
	}
	addr, err := quietAddress()
	if err != nil {
		return nil, err
	}
	r := &redisServer{addr: addr, program: program, dir: dir}
	return r, errors.Join(os.MkdirAll(dir, 0o700), r.start())
}

// quietAddress returns a loopback address whose port nobody is given by chance, so that it stays free while the
// server that had it is away.
func quietAddress() (string, error) {
	for range 1000 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(22_768)))
		if err == nil {
			defer l.Close()
			return l.Addr().String(), nil
		}
	}
	return "", errors.New("no port is free for a Redis")
}

// start starts the server and returns once it answers.
func (r *redisServer) start() error {
	_, port, _ := net.SplitHostPort(r.addr) // it is one of ours
	log, err := os.OpenFile(filepath.Join(r.dir, "redis.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	r.cmd = exec.Command(r.program, "--port", port, "--bind", "127.0.0.1", "--dir", r.dir, "--save", "", "--appendonly", "no")
	r.cmd.Stdout, r.cmd.Stderr, r.cmd.SysProcAttr = log, log, lifeline()
	if err := r.cmd.Start(); err != nil {
		r.cmd = nil
		return err
	}
	if err := await(context.Background(), func() (bool, error) { return r.answers(), nil }); err != nil {
		return errors.Join(fmt.Errorf("%s at %s does not answer: see %s", r.program, r.addr, log.Name()), r.close())
	}
	return nil
}

// answers reports whether the server answers a PING.
func (r *redisServer) answers() bool {
	c, err := net.DialTimeout("tcp", r.addr, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	var pong [16]byte
	_ = c.SetDeadline(time.Now().Add(time.Second))
	_, err = c.Write([]byte("PING\r\n"))
	n, _ := c.Read(pong[:])
	return err == nil && strings.HasPrefix(string(pong[:n]), "+PONG")
}

// close ends the server at once, as kill -9 does. One that has ended is no error.
func (r *redisServer) close() error {
	if r.cmd == nil {
		return nil
	}
	_ = r.cmd.Process.Kill() // it may have ended
	_ = r.cmd.Wait()         // how does not matter
	r.cmd = nil
	return nil
}
