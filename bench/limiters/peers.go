package limiters

import (
	"context"
	"hash/maphash"
	"net/http"
	"sync"
	"time"

	"github.com/didip/tollbooth/v7"
	tollboothlimiter "github.com/didip/tollbooth/v7/limiter"
	"github.com/go-chi/httprate"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	ululememory "github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"
)

// peers returns the limiters of others, each as its own documentation opens it.
func peers() []limiter {
	return []limiter{
		{name: "sethvargo/go-limiter", open: goLimiter, expires: true},
		{name: "x/time/rate in a sharded map", open: rateMap},
		{name: "throttled", open: throttledStore(0)},
		{name: "throttled, LRU", open: throttledStore(maxKeys), expires: true},
		{name: "ulule/limiter", open: ululeStore, expires: true},
		{name: "tollbooth v7", open: tollboothLimiter, expires: true},
		{name: "go-chi/httprate", open: httprateLimiter, expires: true},
	}
}

// must is for peers that cannot be opened: a fault of the benchmark.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func goLimiter(o options) func() take {
	c := &memorystore.Config{Tokens: uint64(o.limit()), Interval: o.window}
	if o.window < time.Minute { // keys are to expire while it is looked at
		c.SweepInterval, c.SweepMinTTL = o.window, 2*o.window
	}
	s, ctx := must(memorystore.New(c)), context.Background()
	return func() take {
		return func(key string) bool {
			_, _, _, ok, err := s.Take(ctx, key)
			return ok && err == nil
		}
	}
}

// A rateShard is a part of the map that everyone writes around x/time/rate.
type rateShard struct {
	mu       sync.RWMutex
	limiters map[string]*rate.Limiter
	_        [64]byte
}

func rateMap(o options) func() take {
	shards, seed := make([]rateShard, 256), maphash.MakeSeed()
	for i := range shards {
		shards[i].limiters = map[string]*rate.Limiter{}
	}
	each := rate.Every(o.window / time.Duration(o.limit()))
	get := func(key string) *rate.Limiter {
		s := &shards[maphash.String(seed, key)>>56]
		s.mu.RLock()
		l := s.limiters[key]
		s.mu.RUnlock()
		if l != nil {
			return l
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.limiters[key] == nil {
			s.limiters[key] = rate.NewLimiter(each, o.limit())
		}
		return s.limiters[key]
	}
	return func() take { return func(key string) bool { return get(key).Allow() } }
}

func throttledStore(maxKeys int) func(options) func() take {
	return func(o options) func() take {
		q := throttled.RateQuota{MaxRate: throttled.PerSec(100_000_000), MaxBurst: 1 << 29}
		if o.refuse {
			q = throttled.RateQuota{MaxRate: throttled.PerMin(10), MaxBurst: 9}
		}
		l := must(throttled.NewGCRARateLimiterCtx(must(memstore.NewCtx(maxKeys)), q))
		ctx := context.Background()
		return func() take {
			return func(key string) bool {
				limited, _, err := l.RateLimitCtx(ctx, key, 1)
				return err == nil && !limited
			}
		}
	}
}

func ululeStore(o options) func() take {
	s := ululememory.NewStoreWithOptions(ulule.StoreOptions{Prefix: "l", CleanUpInterval: min(o.window, 30*time.Second)})
	l, ctx := ulule.New(s, ulule.Rate{Period: o.window, Limit: int64(o.limit())}), context.Background()
	return func() take {
		return func(key string) bool {
			c, err := l.Get(ctx, key)
			return err == nil && !c.Reached
		}
	}
}

func tollboothLimiter(o options) func() take {
	ttl := time.Hour
	if o.window < time.Minute {
		ttl = 2 * o.window
	}
	l := tollbooth.NewLimiter(float64(o.limit())/o.window.Seconds(), &tollboothlimiter.ExpirableOptions{DefaultExpirationTTL: ttl})
	l.SetBurst(o.limit())
	return func() take {
		return func(key string) bool { return tollbooth.LimitByKeys(l, []string{key}) == nil }
	}
}

// A discard is a response that nobody reads.
type discard struct{ header http.Header }

func (w *discard) Header() http.Header         { return w.header }
func (w *discard) Write(b []byte) (int, error) { return len(b), nil }
func (w *discard) WriteHeader(int)             {}

func httprateLimiter(o options) func() take {
	l := httprate.NewRateLimiter(o.limit(), o.window)
	return func() take {
		w, r := &discard{header: http.Header{}}, must(http.NewRequest(http.MethodGet, "http://localhost/", nil))
		return func(key string) bool { return !l.OnLimit(w, r, key) }
	}
}
