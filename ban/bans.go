// Package ban keeps clients out: bans by address, network and API key, and penalties that ban those who offend
// too often.
//
// A look at the bans is one atomic load and a walk of a prefix table: it allocates nothing and waits for nobody.
// They are kept in a [Register], in Redis for all replicas or in the embedded database, and what other replicas
// put there is followed. When a ban ends is told by this machine's clock.
package ban

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirgate/weir"
)

const (
	// Most is how many bans there may be.
	Most = 1_000_000
	// Longest is for how long a ban may be that ends by itself.
	Longest = 3660 * 24 * time.Hour

	forgetEvery = time.Minute      // bans that ended are removed from the register
	patience    = 10 * time.Second // for the register, which gives up by itself where a server does not answer
	slack       = 1024             // how many more than twice the bans may wait for their end
)

var (
	// ErrFull: there are as many bans as there may be.
	ErrFull = fmt.Errorf("there are %d bans, which is the most: lift some, or ban a wider network", Most)
	// ErrNone: nobody of that name is banned.
	ErrNone = errors.New("there is no such ban")
	// ErrTooLong: the ban would end too late.
	ErrTooLong = errors.New("want a ban of at most 3660d, or one without an end")
	// errEnded: the ban would not hold.
	errEnded = errors.New("the ban ends before it begins")
)

// Options say where bans are kept.
type Options struct {
	Register Register         // nil: in memory, until the process ends
	Every    time.Duration    // how often is asked what other replicas did; 0: 300 ms
	Now      func() time.Time // nil: time.Now
	Log      *slog.Logger     // nil: nothing is logged
	Most     int              // how many there may be; 0: Most
}

// Bans are those that this process knows. They are safe for concurrent use.
type Bans struct {
	o     Options
	table atomic.Pointer[table]

	writing sync.Mutex // held while the register is asked; what it says is put in force in order
	version int64      // of the register, known here
	ended   []string   // subjects to be forgotten; what fills it holds mu, too
	failed  error      // why the register did not answer last

	mu   sync.Mutex
	all  map[string]*weir.Ban // by subject
	ends ends
}

// New returns bans of which none is known before Sync.
func New(o Options) *Bans {
	if o.Register == nil {
		o.Register = nowhere{}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Every, o.Most = cmp.Or(o.Every, 300*time.Millisecond), cmp.Or(o.Most, Most)
	b := &Bans{o: o, all: map[string]*weir.Ban{}}
	b.table.Store(newTable())
	return b
}

// Find returns the ban that holds for c at now: that of its API key, else of the narrowest network around its
// address, or nil. It allocates nothing.
func (b *Bans) Find(now time.Time, c *weir.Client) *weir.Ban { return b.table.Load().find(now, c) }

// Run follows the register until ctx is done.
func (b *Bans) Run(ctx context.Context) {
	tick := time.NewTicker(b.o.Every)
	defer tick.Stop()
	forgotten := b.o.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		_ = b.Sync(ctx) // it is logged, and tried again
		if now := b.o.Now(); now.Sub(forgotten) >= forgetEvery {
			b.forget(ctx)
			forgotten = now
		}
	}
}

// Sync puts in force what the register says now. While it does not answer, what is known goes on.
func (b *Bans) Sync(ctx context.Context) error {
	b.writing.Lock()
	defer b.writing.Unlock()
	return b.sync(ctx)
}

// sync holds writing.
func (b *Bans) sync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	texts, present, whole, err := b.o.Register.Since(ctx, b.version)
	b.note(err)
	if err != nil {
		return err
	}
	b.version = present
	b.take(b.read(texts), whole)
	return nil
}

// note logs that the register fails, or answers again.
func (b *Bans) note(err error) {
	switch was := b.failed; {
	case err != nil && was == nil:
		b.o.Log.Warn("bans cannot be read: those that are known go on, and new ones are refused", "err", err)
	case err == nil && was != nil:
		b.o.Log.Info("bans are read again")
	}
	b.failed = err
}

// read returns what the register's texts say. One that cannot be understood is left out.
func (b *Bans) read(texts map[string]string) []change {
	changes := make([]change, 0, len(texts))
	for name, text := range texts {
		c, err := read(name, text)
		if err != nil {
			b.o.Log.Warn("a ban cannot be read", "err", err)
			continue
		}
		changes = append(changes, c)
	}
	return changes
}

// take puts changes in force, which if whole are all there is, and ends what has ended.
func (b *Bans) take(changes []change, whole bool) {
	now := b.o.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	next := b.table.Load()
	if whole {
		next, b.all, b.ends, b.ended = newTable(), make(map[string]*weir.Ban, len(changes)), nil, nil
		next.fill(b.learn(now, changes))
		b.table.Store(next)
		return
	}
	changes = append(b.learn(now, changes), b.expire(now)...)
	if len(changes) > 0 {
		b.table.Store(next.with(changes))
	}
}

