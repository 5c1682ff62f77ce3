package apikey

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirgate/weir"
)

// Options say how a process follows its database.
type Options struct {
	// Poll is how often it is asked for changes that other processes made: the longest that a revoked key goes
	// on, beside the answer's time. 0: there are no others, and what Keys changes itself is known at once.
	Poll time.Duration
	// Timeout is how long an answer is waited for. 0: a second.
	Timeout time.Duration
	Now     func() time.Time // nil: time.Now
	Log     *slog.Logger     // nil: nothing is logged
}

// Keys are the keys of a database, as a process knows them. They are safe for concurrent use.
type Keys struct {
	*Store
	o      Options
	mirror atomic.Pointer[mirror] // nil until the database has answered once
	synced atomic.Int64           // Unix nanoseconds when it was last known to be true
	failed atomic.Bool            // the last try to know failed
	count  atomic.Int64           // keys held
	checks [weir.Unverifiable + 1]atomic.Uint64
	errors atomic.Uint64 // of the database
	strays atomic.Int64  // Unix second from which on a key without a plan of ours is worth a line

	uses    chan use
	syncing sync.Mutex
	isReady bool // holds syncing: the tables are there

	stop    context.CancelFunc
	running sync.WaitGroup
}

const (
	// page is how many changes are taken over with one question.
	page = 1000
	// mostUses is how many uses wait to be written; further ones are forgotten for a minute.
	mostUses = 4096
	// writeEvery is how often uses are written, and atOnce how many of them.
	writeEvery = time.Second
	atOnce     = 500
	// trust is how long after the last answer it is still known which keys there are not.
	trust = 2 * time.Second
)

// Open returns the keys of a store and follows it until Close. A database that does not answer is no error: until
// it does nobody is verified. One that will never do is: ErrNewer, as of a later version.
func Open(ctx context.Context, s *Store, o Options) (*Keys, error) {
	if o.Timeout <= 0 {
		o.Timeout = time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	k := &Keys{Store: s, o: o, uses: make(chan use, mostUses)}
	if err := k.Sync(ctx); errors.Is(err, ErrNewer) {
		return nil, err
	}
	ctx, k.stop = context.WithCancel(context.Background())
	k.running.Go(func() { k.write(ctx) })
	if o.Poll > 0 {
		k.running.Go(func() { k.follow(ctx) })
	}
	return k, nil
}

// ErrNewer: the tables are of a later version of Weir.
var ErrNewer = errors.New("the tables of keys are of a later version of Weir: use that one")

// Close ends what Open began, and writes the last uses. The database stays open.
func (k *Keys) Close() {
	k.stop()
	k.running.Wait()
}

// follow asks for changes until ctx is done.
func (k *Keys) follow(ctx context.Context) {
	tick := time.NewTicker(k.o.Poll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = k.Sync(ctx) // it says what is wrong
		}
	}
}

// Sync brings what is known up to date. The log says when that begins to fail, and when it works again.
func (k *Keys) Sync(ctx context.Context) error {
	k.syncing.Lock()
	defer k.syncing.Unlock()
	at := k.o.Now()
	err := k.sync(ctx)
	if err != nil && ctx.Err() == nil {
		k.errors.Add(1)
	}
	switch wasFailed := k.failed.Swap(err != nil); {
	case err == nil:
		k.synced.Store(at.UnixNano())
		if wasFailed {
			k.o.Log.Info("the database of API keys answers again")
		}
	case !wasFailed && ctx.Err() == nil:
		k.o.Log.Warn("the database of API keys does not answer; keys that are known go on for keys.grace, others are answered 503", "err", err)
	}
	return err
}

// sync holds syncing.
func (k *Keys) sync(ctx context.Context) error {
	if !k.isReady {
		if err := k.within(ctx, k.ready); err != nil {
			return fmt.Errorf("API keys: %w", err)
		}
		k.isReady = true
	}
	var is state
	err := k.within(ctx, func(ctx context.Context) (err error) { is, err = k.state(ctx, k.db); return err })
	if err != nil {
		return fmt.Errorf("API keys: %w", err)
	}
	m := k.mirror.Load()
	if m == nil || m.pepper != is.pepper || m.changes > is.changes {
		m = newMirror(is.pepper) // another database, or an older copy of it
	}
	if err := k.catchUp(ctx, m, is.changes); err != nil {
		return fmt.Errorf("API keys: %w", err)
	}
	k.mirror.Store(m)
	k.count.Store(int64(len(m.held)))
	return nil
}

// catchUp takes over all changes up to a count.
func (k *Keys) catchUp(ctx context.Context, m *mirror, to int64) error {
	for m.changes < to {
		var list []changed
		err := k.within(ctx, func(ctx context.Context) (err error) { list, err = k.changedSince(ctx, m.changes, page); return err })
		if err != nil {
			return err
		}
		for i := range list {
			if !m.apply(&list[i]) {
				k.o.Log.Error("an API key is not known for want of room", "id", list[i].ID, "keys", MostKeys)
			}
			m.changes = list[i].change
		}
		if len(list) < page {
			m.changes = max(m.changes, to)
		}
	}
	return nil
}

