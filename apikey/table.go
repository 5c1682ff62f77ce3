package apikey

import (
	"encoding/binary"
	"sync/atomic"
)

// A table finds entries by their sums. Any number of goroutines may look while one changes it: a slot is written
// once or given another entry, and a larger table takes the place of one that is full.
type table struct {
	slots atomic.Pointer[[]atomic.Pointer[entry]] // a power of two; never full
	taken int                                     // slots that are not empty
}

// gone is in the slot of an entry that was removed. No key has its sum.
var gone = &entry{}

// leastSlots is the size of an empty table.
const leastSlots = 64

func newTable() *table {
	t := new(table)
	t.resize(leastSlots)
	return t
}

// find returns the entry of a sum, or nil.
func (t *table) find(s *sum) *entry {
	slots := *t.slots.Load()
	for i := s.word(); ; i++ {
		e := slots[i&uint64(len(slots)-1)].Load()
		if e == nil || e.sum.equals(s) {
			return e
		}
	}
}

// put adds e, or puts it in the place of the one with its sum.
func (t *table) put(e *entry) {
	slots := *t.slots.Load()
	if 4*(t.taken+1) > 3*len(slots) {
		t.resize(4 * t.live())
		slots = *t.slots.Load()
	}
	t.taken += place(slots, e)
}

// place puts e into its slot and returns how many more are taken.
func place(slots []atomic.Pointer[entry], e *entry) int {
	for i := e.sum.word(); ; i++ {
		slot := &slots[i&uint64(len(slots)-1)]
		switch there := slot.Load(); {
		case there == nil:
			slot.Store(e)
			return 1
		case there.sum.equals(&e.sum):
			slot.Store(e)
			return 0
		}
	}
}

// remove removes the entry of a sum, if there is one.
func (t *table) remove(s *sum) {
	slots := *t.slots.Load()
	for i := s.word(); ; i++ {
		slot := &slots[i&uint64(len(slots)-1)]
		switch there := slot.Load(); {
		case there == nil:
			return
		case there.sum.equals(s):
			slot.Store(gone)
			return
		}
	}
}

// each calls f with every entry.
func (t *table) each(f func(*entry)) {
	slots := *t.slots.Load()
	for i := range slots {
		if e := slots[i].Load(); e != nil && e != gone {
			f(e)
		}
	}
}

func (t *table) live() (n int) {
	t.each(func(*entry) { n++ })
	return n
}

// resize moves all entries to a table of at least n slots.
func (t *table) resize(n int) {
	size := leastSlots
	for size < n {
		size *= 2
	}
	slots, taken := make([]atomic.Pointer[entry], size), 0
	if t.slots.Load() != nil {
		t.each(func(e *entry) { taken += place(slots, e) })
	}
	t.taken = taken
	t.slots.Store(&slots)
}

// word is where in a table a sum is looked for first. Sums are as good as random.
func (s *sum) word() uint64 { return binary.LittleEndian.Uint64(s[:8]) }

// equals reports whether s is other, in a time that does not tell how much of it is.
func (s *sum) equals(other *sum) bool {
	var differ uint64
	for i := 0; i < len(s); i += 8 {
		differ |= binary.LittleEndian.Uint64(s[i:i+8]) ^ binary.LittleEndian.Uint64(other[i:i+8])
	}
	return differ == 0
}
