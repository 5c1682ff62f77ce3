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
	w := int64(l.Window)
	at, old := g.view(l, now)
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
	case ask > l.Max-held:
		refuse(out, free, reset, weir.Never)
	default: // enough of the oldest must be out of sight
		last := g.at(old + int(used+ask-l.Max) - 1)
		refuse(out, free, reset, time.Duration(last+w-at))
	}
	delay(out, at-now)
}

// Add charges n hits at now, which Look allowed.
func (g *Log) Add(l *weir.Limit, now, n int64) {
	at, old := g.view(l, now)
	if old > 0 {
		g.head, g.n = (g.head+old)%len(g.ring), g.n-old
	}
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

// view is the time that the log sees at now, and how many of the oldest stamps no longer count.
func (g *Log) view(l *weir.Limit, now int64) (at int64, old int) {
	last, w := g.Last(), int64(l.Window)
	if follows(l, last, now) {
		return now, g.n
	}
	at = max(now, last)
	return at, sort.Search(g.n, func(i int) bool { return at-g.at(i) < w })
}

func (g *Log) at(i int) int64 { return g.ring[(g.head+i)%len(g.ring)] }

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