// within calls f with the time that an answer may take.
func (k *Keys) within(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, k.o.Timeout)
	defer cancel()
	return f(ctx)
}

// Create is that of a store, and the key is good here at once.
func (k *Keys) Create(ctx context.Context, spec Spec) (key Key, secret string, err error) {
	if k.Known() >= MostKeys {
		return Key{}, "", ErrTooMany
	}
	err = k.changing(ctx, func(ctx context.Context) error { key, secret, err = k.Store.Create(ctx, k.o.Now(), spec); return err })
	return key, secret, err
}

// Revoke is that of a store, and the key is good for nothing here at once.
func (k *Keys) Revoke(ctx context.Context, id string) (key Key, err error) {
	err = k.changing(ctx, func(ctx context.Context) error { key, err = k.Store.Revoke(ctx, k.o.Now(), id); return err })
	return key, err
}

// Rotate is that of a store, and holds here at once.
func (k *Keys) Rotate(ctx context.Context, id string, overlap time.Duration) (key Key, secret string, err error) {
	err = k.changing(ctx, func(ctx context.Context) error {
		key, secret, err = k.Store.Rotate(ctx, k.o.Now(), id, overlap)
		return err
	})
	return key, secret, err
}

// changing makes a change, and has it known here. That the latter may fail is no matter: then it is tried again.
func (k *Keys) changing(ctx context.Context, do func(context.Context) error) error {
	k.syncing.Lock()
	isReady := k.isReady
	k.syncing.Unlock()
	if !isReady {
		if err := k.Sync(ctx); err != nil {
			return err
		}
	}
	if err := k.within(ctx, do); err != nil {
		return err
	}
	if err := k.Sync(ctx); err != nil && k.o.Poll == 0 {
		return err
	}
	return nil
}

// Known is how many keys this process holds.
func (k *Keys) Known() int { return int(k.count.Load()) }

// Failing reports whether the database did not answer when it was last asked.
func (k *Keys) Failing() bool { return k.failed.Load() }

// Errors is how often the database did not answer.
func (k *Keys) Errors() uint64 { return k.errors.Load() }

// Age is how long ago what is known was true.
func (k *Keys) Age() time.Duration {
	if k.o.Poll == 0 && k.mirror.Load() != nil {
		return 0
	}
	return k.o.Now().Sub(time.Unix(0, k.synced.Load()))
}

// Checks are how many requests bore a key, by what became of it.
func (k *Keys) Checks() map[string]uint64 {
	checks := map[string]uint64{}
	for c := weir.Verified; c <= weir.Unverifiable; c++ {
		checks[c.String()] = k.checks[c].Load()
	}
	return checks
}

// Strays returns the plans of keys that plans lacks, each with the id of a key that has it.
func (k *Keys) Strays(plans map[string]bool) map[string]string {
	strays := map[string]string{}
	if m := k.mirror.Load(); m != nil {
		m.table.each(func(e *entry) {
			if !e.planned(plans) && k.o.Now().UnixNano() < e.until {
				strays[e.plan] = max(e.id, strays[e.plan])
			}
		})
	}
	return strays
}

// planned reports whether e has no plan, or one of plans.
func (e *entry) planned(plans map[string]bool) bool { return e.plan == "" || plans[e.plan] }

// note has the use of e at a moment written, once a minute.
func (k *Keys) note(e *entry, at time.Time) {
	now, before := at.Unix(), e.noted.Load()
	if now-before < minute || !e.noted.CompareAndSwap(before, now) {
		return
	}
	select {
	case k.uses <- use{e.id, now}:
	default: // the next one in a minute
	}
}

// write writes uses until ctx is done, and then those that are left.
func (k *Keys) write(ctx context.Context) {
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			_ = k.writeUses(context.Background()) // what is lost is the time of a use
			return
		case <-tick.C:
			if err := k.writeUses(ctx); err != nil {
				k.errors.Add(1)
				k.o.Log.Debug("the last use of API keys is not written", "err", err)
			}
		}
	}
}

// writeUses writes the uses that wait. Those of one moment are in the order of their ids, so that processes do
// not wait for each other in a ring.
func (k *Keys) writeUses(ctx context.Context) error {
	var uses []use
	for more := true; more && len(uses) < atOnce; {
		select {
		case u := <-k.uses:
			uses = append(uses, u)
		default:
			more = false
		}
	}
	if len(uses) == 0 {
		return nil
	}
	slices.SortFunc(uses, func(a, b use) int { return strings.Compare(a.id, b.id) })
	return k.within(ctx, func(ctx context.Context) error { return k.used(ctx, uses) })
}
