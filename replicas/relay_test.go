package replicas_test

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A relay stands between the replicas and Redis. It is a network that can go bad without closing
// a connection.
type relay struct {
	listener net.Listener
	to       string
	swallow  atomic.Bool  // what is sent is accepted, and lost
	delay    atomic.Int64 // nanoseconds by which what is sent comes late
	accepted atomic.Int64 // connections, ever

	tasks sync.WaitGroup
	mu    sync.Mutex
	open  []net.Conn
}

func startRelay(t testing.TB, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: l, to: to}
	r.tasks.Go(r.accept)
	t.Cleanup(r.close)
	return r
}

func (r *relay) url() string { return "redis://" + r.listener.Addr().String() }

func (r *relay) accept() {
	for {
		near, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.accepted.Add(1)
		far, err := net.Dial("tcp", r.to)
		if err != nil {
			near.Close()
			continue
		}
		r.mu.Lock()
		r.open = append(r.open, near, far)
		r.mu.Unlock()
		r.tasks.Go(func() { r.carry(far, near) })
		r.tasks.Go(func() { r.carry(near, far) })
	}
}

// carry carries from one side to the other until one of them ends.
func (r *relay) carry(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	for buf := make([]byte, 32<<10); ; {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if r.swallow.Load() {
			continue
		}
		time.Sleep(time.Duration(r.delay.Load()))
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (r *relay) close() {
	r.listener.Close()
	r.mu.Lock()
	for _, c := range r.open {
		c.Close()
	}
	r.mu.Unlock()
	r.tasks.Wait()
}
