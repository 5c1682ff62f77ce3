package failover

import (
	"context"
	"sync"
	"time"
)

// A patience is the context of one call: it ends when whoever asked has left. It needs no timer of
// its own, for the asker has one.
type patience struct {
	deadline time.Time

	mu   sync.Mutex
	over bool
	done chan struct{} // made when it is first asked for
}

// Deadline implements context.Context.
func (p *patience) Deadline() (time.Time, bool) { return p.deadline, true }

// Value implements context.Context.
func (p *patience) Value(any) any { return nil }

// Done implements context.Context.
func (p *patience) Done() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done == nil {
		p.done = make(chan struct{})
		if p.over {
			close(p.done)
		}
	}
	return p.done
}

// Err implements context.Context.
func (p *patience) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return context.DeadlineExceeded
	}
	return nil
}

// end ends it. It may be called again.
func (p *patience) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	p.over = true
	if p.done != nil {
		close(p.done)
	}
}
