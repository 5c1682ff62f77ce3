package redis

import (
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/weirgate/weir"
)

const (
	// refusalSlots is how many refused requests are remembered at most, each in the place that its
	// print has: 32768 × about 250 bytes.
	refusalSlots = 1 << 15
	// recheck is how long a refusal is believed: a reset by another replica takes effect after it.
	recheck = time.Second
)

// refusals are requests that are known to be refused until a moment. A request is answered from memory
// if it asks the same counters under the same numbers, and of what was over its limit no less than was
// refused. Until then nothing can have made it pass but a reset, which empties the memory of the
// replica that made it. What is said of limits that were not over may be old by recheck.
type refusals struct {
	seed       maphash.Seed
	generation atomic.Uint64 // goes up to forget all
	slots      [refusalSlots]atomic.Pointer[refusal]
}

// A refusal is a request that was refused.
type refusal struct {
	print      uint64
	generation uint64
	until      time.Duration // since the store began: the first moment that something of it could pass
	came       time.Duration // when the answer came, from which its waits run
	hits       []refusedHit
}

type refusedHit struct {
	limit  *weir.Limit
	n      int64
	status weir.Status
}

func (r *refusals) init() { r.seed = maphash.MakeSeed() }

// print is what a request's counters have in common with no other's, but once in 2^64.
func (r *refusals) print(hits []weir.Hit) uint64 {
	p := maphash.Bytes(r.seed, hits[0].Key)
	for i := 1; i < len(hits); i++ {
		p = p*0x9E3779B97F4A7C15 ^ maphash.Bytes(r.seed, hits[i].Key)
	}
	return p
}

// answer fills out if the request is known to be refused.
func (r *refusals) answer(print uint64, now time.Duration, hits []weir.Hit, out []weir.Status) bool {
	f := r.slots[print%refusalSlots].Load()
	if f == nil || f.print != print || now >= f.until || f.generation != r.generation.Load() || !f.holds(hits) {
		return false
	}
	for i := range hits {
		f.hits[i].tell(&hits[i], now-f.came, &out[i])
	}
	return true
}

// holds reports whether what was refused then is refused to hits too.
func (f *refusal) holds(hits []weir.Hit) bool {
	if len(f.hits) != len(hits) {
		return false
	}
	for i := range hits {
		then, l := &f.hits[i], hits[i].Limit
		if then.limit != l && !alike(then.limit, l) {
			return false
		}
		if n := max(hits[i].N, 1); n != then.n && (then.status.Allowed || n < then.n) {
			return false
		}
	}
	return true
}

// alike reports whether two limits refuse the same.
func alike(a, b *weir.Limit) bool {
	return a.Max == b.Max && a.Burst == b.Burst && a.Mode == b.Mode && a.Window == b.Window && a.Algorithm == b.Algorithm
}

// tell fills out with the status as it is after some time. More than was refused then passes at the
// latest when the counter is unused.
func (r *refusedHit) tell(h *weir.Hit, after time.Duration, out *weir.Status) {
	*out = r.status
	out.Limit = h.Limit
	out.ResetAfter = max(0, out.ResetAfter-after)
	switch n := max(h.N, 1); {
	case out.Allowed || out.RetryAfter == weir.Never:
	case n > h.Limit.Capacity():
		out.RetryAfter = weir.Never
	case n > r.n:
		out.RetryAfter = max(1, out.ResetAfter)
	default:
		out.RetryAfter = max(1, out.RetryAfter-after)
	}
}

// remember keeps the refusal of hits. Nobody knows when a holder of a Concurrency limit ends, so what
// that refuses is not kept.
func (r *refusals) remember(print, generation uint64, j *job, hits []weir.Hit, out []weir.Status) {
	f := &refusal{print: print, generation: generation, until: j.sent + recheck, came: j.came, hits: make([]refusedHit, len(hits))}
	for i := range hits {
		f.hits[i] = refusedHit{limit: hits[i].Limit, n: max(hits[i].N, 1), status: out[i]}
		if out[i].Allowed {
			continue
		}
		if hits[i].Limit.Algorithm == weir.Concurrency {
			return
		}
		if wait := out[i].RetryAfter; wait != weir.Never {
			f.until = min(f.until, j.sent+wait)
		}
	}
	r.slots[print%refusalSlots].Store(f)
}
