package spoe

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/internal/enginetest"
	"github.com/weirgate/weir/internal/leaktest"
	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/store/memory"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const patience = 30 * time.Second // for anything that should come soon

// noon is when all that an agent is asked happens, so that what it tells of seconds is to the second.
func noon() time.Time { return time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC) }

// A house is an agent with all below it.
type house struct {
	*Server
	addr    string
	journal *journal.Journal
	store   *watched

	mu     sync.Mutex
	log    strings.Builder
	faults []string
}

// build returns the house of a configuration, whose agent is not served yet.
func build(t testing.TB, yaml string, o Options) *house {
	t.Helper()
	store := memory.New(memory.Options{MaxKeys: 100_000})
	t.Cleanup(store.Close)
	h := &house{store: &watched{Store: store}}
	o.Log = slog.New(slog.NewTextHandler(h, nil))
	o.Refused = h.refused
	s := enginetest.Snapshot(t, yaml, h.store)
	h.journal = journal.New(journal.Options{Rules: s.Policy.Names()})
	h.Server = New(engine.New(s, h.journal, noon), o)
	return h
}

// open returns the house of a configuration, listening on the loopback until the test ends.
func open(t testing.TB, yaml string, o Options) *house {
	t.Helper()
	h := build(t, yaml, o)
	h.listen(t, "127.0.0.1:0")
	return h
}

// listen serves the house's agent at addr until the test ends, or until it is drained before.
func (h *house) listen(t testing.TB, addr string) {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	h.addr = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- h.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // clients of tests do not all leave
		_ = h.Drain(ctx)
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

func (h *house) refused(fault string, _ netip.Addr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults = append(h.faults, fault)
}

// Write keeps what is logged.
func (h *house) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.log.Write(b)
}

// logged returns what was logged, and the faults.
func (h *house) logged() (string, []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.log.String(), slices.Clone(h.faults)
}

// requests is how many decisions were recorded.
func (h *house) requests() uint64 { return h.journal.Totals().Requests }

// A watched store does what a test says in place of counting.
type watched struct {
	*memory.Store
	take     atomic.Pointer[func() error] // nil counts
	releases atomic.Int64
}

func (w *watched) Take(ctx context.Context, now time.Time, hits []weir.Hit, out []weir.Status) error {
	if f := w.take.Load(); f != nil {
		return (*f)()
	}
	return w.Store.Take(ctx, now, hits, out)
}

func (w *watched) Release(ctx context.Context, now time.Time, hits []weir.Hit) error {
	w.releases.Add(1)
	return w.Store.Release(ctx, now, hits)
}

// does has the store do f.
func (w *watched) does(f func() error) { w.take.Store(&f) }

var errNotYet = errors.New("not yet")

// await returns nil once done does, or what it said last.
func await(done func() error) error {
	deadline := time.Now().Add(patience)
	for {
		err := done()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// eventually fails the test unless is becomes true.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	err := await(func() error {
		if is() {
			return nil
		}
		return errNotYet
	})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
