// Package limit is the arithmetic of the algorithms: values in, values out. It reads no clock and
// keeps no state.
//
// All comparisons are made in integers, 128 bits wide where a product needs it, so nothing is
// rounded: a wait that is told is the first nanosecond at which the hit passes.
//
// Times are Unix nanoseconds as [Nanos] makes them. A counter never goes back in time: for a call
// from before the last admitted hit its clock stands still, so that such a call refills nothing. A
// clock that was set back by more than a window (at least a minute; a day for quotas) finds counters
// as if they had never been used, for else they would stand still until it has caught up.
package limit

import (
	"math"
	"time"

	"github.com/weirgate/weir"
)

// A State is what one counter remembers, for every algorithm but SlidingLog, whose state is a [Log].
// The zero State is a counter that was never used. Only an admitted hit changes it, so the window
// or period that Used belongs to is the one that holds Last.
type State struct {
	Last int64 // when a hit was last admitted, in Unix nanoseconds
	// Used is what was admitted in that window or period, or is in flight. For TokenBucket it is the
	// low half of the level that Last left behind, in hits × nanoseconds: a hit adds the window to
	// it, and each nanosecond takes Max from it.
	Used uint64
	// Prev is what was admitted in the window before, for SlidingWindow; the high half of the level
	// for TokenBucket.
	Prev uint64
}

// inFlightWait is what a refusal by Concurrency says: nobody knows when a holder ends.
const inFlightWait = int64(time.Second)

// Take returns the state after n hits at now, and fills out with what to tell the client. A refusal
// and a look (n = 0) return s as it was. n below 0 is a look. l.Window is positive where l's
// algorithm has one.
//
// What is not asked for again may be forgotten once out's ResetAfter is over, but for what is in
// flight: from then on it answers as the zero State does.
func Take(l *weir.Limit, s State, now, n int64, out *weir.Status) State {
	out.Limit, out.Degraded = l, false
	if now >= s.Last || l.Algorithm == weir.Concurrency {
		return takeAt(l, s, now, n, out)
	}
	return takeEarlier(l, s, now, n, out)
}

// Nanos returns t in Unix nanoseconds, held within 1970 and 2262, the years that fit.
func Nanos(t time.Time) int64 {
	const last = math.MaxInt64 / int64(time.Second)
	sec := t.Unix()
	if uint64(sec) >= uint64(last) {
		if sec < 0 {
			return 0
		}
		return math.MaxInt64
	}
	return sec*int64(time.Second) + int64(t.Nanosecond())
}

func takeAt(l *weir.Limit, s State, now, n int64, out *weir.Status) State {
	switch l.Algorithm {
	case weir.SlidingWindow:
		return takeSliding(l, s, now, n, out)
	case weir.TokenBucket:
		return takeBucket(l, s, now, n, out)
	case weir.Concurrency:
		return takeCounted(l, s, now, n, span{end: add(now, inFlightWait)}, out)
	case weir.Quota:
		start, end := period(l, now)
		return takeCounted(l, s, now, n, span{start, end}, out)
	}
	start := now - now%int64(l.Window)
	return takeCounted(l, s, now, n, span{start, add(start, int64(l.Window))}, out)
}

// takeEarlier is Take for a now before the last admitted hit.
func takeEarlier(l *weir.Limit, s State, now, n int64, out *weir.Status) State {
	if !follows(l, s.Last, now) {
		next := takeAt(l, s, s.Last, n, out)
		delay(out, s.Last-now)
		return next
	}
	if next := takeAt(l, State{}, now, n, out); next != (State{}) {
		return next
	}
	return s
}

// follows reports whether now is so long before last that a counter of l goes back with the clock.
func follows(l *weir.Limit, last, now int64) bool {
	patience := max(l.Window, time.Minute)
	if l.Algorithm == weir.Quota {
		patience = 24 * time.Hour
	}
	return last-now > int64(patience)
}

// delay makes out true for an asker whose clock is behind the counter's by late nanoseconds.
func delay(out *weir.Status, late int64) {
	if out.RetryAfter > 0 {
		out.RetryAfter = time.Duration(add(int64(out.RetryAfter), late))
	}
	if out.ResetAfter > 0 {
		out.ResetAfter = time.Duration(add(int64(out.ResetAfter), late))
	}
}

// add returns a + b for a and b of at least 0, held at the greatest that fits.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// pass fills out for a hit that passes.
func pass(out *weir.Status, remaining int64, reset time.Duration) {
	out.Allowed, out.Remaining, out.ResetAfter, out.RetryAfter = true, remaining, reset, 0
}

// refuse fills out for a hit that does not.
func refuse(out *weir.Status, remaining int64, reset, retry time.Duration) {
	out.Allowed, out.Remaining, out.ResetAfter, out.RetryAfter = false, remaining, reset, retry
}
