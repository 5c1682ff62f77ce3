package envoyrls

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
)

func hit(key string, most, n int64) weir.Hit {
	l := &weir.Limit{Name: "m", Algorithm: weir.FixedWindow, Max: most, Window: time.Minute}
	return weir.Hit{Limit: l, Key: []byte(key), N: n}
}

// left counts hits, and returns what is left of each, below 0 if it is refused.
func (m *Memory) left(t *testing.T, at time.Time, hits ...weir.Hit) (left []int64) {
	t.Helper()
	out := make([]weir.Status, len(hits))
	if err := m.Take(context.Background(), at, hits, out); err != nil {
		t.Fatal(err)
	}
	for i := range out {
		if out[i].Allowed != (out[i].Remaining >= 0) || (out[i].RetryAfter == 0) != out[i].Allowed || out[i].Limit != hits[i].Limit {
			t.Errorf("hit %d: %+v", i, out[i])
		}
		left = append(left, out[i].Remaining)
	}
	return left
}

// Memory counts as a plain model does, whatever the order, through the turns of windows.
func TestMemoryEqualsTheModel(t *testing.T) {
	for _, spare := range []bool{false, true} {
		m, counters := NewMemory(MemoryOptions{Spare: spare}), map[string]int64{}
		r := rand.New(rand.NewPCG(3, 4))
		at := noon
		for step := range 20_000 {
			before := at.Truncate(time.Minute)
			if at = at.Add(rand.N(200 * time.Millisecond)); at.Truncate(time.Minute) != before {
				clear(counters)
			}
			var hits []weir.Hit
			for range 1 + r.IntN(4) {
				hits = append(hits, hit(fmt.Sprintf("k%d", r.IntN(30)), int64(r.IntN(20)), int64(r.IntN(3))))
			}
			want := modelCount(counters, hits, spare)
			if got := m.left(t, at, hits...); !cmp.Equal(want, got) {
				t.Fatalf("spare %v, step %d: %v, want %v", spare, step, got, want)
			}
		}
	}
}

// modelCount is what envoyproxy/ratelimit does within one window.
func modelCount(counters map[string]int64, hits []weir.Hit, spare bool) (left []int64) {
	over, any := make([]bool, len(hits)), false
	for i, h := range hits {
		over[i] = counters[string(h.Key)]+h.N > h.Limit.Max
		any = any || over[i]
	}
	for i, h := range hits {
		if !spare || len(hits) == 1 || !any || over[i] {
			counters[string(h.Key)] += h.N
		}
		left = append(left, h.Limit.Max-counters[string(h.Key)])
	}
	return left
}

// A look counts nothing, and a reset forgets.
func TestMemoryPeekAndReset(t *testing.T) {
	m := NewMemory(MemoryOptions{})
	m.left(t, noon, hit("a", 2, 2))
	out := make([]weir.Status, 2)
	for range 3 {
		if err := m.Peek(context.Background(), noon, []weir.Hit{hit("a", 2, 1), hit("b", 2, 1)}, out); err != nil {
			t.Fatal(err)
		}
		if out[0].Remaining != -1 || out[0].Allowed || out[1].Remaining != 1 {
			t.Errorf("peek: %+v", out)
		}
	}
	if m.Keys() != 1 {
		t.Errorf("%d counters, want 1", m.Keys())
	}
	hits := []weir.Hit{hit("a", 2, 1)}
	if err := m.Reset(context.Background(), hits); err != nil {
		t.Fatal(err)
	}
	if err := m.Release(context.Background(), noon, hits); err != nil {
		t.Fatal(err)
	}
	if left := m.left(t, noon, hits...); left[0] != 1 {
		t.Errorf("after a reset %d are left, want 1", left[0])
	}
}

// What has ended is forgotten when its shard is next used, a little later.
func TestMemoryIsSwept(t *testing.T) {
	m := NewMemory(MemoryOptions{})
	for i := range 50_000 {
		m.left(t, noon, hit(fmt.Sprint(i), 2, 1))
	}
	if m.Keys() != 50_000 {
		t.Fatalf("%d counters", m.Keys())
	}
	later := noon.Add(time.Minute + lookEvery)
	for i := range 5_000 {
		m.left(t, later, hit(fmt.Sprint("new", i), 2, 1))
	}
	if m.Keys() != 5_000 || m.Evictions() != 0 {
		t.Errorf("%d counters, want the 5,000 of this minute; %d evictions", m.Keys(), m.Evictions())
	}
}

// Where there is no room, what counts least goes: who is over a limit stays there.
func TestMemoryForgetsTheLeast(t *testing.T) {
	const most = 20_000
	m := NewMemory(MemoryOptions{MaxKeys: most})
	for i := range 100 {
		m.left(t, noon, hit(fmt.Sprint("heavy", i), 10, 1_000))
	}
	for i := range 10 * most {
		m.left(t, noon, hit(fmt.Sprint(i), 10, 1))
	}
	if m.Keys() > most+memoryShards || m.Evictions() != uint64(100+10*most-m.Keys()) {
		t.Errorf("%d counters, want at most %d; %d evictions", m.Keys(), most, m.Evictions())
	}
	forgotten := 0
	for i := range 100 {
		if m.left(t, noon, hit(fmt.Sprint("heavy", i), 10, 0))[0] > 0 {
			forgotten++
		}
	}
	if forgotten > 0 {
		t.Errorf("%d of 100 that are over were forgotten", forgotten)
	}
}

// At any parallelism exactly the limit passes.
func TestMemoryIsExact(t *testing.T) {
	m := NewMemory(MemoryOptions{})
	var passed atomic.Int64
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			for range 200 {
				if m.left(t, noon, hit("hot", 500, 1), hit(fmt.Sprint(i), 1000, 1))[0] >= 0 {
					passed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if passed.Load() != 500 {
		t.Errorf("%d passed, want 500", passed.Load())
	}
}

func TestMemoryAllocates(t *testing.T) {
	m, hits, out := NewMemory(MemoryOptions{}), []weir.Hit{hit("a", 2, 1), hit("b", 1<<40, 1)}, make([]weir.Status, 2)
	if n := testing.AllocsPerRun(100, func() { _ = m.Take(context.Background(), noon, hits, out) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
