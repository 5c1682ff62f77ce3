package limit

import (
	"math"
	"math/bits"
	"time"

	"github.com/weirgate/weir"
)

// A level is how full of hits a token bucket is, in hits × nanoseconds, so that any rate is exact.
type level struct{ hi, lo uint64 }

// takeBucket is GCRA with the theoretical arrival time kept as the level it stands for, so that a
// new rate or burst keeps what was used: n is admitted if level + n × W ≤ burst × W.
func takeBucket(l *weir.Limit, s State, now, n int64, out *weir.Status) State {
	w := int64(l.Window)
	held := level{s.Prev, s.Used}.minus(product(now-s.Last, l.Max))
	burst := bucketSize(l)
	free := max(0, burst-held.over(w))
	if n > 0 && n <= free {
		held = held.plus(product(n, w))
		pass(out, free-n, time.Duration(drainTime(l, held)))
		return State{Last: now, Used: held.lo, Prev: held.hi}
	}
	reset := time.Duration(drainTime(l, held))
	switch ask := max(n, 1); {
	case n <= 0 && free > 0:
		pass(out, free, reset)
	case ask > burst:
		refuse(out, free, reset, weir.Never)
	default:
		refuse(out, free, reset, time.Duration(drainTime(l, held.minus(product(burst-ask, w)))))
	}
	return s
}

// bucketSize is what passes at once from a full bucket; nothing does where nothing refills it.
func bucketSize(l *weir.Limit) int64 {
	if l.Max == 0 {
		return 0
	}
	return l.Burst
}

// drainTime is how many nanoseconds pass until v is gone, rounded up and held at the greatest that
// fits, which it is where the limit drains nothing.
func drainTime(l *weir.Limit, v level) int64 {
	if v == (level{}) {
		return 0
	}
	return v.over(l.Max)
}

// over is v / d rounded up, held at the greatest that fits.
func (v level) over(d int64) int64 {
	if v.hi >= uint64(d) {
		return math.MaxInt64
	}
	q, r := bits.Div64(v.hi, v.lo, uint64(d))
	if q >= math.MaxInt64 {
		return math.MaxInt64
	}
	if r > 0 {
		q++
	}
	return int64(q)
}

// minus is v − u, or nothing where u is more.
func (v level) minus(u level) level {
	lo, borrow := bits.Sub64(v.lo, u.lo, 0)
	hi, borrow := bits.Sub64(v.hi, u.hi, borrow)
	if borrow > 0 {
		return level{}
	}
	return level{hi, lo}
}

// plus is v + u. Below two buckets, as here, it fits.
func (v level) plus(u level) level {
	lo, carry := bits.Add64(v.lo, u.lo, 0)
	return level{v.hi + u.hi + carry, lo}
}

// product is a × b for a and b of at least 0. It fits.
func product(a, b int64) level {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return level{hi, lo}
}
