package engine_test

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/internal/leaktest"
	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/policy"
	"github.com/weirgate/weir/store/memory"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// noon is when tests begin: on a minute, so that windows begin with them.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// A house is an engine with all below it, and a clock that stands still until it is set.
type house struct {
	*engine.Engine
	journal *journal.Journal
	store   *watched
	clock   atomic.Int64 // since noon
}

// build returns the house of a configuration.
func build(tb testing.TB, yaml string) *house {
	tb.Helper()
	store := memory.New(memory.Options{MaxKeys: 10_000})
	tb.Cleanup(store.Close)
	h := &house{store: &watched{Store: store}}
	s := h.snapshot(tb, yaml)
	h.journal = journal.New(journal.Options{Rules: s.Policy.Names()})
	h.Engine = engine.New(s, h.journal, func() time.Time { return noon.Add(time.Duration(h.clock.Load())) })
	return h
}

// snapshot compiles a configuration over the house's store.
func (h *house) snapshot(tb testing.TB, yaml string) *engine.Snapshot {
	tb.Helper()
	cfg, problems := config.Parse("weir.yaml", []byte(yaml), nil)
	if config.HasErrors(problems) {
		tb.Fatal(problems)
	}
	p, problems := policy.Compile(cfg)
	if p == nil {
		tb.Fatal(problems)
	}
	return &engine.Snapshot{Policy: p, Store: h.store}
}

// at sets the clock to d after noon.
func (h *house) at(d time.Duration) { h.clock.Store(int64(d)) }

// ask decides a request for path under the snapshot in force.
func (h *house) ask(path string) (*engine.Snapshot, *weir.Decision) {
	s := h.Current()
	return s, h.Decide(context.Background(), s, request(path))
}

// pass asks, records that the answer had the HTTP status, and reports whether the request passed.
func (h *house) pass(path string, status int) bool {
	s, d := h.ask(path)
	passed := !d.Refused()
	h.Record(s, d, weir.Outcome{HTTP: status})
	return passed
}

// passes counts how many of n requests pass, one after the other.
func (h *house) passes(n int, path string, status int) (passed int) {
	for range n {
		if h.pass(path, status) {
			passed++
		}
	}
	return passed
}

func request(path string) weir.Request {
	return weir.Request{Front: "proxy", Peer: netip.MustParseAddr("203.0.113.9"), Method: "GET", Host: "www.example.com", Path: path,
		Scheme: "http", Header: http.Header{}}
}

// A watched store counts what is asked of the store below it, and fails on demand.
type watched struct {
	*memory.Store
	takes, releases atomic.Int64
	fails           atomic.Bool
}

var errDown = errors.New("down")

func (w *watched) Take(ctx context.Context, now time.Time, hits []weir.Hit, out []weir.Status) error {
	w.takes.Add(1)
	if w.fails.Load() {
		return errDown
	}
	return w.Store.Take(ctx, now, hits, out)
}

func (w *watched) Release(ctx context.Context, now time.Time, hits []weir.Hit) error {
	w.releases.Add(1)
	return w.Store.Release(ctx, now, hits)
}

func TestEachDecisionIsRecordedOnce(t *testing.T) {
	h := build(t, "rules: [{name: a, path: /a, limits: [{rate: 2/1m}]}, {name: free, path: /free, exempt: true}]")
	h.passes(3, "/a", 200)
	h.passes(2, "/free", 200)
	h.passes(1, "/", 200)
	want := journal.Totals{Requests: 6, Refused: 1, Rules: []journal.RuleTotal{
		{Rule: "a", Requests: 3, Refused: 1}, {Rule: "free", Requests: 2}, {Rule: "default", Requests: 1}}}
	if diff := cmp.Diff(want, h.journal.Totals()); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
	if got := h.store.takes.Load(); got != 4 {
		t.Errorf("%d calls of the store, want one for each that is counted: 4", got)
	}
}

// The limit holds to the last request, and to the nanosecond.
func TestTheLimitAndItsWindow(t *testing.T) {
	h := build(t, "default: {limits: [{rate: 60/1m, algorithm: fixed_window}]}")
	steps := []struct {
		at          time.Duration
		asked, pass int
	}{
		{0, 60, 60},
		{0, 1, 0}, // one over
		{time.Minute - 1, 1, 0},
		{time.Minute, 61, 60},
	}
	for _, s := range steps {
		h.at(s.at)
		if got := h.passes(s.asked, "/", 200); got != s.pass {
			t.Errorf("at %v: %d of %d passed, want %d", s.at, got, s.asked, s.pass)
		}
	}
}

