package failover

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/leaktest"
	"github.com/weirgate/weir/store/memory"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A mood is what a scripted store does when it is asked.
type mood int32

const (
	well   mood = iota
	broken      // returns an error
	mute        // does not answer, but heeds its context
	hasty       // gives up by itself for want of an answer
	cut         // its connection's deadline passes
	deaf        // does not answer, whatever its context says, until the test ends
	slow        // answers after 200 ms
	mad         // panics
)

var errBroken = errors.New("connection refused")

// A scripted store is one in memory that fails as it is told.
type scripted struct {
	*memory.Store
	mood  atomic.Int32
	asked atomic.Int64 // calls that reached it
	mu    sync.Mutex
	last  []weir.Hit // of the latest release
	end   chan struct{}
}

func (s *scripted) be(m mood) { s.mood.Store(int32(m)) }

// suffer does what the mood demands, and returns an error if there is no answer.
func (s *scripted) suffer(ctx context.Context) error {
	s.asked.Add(1)
	switch mood(s.mood.Load()) {
	case broken:
		return errBroken
	case mute:
		<-ctx.Done()
		return ctx.Err()
	case hasty:
		return fmt.Errorf("redis: %w", context.DeadlineExceeded)
	case cut:
		return fmt.Errorf("redis: %w", os.ErrDeadlineExceeded)
	case deaf:
		<-s.end
		return errBroken
	case slow:
		time.Sleep(200 * time.Millisecond)
	case mad:
		panic("nil map")
	}
	return nil
}

func (s *scripted) Take(ctx context.Context, now time.Time, hits []weir.Hit, out []weir.Status) error {
	if err := s.suffer(ctx); err != nil {
		return err
	}
	return s.Store.Take(ctx, now, hits, out)
}

func (s *scripted) Peek(ctx context.Context, now time.Time, hits []weir.Hit, out []weir.Status) error {
	if err := s.suffer(ctx); err != nil {
		return err
	}
	return s.Store.Peek(ctx, now, hits, out)
}

func (s *scripted) Release(ctx context.Context, now time.Time, hits []weir.Hit) error {
	if err := s.suffer(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	s.last = hits
	s.mu.Unlock()
	return s.Store.Release(ctx, now, hits)
}

func (s *scripted) Reset(ctx context.Context, hits []weir.Hit) error {
	if err := s.suffer(ctx); err != nil {
		return err
	}
	return s.Store.Reset(ctx, hits)
}

// A house is a store under test with what stands behind it.
type house struct {
	*Store
	t     *testing.T
	far   *scripted
	near  *memory.Store
	log   *bytes.Buffer
	lease uint64
}

func build(t *testing.T, o Options) *house {
	h := &house{t: t, far: &scripted{Store: memory.New(memory.Options{}), end: make(chan struct{})}, near: memory.New(memory.Options{}), log: new(bytes.Buffer)}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(h.log, nil))
	}
	h.Store = New(h.far, h.near, o)
	return h
}

func (h *house) close() {
	close(h.far.end)
	h.Store.Close()
	h.far.Close()
	h.near.Close()
}

// inBubble runs f in a house where time is the test's.
func inBubble(t *testing.T, o Options, f func(h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := build(t, o)
		defer h.close()
		f(h)
	})
}

// hit is a hit of n on the counter of that name.
func (h *house) hit(l *weir.Limit, name string, n int64) weir.Hit {
	h.lease++
	return weir.Hit{Limit: l, Key: []byte("{x}:" + name), TagLen: 3, N: n, Lease: h.lease}
}

// take charges hits as one request, and returns how long that took.
func (h *house) take(hits ...weir.Hit) ([]weir.Status, time.Duration, error) {
	out, began := make([]weir.Status, len(hits)), time.Now()
	err := h.Take(context.Background(), began, hits, out)
	return out, time.Since(began), err
}

// one is take of one hit that must be answered.
func (h *house) one(hit weir.Hit) weir.Status {
	h.t.Helper()
	out, _, err := h.take(hit)
	if err != nil {
		h.t.Fatal(err)
	}
	return out[0]
}

// passes is how many of n requests for 1 pass.
func (h *house) passes(l *weir.Limit, name string, n int) int {
	h.t.Helper()
	in := 0
	for range n {
		if h.one(h.hit(l, name, 1)).Allowed {
			in++
		}
	}
	return in
}

// breakDown makes the shared store fail until it is left alone.
func (h *house) breakDown() {
	h.t.Helper()
	h.far.be(broken)
	for i := 0; !h.Open(); i++ {
		if i > h.options.Failures {
			h.t.Fatal("the breaker stays closed")
		}
		h.passes(perMinute(100), "break", 1)
	}
}

// recover lets the shared store answer and waits until it is asked again.
func (h *house) recover() {
	h.t.Helper()
	h.far.be(well)
	time.Sleep(h.options.ProbeEvery + time.Millisecond)
	synctest.Wait()
	if h.Open() {
		h.t.Fatal("the breaker stays open")
	}
}

// logged is how many lines were logged at level.
func (h *house) logged(level string) int { return strings.Count(h.log.String(), "level="+level+" ") }

func perMinute(n int64) *weir.Limit {
	return &weir.Limit{Name: "test", Algorithm: weir.FixedWindow, Max: n, Window: time.Minute}
}
