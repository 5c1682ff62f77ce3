package memory

import (
	"math"
	"math/bits"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/limit"
)

// A kind tells what an entry has besides its state.
type kind uint8

const (
	kindPlain kind = iota
	kindLog        // stamps in the shard's logs
	kindHeld       // leases: it must not be evicted
)

// An entry is a counter in a table: 40 bytes. The zero entry is an empty slot.
type entry struct {
	hash    uint64
	state   limit.State
	expires moment
	fill    uint8 // how little is left, see fillOf
	kind    kind
}

// set writes what a charge at the moment at left behind, as st tells.
func (e *entry) set(next limit.State, at int64, st *weir.Status) {
	e.state = next
	e.expires = min(momentOf(at+int64(st.ResetAfter)), math.MaxUint32-1) + 1
	e.fill = fillOf(st.Limit, st.Remaining)
}

// A moment is a time in units of 2^31 nanoseconds (2.1 s) since 1970. An entry expires with the unit
// after the one in which its state is as if it had never been used, so that a clock that goes back a
// little finds what it left.
type moment uint32

// momentOf is the moment that holds nanos. What has passed the greatest that fits stays there.
func momentOf(nanos int64) moment { return moment(min(uint64(nanos), math.MaxInt64) >> 31) }

// fillOf ranks how little of l is left: 0 more than half, 1 more than a quarter and so on; the
// highest if nothing is.
func fillOf(l *weir.Limit, remaining int64) uint8 {
	if remaining == 0 {
		return math.MaxUint8
	}
	return uint8(bits.Len64(uint64(l.Capacity())) - bits.Len64(uint64(remaining)))
}

// A table holds entries in the order of their hashes, each at its home or as near after it as there
// is a slot free. A search therefore ends at the first empty slot or greater hash, removal leaves
// no tombstone, and a table of another size is filled in one pass.
type table struct {
	slots []entry // the last one is always empty
	homes int     // slots that are homes; those after them take what the last homes have no room for
	n     int     // entries
	hand  int     // the slot that was last looked at for expiry
}

const (
	firstHomes = 16
	// A table grows when 13/16 of its homes are taken, by an eighth: 49 to 56 bytes per counter. A
	// greater step would leave more of it empty.
	fullest    = 13
	fullestOf  = 16
	growth     = 8
	emptiest   = 4 // it shrinks when less than one home in so many is taken
	spillShare = 64
)

func (t *table) len() int { return len(t.slots) }

// home is where an entry would best be: the hash scaled to the number of homes.
func (t *table) home(hash uint64) int {
	hi, _ := bits.Mul64(hash, uint64(t.homes))
	return int(hi)
}

// seek returns the slot that holds hash or would hold it.
func (t *table) seek(hash uint64) int {
	i := t.home(hash)
	for h := t.slots[i].hash; h != 0 && h < hash; h = t.slots[i].hash {
		i++
	}
	return i
}

// find returns hash's entry, or nil. It is good until the next insertion or removal.
func (t *table) find(hash uint64) *entry {
	if t.n == 0 {
		return nil
	}
	if e := &t.slots[t.seek(hash)]; e.hash == hash {
		return e
	}
	return nil
}

// insert adds an entry for hash, which is not in the table.
func (t *table) insert(hash uint64) *entry {
	if t.n*fullestOf >= t.homes*fullest {
		t.resize(t.homes + t.homes/growth)
	}
	for {
		if e := t.place(hash); e != nil {
			return e
		}
		t.resize(t.homes + t.homes/growth)
	}
}

// place makes an entry for hash by moving greater ones up, or returns nil if there is no room to.
func (t *table) place(hash uint64) *entry {
	i := t.seek(hash)
	free := i
	for t.slots[free].hash != 0 {
		free++
	}
	if free == len(t.slots)-1 {
		return nil
	}
	copy(t.slots[i+1:free+1], t.slots[i:free])
	t.slots[i] = entry{hash: hash}
	t.n++
	return &t.slots[i]
}

// remove empties e's slot by moving down those after it that are not at home.
func (t *table) remove(e *entry) {
	i := t.seek(e.hash)
	end := i + 1
	for h := t.slots[end].hash; h != 0 && t.home(h) < end; h = t.slots[end].hash {
		end++
	}
	copy(t.slots[i:end-1], t.slots[i+1:end])
	t.slots[end-1] = entry{}
	t.n--
}

// resize moves the entries to a table of so many homes, or a few more if they do not fit.
func (t *table) resize(homes int) {
	for next := max(homes, firstHomes); ; next += next / growth {
		if u := newTable(next); u.fill(t.slots) {
			u.hand = t.hand * u.homes / max(t.homes, 1)
			*t = u
			return
		}
	}
}

// shrink gives back memory that few entries are left in.
func (t *table) shrink() {
	switch {
	case t.n == 0:
		*t = table{}
	case t.homes > firstHomes && t.n*emptiest < t.homes:
		t.resize(t.n * fullestOf / fullest * (growth + 1) / growth)
	}
}

func newTable(homes int) table {
	const leastSpill = 8
	return table{slots: make([]entry, homes+homes/spillShare+leastSpill), homes: homes}
}

// fill puts the entries of slots into the empty t, and reports whether there was room.
func (t *table) fill(slots []entry) bool {
	next := 0
	for i := range slots {
		if slots[i].hash == 0 {
			continue
		}
		next = max(next, t.home(slots[i].hash))
		if next == len(t.slots)-1 {
			return false
		}
		t.slots[next] = slots[i]
		t.n++
		next++
	}
	return true
}

// advance moves the hand to the next slot and returns it, or nil in a table without slots.
func (t *table) advance() *entry {
	if len(t.slots) == 0 {
		return nil
	}
	t.hand++
	if t.hand >= len(t.slots) {
		t.hand = 0
	}
	return &t.slots[t.hand]
}
