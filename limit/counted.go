package limit

import (
	"time"

	"github.com/weirgate/weir"
)

// A span is the window or period that holds a moment. What was used before start does not count.
type span struct{ start, end int64 }

// takeCounted admits n if what was used since w.start leaves room for it: FixedWindow, Quota, and
// with a span that has no start Concurrency.
func takeCounted(l *weir.Limit, s State, now, n int64, w span, out *weir.Status) State {
	used := int64(s.Used)
	if s.Last < w.start {
		used = 0
	}
	free, left := max(0, l.Max-used), time.Duration(w.end-now)
	if n > 0 && n <= free {
		pass(out, free-n, left)
		return State{Last: now, Used: uint64(used + n)}
	}
	reset := left
	if used == 0 {
		reset = 0
	}
	switch {
	case n <= 0 && free > 0:
		pass(out, free, reset)
	case max(n, 1) > l.Max:
		refuse(out, free, reset, weir.Never)
	default:
		refuse(out, free, reset, left)
	}
	return s
}
