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
	"sync"
	"time"

	"github.com/weirgate/weir/ban"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/internal/chain"
	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/policy"
	"github.com/weirgate/weir/respond"
	"github.com/weirgate/weir/store/memory"
	"github.com/weirgate/weir/waf"
)

// Options say what an engine is part of. The zero Options are good.
type Options struct {
	// TarpitHeld is how many askers are held at this moment, for the metrics. Nil: that is not told.
	TarpitHeld func() int
	// Shared opens the store that a configuration with store.redis names: Redis, of package
	// embedded/shared. Nil: such a configuration is refused, so that who counts in memory has no client of
	// Redis in his program.
	Shared func(*config.Config, Beside) (*Shared, error)
	// CoreRules loads the OWASP Core Rule Set, as in
	//
	//	func(c embedded.CoreRules) (waf.Ruleset, error) { return crs.New(crs.Options{Paranoia: c.Paranoia, Languages: c.Languages, Values: c.Values}) }
	//
	// with package waf/crs, which a program that does without has not to be built with. Nil: ruleset crs is an
	// error.
	CoreRules func(CoreRules) (waf.Ruleset, error)
	// Verifier proves the API keys or tokens that requests bear, as package token does for the JSON Web Tokens
	// of a configuration with jwt. It stays the caller's. Nil: a configuration that asks for keys or tokens is
	// refused, so that who does without has no cryptography of theirs in his program.
	Verifier engine.Verifier
}

// A Beside is what a shared store finds in the process.
type Beside struct {
	Local  *memory.Store       // counts in its place while it is away
	Log    *slog.Logger        // is told what is wrong with it
	Waited func(time.Duration) // is told how long each request waited for it
	// Changed is told when it is left alone or asked again; in which way it failed, and how; both empty where it is asked again.
	Changed func(kind, cause string)
}

// A Shared is a store in which several processes have one count.
type Shared struct {
	engine.Store
	Gauges journal.Gauges // what the metrics tell of it; those that the memory and the program know are passed over
	Bans   ban.Register   // what keeps the bans that hold in all of them; nil: nothing does
	Close  func() error   // when nobody asks any longer
}

// An Engine counts in this process's memory, quotas included: a restart forgets them. With a shared store it
// counts there. Refusals and the
// chain diagnosis are logged to [slog.Default]. It is safe for concurrent use.
type Engine struct {
	*engine.Engine
	metrics   http.Handler
	memory    *memory.Store
	shared    *Shared // nil: none
	firewalls *Firewalls
	bans      bans
	stop      func()
}

// Open returns an engine as the configuration file at path says, which is read once; the environment
// overrides it as for the program. What the file says of listeners, of upstreams, of the admin address and
// of traces is passed over. The engine is to be closed.
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
	file, err := cfg.Blanked()
	if err != nil {
		return nil, err
	}
	checked, problems := config.Parse("", file, nil)
	checked.Store.Redis.URL, checked.Store.Redis.Password = cfg.Store.Redis.URL, cfg.Store.Redis.Password // the secrets that an engine uses
	return build(checked, problems, o)
}

// errShared is why a configuration is refused whose counts are shared.
var errShared = errors.New("store.redis: want Options{Shared: shared.Redis}, of package embedded/shared, for a count that is not in memory")

// errVerifier is why a configuration is refused by which keys or tokens are read.
var errVerifier = errors.New("jwt, require_key, scopes and keys.required: want Options{Verifier: ...}, of package token for example, that proves keys or tokens")

