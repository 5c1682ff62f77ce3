package app

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/localdb"
	"github.com/weirgate/weir/store/failover"
	"github.com/weirgate/weir/store/memory"
	"github.com/weirgate/weir/store/redis"
)

// A store is where this process counts, and all that stands behind it.
//
//	with Redis:     failover ─▶ redis, or for a while this replica's share in memory
//	without:        localdb (quotas, once there are any) ─▶ memory
type store struct {
	engine.Store // what the engine asks
	memory       *memory.Store
	redis        *redis.Store    // nil: none
	failover     *failover.Store // nil without redis
	failing      failover.Options
	windows      *failover.Store // before what counts as envoyproxy/ratelimit does; nil: nothing does
	more         []*store        // opened beside this one, and closed with it
	quotas       *localdb.Store  // nil until a quota is configured, and with redis
	db           *localdb.DB
}

// openStore opens what c names. A server that cannot be reached is no error: it may come later. waited is
// told how long requests wait for it.
func openStore(c *config.Config, log *slog.Logger, waited func(time.Duration)) (*store, error) {
	s := &store{memory: memory.New(memory.Options{MaxKeys: c.Store.Memory.MaxKeys})}
	s.Store = s.memory
	if c.Store.Redis.URL == "" {
		s.keepQuotas(c, log)
		return s, nil
	}
	o, err := redisOptions(c)
	if err == nil {
		o.Logger = log
		s.redis, err = redis.New(o)
	}
	if err != nil {
		s.close(log)
		return nil, fmt.Errorf("store: %w", err)
	}
	s.failing = failover.Options{
		Timeout:    time.Duration(c.Store.Redis.Timeout),
		Failures:   c.Store.Breaker.Failures,
		ProbeEvery: time.Duration(c.Store.Breaker.ProbeEvery),
		Replicas:   c.Store.Replicas,
		Observe:    waited,
		Logger:     log,
	}
	s.failover = failover.New(s.redis, s.memory, s.failing)
	s.Store = s.failover
	return s, s.announce(c)
}

// follow does for c, which is put in force at this moment, what a store that is open can do: from then on
// what it has to remember is remembered, and the other replicas know what is counted by. It does not fail.
func (s *store) follow(c *config.Config, log *slog.Logger) {
	s.keepQuotas(c, log)
	if err := s.announce(c); err != nil {
		log.Warn("other replicas do not learn of the policy", "err", err)
	}
}

// announce lets other replicas know by which policy this one counts.
func (s *store) announce(c *config.Config) error {
	if s.redis == nil {
		return nil
	}
	print, err := countsBy(c)
	if err == nil {
		s.redis.Announce(print, replicaName(c))
	}
	return err
}

// countsBy identifies what is counted, for whom, against what: replicas whose counts are one should have
// the same.
func countsBy(c *config.Config) (string, error) {
	only := config.Default()
	only.Client, only.Limits, only.Rules, only.Default = c.Client, c.Limits, c.Rules, c.Default
	print, err := hash(only)
	return print[:min(12, len(print))], err
}

// replicaName tells an operator which process this is.
func replicaName(c *config.Config) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%s (process %d, listen %q)", host, os.Getpid(), c.Listen)
}

// backend names what this process counts in.
func (s *store) backend() string {
	if s.redis != nil {
		return "redis"
	}
	return "memory"
}

// findings are what may be wrong with Redis, and whether it is.
func (s *store) findings() map[string]bool {
	all := map[string]bool{}
	for _, f := range redis.Findings() {
		all[f.String()] = s.redis.Found(f)
	}
	return all
}

// keepQuotas puts the embedded database before the memory, if c has a quota and it is not there yet.
// Where it cannot be opened, quotas are counted in memory, and the log says why.
func (s *store) keepQuotas(c *config.Config, log *slog.Logger) {
	if s.redis != nil || s.quotas != nil || !hasQuota(c) {
		return
	}
	db, err := localdb.Open(c.DataDir)
	if err == nil {
		if s.quotas, err = localdb.NewStore(db, s.memory, time.Now(), localdb.Options{Logger: log}); err != nil {
			err = errors.Join(err, db.Close())
		}
	}
	if err != nil {
		log.Warn("quota counts are kept in memory only, and a restart forgets them", "err", err)
		return
	}
	s.db, s.Store = db, s.quotas
}

func hasQuota(c *config.Config) bool {
	isQuota := func(l config.Limit) bool { return l.Quota != nil }
	return slices.ContainsFunc(c.Limits, isQuota) || slices.ContainsFunc(c.Default.Limits, isQuota) ||
		slices.ContainsFunc(c.Rules, func(r config.Rule) bool { return slices.ContainsFunc(r.Limits, isQuota) })
}

// window returns a store that counts in Redis as envoyproxy/ratelimit does, with local in its place while
// Redis is away.
func (s *store) window(o redis.WindowOptions, local failover.Backend) weir.Store {
	s.windows = failover.New(redis.NewWindow(s.redis, o), local, s.failing)
	return s.windows
}

// close closes what is open, from the outside in.
func (s *store) close(log *slog.Logger) {
	for _, other := range s.more {
		other.close(log)
	}
	var errs []error
	if s.windows != nil {
		s.windows.Close()
	}
	if s.failover != nil {
		s.failover.Close()
	}
	if s.redis != nil {
		errs = append(errs, s.redis.Close())
	}
	if s.quotas != nil {
		errs = append(errs, s.quotas.Close(), s.db.Close())
	}
	s.memory.Close()
	if err := errors.Join(errs...); err != nil {
		log.Warn("closing the store", "err", err)
	}
}

// open reports whether the shared store is left alone because it failed.
func (s *store) open() bool {
	return s.failover != nil && s.failover.Open() || s.windows != nil && s.windows.Open()
}

// redisOptions returns what c says of Redis. An error says which file cannot be used.
func redisOptions(c *config.Config) (redis.Options, error) {
	r := c.Store.Redis
	o := redis.Options{
		URL: r.URL, Timeout: time.Duration(r.Timeout), Prefix: r.Prefix,
		Username: r.Username, Password: r.Password, SentinelMaster: r.SentinelMaster,
	}
	if r.TLS == (config.RedisTLS{}) {
		return o, nil
	}
	o.TLS = &tls.Config{ServerName: r.TLS.ServerName, MinVersion: tls.VersionTLS12}
	if r.TLS.CA != "" {
		pem, err := os.ReadFile(r.TLS.CA)
		if err != nil {
			return o, fmt.Errorf("store.redis.tls.ca: %w", err)
		}
		o.TLS.RootCAs = x509.NewCertPool()
		if !o.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return o, fmt.Errorf("store.redis.tls.ca: %s holds no PEM certificate", r.TLS.CA)
		}
	}
	if r.TLS.Cert != "" || r.TLS.Key != "" {
		pair, err := tls.LoadX509KeyPair(r.TLS.Cert, r.TLS.Key)
		if err != nil {
			return o, fmt.Errorf("store.redis.tls: %w", err)
		}
		o.TLS.Certificates = []tls.Certificate{pair}
	}
	return o, nil
}

// checkRedis returns what is wrong with the words about Redis, as far as no server has to be asked.
func checkRedis(c *config.Config) []config.Problem {
	if c.Store.Redis.URL == "" {
		return nil
	}
	o, err := redisOptions(c)
	if err == nil {
		err = o.Check()
	}
	if err == nil {
		return nil
	}
	return []config.Problem{c.Problem("store.redis", err.Error(), "as in redis: {url: \"redis://127.0.0.1:6379/0\"}")}
}
