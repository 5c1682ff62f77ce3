// Package memory is a store that keeps its counts in this process: sharded, bounded, and swept in
// small steps.
//
// A counter is a value in its shard's table, 40 bytes without a pointer, so a million of them cost
// the garbage collector nothing. Keys are kept as 64-bit seeded hashes: among a million counters a
// new one is mistaken for another once in 10^13.
package memory

import (
	"context"
	"hash/maphash"
	"math/bits"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/limit"
)

// DefaultMaxKeys is how many counters are kept where Options does not say.
const DefaultMaxKeys = 1_000_000

const (
	keysPerShard = 2048 // at least, so that shards fill evenly
	maxShards    = 1 << 15
)

// Options are what a store may be told. The zero Options are the defaults.
type Options struct {
	// MaxKeys is how many counters are kept at most. When a shard has its part of them, expired ones
	// go first, then one of a sample that has most of its limit left. What is in flight is never
	// evicted, so the bound may be passed by as many keys as have something in flight.
	MaxKeys int
}

// A Store counts in memory. It implements weir.Store, weir.Peeker, weir.Releaser and weir.Resetter,
// takes the now of every call as authoritative, and never returns an error.
type Store struct {
	seed   maphash.Seed
	bits   int // log2 of the number of shards
	shards []shard
	stop   chan struct{}
	done   chan struct{}
}

// New returns an empty store. Its background sweep runs until Close.
func New(o Options) *Store {
	if o.MaxKeys <= 0 {
		o.MaxKeys = DefaultMaxKeys
	}
	n := min(max(1, o.MaxKeys/keysPerShard), maxShards)
	s := &Store{seed: maphash.MakeSeed(), bits: bits.Len(uint(n)) - 1, stop: make(chan struct{}), done: make(chan struct{})}
	s.shards = make([]shard, 1<<s.bits)
	for i := range s.shards {
		s.shards[i].index = i
		s.shards[i].max = (o.MaxKeys + i) / len(s.shards) // the parts add up to MaxKeys
	}
	go s.sweep()
	return s
}

// Close ends the background sweep and waits for it. It must be called once.
func (s *Store) Close() {
	close(s.stop)
	<-s.done
}

// Keys is how many counters are kept.
func (s *Store) Keys() int {
	n := 0
	s.each(func(sh *shard) { n += sh.table.n })
	return n
}

// Evictions is how many counters were dropped before their time to keep the bound.
func (s *Store) Evictions() uint64 {
	n := uint64(0)
	s.each(func(sh *shard) { n += sh.evictions })
	return n
}

// Take implements weir.Store.
func (s *Store) Take(_ context.Context, now time.Time, hits []weir.Hit, out []weir.Status) error {
	at := limit.Nanos(now)
	if len(hits) == 1 {
		hash, sh := s.place(hits[0].Key)
		sh.mu.Lock()
		sh.take(hash, at, &hits[0], &out[0])
		sh.mu.Unlock()
		return nil
	}
	var room [8]plan
	plans := s.plan(room[:0], hits)
	s.lock(plans)
	if judge(plans, at, hits, out) {
		for i := range plans {
			plans[i].charge(at, &hits[i], &out[i])
		}
	}
	s.unlock(plans)
	return nil
}

// Peek implements weir.Peeker.
func (s *Store) Peek(_ context.Context, now time.Time, hits []weir.Hit, out []weir.Status) error {
	var room [8]plan
	plans := s.plan(room[:0], hits)
	s.lock(plans)
	judge(plans, limit.Nanos(now), hits, out)
	s.unlock(plans)
	return nil
}

// Release implements weir.Releaser.
func (s *Store) Release(_ context.Context, _ time.Time, hits []weir.Hit) error {
	for i := range hits {
		if h := &hits[i]; h.Limit.Algorithm == weir.Concurrency {
			hash, sh := s.place(h.Key)
			sh.mu.Lock()
			sh.release(hash, h.Lease)
			sh.mu.Unlock()
		}
	}
	return nil
}

// Reset implements weir.Resetter.
func (s *Store) Reset(_ context.Context, hits []weir.Hit) error {
	for i := range hits {
		hash, sh := s.place(hits[i].Key)
		sh.mu.Lock()
		sh.forget(hash)
		sh.mu.Unlock()
	}
	return nil
}

// place returns a key's hash, and the shard that holds its counter. The bits that chose the shard
// come last in the hash, for the table orders by the first ones. A hash is never 0.
func (s *Store) place(key []byte) (uint64, *shard) {
	h := bits.RotateLeft64(maphash.Bytes(s.seed, key), s.bits)
	return max(h, 1), &s.shards[h&(1<<s.bits-1)]
}

// each calls f with every shard, locked, one after the other.
func (s *Store) each(f func(*shard)) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		f(sh)
		sh.mu.Unlock()
	}
}
