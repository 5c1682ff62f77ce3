package redis

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/redistest"
	"github.com/weirgate/weir/internal/timed"
)

// short is a timeout for tests in which the server does not answer.
const short = 50 * time.Millisecond

// slack is what a call may come back later than its timeout on a busy machine.
const slack = 100 * time.Millisecond

func hitOn(l *weir.Limit, name string, n int64) weir.Hit {
	tag := "{" + name + "}"
	return weir.Hit{Limit: l, Key: []byte(tag + ":" + l.Algorithm.String()), TagLen: len(tag), N: n, Lease: 1}
}

// take is one call.
func take(s *Store, hits ...weir.Hit) ([]weir.Status, error) {
	out := make([]weir.Status, len(hits))
	err := s.Take(context.Background(), time.Now(), hits, out)
	return out, err
}

// passes asks n times at once, and returns how many passed and the errors.
func passes(n int, ask func(i int) ([]weir.Status, error)) (passed int, failed []error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	gate := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-gate
			out, err := ask(i)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = append(failed, err)
			} else if out[0].Allowed {
				passed++
			}
		})
	}
	close(gate)
	wg.Wait()
	return passed, failed
}

// eventually waits until ask succeeds, for at most half a minute.
func eventually(t *testing.T, what string, ask func() error) {
	t.Helper()
	var err error
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		if err = ask(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

// FAL-07: neither a flushed script nor an empty server fails a request.
func TestScriptLostAndServerEmpty(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	l := &weir.Limit{Max: 5, Window: time.Hour}
	ask := func(int) ([]weir.Status, error) { return take(s, hitOn(l, "a", 1)) }
	if n, failed := passes(3, ask); n != 3 || failed != nil {
		t.Fatalf("%d passed, %v", n, failed)
	}
	server.Do("SCRIPT", "FLUSH")
	if n, failed := passes(200, ask); n != 2 || failed != nil {
		t.Errorf("after SCRIPT FLUSH: %d passed, want 2; %v", n, failed)
	}
	server.Kill()
	if _, err := take(s, hitOn(l, "b", 1)); err == nil {
		t.Error("a server that is away answers")
	}
	server.Run()
	eventually(t, "after the restart", func() error { _, err := take(s, hitOn(l, "b", 0)); return err })
	s.refused.generation.Add(1) // what is remembered of before would be believed for a second
	if n, failed := passes(200, ask); n != 5 || failed != nil {
		t.Errorf("after the restart: %d passed, want 5; %v", n, failed)
	}
}

// FAL-02: a frozen server costs nobody more than the timeout, and counts nothing twice when it goes on.
func TestFrozen(t *testing.T) {
	server := redistest.Start(t)
	s := openWith(t, Options{URL: server.URL(), Timeout: short})
	l := &weir.Limit{Max: 1000, Window: time.Hour}
	eventually(t, "at first", func() error { _, err := take(s, hitOn(l, "a", 1)); return err })
	server.Freeze()
	began := time.Now()
	n, failed := passes(100, func(int) ([]weir.Status, error) { return take(s, hitOn(l, "a", 1)) })
	if wait := time.Since(began); n != 0 || len(failed) != 100 || wait > timed.Bound(short+slack) {
		t.Errorf("%d passed, %d failed, after %v, want all to fail within %v", n, len(failed), wait, short)
	}
	for _, err := range failed {
		if !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), "timeout") {
			t.Errorf("failed by %v, want a timeout", err)
		}
	}
	server.Thaw()
	var left int64
	eventually(t, "after the thaw", func() error {
		out, err := take(s, hitOn(l, "a", 0))
		left = out[0].Remaining
		return err
	})
	if used := 1000 - left; used < 1 || used > 101 {
		t.Errorf("%d are charged, want each request once at most", used)
	}
}

// A caller that gives up at its own deadline does not hurt those whose hits went with its own.
func TestDeadlineOfOne(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	l := &weir.Limit{Max: 1000, Window: time.Hour}
	if _, err := take(s, hitOn(l, "a", 0)); err != nil {
		t.Fatal(err)
	}
	server.Freeze()
	var calls [2]sync.WaitGroup // of the impatient and of the others
	for i := range 40 {
		calls[i%2].Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if i%2 == 0 {
				ctx, cancel = context.WithTimeout(ctx, short)
				defer cancel()
			}
			out := make([]weir.Status, 1)
			began := time.Now()
			err := s.Take(ctx, began, []weir.Hit{hitOn(l, "a", 1)}, out)
			if impatient := i%2 == 0; (err != nil) != impatient {
				t.Errorf("caller %d: %v after %v", i, err, time.Since(began))
			}
			if wait := time.Since(began); i%2 == 0 && wait > timed.Bound(short+slack) {
				t.Errorf("caller %d waited %v, want %v", i, wait, short)
			}
		})
	}
	calls[0].Wait()
	server.Thaw()
	calls[1].Wait()
}