// learn keeps changes, and returns those that concern the table. What has ended already is none, nor is what
// there is no room for. It holds mu.
func (b *Bans) learn(now time.Time, changes []change) []change {
	kept := changes[:0]
	for _, c := range changes {
		name := c.subject.String()
		known := b.all[name]
		switch {
		case c.ban == nil && known == nil, known == nil && len(b.all) >= b.o.Most:
			continue
		case known == nil && !c.ban.Holds(now):
			b.ended = append(b.ended, name)
			continue
		case c.ban == nil:
			delete(b.all, name)
		default:
			b.all[name] = c.ban
			b.ends.add(c.ban)
		}
		kept = append(kept, c)
	}
	if len(b.ends) > 2*len(b.all)+slack {
		b.ends.keep(func(e *weir.Ban) bool { return b.all[e.Subject] == e })
	}
	return kept
}

// expire takes out what has ended, and returns that as changes. It holds mu.
func (b *Bans) expire(now time.Time) []change {
	var gone []change
	for e := b.ends.next(now); e != nil; e = b.ends.next(now) {
		if b.all[e.Subject] != e {
			continue // it was lifted, or another one took its place
		}
		delete(b.all, e.Subject)
		s, _ := ParseSubject(e.Subject) // it was written by String
		gone, b.ended = append(gone, change{subject: s}), append(b.ended, e.Subject)
	}
	return gone
}

// forget removes from the register what has ended.
func (b *Bans) forget(ctx context.Context) {
	b.writing.Lock()
	defer b.writing.Unlock()
	b.mu.Lock()
	b.ended = slices.DeleteFunc(b.ended, func(name string) bool { return b.all[name] != nil }) // banned once more
	b.mu.Unlock()
	if len(b.ended) == 0 || b.failed != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := b.o.Register.Forget(ctx, b.version, b.ended); err != nil {
		b.o.Log.Debug("bans that ended are still in the register", "err", err)
		return // they are in nobody's way
	}
	b.ended = nil
}

// Add puts a ban in force, here at once and on every replica within a second, in the place of the one there was,
// which it returns or nil. The error says why nobody is banned.
func (b *Bans) Add(ctx context.Context, s Subject, ban weir.Ban) (before *weir.Ban, err error) {
	b.writing.Lock()
	defer b.writing.Unlock()
	if err := b.sync(ctx); err != nil {
		return nil, fmt.Errorf("nobody is banned: %w", err)
	}
	before = b.get(s)
	return before, b.put(ctx, s, ban)
}

// put holds writing.
func (b *Bans) put(ctx context.Context, s Subject, ban weir.Ban) error {
	now := b.o.Now()
	ban.Subject, ban.Since = s.String(), now.Truncate(time.Millisecond)
	ban.Until = ban.Until.Truncate(time.Millisecond)
	switch {
	case !ban.Holds(now):
		return errEnded
	case ban.Until.Sub(now) > Longest:
		return ErrTooLong
	case b.get(s) == nil && b.Count() >= b.o.Most:
		return ErrFull
	}
	text, err := write(&ban)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := b.o.Register.Put(ctx, ban.Subject, text); err != nil {
		return fmt.Errorf("it is not known whether %s is banned: %w", ban.Subject, err)
	}
	b.take([]change{{s, &ban}}, false)
	return nil
}

// Remove lifts a ban, here at once and on every replica within a second, and returns it. ErrNone: there is none
// of exactly that subject; a wider one may hold.
func (b *Bans) Remove(ctx context.Context, s Subject) (*weir.Ban, error) {
	b.writing.Lock()
	defer b.writing.Unlock()
	if err := b.sync(ctx); err != nil {
		return nil, fmt.Errorf("no ban is lifted: %w", err)
	}
	before := b.get(s)
	if before == nil {
		return nil, fmt.Errorf("%s: %w", s, ErrNone)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := b.o.Register.Remove(ctx, s.String()); err != nil {
		return nil, fmt.Errorf("it is not known whether the ban of %s is lifted: %w", s, err)
	}
	b.take([]change{{subject: s}}, false)
	return before, nil
}

// get returns the ban of exactly s that holds, or nil.
func (b *Bans) get(s Subject) *weir.Ban {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ban := b.all[s.String()]; ban != nil && ban.Holds(b.o.Now()) {
		return ban
	}
	return nil
}

// Covering returns the ban that holds for all of s, its own or one of a wider network, or nil.
func (b *Bans) Covering(s Subject) *weir.Ban {
	if s.Key != "" {
		return b.get(s)
	}
	return b.table.Load().around(b.o.Now(), s.Network)
}

// Count is how many bans there are, those among them that ended since the last Sync.
func (b *Bans) Count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.all)
}

// List returns the bans that hold, the newest first, at most n of them, and how many there are.
func (b *Bans) List(n int) (list []weir.Ban, all int) {
	now := b.o.Now()
	b.mu.Lock()
	for _, ban := range b.all {
		if ban.Holds(now) {
			list = append(list, *ban)
		}
	}
	b.mu.Unlock()
	slices.SortFunc(list, func(x, y weir.Ban) int { return cmp.Or(y.Since.Compare(x.Since), cmp.Compare(x.Subject, y.Subject)) })
	return list[:min(n, len(list))], len(list)
}
