// Package app puts the house together: it opens what a configuration names, serves until it is told
// to stop, and puts a changed configuration in the place of the old. It is the only package that
// sees all others.
package app

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weirgate/weir/admin"
	"github.com/weirgate/weir/ban"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/embedded"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/front/proxy"
	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/respond"
	"github.com/weirgate/weir/tracing"
)

// Options are what the command line says.
type Options struct {
	Config string   // path of the configuration file; empty for the defaults
	Env    []string // the environment, as in os.Environ; sockets that it hands over are served and closed

	// These stand in place of the configuration's words, if they are given, be it as nothing.
	Upstream, Listen, Admin *string

	Log     io.Writer // where log lines go
	Version string    // of the program, for the metrics
}

// An App is a running Weir. Whoever starts one runs it.
type App struct {
	options Options
	level   slog.LevelVar
	log     *slog.Logger
	journal *journal.Journal
	store   *store
	engine  *engine.Engine
	shield  *embedded.Firewalls     // of the snapshot in force
	tokens  tokens                  // likewise
	keys    atomic.Pointer[keyring] // likewise; nil: none are read
	traces  *tracing.Exporter       // likewise; nil: requests are not traced
	bans    *ban.Bans
	box     *ban.Box
	fronts  []*front
	proxy   *proxy.Proxy // one of the fronts, or nil
	rls     *rls         // one of the fronts, or nil
	admin   *adminServer // nil if there is none

	handed  handed         // sockets that are not served yet
	room    room           // for connections
	links   *proxy.Links   // connections to upstreams
	started *config.Config // what the listeners were opened by
	swapped chan struct{}  // holds one where upstreams are to be checked
	hangups chan os.Signal // each is a reload; caught before anything listens

	draining atomic.Bool

	naming    sync.Mutex // of the rules, for the metrics
	reloading sync.Mutex
	config    *config.Config    // in force
	hash      string            // of it
	since     time.Time         // it is in force
	refused   *admin.Refused    // the last reload, or nil: it was not
	waiting   []string          // settings of config that take effect at the next start only
	tried     [sha256.Size]byte // sum of the file's content that was last put in force or refused
}

