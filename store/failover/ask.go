package failover

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/weirgate/weir"
)

// A Kind is a way not to answer.
type Kind uint8

const (
	// Timeout: no answer came within Options.Timeout. It is no step to an open breaker if the shared
	// store answered somebody else meanwhile.
	Timeout Kind = iota
	// Error: the shared store returned one.
	Error
	// Panic: the shared store panicked.
	Panic
	// Busy: as many calls as may be are under way.
	Busy
	// Short: the asker's own deadline left less than Options.Timeout, and no answer came in that
	// time. It is a step to an open breaker only if the store has been silent for a probe's interval.
	Short
	// Starved: this process came to ask, or to look for an answer, so late that it says nothing about
	// the store.
	// It opens no breaker unless the store has been silent for a probe's interval.
	Starved
	endOfKinds
)

var kindNames = [...]string{"timeout", "error", "panic", "busy", "short_deadline", "starved"}

func (k Kind) String() string { return kindNames[k] }

// Kinds are all ways not to answer.
func Kinds() []Kind { return []Kind{Timeout, Error, Panic, Busy, Short, Starved} }

var (
	errOpen    = errors.New("the shared store is left alone")
	errTimeout = errors.New("no answer in time")
	errStarved = errors.New("nobody came to ask in time")
	errBusy    = errors.New("too many calls under way")
	errGone    = errors.New("the asker has gone")
	errPanic   = errors.New("the shared store panicked")
	errShort   = errors.New("the asker's deadline came before an answer")
)

// lateness is what a timer may come late in a process that has time for its work.
const lateness = 5 * time.Millisecond

// margin is what is left of an asker's deadline for the answer from elsewhere.
const margin = 2 * time.Millisecond

// ask puts a question about hits to the shared store and fills out with its answer.
func (s *Store) ask(ctx context.Context, do operation, now time.Time, hits []weir.Hit, out []weir.Status) error {
	era := s.breaker.era.Load()
	if isOpen(era) {
		return errOpen
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	t := turn{do: do, era: era, begun: time.Now()}
	t.wait = s.waitFor(ctx, t.begun)
	if t.wait <= 0 {
		return s.judge(t, t.begun, errTimeout)
	}
	c := s.calls.Get().(*call)
	c.fill(do, now, hits)
	c.ctx = &patience{deadline: t.begun.Add(t.wait)}
	err := s.await(ctx, c, t.wait)
	at := time.Now()
	if s.options.Observe != nil {
		s.options.Observe(at.Sub(t.begun))
	}
	switch err {
	case nil:
	case errGone:
		return context.Cause(ctx)
	default:
		return s.judge(t, at, err)
	}
	err = c.err
	copy(out, c.out)
	s.recycle(c)
	return s.judge(t, at, err)
}

// A turn is the outer side of a call: what it asks, when it began, and how long it may take.
type turn struct {
	do    operation
	era   uint64
	begun time.Time
	wait  time.Duration
}

// waitFor is how long an answer is waited for: less than Timeout if the asker's own deadline is near.
func (s *Store) waitFor(ctx context.Context, now time.Time) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return s.options.Timeout
	}
	return min(s.options.Timeout, deadline.Sub(now)-margin)
}

// judge notes what the end of a call at the moment at, with err, says of the shared store. It returns
// what to say of it to the asker.
func (s *Store) judge(t turn, at time.Time, err error) error {
	switch {
	case err == nil && t.do == doRelease: // proves nothing: what is not held is given back without asking
	case err == nil:
		s.breaker.answered(t.era, at)
	case errors.Is(err, errTimeout), errors.Is(err, errStarved), errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return s.judgeSilence(t, at, err)
	case errors.Is(err, errPanic):
		s.fail(Panic, t.era, at, err)
	case errors.Is(err, errBusy):
		s.fail(Busy, t.era, at, err)
	default:
		s.fail(Error, t.era, at, err)
	}
	return err
}

// judgeSilence tells a store that does not answer from an asker without patience and from a process
// that has no time to ask or to listen. While others are answered, three who were not prove nothing.
func (s *Store) judgeSilence(t turn, at time.Time, err error) error {
	kind, proof := Timeout, !s.breaker.heardAfter(t.begun)
	switch {
	case t.wait < s.options.Timeout:
		kind, err = Short, errShort
	case errors.Is(err, errStarved) || at.Sub(t.begun) > s.options.Timeout+lateness:
		kind = Starved
	}
	if kind != Timeout {
		proof = s.breaker.quietFor(at) > s.options.ProbeEvery
	}
	s.failures[kind].Add(1)
	if proof {
		s.trip(t.era, at, Change{kind, err})
	}
	return err
}

// fail counts a failure.
func (s *Store) fail(k Kind, era uint64, at time.Time, cause error) {
	s.failures[k].Add(1)
	s.trip(era, at, Change{k, cause})
}

// trip tells the breaker, and the keeper if that opened it.
func (s *Store) trip(era uint64, at time.Time, why Change) {
	if s.breaker.failed(era, at, why) {
		s.rouse()
	}
}
