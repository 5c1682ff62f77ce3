package limit

import (
	"math/bits"
	"time"

	"github.com/weirgate/weir"
)

// takeSliding admits n if previous × (W − elapsed)/W + current + n ≤ N, the previous window counting
// 0 once the last admitted hit is W old. Windows are aligned to the Unix epoch.
func takeSliding(l *weir.Limit, s State, now, n int64, out *weir.Status) State {
	w, idle := int64(l.Window), now-s.Last
	elapsed := now % w
	cur, prev := windows(s, idle, elapsed, w)
	free := max(0, l.Max-cur)
	if prev > 0 {
		free = max(0, free-weight(prev, w-elapsed, w))
	}
	if n > 0 && n <= free {
		pass(out, free-n, l.Window)
		return State{Last: now, Used: uint64(cur + n), Prev: uint64(prev)}
	}
	reset := time.Duration(0)
	if cur > 0 || prev > 0 {
		reset = time.Duration(w - idle)
	}
	switch ask := max(n, 1); {
	case ask <= free:
		pass(out, free, reset)
	case ask > l.Max:
		refuse(out, free, reset, weir.Never)
	default:
		wait := min(w-idle, untilRoom(l.Max, ask, cur, prev, w-elapsed, w))
		refuse(out, free, reset, time.Duration(wait))
	}
	return s
}

// windows is what was admitted in the current window and the one before, as seen idle after the last
// admitted hit and elapsed into the current window.
func windows(s State, idle, elapsed, w int64) (cur, prev int64) {
	switch {
	case idle <= elapsed: // last admitted in this window
		return int64(s.Used), int64(s.Prev)
	case idle < w: // in the one before
		return 0, int64(s.Used)
	}
	return 0, 0
}

// weight is the part of prev that still counts when rest of w is to come, rounded up. For whole hits
// that is no rounding: x ≤ k holds for it exactly when it holds for the fraction.
func weight(prev, rest, w int64) int64 {
	hi, lo := bits.Mul64(uint64(prev), uint64(rest))
	q, r := bits.Div64(hi, lo, uint64(w)) // at most prev, since rest ≤ w
	if r > 0 {
		q++
	}
	return int64(q)
}

// untilRoom is the time until n hits, no more than most, pass because the share of the previous
// window has shrunk enough: in this window, of which rest is to come, or in the next.
func untilRoom(most, n, cur, prev, rest, w int64) int64 {
	if room := most - cur - n; room >= 0 {
		return rest - share(room, prev, w)
	}
	return add(rest, w-share(most-n, cur, w))
}

// share is how many of the last nanoseconds of w count hits weigh no more than room in: ⌊room × w /
// count⌋, or w where count ≤ room.
func share(room, count, w int64) int64 {
	if count <= room {
		return w
	}
	hi, lo := bits.Mul64(uint64(room), uint64(w))
	q, _ := bits.Div64(hi, lo, uint64(count)) // below w, since room < count
	return int64(q)
}
