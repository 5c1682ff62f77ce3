// Package fronttest sends the same requests through every front: what is decided does not depend on the door.
package fronttest

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/front/proxy"
	"github.com/weirgate/weir/internal/enginetest"
	"github.com/weirgate/weir/internal/leaktest"
	"github.com/weirgate/weir/internal/proctest"
	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/store/memory"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A house is an engine with a journal, for fronts to stand before.
type house struct {
	engine  *engine.Engine
	journal *journal.Journal
	clock   clock
}

// A clock stands until it is moved. One that was never set goes as clocks do.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time {
	if at := c.at.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Now()
}

// build returns the house that a configuration describes, whose counts are in s.
func build(t testing.TB, yaml string, s engine.Store) *house {
	t.Helper()
	snapshot := enginetest.Snapshot(t, yaml, s)
	h := &house{journal: journal.New(journal.Options{Recent: 20_000, Rules: snapshot.Policy.Names()})}
	h.engine = engine.New(snapshot, h.journal, h.clock.now)
	return h
}

// alone returns a house with counts of its own, whose clock stands.
func alone(t testing.TB, yaml string) *house {
	t.Helper()
	store := memory.New(memory.Options{MaxKeys: 10_000})
	t.Cleanup(store.Close)
	h := build(t, yaml, store)
	h.clock.at.Store(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC).UnixNano())
	return h
}

// before puts an upstream behind the proxy front of h.
func (h *house) before(t testing.TB, upstream string) {
	t.Helper()
	ups, err := proxy.NewUpstreams(proxy.UpstreamOptions{Default: upstream, Connect: 5 * time.Second, ResponseHeader: 10 * time.Second, Idle: 10 * time.Second}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { proxy.CloseIdle(ups, nil) })
	s := *h.engine.Current()
	s.Upstreams = ups
	h.engine.Swap(&s)
}

// recorded waits until n decisions are recorded. There are never more.
func (h *house) recorded(t testing.TB, n int) {
	t.Helper()
	proctest.Eventually(t, fmt.Sprintf("%d records", n), func() bool { return len(h.journal.Recent(n)) == n })
	if got := len(h.journal.Recent(n + 1)); got != n {
		t.Fatalf("%d decisions are recorded, want %d", got, n)
	}
}

// newest waits for the record of the decision that was made now, by a clock that stands.
func (h *house) newest(t testing.TB) (e journal.Entry) {
	t.Helper()
	proctest.Eventually(t, "the newest record", func() bool {
		for _, e = range h.journal.Recent(1) {
			return e.Time.Equal(h.clock.now())
		}
		return false
	})
	return e
}

// A server is a front that listens.
type server interface {
	Serve(net.Listener) error
	Drain(context.Context) error
}

// serve runs s on a free port until the test ends, and returns its address.
func serve(t testing.TB, s server) string {
	t.Helper()
	l, err := proxy.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = s.Drain(ctx) // what a test left open is cut off
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// atMost is a bound for everything that a test waits for.
func atMost(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// A request is what somebody connected to the operator's proxy asks, over HTTP.
type request struct {
	src    string // who is connected to the proxy, which is at the loopback
	chain  string // what came in its X-Forwarded-For
	method string
	host   string
	path   string
	query  string
	tenant string // in the header X-Tenant, if there is one
	kind   string // its content type
}

func (r *request) String() string {
	return fmt.Sprintf("%s %s%s?%s from %s (%q, tenant %q)", r.method, r.host, r.path, r.query, r.src, r.chain, r.tenant)
}

// appended is X-Forwarded-For as the proxy sends it on.
func (r *request) appended() string {
	if r.chain == "" {
		return r.src
	}
	return r.chain + ", " + r.src
}

// target is the path with the query.
func (r *request) target() string {
	if r.query == "" {
		return r.path
	}
	return r.path + "?" + r.query
}

// An answer is what the asker, or whoever asks for him, is told.
type answer struct {
	Status            int
	Policy, RateLimit string
	RetryAfter        string // in seconds
}
