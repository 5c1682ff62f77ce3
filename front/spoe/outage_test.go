package spoe

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirgate/weir/internal/enginetest"
	"github.com/weirgate/weir/internal/timed"
)

// What becomes of requests while the agent is away, in both configurations. Nobody waits longer than
// timeout processing says, 50 ms, and nobody waits at all once HAProxy has seen that the agent is gone.
func TestAgentIsGone(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(string) string
		want int
	}{{"open", nil, 200}, {"closed", failClosed, 503}} {
		t.Run(tt.name, func(t *testing.T) {
			h := open(t, "client: {path: [haproxy]}\ndefault: {limits: [{rate: 100/1h}]}", Options{})
			s := plan{agents: []*house{h}, edit: tt.edit, hasty: true}.start(t)
			eventually(t, "a decision", func() bool { a := s.get(t, "/"); return a.status == 200 && a.header.Get("X-Err") == "" })
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = h.Drain(ctx) // at once
			var waits []time.Duration
			errs := map[string]int{}
			for range 20 {
				a := s.get(t, "/")
				errs[a.header.Get("X-Err")]++
				if a.status != tt.want || a.header.Get("X-Err") == "" {
					t.Errorf("%d, error %q, want %d and one", a.status, a.header.Get("X-Err"), tt.want)
				}
				waits = append(waits, a.took)
			}
			slices.Sort(waits)
			t.Logf("median %s, longest %s, errors %v", waits[10], waits[19], errs)
			if waits[10] > timed.Bound(50*time.Millisecond) || waits[19] > timed.Bound(500*time.Millisecond) {
				t.Errorf("median %s, longest %s: want it at once", waits[10], waits[19])
			}
		})
	}
}

func TestAgentIsSlow(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(string) string
		want int
	}{{"open", nil, 200}, {"closed", failClosed, 503}} {
		t.Run(tt.name, func(t *testing.T) {
			h := open(t, "client: {path: [haproxy]}\ndefault: {limits: [{rate: 100/1h}]}", Options{})
			s := plan{agents: []*house{h}, edit: tt.edit, hasty: true}.start(t)
			h.store.does(func() error { time.Sleep(300 * time.Millisecond); return nil })
			for range 3 {
				a := s.get(t, "/")
				if a.status != tt.want || a.header.Get("X-Err") != "1" || a.took > timed.Bound(250*time.Millisecond) {
					t.Errorf("%d, error %q after %s, want %d and a time-out after 50 ms", a.status, a.header.Get("X-Err"), a.took, tt.want)
				}
			}
			h.store.take.Store(nil)
			eventually(t, "a decision afterwards", func() bool { a := s.get(t, "/"); return a.status == 200 && a.header.Get("X-Err") == "" })
		})
	}
}

// A load is clients that ask all the time.
type load struct {
	stop    chan struct{}
	running sync.WaitGroup
	asked   atomic.Int64
	mu      sync.Mutex
	wrong   []string
}

// underLoad has clients ask until end is called; what is not answered 200 without an error is wrong.
func (s *site) underLoad(clients int) *load {
	l := &load{stop: make(chan struct{})}
	for range clients {
		l.running.Go(func() {
			for {
				select {
				case <-l.stop:
					return
				default:
				}
				a, err := s.ask("GET", "/")
				l.asked.Add(1)
				if err != nil || a.status != 200 || a.header.Get("X-Err") != "" {
					l.mu.Lock()
					l.wrong = append(l.wrong, fmt.Sprintf("%d %q %v", a.status, a.header.Get("X-Err"), err))
					l.mu.Unlock()
				}
			}
		})
	}
	return l
}

// flows waits until n more requests were answered.
func (l *load) flows(t testing.TB, n int64) {
	t.Helper()
	until := l.asked.Load() + n
	eventually(t, "requests flow", func() bool { return l.asked.Load() >= until })
}

// end stops the clients and returns what was wrong.
func (l *load) end() []string {
	close(l.stop)
	l.running.Wait()
	return l.wrong
}

const plenty = "client: {path: [haproxy]}\ndefault: {limits: [{rate: 100000000/1h}]}"

