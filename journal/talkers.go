package journal

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/topk"
)

// A Ranking is what is ranked.
type Ranking uint8

const (
	ByClient Ranking = iota // clients as they are counted
	ByPath                  // paths, with what names one thing folded to *
	ByRule                  // rules
	ByShadow                // clients that a shadow limit would have refused, by such requests alone
	rankings = iota
)

// places are how many keys a ranking tells apart at a time.
var places = [rankings]int{ByClient: 1024, ByPath: 512, ByRule: 256, ByShadow: 256}

// slotTime is how long requests are counted together before they become part of the windows.
const slotTime = 10 * time.Second

// mostClosed is how many slots may wait to become part of the windows. Run and every reader take them.
const mostClosed = 12

// A tally is who came how often in some time.
type tally struct {
	number            int64 // of its time, in units of its length since the Unix epoch
	requests, refused uint64
	by                [rankings]*topk.Sketch // nil: nobody came
}

func (y *tally) add(r Ranking, h topk.Hit) {
	if y.by[r] == nil {
		y.by[r] = topk.New(places[r])
	}
	y.by[r].Add(h)
}

func (y *tally) merge(o *tally) {
	y.requests, y.refused = y.requests+o.requests, y.refused+o.refused
	for r, sketch := range o.by {
		if sketch == nil {
			continue
		}
		if y.by[r] == nil {
			y.by[r] = topk.New(places[r])
		}
		y.by[r].Merge(sketch)
	}
}

// begin makes y the empty tally of a time, with the memory that it has.
func (y *tally) begin(number int64) {
	for _, sketch := range y.by {
		if sketch != nil {
			sketch.Clear()
		}
	}
	*y = tally{number: number, by: y.by}
}

// talkers count who asks most, and what each second brought. Notes are added to one slot, whose memory is
// there already; readers and Run make finished slots part of the windows.
type talkers struct {
	seed   maphash.Seed
	secret [3]uint64 // of clients' hashes

	mu      sync.Mutex // held for a page of notes
	slot    *tally
	closed  []*tally // finished, the oldest first
	free    []*tally // empty
	seconds timeline

	reading sync.Mutex // held by readers, before mu
	windows [windows]window
}

func newTalkers() *talkers {
	return &talkers{
		seed: maphash.MakeSeed(), secret: [3]uint64{rand.Uint64(), rand.Uint64(), rand.Uint64() | 1}, slot: new(tally), windows: newWindows(),
		closed: make([]*tally, 0, mostClosed), free: make([]*tally, 0, mostClosed),
	}
}

// take counts requests. It allocates nothing, but for the memory of a slot that is needed for the first time.
func (t *talkers) take(notes []*note) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(notes) > 0 {
		n := 1
		for n < len(notes) && notes[n].rule == notes[0].rule && slotOf(notes[n]) == slotOf(notes[0]) {
			n++
		}
		t.add(notes[:n])
		notes = notes[n:]
	}
}

// slotOf is the number of the slot in which n ended.
func slotOf(n *note) int64 { return n.ended / int64(slotTime/time.Second) }

// add counts notes of one rule that ended in one slot.
func (t *talkers) add(notes []*note) {
	t.turn(slotOf(notes[0]))
	var memory [topk.KeyBytes]byte
	rule := t.ruleHit(memory[:0], notes[0].rule)
	for _, n := range notes {
		if n.again {
			continue
		}
		refused := uint64(0)
		if n.refused {
			refused = 1
		}
		rule.Times, rule.Marked = rule.Times+1, rule.Marked+refused
		t.addClient(n, refused)
		if key := n.of(group); len(key) > 0 {
			t.slot.add(ByPath, topk.Hit{Hash: maphash.Bytes(t.seed, key), Key: key, Times: 1, Marked: refused})
		}
		t.seconds.add(n)
	}
	if rule.Times > 0 {
		t.slot.add(ByRule, rule)
		t.slot.requests, t.slot.refused = t.slot.requests+rule.Times, t.slot.refused+rule.Marked
	}
}

func (t *talkers) addClient(n *note, refused uint64) {
	if !n.known {
		return
	}
	hit := topk.Hit{Hash: n.clientHash, Key: n.client[:], Times: 1, Marked: refused}
	t.slot.add(ByClient, hit)
	if len(n.shadow) > 0 {
		t.slot.add(ByShadow, hit)
	}
}

// clientHash folds what identifies a client into 64 bits by multiplications with secret numbers, half of what maphash
// takes. One alone would spread neighbours more evenly than chance, by which the chain diagnosis counts them.
func (t *talkers) clientHash(key *clientKey) uint64 {
	tail := uint64(key[0])<<8 | uint64(key[17])
	hi, lo := bits.Mul64(binary.LittleEndian.Uint64(key[1:9])^tail^t.secret[0], binary.LittleEndian.Uint64(key[9:17])^t.secret[1])
	hi, lo = bits.Mul64(hi^lo, t.secret[2])
	return hi ^ lo
}

func (t *talkers) ruleHit(b []byte, r *weir.Rule) topk.Hit {
	name := noRule
	if r != nil {
		name = r.Name
	}
	return topk.Hit{Hash: maphash.String(t.seed, name), Key: append(b, cut(name, topk.KeyBytes)...)}
}

// turn begins the slot of that number unless it began already. Requests end in no order: what ended
// before a slot began is counted in it. It holds mu.
func (t *talkers) turn(number int64) {
	if number <= t.slot.number {
		return
	}
	if t.slot.requests > 0 {
		t.finished()
	}
	t.slot.begin(number)
}

// finished puts the slot to the closed ones and takes another. It holds mu.
func (t *talkers) finished() {
	if len(t.closed) == mostClosed { // nobody reads, and Run does not run: the oldest is forgotten
		t.free = append(t.free, t.closed[0])
		t.closed = append(t.closed[:0], t.closed[1:]...)
	}
	t.closed = append(t.closed, t.slot)
	t.slot = t.empty()
}

// empty returns a tally that nobody uses.
func (t *talkers) empty() *tally {
	last := len(t.free) - 1
	if last < 0 {
		return new(tally)
	}
	y := t.free[last]
	t.free = t.free[:last]
	return y
}

// settle makes what is finished at now part of the windows. It holds reading.
func (t *talkers) settle(now time.Time) {
	t.mu.Lock()
	t.turn(now.Unix() / int64(slotTime/time.Second))
	closed := t.closed
	t.closed = make([]*tally, 0, mostClosed)
	t.mu.Unlock()
	for _, slot := range closed {
		for i := range t.windows {
			t.windows[i].merge(slot)
		}
		slot.begin(0)
	}
	t.mu.Lock()
	t.free = append(t.free, closed[:min(len(closed), mostClosed-len(t.free))]...)
	t.mu.Unlock()
}

// finish is settle for who does not read afterwards.
func (t *talkers) finish(now time.Time) {
	t.reading.Lock()
	defer t.reading.Unlock()
	t.settle(now)
}
