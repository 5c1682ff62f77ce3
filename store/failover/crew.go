package failover

import (
	"sync/atomic"
	"time"
)

const (
	// mostCalls is how many calls may be under way, those given up among them.
	mostCalls = 8192
	// mostIdle is how many workers wait for the next call.
	mostIdle = 256
	// leaveGrace is how long Close waits for calls that do not heed their context.
	leaveGrace = time.Second
)

// A crew are the goroutines that ask the shared store, so that whoever waits can leave. They are
// used again: under load a call costs a hand-over, not a goroutine.
type crew struct {
	work    chan *call
	workers atomic.Int64
	idle    atomic.Int64
	gone    chan struct{} // told when a worker ends
}

func newCrew() crew { return crew{work: make(chan *call), gone: make(chan struct{}, 1)} }

// start has c performed, and reports whether there is somebody to do so.
func (w *crew) start(s *Store, c *call) bool {
	select {
	case w.work <- c:
		return true
	default:
	}
	if w.workers.Add(1) > mostCalls {
		w.end()
		return false
	}
	go w.serve(s, c)
	return true
}

// serve performs c and what comes after it, until there are workers enough or s is closed.
func (w *crew) serve(s *Store, c *call) {
	defer w.end()
	for {
		s.perform(c)
		if w.idle.Add(1) > mostIdle {
			w.idle.Add(-1)
			return
		}
		select {
		case c = <-w.work:
			w.idle.Add(-1)
		case <-s.base.Done():
			return
		}
	}
}

func (w *crew) end() {
	w.workers.Add(-1)
	select {
	case w.gone <- struct{}{}:
	default:
	}
}

// leave waits until all workers have ended, or the grace is over.
func (w *crew) leave() {
	grace := time.NewTimer(leaveGrace)
	defer grace.Stop()
	for w.workers.Load() > 0 {
		select {
		case <-w.gone:
		case <-grace.C:
			return
		}
	}
}
