package engine_test

import (
	"context"
	"testing"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/internal/racing"
	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/store/memory"
)

// oneLimit is the measured policy.
const oneLimit = "default: {limits: [{rate: 1000000/1h, per: client}]}"

// live returns an engine over the memory store as the program runs it, and its snapshot.
func live(tb testing.TB, yaml string) (*engine.Engine, *engine.Snapshot) {
	store := memory.New(memory.Options{})
	tb.Cleanup(store.Close)
	s := build(tb, yaml).Current()
	s.Store = store
	return engine.New(s, journal.New(journal.Options{Rules: s.Policy.Names()}), engine.Clock()), s
}

// A decision of one limit needs no memory: the bar is 0.
func TestDecideAllocatesNothing(t *testing.T) {
	if racing.On {
		t.Skip("the race detector empties pools at random")
	}
	for name, yaml := range map[string]string{
		"one limit":   oneLimit,
		"refused":     "default: {limits: [{rate: 0/1m}]}",
		"two limits":  "limits: [{name: site, rate: 9999/1h, per: ip}]\n" + oneLimit,
		"in flight":   "default: {limits: [{in_flight: 10}]}",
		"exempt":      "rules: [{name: all, path: /, exempt: true}]",
		"by a header": "default: {limits: [{rate: 9999/1h, per: [client, \"header:X-Tenant\"]}]}",
	} {
		e, s := live(t, yaml)
		req := request("/api/search")
		got := testing.AllocsPerRun(1000, func() {
			e.Record(s, e.Decide(context.Background(), s, req), weir.Outcome{HTTP: 200})
		})
		if got != 0 {
			t.Errorf("%s: %v allocations, want 0", name, got)
		}
	}
}

// BenchmarkDecide is a whole decision with one limit, recorded. The bar is 600 ns and 0 allocations.
func BenchmarkDecide(b *testing.B) {
	e, s := live(b, oneLimit)
	req := request("/api/search")
	b.ReportAllocs()
	for b.Loop() {
		e.Record(s, e.Decide(context.Background(), s, req), weir.Outcome{HTTP: 200})
	}
}

// BenchmarkDecideParallel is BenchmarkDecide by all processors on one hot client.
func BenchmarkDecideParallel(b *testing.B) {
	e, s := live(b, oneLimit)
	req := request("/api/search")
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			e.Record(s, e.Decide(context.Background(), s, req), weir.Outcome{HTTP: 200})
		}
	})
}
