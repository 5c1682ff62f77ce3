// Package topk finds out who comes most often among more than can be remembered.
//
// A [Sketch] is Space-Saving (Metwally, Agrawal, El Abbadi: Efficient Computation of Frequent and Top-k
// Elements in Data Streams, 2005), divided by hash into small parts of its own, so that a hit costs one
// look at a few neighbouring words. It says of each key how often it came at least, and how much more at
// most; of a key that it does not name, how often it came at most.
package topk

import (
	"cmp"
	"slices"
)

const (
	ways = 8 // keys of one part
	// KeyBytes of a key are kept for showing. Keys are told apart by their hash alone.
	KeyBytes = 64
)

// A Sketch counts hits by key in constant memory. It is not safe for concurrent use.
type Sketch struct {
	parts []part
}

// A part is Space-Saving for the keys that fall into it. Keys are in no order; the used ones come first.
type part struct {
	used  int
	floor uint64 // most hits that a key may have had which is not here
	hash  [ways]uint64
	most  [ways]uint64 // hits at most
	over  [ways]uint64 // of those, hits that were not seen
	also  [ways]uint64 // of those seen, the marked
	keys  [ways]key
}

type key struct {
	len  uint8
	text [KeyBytes]byte
}

// New returns a sketch of at least size keys. Sketches of one size can be merged.
func New(size int) *Sketch { return &Sketch{make([]part, (size+ways-1)/ways)} }

// An Item is what is known of a key that came often.
type Item struct {
	Hash   uint64
	Key    string // its first [KeyBytes] bytes
	Hits   uint64 // at least so many
	Error  uint64 // and at most so many more
	Marked uint64 // of Hits
}

// A Hit is a key that came, once or more often.
type Hit struct {
	Hash   uint64 // of the whole key; whoever could foresee it could push others out
	Key    []byte
	Times  uint64
	Marked uint64 // of them, how many count for Item.Marked, too
}

// Add counts a key. It allocates nothing.
func (s *Sketch) Add(h Hit) {
	p := s.part(h.Hash)
	i := p.find(h.Hash)
	if i < 0 {
		i = p.admit(h.Hash, h.Key)
	}
	p.most[i] += h.Times
	p.also[i] += h.Marked
}

// part returns where a key of that hash belongs. The upper half of the hash chooses, without bias that
// matters.
func (s *Sketch) part(hash uint64) *part { return &s.parts[(hash>>32)*uint64(len(s.parts))>>32] }

func (p *part) find(hash uint64) int {
	for i, h := range p.hash[:p.used] {
		if h == hash {
			return i
		}
	}
	return -1
}

// admit makes room for a key, if need be by forgetting the one that came least.
func (p *part) admit(hash uint64, k []byte) int {
	i := p.used
	if i < ways {
		p.used++
	} else {
		i = p.least()
		p.floor = max(p.floor, p.most[i])
	}
	p.hash[i], p.most[i], p.over[i], p.also[i] = hash, p.floor, p.floor, 0
	p.keys[i].len = uint8(copy(p.keys[i].text[:], k))
	return i
}

// least returns the key that can have come least.
func (p *part) least() int {
	least, most := 0, p.most[0]
	for i, n := range p.most {
		if n < most {
			least, most = i, n
		}
	}
	return least
}

// Clear forgets everything.
func (s *Sketch) Clear() { clear(s.parts) }

// Copy makes s what other is, which has the same size.
func (s *Sketch) Copy(other *Sketch) { copy(s.parts, other.parts) }

// Merge adds what other, which has the same size, counted. Its bounds stay bounds.
func (s *Sketch) Merge(other *Sketch) {
	for i := range s.parts {
		s.parts[i].merge(&other.parts[i])
	}
}

func (p *part) merge(o *part) {
	all := make([]entry, 0, 2*ways)
	for i := range p.used {
		e := entry{p.hash[i], p.most[i], p.over[i], p.also[i], &p.keys[i]}
		if j := o.find(e.hash); j >= 0 {
			e.most, e.over, e.also = e.most+o.most[j], e.over+o.over[j], e.also+o.also[j]
		} else {
			e.most, e.over = e.most+o.floor, e.over+o.floor
		}
		all = append(all, e)
	}
	for j := range o.used {
		if p.find(o.hash[j]) < 0 {
			all = append(all, entry{o.hash[j], o.most[j] + p.floor, o.over[j] + p.floor, o.also[j], &o.keys[j]})
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(b.most, a.most) })
	next := part{used: min(len(all), ways), floor: p.floor + o.floor}
	for i, e := range all {
		if i >= ways {
			next.floor = max(next.floor, e.most)
			continue
		}
		next.hash[i], next.most[i], next.over[i], next.also[i], next.keys[i] = e.hash, e.most, e.over, e.also, *e.key
	}
	*p = next
}

// An entry is a key of one of two parts that are merged.
type entry struct {
	hash, most, over, also uint64
	key                    *key
}

// Get returns what is known of one key: where the sketch does not name it, no hit and the bound.
func (s *Sketch) Get(hash uint64) Item {
	p := s.part(hash)
	if i := p.find(hash); i >= 0 {
		return p.item(i)
	}
	return Item{Hash: hash, Error: p.floor}
}

func (p *part) item(i int) Item {
	k := &p.keys[i]
	return Item{p.hash[i], string(k.text[:k.len]), p.most[i] - p.over[i], p.over[i], p.also[i]}
}

// Items returns all keys that are remembered, in no order.
func (s *Sketch) Items() []Item {
	var items []Item
	for i := range s.parts {
		for k := range s.parts[i].used {
			items = append(items, s.parts[i].item(k))
		}
	}
	return items
}
