package engine_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/internal/racing"
	"github.com/weirgate/weir/respond"
	"github.com/weirgate/weir/store/failover"
	"github.com/weirgate/weir/store/memory"
)

// idOf returns the ID of the n-th request.
func idOf(n int) string { return fmt.Sprintf("%032x", n) }

// askAs decides a request for path that a front calls the n-th.
func (h *house) askAs(n int, path string) (*engine.Snapshot, *weir.Decision) {
	s := h.Current()
	req := request(path)
	req.ID = idOf(n)
	return s, h.Decide(context.Background(), s, req)
}

// An askStep is one ask: when, about which request, and what follows.
type askStep struct {
	at        time.Duration
	n         int // of the request
	want      weir.Action
	why       weir.Reason
	remaining int64 // of the first limit
}

func (h *house) play(t *testing.T, path string, steps []askStep) {
	t.Helper()
	for i, step := range steps {
		h.at(step.at)
		s, d := h.askAs(step.n, path)
		got := askStep{step.at, step.n, d.Action, d.Reason, d.Statuses[0].Remaining}
		if got != step {
			t.Errorf("step %d: got %+v, want %+v", i, got, step)
		}
		h.Record(s, d, weir.Outcome{HTTP: d.HTTP})
	}
}

const (
	pass   = weir.Pass
	reject = weir.Reject
)

// However often it is asked about within 5 seconds, a request is charged once; another one is not free.
func TestAskedTwiceChargedOnce(t *testing.T) {
	h := build(t, "default: {limits: [{rate: 2/1m, algorithm: sliding_log}]}")
	second := time.Second
	h.play(t, "/", []askStep{
		{0, 1, pass, weir.WithinLimits, 1},
		{0, 1, pass, weir.AskedBefore, 1},
		{second, 1, pass, weir.AskedBefore, 1},
		{second, 2, pass, weir.WithinLimits, 0},
		{2 * second, 3, reject, weir.OverLimit, 0},
		{2 * second, 1, pass, weir.AskedBefore, 0}, // it was paid, though nothing is left
		{2 * second, 2, pass, weir.AskedBefore, 0},
		{5*second - 1, 1, pass, weir.AskedBefore, 0},
		{5 * second, 1, reject, weir.OverLimit, 0}, // by now it is another request
	})
	if got := h.journal.Totals(); got.Requests != 4 || got.Refused != 2 {
		t.Errorf("%d requests, %d refused, want 4 and 2", got.Requests, got.Refused)
	}
}

// What was refused was not paid: the next ask is judged by itself, and pays if it passes.
func TestRefusedIsJudgedAfresh(t *testing.T) {
	h := build(t, "default: {limits: [{rate: 1/2s, algorithm: fixed_window}]}")
	h.play(t, "/", []askStep{
		{0, 1, pass, weir.WithinLimits, 0},
		{0, 2, reject, weir.OverLimit, 0},
		{2*time.Second - 1, 2, reject, weir.OverLimit, 0},
		{2 * time.Second, 2, pass, weir.WithinLimits, 0},
		{2 * time.Second, 2, pass, weir.AskedBefore, 0},
		{7 * time.Second, 2, pass, weir.WithinLimits, 0},
	})
}

