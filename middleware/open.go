package middleware

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/internal/chain"
	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/policy"
	"github.com/weirgate/weir/respond"
	"github.com/weirgate/weir/store/memory"
)

// Open returns a middleware as the configuration file at path says, which is read once, and counts in
// memory, quotas included: a restart forgets them. What the file says of listeners, of upstreams and of
// the admin address is passed over; see [Middleware.Metrics]. Refusals and the chain diagnosis are logged to [slog.Default]. The returned
// function ends what the middleware runs in the background; it is called when no request is on its way
// any longer.
func Open(path string) (*Middleware, func(), error) {
	cfg, problems, err := config.Load(path, os.Environ())
	if err != nil {
		return nil, nil, err
	}
	if config.HasErrors(problems) {
		return nil, nil, unusable(problems)
	}
	p, problems := policy.Compile(cfg)
	if config.HasErrors(problems) {
		return nil, nil, unusable(problems)
	}
	if cfg.Store.Redis.URL != "" {
		return nil, nil, errShared
	}
	store := memory.New(memory.Options{MaxKeys: cfg.Store.Memory.MaxKeys})
	var m *Middleware
	o := JournalOptions(cfg, p)
	o.Log = slog.Default()
	o.Gauges = journal.Gauges{
		MemoryKeys:      store.Keys,
		MemoryEvictions: store.Evictions,
		TarpitHeld:      func() int { return m.Held() },
	}
	j := journal.New(o)
	s := &engine.Snapshot{Policy: p, Store: store, Respond: respond.New(RespondOptions(cfg))}
	m = New(engine.New(s, j, time.Now), Options{})
	m.metrics = j.Handler()
	stop := background(j.Run)
	return m, func() { stop(); store.Close() }, nil
}

// errShared is why Open does not open a configuration whose counts are shared.
var errShared = errors.New("store.redis: this middleware counts in memory; for a shared count give engine.New a snapshot over store/redis")

// Metrics serves the metrics of a middleware that [Open] returned, in the Prometheus text format. For
// any other, whose journal somebody else has, it answers 404.
func (m *Middleware) Metrics() http.Handler {
	if m.metrics == nil {
		return http.NotFoundHandler()
	}
	return m.metrics
}

// RespondOptions returns how c says that answers are written.
func RespondOptions(c *config.Config) respond.Options {
	return respond.Options{
		Headers:         c.Headers,
		LegacyReset:     c.LegacyReset,
		ProblemTypeBase: c.ProblemTypeBase,
		HTML:            c.HTML,
		AllowOrigin:     c.CORS.AllowOrigin,
	}
}

// JournalOptions returns what c, and p that was compiled from it, say of a journal.
func JournalOptions(c *config.Config, p *policy.Policy) journal.Options {
	return journal.Options{
		Addresses:         journal.Addresses(c.Log.Addresses),
		RefusalsPerSecond: c.Log.RefusalsPerSecond,
		Rules:             p.Names(),
		Chain:             ChainConfig(p),
	}
}

// ChainConfig tells the chain diagnosis how p finds clients.
func ChainConfig(p *policy.Policy) chain.Config {
	r := p.Resolver()
	return chain.Config{Strategy: r.Strategy(), FromRight: r.FromRight(), KnownProxy: r.KnownProxy, Nearest: r.Nearest}
}

// background runs f until the returned function is called, which waits for its end.
func background(f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { f(ctx) })
	return func() { cancel(); running.Wait() }
}

// unusable returns every problem that is not a mere warning as one error.
func unusable(problems []config.Problem) error {
	var errs []error
	for _, p := range problems {
		if !p.Warning {
			errs = append(errs, errors.New(p.String()))
		}
	}
	return errors.Join(errs...)
}
