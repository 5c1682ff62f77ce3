package redis

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/weirgate/weir"
)

// overs is a bounded memory of counters that are above their limits, and stay so until their windows
// end, for such a counter only grows. nil remembers nothing.
type overs struct {
	seed maphash.Seed
	sets []overSet
}

const overWays = 4

// An overSet holds the counters that share a place. One that has ended makes room, else the one that ends
// first.
type overSet struct {
	mu    sync.Mutex
	hash  [overWays]uint64
	until [overWays]int64 // Unix nanoseconds
}

const overSetBytes = 8 + overWays*16

func newOvers(bytes int) *overs {
	if bytes <= 0 {
		return nil
	}
	return &overs{seed: maphash.MakeSeed(), sets: make([]overSet, max(1, bytes/overSetBytes))}
}

// place returns the place of a hit's counter, which it locks. What is above one limit may be below another.
func (o *overs) place(h *weir.Hit) (*overSet, uint64) {
	hash := maphash.Bytes(o.seed, h.Key) ^ uint64(h.Limit.Max)*0x9E3779B97F4A7C15
	set := &o.sets[hash%uint64(len(o.sets))]
	set.mu.Lock()
	return set, hash
}

// knows reports whether the counter is known to be above its limit.
func (o *overs) knows(h *weir.Hit, now time.Time) bool {
	if o == nil {
		return false
	}
	set, hash := o.place(h)
	defer set.mu.Unlock()
	for i := range set.hash {
		if set.hash[i] == hash {
			return now.UnixNano() < set.until[i]
		}
	}
	return false
}

// add notes that the counter is above its limit for so long.
func (o *overs) add(h *weir.Hit, now time.Time, last time.Duration) {
	if o == nil {
		return
	}
	set, hash := o.place(h)
	defer set.mu.Unlock()
	victim := 0
	for i := range set.hash {
		if set.hash[i] == hash {
			victim = i
			break
		}
		if set.until[i] < set.until[victim] {
			victim = i
		}
	}
	set.hash[victim], set.until[victim] = hash, now.UnixNano()+int64(last)
}

// forget makes the counter be asked for again.
func (o *overs) forget(h *weir.Hit) {
	if o == nil {
		return
	}
	set, hash := o.place(h)
	defer set.mu.Unlock()
	for i := range set.hash {
		if set.hash[i] == hash {
			set.until[i] = 0
		}
	}
}
