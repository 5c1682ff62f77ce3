package replay

// A table counts by 64-bit hashes, 16 bytes each and nothing for the garbage collector to follow.
// Among a million keys a new one is mistaken for another once in 10^13.
type table struct {
	slots []slot // a power of two; open addressing, linear probing
	n     int
	most  int // entries from which on it does not grow by itself
}

// A slot is what is known of one key. The zero slot is empty.
type slot struct {
	hash uint64
	a, b uint32
}

const firstSlots = 1 << 10

// find returns the slot of hash, which is its own if found, and else free. It is good until the next
// call. It is nil if the table is full.
func (t *table) find(hash uint64) (s *slot, found bool) {
	hash = max(hash, 1)
	if 4*t.n >= 3*len(t.slots) && !t.grow() {
		return t.peek(hash)
	}
	mask := uint64(len(t.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		switch s := &t.slots[i]; s.hash {
		case hash:
			return s, true
		case 0:
			s.hash = hash
			t.n++
			return s, false
		}
	}
}

// peek returns the slot of hash if there is one.
func (t *table) peek(hash uint64) (*slot, bool) {
	if len(t.slots) == 0 {
		return nil, false
	}
	mask := uint64(len(t.slots) - 1)
	for i := max(hash, 1) & mask; t.slots[i].hash != 0; i = (i + 1) & mask {
		if t.slots[i].hash == max(hash, 1) {
			return &t.slots[i], true
		}
	}
	return nil, false
}

// grow doubles the table and reports whether it may.
func (t *table) grow() bool {
	size := max(firstSlots, 2*len(t.slots))
	if t.n >= t.most {
		return false
	}
	t.rebuild(size, func(*slot) bool { return true })
	return true
}

// rebuild makes a table of so many slots with those that keep says.
func (t *table) rebuild(size int, keep func(*slot) bool) {
	old := t.slots
	t.slots, t.n = make([]slot, size), 0
	mask := uint64(size - 1)
	for i := range old {
		if old[i].hash == 0 || !keep(&old[i]) {
			continue
		}
		at := old[i].hash & mask
		for t.slots[at].hash != 0 {
			at = (at + 1) & mask
		}
		t.slots[at] = old[i]
		t.n++
	}
}
