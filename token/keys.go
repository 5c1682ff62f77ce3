package token

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/weirgate/weir"
)

const (
	// Budget is how long a request waits at most for a key set that is being fetched.
	Budget = 100 * time.Millisecond
	// minBetween is how often a key set is fetched at most, whatever tokens name.
	minBetween = 10 * time.Second
	// firstRetry is when a fetch from a URL that failed is repeated, and twice as late each further time, up to lastRetry.
	firstRetry, lastRetry = time.Second, time.Minute
)

// A Source is where a key set comes from: exactly one of File and URL is given.
type Source struct{ File, URL string }

// Keys are a key set that is kept up to date: a file is looked at every second, a URL as often as its
// Cache-Control says (between a minute and a day; 15 minutes if it does not say) and when a token names a key that
// is not there, at most every ten seconds. What cannot be fetched or read leaves the set as it is. They are safe
// for concurrent use.
type Keys struct {
	source  Source
	log     *slog.Logger
	fetch   func(context.Context) (next *set, again time.Duration, err error) // no set: as before; 0 after an error: by and by
	current atomic.Pointer[set]                                               // nil until there is one
	wanted  chan struct{}                                                     // holds one where a token asks for another fetch
	stop    context.CancelFunc
	done    chan struct{}

	mu      sync.Mutex
	turn    chan struct{} // closed when the fetch under way, or the next, has ended
	tried   time.Time     // when the last one ended
	failing string        // why the last one failed, or empty
}

// Open begins to fetch the key set, and does not wait for it: tokens are Unverifiable until it is there. The
// logger, which may be nil, is told of changes and of what is wrong.
func Open(s Source, log *slog.Logger) *Keys {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	k := &Keys{source: s, log: log, wanted: make(chan struct{}, 1), done: make(chan struct{}), turn: make(chan struct{})}
	if s.URL != "" {
		k.fetch = newRemote(s.URL).fetch
	} else {
		k.fetch = (&file{name: s.File}).fetch
	}
	ctx, stop := context.WithCancel(context.Background())
	k.stop = stop
	go k.run(ctx)
	return k
}

// Source returns where the keys come from.
func (k *Keys) Source() Source { return k.source }

// Close ends the fetching. The keys that there are stay good.
func (k *Keys) Close() {
	k.stop()
	<-k.done
}

// Check returns why the key set in a file cannot be used. A URL is not asked.
func Check(s Source) error {
	if s.File == "" {
		return nil
	}
	_, _, err := (&file{name: s.File}).fetch(context.Background())
	return err
}

func (k *Keys) run(ctx context.Context) {
	defer close(k.done)
	retry := firstRetry
	for ctx.Err() == nil {
		again, err := k.refresh(ctx)
		switch {
		case err == nil:
			retry = firstRetry
		case again == 0:
			again, retry = retry, min(2*retry, lastRetry)
		}
		k.rest(ctx, again)
	}
}

// rest waits until the set is to be fetched again.
func (k *Keys) rest(ctx context.Context, again time.Duration) {
	began := time.Now()
	timer := time.NewTimer(again)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return
	case <-timer.C:
		return
	case <-k.wanted:
	}
	timer.Reset(min(again, minBetween) - time.Since(began))
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// refresh fetches once, and returns when to do so again.
func (k *Keys) refresh(ctx context.Context) (again time.Duration, err error) {
	next, again, err := k.fetch(ctx)
	if next != nil {
		k.put(next)
	}
	if ctx.Err() == nil {
		k.tell(err)
	}
	k.mu.Lock()
	close(k.turn)
	k.turn, k.tried = make(chan struct{}), time.Now()
	k.mu.Unlock()
	return again, err
}

// put makes next the key set. One that says the same stays, and with it the tokens that it proved.
func (k *Keys) put(next *set) {
	if old := k.current.Load(); old != nil && bytes.Equal(old.text, next.text) {
		return
	}
	k.current.Store(next)
	k.log.Info("key set in force", "from", k.source.name(), "keys", len(next.keys))
}

// tell says once what is wrong, and once that nothing is any longer.
func (k *Keys) tell(err error) {
	what := ""
	if err != nil {
		what = err.Error()
	}
	switch {
	case what == k.failing:
	case what != "":
		k.log.Warn("key set not fetched; what was known stays in force", "from", k.source.name(), "known", k.current.Load() != nil, "err", what)
	default:
		k.log.Info("key set is fetched again", "from", k.source.name())
	}
	k.failing = what
}

func (s Source) name() string {
	if s.URL != "" {
		return s.URL
	}
	return s.File
}

// find returns the keys that may have made a signature, and the set that they are of. Verified says that there are
// some; Refuted that there are none, and Unverifiable that it cannot be told in time.
func (k *Keys) find(ctx context.Context, id string, alg jose.SignatureAlgorithm) ([]any, *set, weir.Credential) {
	s := k.current.Load()
	if s == nil {
		k.first(ctx)
		if s = k.current.Load(); s == nil {
			return nil, nil, weir.Unverifiable
		}
	}
	keys, known := s.find(id, alg)
	if !known && id != "" {
		err := k.renew(ctx)
		if s = k.current.Load(); errors.Is(err, errLate) {
			return nil, nil, weir.Unverifiable
		}
		keys, _ = s.find(id, alg)
	}
	if len(keys) == 0 {
		return nil, nil, weir.Refuted
	}
	return keys, s, weir.Verified
}

// first waits for the first fetch to end.
func (k *Keys) first(ctx context.Context) {
	k.mu.Lock()
	turn, tried := k.turn, k.tried
	k.mu.Unlock()
	if tried.IsZero() {
		_ = k.await(ctx, turn) // the set is there, or it is not
	}
}

// errLate is why a fetch is no longer waited for.
var errLate = errors.New("the key set does not come in time")

// renew asks for another fetch and waits for it, unless the last one is too recent: then it comes later.
func (k *Keys) renew(ctx context.Context) error {
	k.mu.Lock()
	turn, tried := k.turn, k.tried
	k.mu.Unlock()
	select {
	case k.wanted <- struct{}{}:
	default: // somebody asked already
	}
	if time.Since(tried) < minBetween {
		return nil
	}
	return k.await(ctx, turn)
}

func (k *Keys) await(ctx context.Context, turn <-chan struct{}) error {
	timer := time.NewTimer(Budget)
	defer timer.Stop()
	select {
	case <-turn:
		return nil
	case <-k.done:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return errLate
}