// FAL-06: a server that became a replica is dialled anew, and the one that took its address found.
func TestReadOnly(t *testing.T) {
	first, second := redistest.Start(t), redistest.Start(t)
	front := startForwarder(t, first.Addr)
	s := open(t, "redis://"+front.addr)
	l := &weir.Limit{Max: 1000, Window: time.Hour}
	if _, err := take(s, hitOn(l, "a", 1)); err != nil {
		t.Fatal(err)
	}
	first.Do("REPLICAOF", "127.0.0.1", second.Port())
	front.to(second.Addr) // connections stay as they are
	failures := 0
	eventually(t, "after the failover", func() error {
		_, err := take(s, hitOn(l, "a", 1))
		if err != nil {
			failures++
		}
		return err
	})
	if failures > poolSize {
		t.Errorf("%d requests failed, want no more than there are connections", failures)
	}
}

// A forwarder passes connections on to a server, new ones perhaps to another.
type forwarder struct {
	addr string
	mu   sync.Mutex
	dst  string
}

func (f *forwarder) to(addr string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dst = addr
}

func (f *forwarder) target() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dst
}

func startForwarder(t *testing.T, dst string) *forwarder {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &forwarder{addr: l.Addr().String(), dst: dst}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", f.target())
			if err != nil {
				in.Close()
				continue
			}
			go pour(in, out)
			go pour(out, in)
		}
	}()
	return f
}

// pour copies until one side closes, and closes both.
func pour(dst, src net.Conn) {
	defer dst.Close()
	defer src.Close()
	_, _ = bufio.NewReader(src).WriteTo(dst) // the end of either is its end
}

// FAL-19: what is no answer is an error, and says what it is.
func TestFaults(t *testing.T) {
	l := &weir.Limit{Max: 5, Window: time.Hour}
	for name, c := range map[string]struct {
		args    []string
		prepare func(*redistest.Server)
		options func(*Options)
		want    string
	}{
		"password missing": {args: []string{"--requirepass", "hush"}, want: "NOAUTH"},
		"password wrong":   {args: []string{"--requirepass", "hush"}, options: func(o *Options) { o.Password = "loud" }, want: "WRONGPASS"},
		"full": {args: []string{"--maxmemory-policy", "noeviction"},
			prepare: func(s *redistest.Server) { s.Do("CONFIG", "SET", "maxmemory", "1") }, want: "OOM"},
		"no replicas": {prepare: func(s *redistest.Server) { s.Do("CONFIG", "SET", "min-replicas-to-write", "1") }, want: "NOREPLICAS"},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t, c.args...)
			if c.prepare != nil {
				c.prepare(server)
			}
			o := Options{URL: server.URL(), Timeout: patience}
			if c.options != nil {
				c.options(&o)
			}
			s := openWith(t, o)
			_, err := take(s, hitOn(l, "a", 1))
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "loud") {
				t.Errorf("%v, want one line about %s", err, c.want)
			}
		})
	}
}

// A server that speaks something else is told by one line.
func TestNotRedis(t *testing.T) {
	for name, banner := range map[string]string{
		"http": "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", "smtp": "220 mail ready\r\n", "noise": "\x00\x01\x02\x03\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = c.Read(make([]byte, 1024))
					_, _ = c.Write([]byte(banner))
					c.Close()
				}
			}()
			s := openWith(t, Options{URL: "redis://" + l.Addr().String(), Timeout: patience})
			_, err = take(s, hitOn(&weir.Limit{Max: 1, Window: time.Hour}, "a", 1))
			if err == nil || !strings.Contains(err.Error(), "not a Redis server") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q, want one line that says it is not Redis", err)
			}
		})
	}
}

// FAL-01: a store opens without its server, fails at once, and counts when the server is there.
func TestAbsentAtStart(t *testing.T) {
	server := redistest.Start(t)
	server.Kill()
	s := openWith(t, Options{URL: server.URL(), Timeout: short})
	l := &weir.Limit{Max: 5, Window: time.Hour}
	for range 20 {
		began := time.Now()
		if _, err := take(s, hitOn(l, "a", 1)); err == nil || time.Since(began) > timed.Bound(short+slack) {
			t.Fatalf("%v after %v, want an error within %v", err, time.Since(began), short)
		}
	}
	server.Run()
	var left int64
	eventually(t, "when it is there", func() error {
		out, err := take(s, hitOn(l, "a", 0))
		left = out[0].Remaining
		return err
	})
	if left != 5 {
		t.Errorf("%d left, want nothing of before to be counted", left) // FAL-04
	}
}

// FAL-10: connections stay few, also when a server comes back.
func TestConnectionsStayFew(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	l := &weir.Limit{Max: 1 << 30, Window: time.Hour}
	ask := func(int) ([]weir.Status, error) { return take(s, hitOn(l, "a", 1)) }
	passes(500, ask)
	if n := server.Info("stats", "total_connections_received"); len(n) > 2 {
		t.Errorf("%s connections for 500 callers", n)
	}
	if n := s.link.Load().single.client.PoolStats().TotalConns; n > poolSize {
		t.Errorf("%d connections, want at most %d", n, poolSize)
	}
}