func TestDecisionIsWhole(t *testing.T) {
	h := build(t, "default: {limits: [{rate: 1/1m}]}")
	h.pass("/", 200)
	_, d := h.ask("/x")
	got := []any{d.Rule.Name, d.Action, d.Reason, d.HTTP, d.Client.Key(), d.At, len(d.Hits), d.Statuses[0].Remaining, d.RetryAfter() > 0, d.Degraded}
	want := []any{"default", weir.Reject, weir.OverLimit, 429, "203.0.113.9/32", noon, 1, int64(0), true, false}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })); diff != "" {
		t.Errorf("decision (-want +got):\n%s", diff)
	}
}

const inFlight = `rules:
  - {name: slow, path: /slow, limits: [{name: slots, in_flight: 2, per: client}]}
  - {name: both, path: /both, limits: [{name: few, in_flight: 1, per: client}, {name: once, rate: 1/1m, per: client}]}
`

// What was granted is given back once, when the answer ended.
func TestLeasesAreReleasedOnce(t *testing.T) {
	h := build(t, inFlight)
	s, first := h.ask("/slow")
	_, second := h.ask("/slow")
	_, third := h.ask("/slow")
	if first.Refused() || second.Refused() || !third.Refused() {
		t.Fatalf("refused: %v %v %v, want the third only", first.Refused(), second.Refused(), third.Refused())
	}
	if first.Hits[0].Lease == second.Hits[0].Lease {
		t.Error("two requests hold one lease")
	}
	h.Record(s, third, weir.Outcome{HTTP: 429})
	if got := h.store.releases.Load(); got != 0 {
		t.Errorf("%d releases after a refusal, want none: nothing was granted", got)
	}
	if h.pass("/slow", 429) {
		t.Error("the end of a refused request made room")
	}
	h.Record(s, first, weir.Outcome{})
	if got := h.store.releases.Load(); got != 1 {
		t.Errorf("%d releases after one answer, want 1", got)
	}
	_, fourth := h.ask("/slow")
	if fourth.Refused() || h.pass("/slow", 429) {
		t.Error("one answer ended: want room for one")
	}
	h.Record(s, second, weir.Outcome{})
	h.Record(s, fourth, weir.Outcome{})
	if got := h.store.releases.Load(); got != 3 {
		t.Errorf("%d releases after three answers, want 3", got)
	}
}

// A request that another limit refuses holds no slot.
func TestRefusedByAnotherLimitHoldsNoSlot(t *testing.T) {
	h := build(t, inFlight)
	if !h.pass("/both", 200) {
		t.Fatal("the first was refused")
	}
	s, d := h.ask("/both")
	if got := []bool{d.Statuses[0].Allowed, d.Statuses[1].Allowed}; !cmp.Equal(got, []bool{true, false}) {
		t.Errorf("allowed: %v, want the slot and not the rate", got)
	}
	h.at(2 * time.Minute) // the rate is free again, while the refusal is still being answered
	if !h.pass("/both", 200) {
		t.Error("the refused request holds a slot")
	}
	h.Record(s, d, weir.Outcome{HTTP: 429})
	if got := h.store.releases.Load(); got != 2 {
		t.Errorf("%d releases, want 2: of the two that passed", got)
	}
}

const failures = `rules:
  - {name: login, path: /login, count: {only_statuses: [401, 403]}, limits: [{rate: 2/1m}]}
`

// A limit by HTTP status is charged for those statuses, after the answer, and refuses by then.
func TestDeferredIsChargedForItsStatuses(t *testing.T) {
	h := build(t, failures)
	for _, s := range []struct {
		status, asked, pass int
	}{
		{200, 5, 5}, // what succeeds costs nothing
		{0, 5, 5},   // nor what was not answered
		{401, 1, 1},
		{403, 1, 1},
		{401, 3, 0}, // two failures are used up
		{200, 1, 0},
	} {
		if got := h.passes(s.asked, "/login", s.status); got != s.pass {
			t.Errorf("status %d: %d of %d passed, want %d", s.status, got, s.asked, s.pass)
		}
	}
}

// A refusal's own HTTP status is not the service's, and charges nothing.
func TestRefusalIsNotCharged(t *testing.T) {
	h := build(t, "limits: [{name: site, rate: 1/1m, algorithm: fixed_window}]\n"+
		"rules: [{name: login, path: /login, count: {only_statuses: [429]}, limits: [{rate: 5/1h}]}]")
	h.pass("/login", 200)
	if h.pass("/login", 429) {
		t.Fatal("the limit for every request let a second one pass")
	}
	h.at(time.Minute)
	s, d := h.ask("/login")
	if got := d.Statuses[1].Remaining; got != 5 {
		t.Errorf("%d of 5 remain after a refusal", got)
	}
	h.Record(s, d, weir.Outcome{HTTP: 429})
	h.at(2 * time.Minute)
	if _, d = h.ask("/login"); d.Statuses[1].Remaining != 4 {
		t.Errorf("%d of 5 remain after one 429 of the service", d.Statuses[1].Remaining)
	}
}