func build(cfg *config.Config, problems []config.Problem, o Options) (*Engine, error) {
	if config.HasErrors(problems) {
		return nil, unusable(problems)
	}
	p, problems := policy.Compile(cfg)
	if config.HasErrors(problems) {
		return nil, unusable(problems)
	}
	if o.Verifier == nil && (cfg.HasJWT() || cfg.NeedsKeys()) {
		return nil, errVerifier
	}
	e := &Engine{memory: memory.New(memory.Options{MaxKeys: cfg.Store.Memory.MaxKeys})}
	var j *journal.Journal
	beside := Beside{Local: e.memory, Log: slog.Default(),
		Waited: func(d time.Duration) { j.StoreWaited(d) }, Changed: func(kind, cause string) { j.BreakerChanged(kind, cause) }}
	if err := e.share(cfg, o, beside); err != nil {
		e.memory.Close()
		return nil, err
	}
	firewalls, err := NewFirewalls(cfg, p, o.CoreRules, nil)
	if err != nil {
		e.closeStores()
		return nil, err
	}
	e.firewalls = firewalls
	e.bans = openBans(cfg, e.shared, func(s ban.Sentence) { j.Penalized(&s.Client, s.Penalty, s.Ban.Until) })
	j = journal.New(e.journalOptions(cfg, p, o))
	s := &engine.Snapshot{
		Policy: p, Store: e.store(), Respond: respond.New(RespondOptions(cfg)), Firewalls: firewalls.All, Whoami: cfg.Whoami, Verifier: o.Verifier,
	}
	e.bans.guard(s, cfg, p)
	e.Engine = engine.New(s, j, engine.Clock())
	e.metrics = j.Handler()
	e.stop = background(append(e.bans.tasks(), j.Run)...)
	return e, nil
}

// share opens the shared store, if cfg names one.
func (e *Engine) share(cfg *config.Config, o Options, b Beside) (err error) {
	switch {
	case cfg.Store.Redis.URL == "":
		if cfg.HasQuota() {
			slog.Warn("quotas are counted in the memory of this process: a restart forgets them")
		}
		return nil
	case o.Shared == nil:
		return errShared
	}
	e.shared, err = o.Shared(cfg, b)
	return err
}

func (e *Engine) store() engine.Store {
	if e.shared != nil {
		return e.shared
	}
	return e.memory
}

func (e *Engine) journalOptions(cfg *config.Config, p *policy.Policy, o Options) journal.Options {
	jo := JournalOptions(cfg, p)
	jo.Log = slog.Default()
	if e.shared != nil {
		jo.Backend, jo.Gauges = "redis", e.shared.Gauges
	}
	jo.Gauges.MemoryKeys, jo.Gauges.MemoryEvictions, jo.Gauges.TarpitHeld = e.memory.Keys, e.memory.Evictions, o.TarpitHeld
	e.bans.measure(&jo.Gauges)
	return jo
}

// Metrics serves what the engine has counted, in the Prometheus text format.
func (e *Engine) Metrics() http.Handler { return e.metrics }

// Close ends what the engine runs in the background. It is called once, when no request is on its way any
// longer.
func (e *Engine) Close() {
	e.stop()
	e.closeStores()
	if err := e.firewalls.CloseUnused(nil); err != nil {
		slog.Warn("closing the firewall", "err", err)
	}
}

func (e *Engine) closeStores() {
	if e.shared != nil {
		if err := e.shared.Close(); err != nil {
			slog.Warn("closing the shared store", "err", err)
		}
	}
	e.memory.Close()
}

// RespondOptions returns how c says that answers are written.
func RespondOptions(c *config.Config) respond.Options {
	return respond.Options{
		Headers:         c.Headers,
		LegacyReset:     c.LegacyReset,
		ProblemTypeBase: c.ProblemTypeBase,
		HTML:            c.HTML,
		Bearer:          c.HasJWT() || c.Keys.Bearer,
		KeyHeader:       c.Keys.Header,
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
		Mask:              p.Mask(),
		Keep:              c.WAF.Keep,
	}
}

// ChainConfig tells the chain diagnosis how p finds clients.
func ChainConfig(p *policy.Policy) chain.Config {
	r := p.Resolver()
	return chain.Config{Strategy: r.Strategy(), FromRight: r.FromRight(), Listed: r.Listed(), KnownProxy: r.KnownProxy, Nearest: r.Nearest}
}

// background runs tasks until the returned function is called, which waits for their end.
func background(tasks ...func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, f := range tasks {
		running.Go(func() { f(ctx) })
	}
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
