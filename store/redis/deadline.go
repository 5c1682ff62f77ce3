package redis

import (
	"context"
	"time"
)

// A deadline is a context that ends at a moment, for one call after another. It costs no memory as
// long as no call comes to its end.
type deadline struct {
	at    time.Time
	timer *time.Timer
	done  chan struct{}
}

// begin lets it end after the timeout, from now on.
func (d *deadline) begin(timeout time.Duration) {
	d.at = time.Now().Add(timeout)
	if d.timer != nil {
		d.timer.Reset(timeout)
		return
	}
	done := make(chan struct{})
	d.done, d.timer = done, time.AfterFunc(timeout, func() { close(done) })
}

// again reports whether it did not end, and will not before it begins once more. If it did it stays so.
func (d *deadline) again() bool { return d.timer.Stop() }

// Deadline implements context.Context.
func (d *deadline) Deadline() (time.Time, bool) { return d.at, true }

// Done implements context.Context.
func (d *deadline) Done() <-chan struct{} { return d.done }

// Err implements context.Context.
func (d *deadline) Err() error {
	select {
	case <-d.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// Value implements context.Context.
func (d *deadline) Value(any) any { return nil }
