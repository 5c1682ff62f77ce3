package failover

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/store/memory"
)

// The price of the road: what a call to a store that answers at once costs beyond it, and what an
// answer in its place does.
func BenchmarkTake(b *testing.B) {
	for _, c := range []struct {
		name string
		down bool
	}{{"shared", false}, {"local", true}} {
		b.Run(c.name, func(b *testing.B) {
			shared, local := memory.New(memory.Options{}), memory.New(memory.Options{})
			s := New(shared, local, Options{ProbeEvery: time.Hour})
			defer func() { s.Close(); shared.Close(); local.Close() }()
			if c.down {
				s.breaker.era.Add(1)
			}
			l := &weir.Limit{Max: 1 << 40, Window: time.Hour}
			hits, out := []weir.Hit{{Limit: l, Key: []byte("{192.0.2.1/32}:bench:sliding_window:1h:"), N: 1}}, make([]weir.Status, 1)
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Take(context.Background(), time.Now(), hits, out); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkTakeParallel(b *testing.B) {
	shared, local := memory.New(memory.Options{}), memory.New(memory.Options{})
	s := New(shared, local, Options{})
	defer func() { s.Close(); shared.Close(); local.Close() }()
	l := &weir.Limit{Max: 1 << 40, Window: time.Hour}
	b.SetParallelism(32)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		hits, out := []weir.Hit{{Limit: l, Key: []byte("{192.0.2.1/32}:bench:sliding_window:1h:"), N: 1}}, make([]weir.Status, 1)
		for pb.Next() {
			if err := s.Take(context.Background(), time.Now(), hits, out); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(s.Fallbacks())/float64(b.N), "fallbacks/op")
}

// The wait that the contract bounds: p99.9 of 64 askers at once while nothing answers and the breaker
// is kept closed, and once it is open; beside it what a bare timer of the same length takes on this
// machine, for all that lies above it is ours.
func BenchmarkWait(b *testing.B) {
	b.Run("timer", func(b *testing.B) {
		percentiles(b, func() { time.Sleep(defaultTimeout) })
	})
	for _, c := range []struct {
		name     string
		failures int
	}{{"closed", 1 << 40}, {"open", 1}} {
		b.Run(c.name, func(b *testing.B) {
			far := &scripted{Store: memory.New(memory.Options{}), end: make(chan struct{})}
			near := memory.New(memory.Options{})
			s := New(far, near, Options{Failures: c.failures, ProbeEvery: time.Hour})
			defer func() { s.Close(); far.Close(); near.Close() }()
			far.be(mute)
			takeOnce(s)
			percentiles(b, func() { takeOnce(s) })
		})
	}
}

func takeOnce(s *Store) {
	l := &weir.Limit{Max: 1 << 40, Window: time.Hour}
	_ = s.Take(context.Background(), time.Now(), []weir.Hit{{Limit: l, Key: []byte("a"), N: 1}}, make([]weir.Status, 1))
}

// percentiles reports how long f takes when 64 do it at once.
func percentiles(b *testing.B, f func()) {
	took := make([]time.Duration, 64*b.N)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for n := range b.N {
				began := time.Now()
				f()
				took[i*b.N+n] = time.Since(began)
				time.Sleep(time.Millisecond) // an asker has other things to do
			}
		})
	}
	wg.Wait()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*999/1000].Microseconds()), "p99.9-us")
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
}
