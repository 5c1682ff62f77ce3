package failover

import (
	"math/bits"
	"sync"
)

// A fact is what a counter may start from in this replica.
type fact struct {
	hash  uint64
	start int64
	until int64 // then the counter is as if it had never been used, in Unix nanoseconds; 0 is no fact
}

const (
	ways    = 4  // facts that share a place
	stripes = 64 // locks
)

// known is a bounded memory of facts. Where its places are taken, what has expired goes first, then
// what has most left.
type known struct {
	mask  uint64
	sets  [][ways]fact
	locks [stripes]sync.Mutex
}

// newKnown returns a memory of at least size facts, up to the next power of two.
func newKnown(size int) *known {
	n := 1 << bits.Len(uint(max(size, ways)-1)) / ways
	return &known{mask: uint64(n - 1), sets: make([][ways]fact, n)}
}

// locked returns the place of hash and its lock, which it holds.
func (k *known) locked(hash uint64) (*[ways]fact, *sync.Mutex) {
	mu := &k.locks[hash&k.mask%stripes]
	mu.Lock()
	return &k.sets[hash&k.mask], mu
}

// find returns hash's fact in set, or nil.
func find(set *[ways]fact, hash uint64) *fact {
	for i := range set {
		if set[i].hash == hash && set[i].until != 0 {
			return &set[i]
		}
	}
	return nil
}

// set keeps f, as the moment is at.
func (k *known) set(f fact, at int64) {
	set, mu := k.locked(f.hash)
	defer mu.Unlock()
	if old := find(set, f.hash); old != nil {
		*old = f
		return
	}
	victim := &set[0]
	for i := range set {
		if worthLess(&set[i], victim, at) {
			victim = &set[i]
		}
	}
	*victim = f
}

// worthLess reports whether a goes before b at the moment at: what has expired, then what has most left.
func worthLess(a, b *fact, at int64) bool {
	if over := a.until <= at; over != (b.until <= at) {
		return over
	}
	return a.start > b.start || a.start == b.start && a.until < b.until
}

func (k *known) forget(hash uint64) {
	set, mu := k.locked(hash)
	defer mu.Unlock()
	if f := find(set, hash); f != nil {
		*f = fact{}
	}
}

// get returns hash's fact if it holds at the moment at.
func (k *known) get(hash uint64, at int64) (fact, bool) {
	set, mu := k.locked(hash)
	defer mu.Unlock()
	f := find(set, hash)
	if f == nil || f.until <= at {
		return fact{}, false
	}
	return *f, true
}

// claim is get for one caller: the fact is forgotten.
func (k *known) claim(hash uint64, at int64) (fact, bool) {
	set, mu := k.locked(hash)
	defer mu.Unlock()
	f := find(set, hash)
	if f == nil {
		return fact{}, false
	}
	was := *f
	*f = fact{}
	return was, was.until > at
}
