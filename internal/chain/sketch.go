package chain

import (
	"math"
	"math/bits"
	"net/netip"
)

const (
	slots    = 64 // of the exact part of a distinct
	maxExact = 48 // how many of them may be used
	mapBits  = 1024
)

// A distinct counts distinct values by their hashes: exactly up to 48, then within a few per cent up
// to some thousands, by linear counting.
type distinct struct {
	exact int
	slot  [slots]uint64
	seen  [mapBits / 64]uint64
}

// add counts a value. A hash of 0 is no value.
func (d *distinct) add(hash uint64) {
	if hash == 0 {
		return
	}
	bit := hash >> 54
	d.seen[bit/64] |= 1 << (bit % 64)
	for i := hash % slots; d.exact < maxExact; i = (i + 1) % slots {
		switch d.slot[i] {
		case hash:
			return
		case 0:
			d.slot[i] = hash
			d.exact++
			return
		}
	}
}

// count returns how many values there were.
func (d *distinct) count() int {
	if d.exact < maxExact {
		return d.exact
	}
	zeros := mapBits
	for _, word := range d.seen {
		zeros -= bits.OnesCount64(word)
	}
	estimate := -mapBits * math.Log(float64(max(zeros, 1))/mapBits)
	return max(d.exact, int(math.Round(estimate)))
}

// topSize is how many values a top keeps.
const topSize = 17

// A top finds the most frequent values in bounded memory, by the space-saving algorithm: a value's
// count is never too low, and too high by no more than its floor.
type top struct {
	used    int
	dropped bool // there were more values than places
	items   [topSize]item
}

type item struct {
	hash         uint64
	network      netip.Prefix
	count, floor int
}

// add counts a value.
func (t *top) add(hash uint64, network netip.Prefix) {
	least := 0
	for i := range t.used {
		if t.items[i].hash == hash {
			t.items[i].count++
			return
		}
		if t.items[i].count < t.items[least].count {
			least = i
		}
	}
	if t.used < topSize {
		t.items[t.used] = item{hash: hash, network: network, count: 1}
		t.used++
		return
	}
	t.dropped = true
	floor := t.items[least].count
	t.items[least] = item{hash: hash, network: network, count: floor + 1, floor: floor}
}

// first returns the most frequent value and how often it came at least.
func (t *top) first() (netip.Prefix, int) {
	var best item
	for _, it := range t.items[:t.used] {
		if it.count-it.floor > best.count-best.floor {
			best = it
		}
	}
	return best.network, best.count - best.floor
}

// networks returns the values that make up at least one in twenty of n.
func (t *top) networks(n int) []netip.Prefix {
	var list []netip.Prefix
	for _, it := range t.items[:t.used] {
		if (it.count-it.floor)*20 >= n {
			list = append(list, it.network)
		}
	}
	return list
}
