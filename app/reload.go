package app

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/embedded"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/front/proxy"
	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/tracing"
)

// follow reloads on every hangup signal, until ctx is done.
func (a *App) follow(ctx context.Context, hangups <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			_ = a.Reload() // it reports what went wrong itself
		}
	}
}

// watch reloads when the configuration's file changes, until ctx is done.
func (a *App) watch(ctx context.Context) {
	if err := watch(ctx, a.options.Config, a.log, a.changed); err != nil {
		a.log.Warn("the configuration is not watched; SIGHUP still reloads it", "err", err)
	}
}

// Reload puts the configuration's present content in force, all of it or, if anything is wrong with
// it, nothing, and reports what went wrong.
func (a *App) Reload() error {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	before := a.nowInForce().Hash
	err := a.reload()
	a.written("signal", before, err)
	return err
}

// reload holds reloading.
func (a *App) reload() error {
	a.tried = sum(a.options.Config)
	err := a.replace()
	if err != nil {
		a.refuse(err)
	}
	return err
}

// changed reloads if content, which the file is known to hold, is not what was tried last. It reports
// whether to ask again later, because the content is wrong; if final is set, it is refused for good.
func (a *App) changed(content [sha256.Size]byte, final bool) (again bool) {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	if content == a.tried {
		return false
	}
	before := a.nowInForce().Hash
	err := a.replace()
	if err != nil && !final {
		return true
	}
	if err != nil {
		a.refuse(err)
	}
	a.written("file", before, err)
	a.tried = content
	return false
}

// loadServable returns what o names if it can be put in force.
func loadServable(o Options) (*Loaded, error) {
	l := Load(o)
	if err := l.Err(); err != nil && (config.HasErrors(l.Problems) || !l.bare()) {
		return nil, err
	}
	return l, l.serves()
}

// errIrregular is why a pipe, which the program may be started with, is not read a second time.
var errIrregular = errors.New("not a regular file, so it is read at the start only: put the configuration into a file")

// replace reads the configuration and puts it in force.
func (a *App) replace() error {
	path := a.options.Config
	if about, err := os.Stat(path); err == nil && !about.IsDir() && !about.Mode().IsRegular() {
		return fmt.Errorf("%s: %w", path, errIrregular)
	}
	loaded, err := loadServable(a.options)
	if err != nil {
		return err
	}
	return a.put(loaded)
}

// A successor is what a loaded configuration puts in force, before it is.
type successor struct {
	hash     string // of the configuration
	snapshot *engine.Snapshot
	shield   *embedded.Firewalls
	keys     *keyring
	traces   *tracing.Exporter
}

// successor does everything that can fail. Nothing is left open if one thing does.
func (a *App) successor(loaded *Loaded) (s successor, err error) {
	if s.hash, err = loaded.Config.Hash(); err != nil {
		return s, err
	}
	if s.traces, err = a.exporter(loaded.Config); err != nil {
		return s, err
	}
	if s.keys, err = a.keysFor(loaded.Config); err != nil {
		a.endTraces(s.traces)
		return s, err
	}
	if s.snapshot, s.shield, err = a.snapshot(loaded, a.engine.Current(), s.keys); err != nil {
		a.endTraces(s.traces)
		a.dropKeys(s.keys)
		return s, err
	}
	s.snapshot.Tracer = a.tracer(s.traces, loaded.Config)
	return s, nil
}

// put does first everything that can fail, and then swaps once.
func (a *App) put(loaded *Loaded) error {
	next, err := a.successor(loaded)
	if err != nil {
		return err
	}
	prev, changed := a.engine.Current(), config.Diff(a.config, loaded.Config)
	a.store.follow(loaded.Config, a.log)
	next.snapshot.Store = a.store.Store
	a.punish(next.snapshot, loaded)
	a.engine.Swap(next.snapshot)
	a.swapKeys(next.keys)
	select {
	case a.swapped <- struct{}{}:
	default: // it is to be looked at already
	}
	proxy.CloseIdle(prev.Upstreams, next.snapshot.Upstreams)
	a.retire(a.shield, next.shield)
	a.shield = next.shield
	next.traces, a.traces = a.traces, next.traces
	a.endTraces(next.traces)
	a.tellJournal(loaded, changed)
	a.level.Set(logLevel(loaded.Config.Log.Level))
	a.config, a.hash, a.since, a.refused = loaded.Config, next.hash, time.Now(), nil
	a.waiting = restartFields(a.started, loaded.Config)
	a.journal.Reloaded(next.hash)
	a.tell(loaded, changed)
	return nil
}

