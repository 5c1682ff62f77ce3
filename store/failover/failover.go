// Package failover is a store that stands before a shared one and answers in its place when that
// cannot: in time, by the rule's own choice, and saying so.
//
// A hit goes to the shared store while the breaker is closed, and its answer is waited for at most
// Timeout. What the shared store could not answer is counted by the local store against this
// replica's share of the limit, or is an error where the hit's rule allows or denies by itself
// ([weir.OnFailure]). A refusal is an answer.
//
// What was counted locally is never sent to the shared store afterwards.
package failover

import (
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirgate/weir"
)

// A Backend is all that a store can do.
type Backend interface {
	weir.Store
	weir.Peeker
	weir.Releaser
	weir.Resetter
}

// A Recaller is a shared store that remembers refusals. Recall fills out from memory and reports
// whether it could; it asks nobody and does not block. Such an answer costs no hand-over, and says
// nothing about whether the store is well: an attacker's refusals must not keep the breaker closed.
type Recaller interface {
	Recall(now time.Time, hits []weir.Hit, out []weir.Status) bool
}

// Options are what a store may be told. The zero Options are the defaults.
type Options struct {
	Timeout    time.Duration // an answer is waited for at most so long; 15 ms
	Failures   int           // so many in a row open the breaker; 3
	ProbeEvery time.Duration // while it is open, the shared store is tried so often; 1 s
	Replicas   int           // that share the limits; 1
	Remember   int           // of how many counters the last known rest is kept; 131,072 (24 bytes each)

	// Probe reports whether the shared store would answer again. It should write, for a store that is
	// read-only or full answers to less. nil charges a counter of its own.
	Probe func(ctx context.Context) error
	// Observe is told how long each request waited for the shared store. It must not block.
	Observe func(wait time.Duration)
	// Changed is told when the breaker has opened or closed, and once more if a probe finds out what is behind a
	// silence. It must not block.
	Changed func(Change)
	// Logger is told when the breaker opens (WARN) and closes (INFO). nil is none.
	Logger *slog.Logger
}

// A Change is what happened to the breaker.
type Change struct {
	Kind  Kind  // the failure that opened it
	Cause error // what that failure was; nil: it has closed
}

const (
	defaultTimeout    = 15 * time.Millisecond
	defaultFailures   = 3
	defaultProbeEvery = time.Second
	defaultRemember   = 1 << 17
)

// withDefaults returns o with its blanks filled in.
func (o Options) withDefaults() Options {
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.Failures <= 0 {
		o.Failures = defaultFailures
	}
	if o.ProbeEvery <= 0 {
		o.ProbeEvery = defaultProbeEvery
	}
	if o.Remember <= 0 {
		o.Remember = defaultRemember
	}
	if o.Changed == nil {
		o.Changed = func(Change) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Replicas = max(o.Replicas, 1)
	return o
}

// A Store answers from the shared store, or in its place. It is safe for concurrent use.
type Store struct {
	shared, local Backend
	recall        func(time.Time, []weir.Hit, []weir.Status) bool // nil if shared remembers nothing
	options       Options
	replicas      int64
	seed          maphash.Seed

	base    context.Context // ends with Close
	stop    context.CancelFunc
	breaker breaker
	crew    crew
	calls   sync.Pool     // of *call
	wake    chan struct{} // tells the keeper that there is something to do
	kept    chan struct{} // closed when the keeper has ended

	settling sync.RWMutex // held for writing while a local counter is brought to its start
	known    *known
	slots    slots
	debts    debts
	scratch  sync.Pool // of *scratch

	fallbacks atomic.Uint64
	failures  [endOfKinds]atomic.Uint64
}

// New returns a store before shared, with local in its place when it fails. It asks shared nothing,
// so it starts without it. local must not keep the limits of the hits that it is given, and nobody
// else may charge it. Both belong to the caller, who closes them after the Store.
func New(shared, local Backend, o Options) *Store {
	o = o.withDefaults()
	s := &Store{
		shared: shared, local: local, options: o, replicas: int64(o.Replicas), seed: maphash.MakeSeed(),
		breaker: breaker{most: int64(o.Failures), since: time.Now(), log: o.Logger, changed: o.Changed},
		crew:    newCrew(), wake: make(chan struct{}, 1), kept: make(chan struct{}), known: newKnown(o.Remember),
	}
	if r, ok := shared.(Recaller); ok {
		s.recall = r.Recall
	}
	if s.options.Probe == nil {
		s.options.Probe = s.probeByCharge
	}
	s.base, s.stop = context.WithCancel(context.Background())
	s.calls.New = func() any { return newCall() }
	s.scratch.New = func() any { return new(scratch) }
	go s.keep()
	return s
}

// Close ends what goes on in the background and waits for it, but no more than a second for calls
// of a shared store that does not heed its context. It must be called once, after the last request.
func (s *Store) Close() {
	s.stop()
	<-s.kept
	s.crew.leave()
}

// Open reports whether the breaker is open: the shared store is asked nothing.
func (s *Store) Open() bool { return s.breaker.open() }

// Fallbacks is how many hits were not counted by the shared store.
func (s *Store) Fallbacks() uint64 { return s.fallbacks.Load() }

// Failures is how often the shared store failed to answer in that way.
func (s *Store) Failures(k Kind) uint64 { return s.failures[k].Load() }

// Take implements weir.Store. Where the hits' rule allows or denies by itself, an error stands for
// what the shared store could not answer.
func (s *Store) Take(ctx context.Context, now time.Time, hits []weir.Hit, out []weir.Status) error {
	if len(hits) == 0 {
		return nil
	}
	if s.recall != nil && !s.Open() && s.recall(now, hits, out) {
		return nil
	}
	err := s.ask(ctx, doTake, now, hits, out)
	switch {
	case err == nil:
		s.remember(now, hits, out)
		s.hold(bySharedStore, hits, out)
		return nil
	case gone(ctx, err):
		return err
	}
	s.fallbacks.Add(uint64(len(hits)))
	if !errors.Is(err, errOpen) {
		s.owe(hits) // the answer may have been lost on its way
	}
	if err := s.fallBack(s.local.Take, now, hits, out, err); err != nil {
		return err
	}
	s.hold(byLocalStore, hits, out)
	return nil
}

// Peek implements weir.Peeker.
func (s *Store) Peek(ctx context.Context, now time.Time, hits []weir.Hit, out []weir.Status) error {
	if len(hits) == 0 {
		return nil
	}
	err := s.ask(ctx, doPeek, now, hits, out)
	if err == nil || gone(ctx, err) {
		return err
	}
	return s.fallBack(s.local.Peek, now, hits, out, err)
}

// Reset implements weir.Resetter. The local counts are forgotten even if the shared store fails.
func (s *Store) Reset(ctx context.Context, hits []weir.Hit) error {
	if len(hits) == 0 {
		return nil
	}
	for i := range hits {
		s.known.forget(s.hash(hits[i].Key))
	}
	return errors.Join(s.local.Reset(ctx, hits), s.ask(ctx, doReset, time.Time{}, hits, nil))
}

// gone reports whether err tells that the asker has gone, which is nobody's failure.
func gone(ctx context.Context, err error) bool {
	return ctx.Err() != nil && errors.Is(err, context.Cause(ctx))
}

func (s *Store) hash(key []byte) uint64 { return maphash.Bytes(s.seed, key) }
