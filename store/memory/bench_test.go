package memory

import (
	"context"
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"github.com/weirgate/weir"
)

var bench = time.Unix(1_800_000_000, 0)

func perMinute(n int64) *weir.Limit {
	return &weir.Limit{Name: "l", Max: n, Window: time.Minute}
}

// key is the i-th of many keys, as long as one of a real limit.
func key(b []byte, i uint64) []byte {
	b = append(b[:0], "203.0.113.7/32|search/60/1m|"...)
	return binary.BigEndian.AppendUint64(b, i)
}

func BenchmarkTakeHot(b *testing.B) {
	limits := map[string]*weir.Limit{
		"sliding_window": perMinute(1 << 40),
		"sliding_log":    {Algorithm: weir.SlidingLog, Max: 1000, Window: time.Minute},
		"fixed_window":   {Algorithm: weir.FixedWindow, Max: 1 << 40, Window: time.Minute},
		"token_bucket":   {Algorithm: weir.TokenBucket, Max: 1 << 30, Burst: 1 << 30, Window: time.Second},
		"quota":          {Algorithm: weir.Quota, Max: 1 << 40, Period: weir.Month},
		"refused":        perMinute(1),
	}
	for name, l := range limits {
		b.Run(name, func(b *testing.B) { takeHot(b, l, func() time.Time { return bench }) })
	}
	b.Run("with_clock", func(b *testing.B) { takeHot(b, limits["sliding_window"], time.Now) })
}

func takeHot(b *testing.B, l *weir.Limit, now func() time.Time) {
	s := New(Options{})
	defer s.Close()
	hits, out := []weir.Hit{{Limit: l, Key: key(nil, 1), N: 1}}, make([]weir.Status, 1)
	b.ReportAllocs()
	for b.Loop() {
		_ = s.Take(context.Background(), now(), hits, out)
	}
}

func BenchmarkTakeTwo(b *testing.B) {
	s := New(Options{})
	defer s.Close()
	l := perMinute(1 << 40)
	hits := []weir.Hit{{Limit: l, Key: key(nil, 1), N: 1}, {Limit: l, Key: key(nil, 2), N: 1}}
	out := make([]weir.Status, 2)
	b.ReportAllocs()
	for b.Loop() {
		_ = s.Take(context.Background(), bench, hits, out)
	}
}

// heap is what is in use after a full collection, and how long that took.
func heap() (bytes uint64, took time.Duration) {
	runtime.GC()
	start := time.Now()
	runtime.GC()
	took = time.Since(start)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc, took
}

// BenchmarkMillion reports what a million counters cost: bytes each, the time that a full collection
// takes longer than with none, a Take of a random one, and the longest call while they are new and
// while they expire; and, for what other processes take, the longest step of a loop that does nothing.
func BenchmarkMillion(b *testing.B) {
	const keys = 1_000_000
	l := perMinute(100)
	for b.Loop() {
		empty, gcEmpty := heap()
		s := New(Options{MaxKeys: 2 * keys})
		fill := takeEach(s, l, bench, keys, 0)
		full, gcFull := heap()
		hot := takeEach(s, l, bench, keys, 0)
		late := takeEach(s, l, bench.Add(5*time.Minute), keys, keys)
		b.ReportMetric(float64(full-empty)/float64(keys), "B/key")
		b.ReportMetric(float64(gcFull-gcEmpty)/1e6, "gc-ms-over-empty")
		b.ReportMetric(fill.longest.Seconds()*1e3, "fill-longest-ms")
		b.ReportMetric(hot.mean, "ns/random-take")
		nothing := takeEach(nil, l, bench, 10*keys, 0)
		b.ReportMetric(nothing.longest.Seconds()*1e3, "nothing-longest-ms")
		b.ReportMetric(late.longest.Seconds()*1e3, "expiring-longest-ms")
		b.ReportMetric(float64(late.over), "expiring-over-1ms")
		b.ReportMetric(float64(s.Keys())/keys, "keys-kept/new")
		s.Close()
	}
}

// A timing is how long calls took.
type timing struct {
	longest time.Duration
	mean    float64 // ns
	over    int     // calls over 1 ms
}

// takeEach asks for n keys one after the other, or does nothing as often if s is nil.
func takeEach(s *Store, l *weir.Limit, now time.Time, n, from uint64) timing {
	var t timing
	hits, out := []weir.Hit{{Limit: l, N: 1}}, make([]weir.Status, 1)
	buf := make([]byte, 0, 64)
	begin := time.Now()
	last := begin
	for i := range n {
		buf = key(buf, from+i)
		hits[0].Key = buf
		if s != nil {
			_ = s.Take(context.Background(), now, hits, out)
		}
		at := time.Now()
		took := at.Sub(last)
		last = at
		t.longest = max(t.longest, took)
		if took > time.Millisecond {
			t.over++
		}
	}
	t.mean = float64(last.Sub(begin)) / float64(n)
	return t
}