// tellJournal puts in force what a configuration says of the journal.
func (a *App) tellJournal(loaded *Loaded, changed []string) {
	a.nameRules()
	a.journal.SetFirewall(loaded.Policy.Mask(), loaded.Config.WAF.Keep)
	a.journal.SetLog(journal.Addresses(loaded.Config.Log.Addresses), loaded.Config.Log.RefusalsPerSecond)
	a.journal.SetTopClients(loaded.Config.Metrics.TopClients)
	if slices.ContainsFunc(changed, func(path string) bool { return strings.HasPrefix(path, "client.") }) {
		a.journal.SetChain(embedded.ChainConfig(loaded.Policy))
	}
}

// mostDomains is how many domains of descriptors are counted apart in the metrics.
const mostDomains = 100

// nameRules tells the journal which rules there are: those of the policy, and one for each domain of
// descriptors.
func (a *App) nameRules() {
	a.naming.Lock()
	defer a.naming.Unlock()
	names := a.engine.Current().Policy.Names()
	if a.rls != nil {
		domains := a.rls.Rules()
		names = slices.Concat(domains[:min(len(domains), mostDomains)], names)
	}
	a.journal.SetRules(names)
}

// fixed are the settings that take effect at the next start only.
var fixed = []string{"listen", "forward_auth", "rls", "ext_authz", "spoe", "tls", "proxy_protocol", "admin", "admin_token", "admin_read_token", "server", "data_dir", "store", "log.format"}

// tell logs what a reload changed, what it could not change, and what is suspicious.
func (a *App) tell(l *Loaded, changed []string) {
	for _, p := range l.Problems {
		a.log.Warn("configuration", "problem", p.String())
	}
	if len(a.waiting) > 0 {
		a.log.Warn("these settings take effect at the next start", "needs restart", a.waiting)
	}
	if len(changed) == 0 {
		a.log.Info("the configuration says what it said before")
		return
	}
	a.log.Info("configuration changed", "fields", changed)
}

// restartFields returns the settings that differ from those that the process was started with, and cannot
// take effect before it is started again.
func restartFields(started, now *config.Config) []string {
	return slices.DeleteFunc(config.Diff(started, now), func(path string) bool {
		return !slices.ContainsFunc(fixed, func(f string) bool { return path == f || strings.HasPrefix(path, f+".") })
	})
}

// checkUpstreams says so if an upstream that is new, at the start or after a reload, cannot be reached,
// until ctx is done. It may come later: requests are answered 502 until then.
func (a *App) checkUpstreams(ctx context.Context) {
	known := map[string]bool{}
	for {
		inForce := map[string]bool{}
		for _, up := range a.engine.Current().Upstreams {
			if up == nil || inForce[hostPort(up.URL)] {
				continue
			}
			inForce[hostPort(up.URL)] = true
			if !known[hostPort(up.URL)] {
				a.checkUpstream(ctx, up.URL)
			}
		}
		known = inForce
		select {
		case <-ctx.Done():
			return
		case <-a.swapped:
		}
	}
}

func (a *App) checkUpstream(ctx context.Context, u *url.URL) {
	dialer := net.Dialer{Timeout: time.Duration(a.started.UpstreamTimeouts.Connect)}
	c, err := dialer.DialContext(ctx, "tcp", hostPort(u))
	switch {
	case err == nil:
		c.Close()
	case ctx.Err() == nil:
		a.log.Warn("the upstream cannot be reached; requests for it are answered 502 until it can", "upstream", u.Redacted(), "err", err)
	}
}

// hostPort returns where a URL's service listens.
func hostPort(u *url.URL) string {
	port := u.Port()
	switch {
	case port == "" && u.Scheme == "https":
		port = "443"
	case port == "":
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}