// Costs, tags, shadows and places in flight: each as on a first ask, and nothing on a second.
func TestSecondAskByRule(t *testing.T) {
	for name, c := range map[string]struct {
		yaml  string
		steps []askStep
	}{
		"cost": {"rules: [{name: r, path: /r, cost: 5, limits: [{rate: 12/1m}]}]", []askStep{
			{0, 1, pass, weir.WithinLimits, 7}, {0, 1, pass, weir.AskedBefore, 7}, {0, 2, pass, weir.WithinLimits, 2},
			{0, 3, reject, weir.OverLimit, 2}, {0, 2, pass, weir.AskedBefore, 2}}},
		"tag": {"rules: [{name: r, path: /r, action: tag, limits: [{rate: 1/1m}]}]", []askStep{
			{0, 1, pass, weir.WithinLimits, 0}, {0, 1, pass, weir.AskedBefore, 0},
			{0, 2, weir.Tag, weir.OverLimit, 0}, {0, 2, weir.Tag, weir.OverLimit, 0}}}, // charged nothing, so tagged again
		"shadow": {"rules: [{name: r, path: /r, mode: shadow, limits: [{rate: 1/1m}]}]", []askStep{
			{0, 1, pass, weir.WithinLimits, 0}, {0, 1, pass, weir.AskedBefore, 0}, {0, 2, pass, weir.WithinLimits, 0}}},
		"in flight": {"rules: [{name: r, path: /r, limits: [{in_flight: 1}]}]", []askStep{
			{0, 1, pass, weir.WithinLimits, 0}, {0, 1, pass, weir.AskedBefore, 1}, {0, 2, pass, weir.WithinLimits, 0}}},
		"by status": {"rules: [{name: r, path: /r, count: {only_statuses: [401]}, limits: [{rate: 1/1m}]}]", []askStep{
			{0, 1, pass, weir.WithinLimits, 1}, {0, 1, pass, weir.WithinLimits, 1}}}, // nothing to pay
	} {
		t.Run(name, func(t *testing.T) { build(t, c.yaml).play(t, "/r", c.steps) })
	}
}

// A shadow that would have refused is told of once.
func TestSecondAskTellsOfNoShadow(t *testing.T) {
	h := build(t, "default: {limits: [{name: trial, rate: 1/1m, mode: shadow}]}")
	var shadows []int
	for _, n := range []int{1, 1, 2, 2} {
		s, d := h.askAs(n, "/")
		shadows = append(shadows, len(respond.ShadowRefusals(d)))
		h.Record(s, d, weir.Outcome{HTTP: 200})
	}
	if diff := cmp.Diff([]int{0, 0, 1, 0}, shadows); diff != "" {
		t.Errorf("shadow refusals (-want +got):\n%s", diff)
	}
	if got := h.journal.Totals().Rules[0].Shadow; got != 1 {
		t.Errorf("%d are counted, want 1", got)
	}
}

// An ID changes nothing that anybody sees of a first ask, admitted or refused: limits, fields, documents.
func TestTheHitOnceIsInvisible(t *testing.T) {
	yaml := "limits: [{name: site, rate: 9/1m, per: ip}]\ndefault: {limits: [{rate: 1/1m}, {name: trial, rate: 1/1m, mode: shadow}]}"
	plain, named := build(t, yaml), build(t, yaml)
	r := respond.New(respond.Options{Headers: "both"})
	for range 3 {
		s, a := plain.ask("/")
		_, b := named.askAs(int(named.journal.Totals().Requests), "/")
		fields := [2]http.Header{{}, {}}
		r.Headers(fields[0], a)
		r.Headers(fields[1], b)
		if diff := cmp.Diff(fields[0], fields[1]); diff != "" {
			t.Errorf("fields (-without +with):\n%s", diff)
		}
		if diff := cmp.Diff(respond.View(a), respond.View(b)); diff != "" {
			t.Errorf("decision (-without +with):\n%s", diff)
		}
		if a.RetryAfter() != b.RetryAfter() {
			t.Errorf("retry after %v, want %v", b.RetryAfter(), a.RetryAfter())
		}
		plain.Record(s, a, weir.Outcome{HTTP: a.HTTP})
		named.Record(named.Current(), b, weir.Outcome{HTTP: b.HTTP})
	}
	if diff := cmp.Diff(plain.journal.Totals(), named.journal.Totals()); diff != "" {
		t.Errorf("totals (-without +with):\n%s", diff)
	}
	if diff := cmp.Diff(plain.journal.Recent(3), named.journal.Recent(3)); diff != "" {
		t.Errorf("recent (-without +with):\n%s", diff)
	}
}

