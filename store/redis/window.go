package redis

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/weirgate/weir"
)

// A Window counts in Redis as envoyproxy/ratelimit does, in the same counters, so that both may serve
// one fleet. A hit's Key is the counter's name to the letter, with the beginning of its window in it,
// and its Limit a FixedWindow. Every hit is counted, also one that is refused, and it is refused if the
// count is above Max then. All hits of a request are counted, whatever becomes of the others, and the
// same key twice counts twice. Windows are those of the now that a call is given.
//
// A status says in Remaining how far the counter is below Max, and below 0 how far it is above.
type Window struct {
	store   *Store
	options WindowOptions
	over    *overs
	counts  counting

	recalled atomic.Uint64
}

// WindowOptions are what a Window may be told. The zero WindowOptions are envoyproxy/ratelimit's, but
// for the jitter, which is 300 seconds there.
type WindowOptions struct {
	// Jitter is up to how much later than its window's length a counter expires.
	Jitter time.Duration
	// Spare leaves the other counters of a request alone, if one is above its limit. It asks Redis twice.
	Spare bool
	// Remember is how many bytes there are for counters that are known to be above their limit: those
	// are refused without asking Redis, and not counted, until their window ends. 0 is none.
	Remember int
}

// NewWindow returns a Window on what s is connected to. It is used no longer than s is open.
func NewWindow(s *Store, o WindowOptions) *Window {
	return &Window{store: s, options: o, over: newOvers(o.Remember), counts: counting{store: s}}
}

// Take implements weir.Store, but that it charges hits by themselves.
func (w *Window) Take(ctx context.Context, now time.Time, hits []weir.Hit, out []weir.Status) error {
	t := w.tally(now, hits)
	if w.options.Spare && len(hits) > 1 {
		if err := w.spare(ctx, t, hits); err != nil {
			return w.fault("count", len(hits), err)
		}
	}
	if err := w.counts.run(ctx, t); err != nil {
		return w.fault("count", len(hits), err)
	}
	for i := range hits {
		windowStatus(&hits[i], now, t.counts[i].after, &out[i])
		if !out[i].Allowed && !t.counts[i].known {
			w.over.add(&hits[i], now, out[i].ResetAfter)
		}
	}
	return nil
}

// Peek implements weir.Peeker.
func (w *Window) Peek(ctx context.Context, now time.Time, hits []weir.Hit, out []weir.Status) error {
	t := w.tally(now, hits)
	t.op = opLook
	if err := w.counts.run(ctx, t); err != nil {
		return w.fault("look at", len(hits), err)
	}
	for i := range hits {
		after := t.counts[i].after
		if n := t.counts[i].n; !t.counts[i].known {
			after = min(after, mostAfter-n) + n
		}
		windowStatus(&hits[i], now, after, &out[i])
	}
	return nil
}

// Reset implements weir.Resetter. Other replicas may remember for as long as the window lasts.
func (w *Window) Reset(ctx context.Context, hits []weir.Hit) error {
	t := newTally(len(hits))
	t.op = opForget
	for i := range hits {
		t.counts = append(t.counts, count{key: string(hits[i].Key)})
		w.over.forget(&hits[i])
	}
	if err := w.counts.run(ctx, t); err != nil {
		return w.fault("forget", len(hits), err)
	}
	return nil
}

// Release implements weir.Releaser: nothing is held.
func (w *Window) Release(context.Context, time.Time, []weir.Hit) error { return nil }

// Recall fills out if all hits are known to be above their limits, and reports whether they are. It asks
// nobody.
func (w *Window) Recall(now time.Time, hits []weir.Hit, out []weir.Status) bool {
	for i := range hits {
		if !w.over.knows(&hits[i], now) {
			return false
		}
	}
	for i := range hits {
		windowStatus(&hits[i], now, beyond(&hits[i]), &out[i])
	}
	w.recalled.Add(uint64(len(hits)))
	return len(hits) > 0
}

// Recalled is how many hits were answered from memory, since the start.
func (w *Window) Recalled() uint64 { return w.recalled.Load() }

// tally returns the counters of hits, with what is known of them.
func (w *Window) tally(now time.Time, hits []weir.Hit) *tally {
	t := newTally(len(hits))
	for i := range hits {
		h := &hits[i]
		c := count{n: min(max(h.N, 0), mostCost), known: w.over.knows(h, now)}
		if c.known {
			c.after = beyond(h)
		} else {
			c.key, c.expire = string(h.Key), w.expiry(h.Limit.Window)
		}
		t.counts = append(t.counts, c)
	}
	return t
}

// expiry is after how many seconds a counter of that window is forgotten.
func (w *Window) expiry(window time.Duration) int64 {
	seconds := max(1, int64(window/time.Second))
	if jitter := int64(w.options.Jitter / time.Second); jitter > 0 {
		seconds += rand.Int64N(jitter)
	}
	return seconds
}

// spare makes looks of the hits that stay within their limits, if others do not.
func (w *Window) spare(ctx context.Context, t *tally, hits []weir.Hit) error {
	looks := newTally(len(hits))
	looks.op = opLook
	over := false
	for _, c := range t.counts {
		looks.counts = append(looks.counts, c)
		over = over || c.known
	}
	if !over {
		if err := w.counts.run(ctx, looks); err != nil {
			return err
		}
	}
	for i := range looks.counts {
		c := &looks.counts[i]
		c.above = !c.known && c.after > hits[i].Limit.Max-c.n
		over = over || c.above
	}
	for i := range t.counts {
		if over && !looks.counts[i].above {
			t.counts[i].n = 0
		}
	}
	return nil
}

// beyond is the least that the counter of a hit stands at which is known to be refused.
func beyond(h *weir.Hit) int64 { return h.Limit.Max + min(max(h.N, 1), mostCost) }

// windowStatus fills out for a counter that stands at after.
func windowStatus(h *weir.Hit, now time.Time, after int64, out *weir.Status) {
	window := max(int64(h.Limit.Window), 1)
	*out = weir.Status{Limit: h.Limit, Allowed: after <= h.Limit.Max, Remaining: h.Limit.Max - after}
	out.ResetAfter = time.Duration(window - now.UnixNano()%window)
	switch {
	case out.Allowed:
	case h.N > h.Limit.Max:
		out.RetryAfter = weir.Never
	default:
		out.RetryAfter = out.ResetAfter
	}
}

// fault says who could not do what.
func (w *Window) fault(what string, n int, err error) error {
	return fmt.Errorf("redis %s: %s %d windows: %w", w.store.target.addrs[0], what, n, err)
}

// mostAfter is where a counter stands that Redis cannot raise any more.
const mostAfter = math.MaxInt64
