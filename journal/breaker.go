package journal

import (
	"slices"
	"sync"
	"time"
)

// mostChanges is how many openings and closings of the breaker are kept.
const mostChanges = 100

// A BreakerChange is the moment at which the shared store was first left alone, or asked again.
type BreakerChange struct {
	Time time.Time `json:"time" doc:"known to the second"`
	Open bool      `json:"open" doc:"left alone since then; if not, asked again"`
}

// A breakerHistory keeps the last changes of the breaker.
type breakerHistory struct {
	open func() bool // nil: there is no breaker

	mu      sync.Mutex
	was     bool
	changes []BreakerChange // the oldest first
}

// look notes a change since the last look.
func (b *breakerHistory) look(now time.Time) {
	if b.open == nil {
		return
	}
	is := b.open()
	b.mu.Lock()
	defer b.mu.Unlock()
	if is == b.was {
		return
	}
	b.was = is
	if len(b.changes) == mostChanges {
		b.changes = slices.Delete(b.changes, 0, 1)
	}
	b.changes = append(b.changes, BreakerChange{now, is})
}

// BreakerHistory returns the last openings and closings of the breaker, the newest first, at most 100.
func (j *Journal) BreakerHistory() []BreakerChange {
	j.breaker.mu.Lock()
	defer j.breaker.mu.Unlock()
	changes := append([]BreakerChange{}, j.breaker.changes...)
	slices.Reverse(changes)
	return changes
}