// Another client may bear the same ID: it pays for itself.
func TestAnIDIsTheClients(t *testing.T) {
	h := build(t, "default: {limits: [{rate: 1/1m}]}")
	s := h.Current()
	for _, peer := range []string{"203.0.113.9", "203.0.113.10", "2001:db8::1"} {
		for _, want := range []weir.Reason{weir.WithinLimits, weir.AskedBefore} {
			req := request("/")
			req.ID, req.Peer = idOf(1), netip.MustParseAddr(peer)
			d := h.Decide(context.Background(), s, req)
			if d.Reason != want {
				t.Errorf("%s: %s, want %s", peer, d.Reason, want)
			}
			h.Record(s, d, weir.Outcome{HTTP: 200})
		}
	}
}

// To look at a named request pays nothing.
func TestPeekingPaysNothing(t *testing.T) {
	h := build(t, "default: {limits: [{rate: 2/1m}]}")
	peek := h.Current().Peeking()
	req := request("/")
	req.ID = idOf(1)
	for range 3 {
		if d := h.Decide(context.Background(), peek, req); d.Reason != weir.WithinLimits {
			t.Fatalf("a look: %s", d.Reason)
		}
	}
	h.play(t, "/", []askStep{{0, 1, pass, weir.WithinLimits, 1}, {0, 1, pass, weir.AskedBefore, 1}})
}

// A store that fails counts nothing, and its failure is not taken for an earlier ask.
func TestNamedRequestWithoutAStore(t *testing.T) {
	for yaml, want := range map[string]weir.Action{"allow": pass, "deny": reject} {
		h := build(t, "store: {on_failure: "+yaml+"}\ndefault: {limits: [{rate: 1/1m}]}")
		h.store.fails.Store(true)
		for range 2 {
			s, d := h.askAs(1, "/")
			if d.Action != want || d.Reason != weir.StoreFailed || !d.Degraded || len(d.Hits) != 1 || len(d.Statuses) != 0 {
				t.Errorf("%s: %v, %s, %d hits, %d statuses", yaml, d.Action, d.Reason, len(d.Hits), len(d.Statuses))
			}
			h.Record(s, d, weir.Outcome{HTTP: d.HTTP})
		}
	}
}

// While the shared store is away this replica goes on by its share, and charges once; what was paid
// before is remembered for as long as it is known.
func TestChargedOnceWhileTheStoreIsAway(t *testing.T) {
	h := build(t, "default: {limits: [{rate: 10/1m, algorithm: sliding_log}]}")
	far, local := &watched{Store: h.store.Store}, memory.New(memory.Options{})
	store := failover.New(away{far}, local, failover.Options{ProbeEvery: time.Hour})
	t.Cleanup(func() { store.Close(); local.Close() })
	s := *h.Current()
	s.Store = store
	h.Swap(&s)
	h.play(t, "/", []askStep{{0, 1, pass, weir.WithinLimits, 9}})
	far.fails.Store(true)
	h.play(t, "/", []askStep{
		{0, 1, pass, weir.AskedBefore, 9},
		{0, 2, pass, weir.WithinLimits, 8},
		{0, 2, pass, weir.AskedBefore, 8},
	})
	if _, d := h.askAs(2, "/"); !d.Degraded {
		t.Error("nobody is told that the shared store did not answer")
	}
}

// away is a shared store that can forget, too.
type away struct{ *watched }

func (a away) Reset(ctx context.Context, hits []weir.Hit) error { return a.Store.Reset(ctx, hits) }

// To be asked twice needs no memory either.
func TestNamedDecisionsAllocateNothing(t *testing.T) {
	if racing.On {
		t.Skip("the race detector empties pools at random")
	}
	e, s := live(t, oneLimit)
	req := request("/api/search")
	req.ID = idOf(1)
	if got := testing.AllocsPerRun(1000, func() {
		e.Record(s, e.Decide(context.Background(), s, req), weir.Outcome{HTTP: 200})
	}); got != 0 {
		t.Errorf("%v allocations, want 0", got)
	}
}