// A reload of HAProxy fails no request, and asks about each.
func TestReloadOfHAProxy(t *testing.T) {
	h := open(t, plenty, Options{})
	s := plan{agents: []*house{h}, edit: failClosed}.start(t)
	l := s.underLoad(8)
	for range 3 {
		l.flows(t, 200)
		old := s.pid(t)
		next := launch(t, s.dir, "-x", "sock", "-sf", old)
		eventually(t, "the new one takes over", func() bool {
			if err := next.Gone(); err != nil {
				t.Fatal(err)
			}
			return s.pid(t) != old
		})
	}
	l.flows(t, 200)
	if wrong := l.end(); len(wrong) > 0 {
		t.Errorf("%d of %d requests failed, as in %s", len(wrong), l.asked.Load(), wrong[0])
	}
	eventually(t, "as many decisions as requests", func() bool { return uint64(s.reached.Load()) == h.requests() })
}

// pid is the process that answers on HAProxy's socket.
func (s *site) pid(t *testing.T) string {
	t.Helper()
	c, err := net.Dial("unix", filepath.Join(s.dir, "sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, "show info\n") // the answer tells
	told, _ := io.ReadAll(c)
	_, rest, _ := strings.Cut(string(told), "\nPid: ")
	pid, _, found := strings.Cut(rest, "\n")
	if !found {
		t.Fatalf("show info: %q", told)
	}
	return pid
}

// Replicas share one count: what one of them let pass the other has counted, when HAProxy asks that one
// because the first is gone.
func TestTwoAgents(t *testing.T) {
	limited := "client: {path: [haproxy]}\ndefault: {limits: [{rate: 50/1h, per: client}]}"
	one, two := open(t, limited, Options{}), build(t, limited, Options{})
	two.engine.Swap(enginetest.Snapshot(t, limited, one.store))
	two.listen(t, "127.0.0.1:0")
	s := plan{agents: []*house{one, two}}.start(t)
	if n := s.passes(t, 8, 5); n != 40 {
		t.Errorf("%d of 40 passed a limit of 50", n)
	}
	busier := one
	if two.requests() > one.requests() {
		busier = two
	}
	if err := busier.Drain(context.Background()); err != nil {
		t.Error(err)
	}
	if n := s.passes(t, 8, 5); n != 10 {
		t.Errorf("then %d of 40 passed, want the 10 that were left", n)
	}
	eventually(t, "80 records", func() bool { return one.requests()+two.requests() == 80 })
	if one.requests() == 0 || two.requests() == 0 {
		t.Errorf("asked %d and %d, want both", one.requests(), two.requests())
	}
}

// passes has clients ask n times each, and returns how often they got what they asked for.
func (s *site) passes(t *testing.T, clients, n int) int64 {
	t.Helper()
	var passed atomic.Int64
	var asking sync.WaitGroup
	for range clients {
		asking.Go(func() {
			for range n {
				switch a, err := s.ask("GET", "/"); {
				case err != nil || a.header.Get("X-Err") != "":
					t.Errorf("%d, error %q: %v", a.status, a.header.Get("X-Err"), err)
				case a.status == 200:
					passed.Add(1)
				}
			}
		})
	}
	asking.Wait()
	return passed.Load()
}

// One of two replicas drains under load: HAProxy asks the other. Lost is at most what was on its way while leave was
// taken, one question of a client; on a quiet machine that is hardly any.
func TestDrainUnderLoad(t *testing.T) {
	const clients = 8
	one, two := open(t, plenty, Options{}), open(t, plenty, Options{})
	s := plan{agents: []*house{one, two}}.start(t)
	l := s.underLoad(clients)
	l.flows(t, 300)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := one.Drain(ctx); err != nil {
		t.Logf("drain: %v", err)
	}
	l.flows(t, 300)
	wrong := l.end()
	t.Logf("%d of %d lost: %v", len(wrong), l.asked.Load(), wrong)
	if len(wrong) > clients {
		t.Errorf("%d questions lost, want at most one of each client", len(wrong))
	}
}