// Start opens everything that the configuration names. Nothing is left open if one thing fails. A
// configuration that cannot be used is a ConfigError.
func Start(o Options) (*App, error) {
	tried := sum(o.Config)
	loaded, err := loadServable(o)
	if err != nil {
		return nil, err
	}
	a := &App{options: o, started: loaded.Config, config: loaded.Config, tried: tried, swapped: make(chan struct{}, 1)}
	a.room = share(openFiles(), loaded)
	a.links = proxy.NewLinks(a.room.upstreams)
	a.level.Set(logLevel(loaded.Config.Log.Level))
	a.log = newLogger(o.Log, &a.level, loaded.Config.Log)
	for _, p := range loaded.Problems {
		a.log.Warn("configuration", "problem", p.String())
	}
	a.hangups = make(chan os.Signal, 1)
	signal.Notify(a.hangups, syscall.SIGHUP)
	if err := a.open(loaded); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

// open opens what the configuration names; close closes it.
func (a *App) open(l *Loaded) error {
	var err error
	if a.handed, err = takeHanded(a.options.Env); err != nil {
		return err
	}
	if a.store, err = openStore(l.Config, a.besideStore()); err != nil {
		return err
	}
	a.openBans(l.Config)
	options, err := a.journalOptions(l)
	if err != nil {
		return err
	}
	a.journal = journal.New(options)
	a.hash, a.since = options.ConfigHash, time.Now()
	if a.traces, err = a.exporter(l.Config); err != nil {
		return err
	}
	keys, err := a.keysFor(l.Config)
	if err != nil {
		return err
	}
	a.swapKeys(keys)
	s, shield, err := a.snapshot(l, nil, keys)
	if err != nil {
		return err
	}
	a.shield, s.Tracer = shield, a.tracer(a.traces, l.Config)
	a.punish(s, l)
	a.engine = engine.New(s, a.journal, engine.Clock())
	if err = a.openFronts(l); err != nil {
		return err
	}
	if l.Config.Admin != "" {
		if err := a.openAdmin(l); err != nil {
			return err
		}
	}
	return a.handed.unused()
}

// besideStore is what a store is told of. Nobody asks it before there is a journal.
func (a *App) besideStore() embedded.Beside {
	return embedded.Beside{
		Log:     a.log,
		Waited:  func(d time.Duration) { a.journal.StoreWaited(d) },
		Changed: func(kind, cause string) { a.journal.BreakerChanged(kind, cause) },
	}
}

// close closes what open opened. It may be called when open failed half-way.
func (a *App) close() {
	signal.Stop(a.hangups)
	a.handed.close()
	for _, f := range a.fronts {
		f.listener.Close()
	}
	if a.admin != nil {
		a.admin.close()
	}
	a.swapKeys(nil)
	if a.store != nil {
		a.store.close(a.log)
	}
	a.tokens.close()
	traces := a.traces
	a.traces = nil
	a.endTraces(traces)
	a.retire(a.shield, nil)
	if a.journal != nil {
		a.journal.Save()
	}
}

// retire closes what prev, which may be nil, does not share with next.
func (a *App) retire(prev, next *embedded.Firewalls) {
	if prev == nil {
		return
	}
	if err := prev.CloseUnused(next); err != nil {
		a.log.Warn("closing the firewall", "err", err)
	}
}

// snapshot returns what a loaded configuration puts in force. It shares with prev, which may be nil,
// the counts, the connections to upstreams that stay, the firewall's rule sets and the keys of tokens.
func (a *App) snapshot(l *Loaded, prev *engine.Snapshot, keys *keyring) (*engine.Snapshot, *embedded.Firewalls, error) {
	var before []*engine.Upstream
	if prev != nil {
		before = prev.Upstreams
	}
	upstreams, err := proxy.NewUpstreams(a.upstreamOptions(l), before)
	if err != nil {
		return nil, nil, err
	}
	shield, err := embedded.NewFirewalls(l.Config, l.Policy, coreRules, a.shield)
	if err != nil {
		return nil, nil, err
	}
	return &engine.Snapshot{
		Policy:    l.Policy,
		Store:     a.store.Store,
		Respond:   respond.New(embedded.RespondOptions(l.Config)),
		Upstreams: upstreams,
		Firewalls: shield.All,
		Whoami:    l.Config.Whoami,
		Bans:      a.bans,
		Secrets:   keyPlaces(l.Config),
		Verifier:  a.verifier(l.Config, keys),
	}, shield, nil
}

// Run serves until ctx is done, then lets the requests in flight end, within the configured time. It
// closes what Start opened.
func (a *App) Run(ctx context.Context) error {
	defer a.close()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	toTheLast, end := context.WithCancel(context.WithoutCancel(ctx)) // while anything is decided, in the drain, too
	defer end()
	var tasks sync.WaitGroup
	task := func(do func() error) {
		tasks.Go(func() {
			if err := do(); err != nil {
				stop(err)
			}
		})
	}
	for _, f := range a.fronts {
		task(func() error { return f.server.Serve(f.listener) })
	}
	if a.proxy != nil {
		task(func() error { a.checkUpstreams(ctx); return nil })
	}
	if a.rls != nil {
		task(func() error { a.rls.follow(toTheLast, a); return nil })
	}
	if a.admin != nil {
		task(a.admin.serve)
	}
	task(func() error { a.journal.Run(toTheLast); return nil })
	task(func() error { a.bans.Run(toTheLast); return nil })
	task(func() error { a.box.Run(toTheLast); return nil })
	task(func() error { a.follow(ctx, a.hangups); return nil })
	if a.options.Config != "" {
		task(func() error { a.watch(ctx); return nil })
	}
	a.announce()
	<-ctx.Done()
	a.drain()
	end()
	tasks.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// announce says in one line what is served where.
func (a *App) announce() {
	where := []any{"config", cmp.Or(a.options.Config, "defaults")}
	for _, f := range a.fronts {
		where = append(where, f.name, f.listener.Addr().String())
	}
	if a.proxy != nil {
		where = append(where, "upstream", a.started.Upstream)
	}
	if a.admin != nil {
		where = append(where, "admin", a.admin.listener.Addr().String())
	}
	a.log.Info("weir is running", where...)
}

// ready returns why a load balancer should send no requests here, or nil. A store that is down matters
// only where its rules deny without it.
func (a *App) ready() error {
	switch {
	case a.draining.Load():
		return errors.New("draining")
	case a.started.Store.OnFailure == "deny" && a.store.open():
		return errors.New("the store does not answer, and on_failure is deny")
	}
	return nil
}

// drain takes leave of all who ask, and waits for what is under way. The admin address answers to the last.
func (a *App) drain() {
	a.log.Info("draining", "at most", time.Duration(a.started.Server.Drain).String())
	a.draining.Store(true)
	if err := a.drainFronts(); err != nil {
		a.log.Warn(err.Error())
	}
	if a.admin != nil {
		a.admin.drain()
	}
}
