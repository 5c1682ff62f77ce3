// Package redis is the store that replicas share: a counter lives in Redis 6 or later, Valkey, or
// what else speaks like it and runs Lua 5.1, on one server, behind Sentinels or in a Cluster.
//
// All hits of a request whose counters share a slot (on one server all) are judged and charged by one
// call of a script, by the server's clock, in microseconds: what package limit says for a now that is
// whole microseconds, with waits rounded up to them. That is exact for numbers of up to 2^32 and
// windows below 2^45 microseconds (407 days), which is more than a configuration may have.
//
// On a Cluster the hits of a request may lie in several slots. They are then charged slot by slot, the
// narrowest limit first, and given back if a later one refuses: in a race that refuses one too many,
// and never admits one too many.
//
// A command that may have been executed is never sent again, so nothing is counted twice. Nothing is
// kept for a server that is away: every call comes back within its timeout, with an error if it must.
package redis

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirgate/weir"
)

// A Store counts in Redis. It implements weir.Store, weir.Peeker, weir.Releaser and weir.Resetter. The
// now of its calls is not used: the server's clock is.
type Store struct {
	prefix  string
	timeout time.Duration
	target  *target
	hash    any // of the script
	began   time.Time
	wall    func() time.Time // for the bounds of calendar periods
	// override is what tests put in place of the server's time, in microseconds; empty for the server's.
	override func() string

	link     atomic.Pointer[link]
	refused  refusals
	recalled atomic.Uint64 // hits answered from refused
	leases   leases

	log    *slog.Logger // nil: nobody looks at the servers
	found  atomic.Uint32
	policy atomic.Pointer[policy] // in use here, once that was announced
	others others

	flushes, timers sync.Pool
	work            sync.WaitGroup
	base            context.Context // ends with Close
	stop            context.CancelFunc
	mu              sync.Mutex
	former          []*link // to be closed with the store
}

// String names the servers, without what is secret of their URL.
func (s *Store) String() string { return "redis " + strings.Join(s.target.addrs, ",") }

// New returns a store that counts where o says. Nothing is waited for, so the server may be away. An
// error says what is wrong with o. What renews leases, and what looks at the servers, runs until Close.
func New(o Options) (*Store, error) {
	s, err := prepare(o)
	if err != nil {
		return nil, err
	}
	s.work.Go(s.renewLeases)
	if s.log != nil {
		s.work.Go(s.lookAround)
	}
	return s, nil
}

// prepare is New without what runs in the background.
func prepare(o Options) (*Store, error) {
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	t, err := o.parse()
	if err != nil {
		return nil, err
	}
	s := &Store{
		prefix: o.Prefix, timeout: o.Timeout, target: t, log: o.Logger, hash: scriptHash(), began: time.Now(),
		wall: time.Now, override: func() string { return "" },
	}
	s.base, s.stop = context.WithCancel(context.Background())
	silence()
	s.leases.init()
	s.refused.init()
	if len(t.addrs) > 1 && t.master == "" {
		s.link.Store(s.linkCluster(t))
	} else {
		s.link.Store(s.linkSingle(t))
	}
	return s, nil
}

// Close ends the connections and what runs in the background, and waits for it. It must be called once,
// when no call is under way.
func (s *Store) Close() error {
	s.stop()
	err := s.link.Load().close()
	for _, k := range s.former {
		_ = k.close() // it is not in use
	}
	s.work.Wait()
	if err != nil {
		return fmt.Errorf("redis: close: %w", err)
	}
	return nil
}

// clock is the time since the store began. It never goes back.
func (s *Store) clock() time.Duration { return time.Since(s.began) }

// until is when a call under ctx must have come back.
func (s *Store) until(ctx context.Context) time.Duration {
	now := s.clock()
	until := now + s.timeout
	if deadline, ok := ctx.Deadline(); ok {
		until = min(until, now+time.Until(deadline))
	}
	return until
}

// Recall fills out with a refusal that is remembered, and reports whether there is one. It asks nobody.
func (s *Store) Recall(_ time.Time, hits []weir.Hit, out []weir.Status) bool {
	if len(hits) == 0 || !s.refused.answer(s.refused.print(hits), s.clock(), hits, out) {
		return false
	}
	s.recalled.Add(uint64(len(hits)))
	return true
}

// Recalled is how many hits were answered from memory, since the start.
func (s *Store) Recalled() uint64 { return s.recalled.Load() }

// Take implements weir.Store. A request that was refused is answered from memory for as long as it is
// known to be refused, but for a second at most: see refusals.
func (s *Store) Take(ctx context.Context, _ time.Time, hits []weir.Hit, out []weir.Status) error {
	if len(hits) == 0 {
		return nil
	}
	print := s.refused.print(hits)
	if s.refused.answer(print, s.clock(), hits, out) {
		s.recalled.Add(uint64(len(hits)))
		return nil
	}
	generation := s.refused.generation.Load()
	j := newJob(len(hits))
	s.add(j, opTake, hits)
	until := s.until(ctx)
	err := s.run(ctx, j, until)
	if err == errSpread {
		return s.takeSpread(ctx, j, until, hits, out)
	}
	if err != nil {
		return err
	}
	for i := range out[:len(hits)] {
		j.status(i, &out[i])
	}
	if refuses(hits, out) {
		s.refused.remember(print, generation, j, hits, out)
	} else {
		s.leases.hold(j, hits, out, s.clock())
	}
	return nil
}

// refuses reports whether an enforcing hit is over its limit.
func refuses(hits []weir.Hit, out []weir.Status) bool {
	for i := range hits {
		if !out[i].Allowed && hits[i].Limit.Mode == weir.Enforce {
			return true
		}
	}
	return false
}

// Peek implements weir.Peeker.
func (s *Store) Peek(ctx context.Context, _ time.Time, hits []weir.Hit, out []weir.Status) error {
	if len(hits) == 0 {
		return nil
	}
	j := newJob(len(hits))
	s.add(j, opPeek, hits)
	until := s.until(ctx)
	err := s.run(ctx, j, until)
	if err == errSpread {
		return s.peekSpread(ctx, j, until, hits, out)
	}
	if err != nil {
		return err
	}
	for i := range out[:len(hits)] {
		j.status(i, &out[i])
	}
	return nil
}

// Reset implements weir.Resetter. Other replicas answer from memory for up to a second more.
func (s *Store) Reset(ctx context.Context, hits []weir.Hit) error {
	if len(hits) == 0 {
		return nil
	}
	j := newJob(len(hits))
	s.add(j, opReset, hits)
	for i := range j.calls {
		j.calls[i].last = true
	}
	err := s.runEach(ctx, j, s.until(ctx))
	s.refused.generation.Add(1)
	return err
}

// Release implements weir.Releaser. What could not be given back is tried again in the background,
// until it has expired.
func (s *Store) Release(ctx context.Context, _ time.Time, hits []weir.Hit) error {
	j := s.leases.drop(s, hits)
	if len(j.calls) == 0 {
		return nil
	}
	err := s.runEach(ctx, j, s.until(ctx))
	if err != nil {
		s.leases.owe(j.calls, s.clock())
	}
	return err
}

// runEach is run for a job whose calls are requests of their own, wherever their counters lie.
func (s *Store) runEach(ctx context.Context, j *job, until time.Duration) error {
	err := s.run(ctx, j, until)
	if err != errSpread {
		return err
	}
	err = nil
	for i := range j.calls {
		part := newJob(1)
		part.owed, part.calls = j.owed, j.calls[i:i+1:i+1]
		if e := s.run(ctx, part, until); e != nil {
			err = e
		}
	}
	return err
}
