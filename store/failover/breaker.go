package failover

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// A breaker keeps calls from a store that does not answer. Every change begins a new era, and what
// began in an earlier one says nothing about the present.
type breaker struct {
	most    int64     // failures in a row that open it
	since   time.Time // what its times are counted from, on the clock that no step changes
	log     *slog.Logger
	changed func(Change)

	era    atomic.Uint64 // odd while it is open
	row    atomic.Int64  // failures since the last answer
	heard  atomic.Int64  // when the store last answered, in nanoseconds
	opened atomic.Int64  // when the breaker last opened, in nanoseconds
	vague  atomic.Bool   // it opened for silence, and nobody has said yet what is behind that
}

func isOpen(era uint64) bool { return era&1 == 1 }

func (b *breaker) open() bool { return isOpen(b.era.Load()) }

// answered notes that a call which began in era was answered.
func (b *breaker) answered(era uint64, at time.Time) {
	if b.era.Load() != era {
		return
	}
	b.heard.Store(b.moment(at))
	if b.row.Load() != 0 {
		b.row.Store(0)
	}
}

// failed notes that a call which began in era was not, and reports whether that opened the breaker.
func (b *breaker) failed(era uint64, at time.Time, why Change) bool {
	if b.era.Load() != era || isOpen(era) || b.row.Add(1) < b.most || !b.era.CompareAndSwap(era, era+1) {
		return false
	}
	b.opened.Store(b.moment(at))
	b.vague.Store(isSilence(why.Cause) || errors.Is(why.Cause, context.DeadlineExceeded))
	b.log.Warn("the shared store does not answer: it is left alone", "failures", b.most, "kind", why.Kind.String(), "error", why.Cause)
	b.changed(why)
	return true
}

// isSilence reports whether err tells only that nothing was heard.
func isSilence(err error) bool {
	return errors.Is(err, errTimeout) || errors.Is(err, errStarved) || errors.Is(err, errShort) ||
		errors.Is(err, os.ErrDeadlineExceeded) || err == context.DeadlineExceeded
}

// explain says once what is behind the silence for which the breaker opened, if a probe found out: a
// request's patience ends before the store's own account of it.
func (b *breaker) explain(err error) {
	if !isSilence(err) && b.vague.CompareAndSwap(true, false) {
		b.log.Warn("why the shared store does not answer", "error", err)
		b.changed(Change{Error, err})
	}
}

// moment is at in nanoseconds.
func (b *breaker) moment(at time.Time) int64 { return int64(at.Sub(b.since)) }

// heardAfter reports whether the store has answered anybody after at.
func (b *breaker) heardAfter(at time.Time) bool { return b.heard.Load() > b.moment(at) }

// quietFor is how long the store has not answered.
func (b *breaker) quietFor(at time.Time) time.Duration {
	return time.Duration(b.moment(at) - b.heard.Load())
}

// mend closes the breaker. Only the keeper calls it.
func (b *breaker) mend(at time.Time) {
	b.row.Store(0)
	b.heard.Store(b.moment(at))
	b.era.Add(1)
	b.log.Info("the shared store answers again", "after", time.Duration(b.moment(at)-b.opened.Load()).Round(time.Millisecond).String())
	b.changed(Change{})
}
