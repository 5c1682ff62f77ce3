package failover

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weirgate/weir"
)

// An operation is what the shared store is asked to do.
type operation uint8

const (
	doTake operation = iota
	doPeek
	doRelease
	doReset
	doProbe
)

// A call is one question to the shared store, with memory of its own: whoever asked may have left
// when the answer comes.
type call struct {
	do   operation
	ctx  *patience
	now  time.Time
	hits []weir.Hit
	keys []byte
	out  []weir.Status
	err  error

	begun atomic.Bool // a worker has it in hand
	left  atomic.Bool // one of asker and worker has left; the other one is the last to use the call
	done  chan struct{}
	timer *time.Timer
}

func newCall() *call {
	c := &call{done: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	c.timer.Stop()
	return c
}

// fill makes c a question about copies of hits.
func (c *call) fill(do operation, now time.Time, hits []weir.Hit) {
	c.do, c.now, c.err = do, now, nil
	c.begun.Store(false)
	c.left.Store(false)
	c.hits = append(c.hits[:0], hits...)
	c.keys = c.keys[:0]
	for i := range hits {
		c.keys = append(c.keys, hits[i].Key...)
	}
	c.out = append(c.out[:0], make([]weir.Status, len(hits))...)
	keys := c.keys
	for i := range c.hits {
		n := len(c.hits[i].Key)
		c.hits[i].Key, keys = keys[:n:n], keys[n:]
	}
}

// leave reports whether the other side is still there: then it has the last word on the call.
func (c *call) leave() bool { return c.left.CompareAndSwap(false, true) }

// perform asks, and hands the answer to whoever waits for it.
func (s *Store) perform(c *call) {
	c.begun.Store(true)
	c.err = s.put(c.ctx, c)
	c.ctx.end()
	if c.leave() {
		c.done <- struct{}{}
		return
	}
	if c.do == doTake && c.err == nil {
		s.owe(c.hits) // whoever has left gives nothing back that is granted afterwards
	}
	s.recycle(c)
}

// put asks the shared store. A panic there is a failure like others.
func (s *Store) put(ctx context.Context, c *call) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: %v", errPanic, v)
		}
	}()
	switch c.do {
	case doPeek:
		return s.shared.Peek(ctx, c.now, c.hits, c.out)
	case doRelease:
		return s.shared.Release(ctx, c.now, c.hits)
	case doReset:
		return s.shared.Reset(ctx, c.hits)
	case doProbe:
		return s.options.Probe(ctx)
	}
	return s.shared.Take(ctx, c.now, c.hits, c.out)
}

func (s *Store) recycle(c *call) {
	const mostKept = 64 // hits; a request with more is rare
	if cap(c.hits) <= mostKept {
		clear(c.hits)
		clear(c.out)
		c.ctx = nil
		s.calls.Put(c)
	}
}

// await has a worker perform c and waits for it, for as long as c.ctx and ctx last. It returns
// errTimeout, errStarved or errGone if the answer did not come: then c is the worker's. An answer that
// is there counts, however late the waiting goroutine came to see it.
func (s *Store) await(ctx context.Context, c *call, wait time.Duration) error {
	own := c.ctx
	c.timer.Reset(wait)
	if !s.crew.start(s, c) {
		c.timer.Stop()
		s.recycle(c)
		return errBusy
	}
	var gaveUp error
	select {
	case <-c.done:
	case <-c.timer.C:
		gaveUp = errStarved
		if c.begun.Load() {
			gaveUp = errTimeout
		}
	case <-ctx.Done():
		gaveUp = errGone
	}
	c.timer.Stop()
	if gaveUp == nil {
		return nil
	}
	if c.leave() {
		own.end()
		return gaveUp
	}
	<-c.done
	return nil
}
