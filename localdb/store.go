package localdb

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/limit"
)

// A Backend is all that a store can do.
type Backend interface {
	weir.Store
	weir.Peeker
	weir.Releaser
	weir.Resetter
}

// Options are what a store may be told. The zero Options are the defaults.
type Options struct {
	// MaxQuotas is how many counters are kept at most; 1,000,000, of some 250 bytes each. Past them
	// one that has expired goes, else of a few the one that was used least.
	MaxQuotas int
	// Logger is told when counts cannot be saved (WARN) and when they are again (INFO). nil is none.
	Logger *slog.Logger
}

const (
	defaultMaxQuotas = 1_000_000
	// flushEvery is half of what may be lost, so that a write may take the other half.
	flushEvery = 500 * time.Millisecond
)

// A Store counts quotas itself and leaves all other hits to the store behind it. What it counted is
// in the database half a second later and when it is closed: a process that is killed loses at most
// the last second's counts. Where the database fails it goes on counting, and says so in the log.
// It is safe for concurrent use.
type Store struct {
	db     *DB
	behind Backend
	max    int
	log    *slog.Logger

	mu     sync.Mutex
	counts map[string]*count
	dirty  []*count // changed since they were last saved, each once
	plan   plan     // of the request that holds mu

	saving sync.Mutex // held during a write; never taken while mu is held
	failed error      // of the last write

	stop chan struct{}
	done chan struct{}
}

// A count is one quota's counter.
type count struct {
	key     string
	state   limit.State
	until   int64 // the end of its period, in Unix nanoseconds
	isDirty bool
}

// NewStore returns a store that goes on from the counts in db as of now. behind must be in this process:
// a request with a quota is asked of it while others with a quota wait. Both belong to the caller,
// who closes them after the Store.
func NewStore(db *DB, behind Backend, now time.Time, o Options) (*Store, error) {
	if o.MaxQuotas <= 0 {
		o.MaxQuotas = defaultMaxQuotas
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{
		db: db, behind: behind, max: o.MaxQuotas, log: o.Logger, counts: make(map[string]*count),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	if err := db.LoadQuotas(limit.Nanos(now), s.load); err != nil {
		return nil, err
	}
	go s.flushAll()
	return s, nil
}

// load takes over one saved count, and reports whether there is room for another. Of two for one key
// the later charge is the true one.
func (s *Store) load(q Quota) bool {
	c := s.counts[string(q.Key)]
	if c == nil {
		c = &count{key: string(q.Key)}
		s.counts[c.key] = c
	}
	if q.Last >= c.state.Last {
		c.state, c.until = limit.State{Last: q.Last, Used: q.Used}, q.Until
	}
	return len(s.counts) < s.max
}

// Close saves what is not saved yet. It must be called once, after the last request.
func (s *Store) Close() error {
	close(s.stop)
	<-s.done
	return s.Err()
}

// Err is why counts are not saved at present, or nil if they are.
func (s *Store) Err() error {
	s.saving.Lock()
	defer s.saving.Unlock()
	return s.failed
}

// Quotas is how many counters are kept.
func (s *Store) Quotas() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.counts)
}

// Take implements weir.Store.
func (s *Store) Take(ctx context.Context, now time.Time, hits []weir.Hit, out []weir.Status) error {
	if !anyQuota(hits) {
		return s.behind.Take(ctx, now, hits, out)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	pass, err := s.judge(ctx, s.behind.Take, now, hits, out)
	if err != nil || !pass {
		return err
	}
	for i := range hits {
		if h := &hits[i]; isQuota(h) && out[i].Allowed && h.N > 0 {
			s.charge(h, limit.Nanos(now), s.plan.next[i], out[i].ResetAfter)
		}
	}
	return nil
}

// Peek implements weir.Peeker.
func (s *Store) Peek(ctx context.Context, now time.Time, hits []weir.Hit, out []weir.Status) error {
	if !anyQuota(hits) {
		return s.behind.Peek(ctx, now, hits, out)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.judge(ctx, s.behind.Peek, now, hits, out)
	return err
}

// Release implements weir.Releaser. Quotas are not given back.
func (s *Store) Release(ctx context.Context, now time.Time, hits []weir.Hit) error {
	return s.behind.Release(ctx, now, hits)
}

// Reset implements weir.Resetter.
func (s *Store) Reset(ctx context.Context, hits []weir.Hit) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plan.divide(hits)
	for i := range hits {
		if c := s.counts[string(hits[i].Key)]; isQuota(&hits[i]) && c != nil {
			c.state = limit.State{}
			s.touch(c)
		}
	}
	if len(s.plan.rest) == 0 {
		return nil
	}
	return s.behind.Reset(ctx, s.plan.rest)
}

func isQuota(h *weir.Hit) bool { return h.Limit.Algorithm == weir.Quota }

func anyQuota(hits []weir.Hit) bool {
	for i := range hits {
		if isQuota(&hits[i]) {
			return true
		}
	}
	return false
}

// charge makes a hit count that was allowed, and left its counter at next.
func (s *Store) charge(h *weir.Hit, at int64, next limit.State, reset time.Duration) {
	until := math.MaxInt64 - int64(reset)
	if at < until {
		until = at
	}
	until += int64(reset)
	c := s.counts[string(h.Key)]
	switch {
	case c == nil:
		if len(s.counts) >= s.max {
			s.evict(at)
		}
		c = &count{key: string(h.Key)}
		s.counts[c.key] = c
	case c.until != until && c.until > at:
		// The period was another one, as after the clock went back: the record under its end is
		// dropped with the next write.
		s.dirty = append(s.dirty, &count{key: c.key, until: c.until, isDirty: true})
	}
	c.state, c.until = next, until
	s.touch(c)
}

func (s *Store) touch(c *count) {
	if !c.isDirty {
		c.isDirty = true
		s.dirty = append(s.dirty, c)
	}
}

// evict drops a counter that has expired, or of a few the one that was used least.
func (s *Store) evict(at int64) {
	const sample = 8
	var victim *count
	n := 0
	for _, c := range s.counts { // begins anywhere
		if victim == nil || c.until <= at || c.state.Used < victim.state.Used {
			victim = c
		}
		if n++; victim.until <= at || n == sample {
			break
		}
	}
	delete(s.counts, victim.key)
}
