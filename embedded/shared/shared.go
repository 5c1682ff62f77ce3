// Package shared opens the store in Redis that a configuration names, for the weir program and for whoever has
// Weir inside: all that name the same server, prefix, rules and limits have one count.
//
//	engine, err := embedded.Open("weir.yaml", embedded.Options{Shared: shared.Redis})
//
// It is apart from package embedded so that a program that counts in memory has no client of Redis in it.
package shared

import (
	"fmt"
	"os"
	"time"

	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/embedded"
	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/store/failover"
	"github.com/weirgate/weir/store/redis"
)

// Redis is what [embedded.Options] want as Shared. A server that cannot be reached is no error: it may come
// later, and until then this process counts by its share, as store.on_failure and store.replicas say.
func Redis(c *config.Config, b embedded.Beside) (*embedded.Shared, error) {
	s, err := Open(c, b)
	if err != nil {
		return nil, err
	}
	if err := s.Announce(c); err != nil {
		_ = s.Close() // nobody has used it
		return nil, err
	}
	return &embedded.Shared{Store: s, Gauges: s.Gauges(), Bans: s.Register("bans"), Close: s.Close}, nil
}

// A Store counts in Redis or, for a while, this process's share in memory. It is safe for concurrent use.
type Store struct {
	*failover.Store
	redis   *redis.Store
	failing failover.Options
}

// Open opens what c names.
func Open(c *config.Config, b embedded.Beside) (*Store, error) {
	o, err := options(c)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	o.Logger = b.Log
	r, err := redis.New(o)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	s := &Store{redis: r, failing: failingOptions(c, b)}
	if b.Log != nil { // silence does not say whose it is
		s.failing.Logger = b.Log.With("store", r.String())
	}
	s.Store = failover.New(r, b.Local, s.failing)
	return s, nil
}

func failingOptions(c *config.Config, b embedded.Beside) failover.Options {
	o := failover.Options{
		Timeout:    time.Duration(c.Store.Redis.Timeout),
		Failures:   c.Store.Breaker.Failures,
		ProbeEvery: time.Duration(c.Store.Breaker.ProbeEvery),
		Replicas:   c.Store.Replicas,
		Observe:    b.Waited,
	}
	if b.Changed != nil {
		o.Changed = func(c failover.Change) { b.Changed(words(c)) }
	}
	return o
}

// words are what a change of the breaker comes from.
func words(c failover.Change) (kind, cause string) {
	if c.Cause == nil {
		return "", ""
	}
	return c.Kind.String(), c.Cause.Error()
}

// Window returns what counts in the same Redis as envoyproxy/ratelimit does, and the store before it, with local in
// its place while Redis is away. That is closed before s.
func (s *Store) Window(o redis.WindowOptions, local failover.Backend) (*redis.Window, *failover.Store) {
	w := redis.NewWindow(s.redis, o)
	return w, failover.New(w, local, s.failing)
}

// Recalled is how many hits were refused from memory, without asking Redis.
func (s *Store) Recalled() uint64 { return s.redis.Recalled() }

// Close closes what Open opened.
func (s *Store) Close() error {
	s.Store.Close()
	return s.redis.Close()
}

// Register returns what processes share under a name beside their counts.
func (s *Store) Register(name string) *redis.Register { return s.redis.Register(name) }

// Gauges are what the metrics tell of Redis.
func (s *Store) Gauges() journal.Gauges {
	return journal.Gauges{
		BreakerOpen: s.Store.Open, Recalled: s.redis.Recalled, StoreFindings: s.findings,
		StoreFailures: func() map[string]uint64 { return Failures(s.Store) },
	}
}

// findings are what may be wrong with Redis, and whether it is.
func (s *Store) findings() map[string]bool {
	all := map[string]bool{}
	for _, f := range redis.Findings() {
		all[f.String()] = s.redis.Found(f)
	}
	return all
}

// Failures are how often the stores that are not nil had no answer, by the name of the way in which.
func Failures(of ...*failover.Store) map[string]uint64 {
	all := map[string]uint64{}
	for _, kind := range failover.Kinds() {
		all[kind.String()] = 0
		for _, s := range of {
			if s != nil {
				all[kind.String()] += s.Failures(kind)
			}
		}
	}
	return all
}

// Announce lets other processes know by which policy this one counts, from now on by c's.
func (s *Store) Announce(c *config.Config) error {
	print, err := countsBy(c)
	if err == nil {
		s.redis.Announce(print, processName(c))
	}
	return err
}

// countsBy identifies what is counted, for whom, against what: processes whose counts are one should have
// the same.
func countsBy(c *config.Config) (string, error) {
	only := config.Default()
	only.Client, only.Limits, only.Rules, only.Default = c.Client, c.Limits, c.Rules, c.Default
	only.Plans, only.Keys.Required = c.Plans, c.Keys.Required
	only.JWT.Claim, only.JWT.PlanClaim = c.JWT.Claim, c.JWT.PlanClaim
	print, err := only.Hash()
	return print[:min(12, len(print))], err
}

// processName tells an operator which process this is.
func processName(c *config.Config) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%s (process %d, listen %q)", host, os.Getpid(), c.Listen)
}
