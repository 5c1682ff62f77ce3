// Package embedded builds the engine of a program that has Weir inside, from a configuration file or from
// Go values. One engine may stand behind the packages middleware and grpcmw at once: then a client has one
// limit in both.
package embedded

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"slices"
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

// Options say what an engine is part of. The zero Options are good.
type Options struct {
	// TarpitHeld is how many askers are held at this moment, for the metrics. Nil: that is not told.
	TarpitHeld func() int
}

// An Engine counts in this process's memory, quotas included: a restart forgets them. Refusals and the
// chain diagnosis are logged to [slog.Default]. It is safe for concurrent use.
type Engine struct {
	*engine.Engine
	metrics http.Handler
	store   *memory.Store
	stop    func()
}

// Open returns an engine as the configuration file at path says, which is read once; the environment
// overrides it as for the program. What the file says of listeners, of upstreams and of the admin address
// is passed over. The engine is to be closed.
func Open(path string, o Options) (*Engine, error) {
	cfg, problems, err := config.Load(path, os.Environ())
	if err != nil {
		return nil, err
	}
	return build(cfg, problems, o)
}

// New returns an engine as cfg says, which is [config.Default] with changes. It is checked as a file of
// the same content would be; the environment has no part in it. The engine is to be closed, and does not
// keep cfg.
func New(cfg *config.Config, o Options) (*Engine, error) {
	if cfg.Store.Redis.URL != "" {
		return nil, errShared
	}
	file, err := cfg.Blanked() // what is secret is nothing that an embedded engine uses
	if err != nil {
		return nil, err
	}
	checked, problems := config.Parse("", file, nil)
	return build(checked, problems, o)
}

// errShared is why a configuration is refused whose counts are shared.
var errShared = errors.New("store.redis: an embedded engine counts in memory; for a shared count give engine.New a snapshot over store/redis")

func build(cfg *config.Config, problems []config.Problem, o Options) (*Engine, error) {
	if config.HasErrors(problems) {
		return nil, unusable(problems)
	}
	p, problems := policy.Compile(cfg)
	if config.HasErrors(problems) {
		return nil, unusable(problems)
	}
	if cfg.Store.Redis.URL != "" {
		return nil, errShared
	}
	if hasQuota(cfg) {
		slog.Warn("quotas are counted in the memory of this process: a restart forgets them")
	}
	e := &Engine{store: memory.New(memory.Options{MaxKeys: cfg.Store.Memory.MaxKeys})}
	jo := JournalOptions(cfg, p)
	jo.Log = slog.Default()
	jo.Gauges = journal.Gauges{MemoryKeys: e.store.Keys, MemoryEvictions: e.store.Evictions, TarpitHeld: o.TarpitHeld}
	j := journal.New(jo)
	e.Engine = engine.New(&engine.Snapshot{Policy: p, Store: e.store, Respond: respond.New(RespondOptions(cfg)), Whoami: cfg.Whoami}, j, time.Now)
	e.metrics = j.Handler()
	e.stop = background(j.Run)
	return e, nil
}

// Metrics serves what the engine has counted, in the Prometheus text format.
func (e *Engine) Metrics() http.Handler { return e.metrics }

// Close ends what the engine runs in the background. It is called once, when no request is on its way any
// longer.
func (e *Engine) Close() {
	e.stop()
	e.store.Close()
}

// hasQuota reports whether c has a limit that is a quota.
func hasQuota(c *config.Config) bool {
	isQuota := func(l config.Limit) bool { return l.Quota != nil }
	return slices.ContainsFunc(c.Limits, isQuota) || slices.ContainsFunc(c.Default.Limits, isQuota) ||
		slices.ContainsFunc(c.Rules, func(r config.Rule) bool { return slices.ContainsFunc(r.Limits, isQuota) })
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
		TopClients:        c.Metrics.TopClients,
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
		if p.File == "" {
			p.Line = 0 // of values that are in no file
		}
		if !p.Warning {
			errs = append(errs, errors.New(p.String()))
		}
	}
	return errors.Join(errs...)
}