// The charge falls into the window in which the answer ended, however long it took.
func TestDeferredIsChargedWhenTheAnswerEnds(t *testing.T) {
	h := build(t, "rules: [{name: login, path: /login, count: {only_statuses: [401]}, limits: [{rate: 1/1m, algorithm: fixed_window}]}]")
	h.at(59 * time.Second)
	s, d := h.ask("/login")
	h.at(61 * time.Second)
	h.Record(s, d, weir.Outcome{HTTP: 401})
	if h.pass("/login", 200) {
		t.Error("the failure was charged to the window before")
	}
}

// To decide under a peeking snapshot is the live call, and counts nothing.
func TestPeekingChargesNothing(t *testing.T) {
	h := build(t, "default: {limits: [{rate: 2/1m}, {name: slots, in_flight: 1}]}")
	peek := h.Current().Peeking()
	for range 10 {
		d := h.Decide(context.Background(), peek, request("/"))
		if d.Refused() || d.Statuses[0].Remaining != 1 {
			t.Fatalf("refused %v, %d remain; want a pass that would leave 1", d.Refused(), d.Statuses[0].Remaining)
		}
	}
	if got := h.passes(3, "/", 200); got != 2 {
		t.Errorf("%d passed after the looks, want 2", got)
	}
	if d := h.Decide(context.Background(), peek, request("/")); !d.Refused() || d.RetryAfter() <= 0 {
		t.Errorf("a look at a used-up limit: refused %v, retry after %v", d.Refused(), d.RetryAfter())
	}
}

// A store that does not answer is no refusal, and is told.
func TestStoreFails(t *testing.T) {
	h := build(t, "default: {limits: [{rate: 1/1m}, {name: slots, in_flight: 1}]}")
	h.store.fails.Store(true)
	for range 3 {
		s, d := h.ask("/")
		if d.Refused() || !d.Degraded || d.Reason != weir.StoreFailed {
			t.Errorf("got %v, %q, degraded %v", d.Action, d.Reason, d.Degraded)
		}
		h.Record(s, d, weir.Outcome{HTTP: 200})
	}
	h.store.fails.Store(false)
	if got := h.passes(2, "/", 200); got != 1 {
		t.Errorf("%d passed once the store answers, want 1", got)
	}
}

// Swaps under load: every decision is by one snapshot, and unchanged counters keep their counts.
func TestSwapUnderLoad(t *testing.T) {
	const askers, asked = 8, 250
	h := build(t, "default: {limits: [{name: n, rate: 1000/1h}]}")
	variants := []*engine.Snapshot{
		h.snapshot(t, "default: {limits: [{name: n, rate: 1000/1h}]}"),
		h.snapshot(t, "rules: [{name: other, path: /other, limits: []}]\ndefault: {limits: [{name: n, rate: 1000/1h}]}"),
	}
	var passed atomic.Int64
	var asking, swapping sync.WaitGroup
	done := make(chan bool)
	swapping.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
				h.Swap(variants[i%2])
			}
		}
	})
	for range askers {
		asking.Go(func() { passed.Add(int64(h.passes(asked, "/", 200))) })
	}
	asking.Wait()
	close(done)
	swapping.Wait()
	if passed.Load() != 1000 {
		t.Errorf("%d of %d passed, want 1000", passed.Load(), askers*asked)
	}
	if got := h.journal.Totals().Requests; got != askers*asked {
		t.Errorf("%d recorded, want %d", got, askers*asked)
	}
}

// Swap returns the snapshot that it displaced, so that its parts can be closed.
func TestSwapReturnsTheOld(t *testing.T) {
	h := build(t, "")
	was, next := h.Current(), h.snapshot(t, "")
	if got := h.Swap(next); got != was || h.Current() != next {
		t.Error("Swap mixed up the snapshots")
	}
}

// A decision that is used again holds nothing of the request before.
func TestDecisionsAreEmptyWhenUsedAgain(t *testing.T) {
	h := build(t, failures)
	for range 100 {
		h.pass("/login", 200)
		s, d := h.ask("/")
		if len(d.Deferred) != 0 || d.OnlyStatuses != nil || len(d.Hits) != 1 || len(d.Statuses) != 1 {
			t.Fatalf("%d deferred, %v, %d hits, %d statuses", len(d.Deferred), d.OnlyStatuses, len(d.Hits), len(d.Statuses))
		}
		h.Record(s, d, weir.Outcome{HTTP: 200})
	}
}
