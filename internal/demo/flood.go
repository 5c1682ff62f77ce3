package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The flood, and the bounds that it meets.
const (
	flooders = 1000            // connections at once, of one client
	room     = 512             // connections that the way in has room for: nginx's default
	pitSize  = 50              // of Weir's tarpit
	held     = time.Minute     // how long a tarpit holds: longer than the flood takes to come
	letIn    = 10              // the limit: what passes before anybody is held
	goodWait = 2 * time.Second // a good client's patience with a way in that is full
)

// floods answers one flood by holding everyone, by Weir's tarpit and by 429.
func floods(ctx context.Context, s *stage) error {
	s.voice.say("%s connections of one client at once, against a limit of %d. The way in has room for %d connections, as nginx by default. Meanwhile a good client asks once:", count(flooders), letIn, room)
	naive, err := startNaive()
	if err != nil {
		return err
	}
	defer naive.close()
	rows := [][]string{{"answered by", "held", "goroutines", "memory", "the good client"}}
	var seen []outcome
	for _, by := range []struct {
		name, to, path string
		held           int
	}{
		{"a tarpit without bounds", naive.addr, "/", room},
		{fmt.Sprintf("Weir's tarpit of %d", pitSize), s.weir.front, "/tarpit", pitSize},
		{"Weir's 429", s.weir.front, "/plain", 0},
	} {
		done := s.voice.hint("flooding " + by.name)
		o, err := s.flood(ctx, by.to, by.path, by.held)
		done()
		if err != nil {
			return fmt.Errorf("%s: %w", by.name, err)
		}
		seen = append(seen, o)
		rows = append(rows, []string{by.name, count(o.held), "+" + count(o.goroutines), megabytes(o.memory), o.good})
		s.want("connections held by "+by.name, o.held, by.held)
	}
	s.voice.table(rows...)
	s.voice.say("(Goroutines and memory of this process, which plays every part.) Holding costs the holder: without bounds the flood takes every place, and the good client does not get in.")
	s.wantText("the good client, by a tarpit without bounds", seen[0].good, notLetIn(goodWait))
	for _, o := range seen[1:] {
		if o.good == notLetIn(patience) {
			s.fail("the good client is not let in beside Weir, expected an answer")
		}
	}
	return nil
}

// An outcome is what a flood did.
type outcome struct {
	held       int // connections behind the way in that are not answered
	goroutines int
	memory     int64  // bytes
	good       string // what a good client waited
}

// notLetIn is what a good client says of a way in that is full.
func notLetIn(wait time.Duration) string { return fmt.Sprintf("no answer in %.0f s", wait.Seconds()) }

// flood opens all connections through a door to the server at to and returns what is held once as many are
// as expected.
func (s *stage) flood(ctx context.Context, to, path string, expected int) (o outcome, err error) {
	d, err := openDoor(to, room)
	if err != nil {
		return o, err
	}
	memory, goroutines := inUse(), runtime.NumGoroutine()
	f := startFlood(ctx, d.addr(), path)
	defer func() {
		f.end()
		s.proxy.CloseIdleConnections() // that of the good client goes through the door
		err = errors.Join(err, d.close())
	}()
	// As many as expected are held, and whoever else came is answered or waits before the door.
	settled := func() (bool, error) {
		o.held = d.held()
		return o.held == expected && int(f.begun.Load()) == flooders && (expected == room || int(f.waiting.Load()) == expected), nil
	}
	if err := await(ctx, settled); ctx.Err() != nil {
		return o, err
	}
	o.goroutines, o.memory = max(0, runtime.NumGoroutine()-goroutines), inUse()-memory
	wait := patience
	if o.held == room {
		wait = goodWait
	}
	o.good = s.goodClient(ctx, d.addr(), wait)
	return o, nil
}

// inUse is how many bytes of memory are in use, without garbage and what pools keep for reuse: that is gone
// after two collections.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// megabytes writes how much memory was added. Little cannot be told from what the others in this process do.
func megabytes(bytes int64) string {
	if bytes < 2e6 {
		return "under 2 MB"
	}
	return fmt.Sprintf("+%.0f MB", float64(bytes)/1e6)
}

// goodClient asks once through the door, and says how long it took.
func (s *stage) goodClient(ctx context.Context, door string, wait time.Duration) string {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	a, err := s.ask(ctx, visit{to: door, path: "/good", from: "203.0.113.91"})
	switch {
	case err != nil:
		return notLetIn(wait)
	case a.status != http.StatusOK:
		return a.line
	}
	return milliseconds(a.waited)
}

// A crowdOfOne is one client's connections.
type crowdOfOne struct {
	stop           context.CancelFunc
	asking         sync.WaitGroup
	begun, waiting atomic.Int64 // those that have asked, and of these those without an answer
}

// startFlood opens the connections, each with one request.
func startFlood(ctx context.Context, addr, path string) *crowdOfOne {
	f := &crowdOfOne{}
	ctx, f.stop = context.WithCancel(ctx)
	request := "GET " + path + " HTTP/1.1\r\nHost: demo\r\nX-Forwarded-For: 203.0.113.90\r\nConnection: close\r\n\r\n"
	for range flooders {
		f.asking.Go(func() { f.ask(ctx, addr, request) })
	}
	return f
}

// ask sends a request and waits for the first byte of an answer, or until ctx is done.
func (f *crowdOfOne) ask(ctx context.Context, addr, request string) {
	var d net.Dialer
	f.waiting.Add(1)
	defer f.waiting.Add(-1)
	c, err := d.DialContext(ctx, "tcp", addr)
	f.begun.Add(1)
	if err != nil {
		return
	}
	defer context.AfterFunc(ctx, func() { c.Close() })()
	defer c.Close()
	if _, err := io.WriteString(c, request); err == nil {
		_, _ = io.Copy(io.Discard, c) // what it says does not matter
	}
}

// end gives up all connections.
func (f *crowdOfOne) end() {
	f.stop()
	f.asking.Wait()
}

// A naive server holds everyone who is over the limit, as long as a tarpit does.
type naive struct {
	server *http.Server
	addr   string
	ended  chan struct{}
	asked  atomic.Int64
}

func startNaive() (*naive, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	n := &naive{addr: l.Addr().String(), ended: make(chan struct{})}
	n.server = &http.Server{ReadHeaderTimeout: patience, Handler: n}
	go func() { defer close(n.ended); _ = n.server.Serve(l) }() // ends by close
	return n, nil
}

func (n *naive) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/good") || n.asked.Add(1) <= letIn {
		return
	}
	_ = pause(r.Context(), held)
	w.WriteHeader(http.StatusTooManyRequests)
}

func (n *naive) close() {
	n.server.Close()
	<-n.ended
}
