package replay

import (
	"math"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/limit"
)

// A use is what was asked of one limit's counters: per counter and aligned window of the limit, which
// begins where those of fixed_window do, how much was asked for, granted or not.
type use struct {
	limit    *weir.Limit
	asked    int64  // requests
	refused  int64  // hits that it refused, in whatever mode
	peak     int64  // most that was used of a counter at once
	window   uint32 // the number of the window that goes on
	swept    uint32 // the one in which the counters were swept last
	from     int64  // when it began
	until    int64  // when it ends
	counters table
	demand   histogram
	byUse    bool // the demand of a window is the most that was used at once, not what was asked in sum
}

// mostCounters bounds the slots of one limit's counters, 16 bytes each. What goes beyond is in no window.
const mostCounters = 4 << 20

// decided notes what the limit said to a request.
func (u *use) decided(a *ask) {
	if !a.allowed {
		u.refused++
	}
	u.peak = max(u.peak, u.limit.Capacity()-a.remaining)
}

// ask notes n hits on the counter of that hash, which then had so much left.
func (u *use) ask(hash uint64, at, n, remaining int64) {
	u.asked++
	if u.limit.Algorithm == weir.Concurrency {
		return // how many were in flight is in peak
	}
	if at >= u.until || at < u.from {
		u.turn(at)
	}
	if 4*(u.counters.n+1) >= 3*len(u.counters.slots) && (len(u.counters.slots) < mostCounters || u.swept != u.window) {
		u.sweep()
	}
	s, found := u.counters.find(hash)
	if s == nil {
		return
	}
	if found && s.a != u.window {
		u.count(s)
		s.b = 0
	}
	s.a = u.window
	if u.byUse {
		n = max(u.limit.Capacity()-remaining-int64(s.b), 0)
	}
	s.b = uint32(min(int64(s.b)+n, math.MaxUint32))
}

// turn makes the window that holds at the current one.
func (u *use) turn(at int64) {
	if w := int64(u.limit.Window); w > 0 {
		u.from = at - at%w
		u.until = u.from + w
	} else {
		u.from, u.until, _ = limit.Bounds(u.limit, at)
	}
	u.window++ // requests come in the order of time
}

// sweep counts the windows that are over, and doubles the table if few are.
func (u *use) sweep() {
	u.swept = u.window
	size, current := max(firstSlots, len(u.counters.slots)), 0
	for i := range u.counters.slots {
		if s := &u.counters.slots[i]; s.hash != 0 && s.a == u.window {
			current++
		}
	}
	if 2*current >= size && size < mostCounters {
		size *= 2
	}
	u.counters.rebuild(size, func(s *slot) bool {
		if s.a != u.window {
			u.count(s)
		}
		return s.a == u.window
	})
}

func (u *use) count(s *slot) { u.demand.add(uint64(s.b)) }

// finish counts the windows that go on, and forgets them.
func (u *use) finish() {
	for i := range u.counters.slots {
		if s := &u.counters.slots[i]; s.hash != 0 {
			u.count(s)
		}
	}
	u.counters = table{}
}
