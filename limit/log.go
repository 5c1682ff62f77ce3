package limit

import (
	"sort"
	"time"

	"github.com/weirgate/weir"
)

// A Log is the state of a SlidingLog limit: a time stamp for each hit that was admitted, oldest
// first, in a ring that grows on demand to no more than the limit's Max. The zero Log was never used.
type Log struct {
	ring []int64
	head int // where the oldest is
	n    int
}

// firstRing is how many stamps a log has room for at first.
const firstRing = 8

// Look fills out with what to tell a client that asks for n at now, as if it were charged, when held
// more of the same request are to be charged before it. It changes nothing.
func (g *Log) Look(l *weir.Limit, now, held, n int64, out *weir.Status) {
	out.Limit, out.Degraded = l, false
	w, at := int64(l.Window), g.clock(now)
	old := g.expired(at, w)
	used := int64(g.n-old) + held
	free, reset := max(0, l.Max-used), time.Duration(0)
	if g.n > old {
		reset = time.Duration(g.Last() + w - at)
	}
	switch ask := max(n, 1); {
	case n > 0 && n <= free:
		pass(out, free-n, l.Window)
	case n <= 0 && free > 0:
		pass(out, free, reset)
	case held+ask > l.Max:
		refuse(out, free, reset, weir.Never)
	default: // enough of the oldest must be out of sight
		last := g.at(old + int(used+ask-l.Max) - 1)
		refuse(out, free, reset, time.Duration(last+w-at))
	}
	delay(out, g.late(at, now))
}

// Add charges n hits at now, which Look allowed.
func (g *Log) Add(l *weir.Limit, now, n int64) {
	g.follow(now)
	at := g.clock(now)
	g.drop(g.expired(at, int64(l.Window)))
	g.reserve(g.n+int(n), int(l.Max))
	for range n {
		g.ring[(g.head+g.n)%len(g.ring)] = at
		g.n++
	}
}

// Last is when a hit was last admitted, or 0.
func (g *Log) Last() int64 {
	if g.n == 0 {
		return 0
	}
	return g.at(g.n - 1)
}

// expired is how many of the oldest stamps are w old.
func (g *Log) expired(at, w int64) int {
	return sort.Search(g.n, func(i int) bool { return at-g.at(i) < w })
}

func (g *Log) at(i int) int64 { return g.ring[(g.head+i)%len(g.ring)] }

// clock is the time that the log sees at now. A log that is to follow a clock set far back answers
// as if it had stood still.
func (g *Log) clock(now int64) int64 { return max(now, g.Last()) }

// late is how far an asker at now is behind a log that stands still at at.
func (g *Log) late(at, now int64) int64 {
	if at-now > backstep {
		return 0
	}
	return at - now
}

// follow moves the stamps with a clock that was set far back.
func (g *Log) follow(now int64) {
	back := g.Last() - now
	if back <= backstep {
		return
	}
	for i := range g.ring {
		g.ring[i] -= back
	}
}

func (g *Log) drop(n int) {
	if n > 0 {
		g.head, g.n = (g.head+n)%len(g.ring), g.n-n
	}
}

// reserve makes room for n stamps, and for no more than most where that is enough.
func (g *Log) reserve(n, most int) {
	if n <= len(g.ring) {
		return
	}
	ring := make([]int64, max(n, min(2*len(g.ring), most), min(firstRing, most)))
	for i := range g.n {
		ring[i] = g.at(i)
	}
	g.ring, g.head = ring, 0
}
