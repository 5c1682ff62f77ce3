package journal

import (
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	mostChanges = 100 // openings and closings of the breaker that are kept
	mostCause   = 200 // bytes of what is kept of a cause
)

// A BreakerChange is the moment at which the shared store was first left alone, or asked again.
type BreakerChange struct {
	Time  time.Time `json:"time" doc:"known to the second"`
	Open  bool      `json:"open" doc:"left alone since then; if not, asked again"`
	Kind  string    `json:"kind" doc:"the way in which it failed: timeout, error, panic, busy, short_deadline or starved; empty if it is asked again"`
	Cause string    `json:"cause" doc:"the failure, in words"`
}

// A breakerHistory keeps the last changes of the breaker.
type breakerHistory struct {
	open func() bool // nil: there is no breaker

	mu      sync.Mutex
	was     bool
	changes []BreakerChange // the oldest first
}

// look notes a change since the last look.
func (b *breakerHistory) look(now time.Time) { b.note(BreakerChange{Time: now}) }

// note notes a change since the last look, or why the breaker is open, if that was not known before. Where several
// stores may fail, it is open as long as one is left alone.
func (b *breakerHistory) note(c BreakerChange) {
	if b.open == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c.Open = b.open()
	switch {
	case c.Open != b.was:
		b.was = c.Open
		b.changes = append(slices.Delete(b.changes, 0, max(0, len(b.changes)-mostChanges+1)), c)
	case c.Open && c.Kind != "":
		last := &b.changes[len(b.changes)-1]
		last.Kind, last.Cause = c.Kind, c.Cause
	}
}

// BreakerChanged notes that the breaker has just opened, for which kind of failure and what that was, or closed.
func (j *Journal) BreakerChanged(kind, cause string) {
	cause = strings.ToValidUTF8(cut(cause, mostCause), "\uFFFD")
	j.breaker.note(BreakerChange{Time: j.now(), Kind: kind, Cause: cause})
}

// BreakerHistory returns the last openings and closings of the breaker, the newest first, at most 100.
func (j *Journal) BreakerHistory() []BreakerChange {
	j.breaker.mu.Lock()
	defer j.breaker.mu.Unlock()
	changes := append([]BreakerChange{}, j.breaker.changes...)
	slices.Reverse(changes)
	return changes
}
