package app

import (
	"context"
	"net"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/front/proxy"
	"github.com/weirgate/weir/journal"
)

// follow reloads on SIGHUP and when the configuration's file changes, until ctx is done.
func (a *App) follow(ctx context.Context) {
	if a.options.Config == "" {
		<-ctx.Done()
		return
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	watched := make(chan error, 1)
	go func() { watched <- watch(ctx, a.options.Config, a.log, a.reload) }()
	for {
		select {
		case <-hangups:
			_ = a.reload(true) // it reports what went wrong itself
		case err := <-watched:
			if err == nil {
				return
			}
			a.log.Warn("the configuration is not watched; SIGHUP still reloads it", "err", err)
		}
	}
}

// Reload puts the configuration's present content in force, all of it or, if anything is wrong with
// it, nothing.
func (a *App) Reload() error { return a.reload(true) }

// reload is Reload; report is whether a configuration that is wrong is logged and counted.
func (a *App) reload(report bool) error {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	err := a.replace()
	if err != nil && report {
		a.journal.ReloadFailed(err)
	}
	return err
}

// replace does first everything that can fail, and then swaps once.
func (a *App) replace() error {
	loaded, err := Load(a.options)
	if err != nil {
		return err
	}
	if err := loaded.Err(); err != nil {
		return err
	}
	if err := loaded.serves(); err != nil {
		return err
	}
	prev := a.engine.Current()
	next, err := a.snapshot(loaded, prev)
	if err != nil {
		return err
	}
	sum, err := hash(loaded.Config)
	if err != nil {
		return err
	}
	changed := config.Diff(a.config, loaded.Config)
	a.engine.Swap(next)
	proxy.CloseIdle(prev.Upstreams, next.Upstreams)
	a.journal.SetRules(loaded.Policy.Names())
	a.journal.SetLog(journal.Addresses(loaded.Config.Log.Addresses), loaded.Config.Log.RefusalsPerSecond)
	if slices.ContainsFunc(changed, func(path string) bool { return strings.HasPrefix(path, "client.") }) {
		a.journal.SetChain(chainConfig(loaded))
	}
	a.level.Set(logLevel(loaded.Config.Log.Level))
	a.config = loaded.Config
	a.journal.Reloaded(sum)
	a.tell(loaded, changed)
	return nil
}

// fixed are the settings that take effect at the next start only.
var fixed = []string{"listen", "tls", "proxy_protocol", "admin", "admin_token", "admin_read_token", "server", "data_dir", "store", "log.format"}

// tell logs what a reload changed, what it could not change, and what is suspicious.
func (a *App) tell(l *Loaded, changed []string) {
	for _, p := range l.Problems {
		a.log.Warn("configuration", "problem", p.String())
	}
	restart := slices.DeleteFunc(slices.Clone(changed), func(path string) bool {
		return !slices.ContainsFunc(fixed, func(f string) bool { return path == f || strings.HasPrefix(path, f+".") })
	})
	if len(restart) > 0 {
		a.log.Warn("these settings take effect at the next start", "needs restart", restart)
	}
	a.log.Info("configuration changed", "fields", changed)
}

// checkUpstreams says so if an upstream cannot be reached at the start. It may come later: requests
// are answered 502 until then.
func (a *App) checkUpstreams(ctx context.Context) {
	for _, up := range a.engine.Current().Upstreams {
		if up == nil {
			continue
		}
		dialer := net.Dialer{Timeout: time.Duration(a.config.UpstreamTimeouts.Connect)}
		c, err := dialer.DialContext(ctx, "tcp", hostPort(up.URL))
		if err != nil {
			a.log.Warn("the upstream cannot be reached; requests for it are answered 502 until it can",
				"upstream", up.URL.Redacted(), "err", err)
			continue
		}
		c.Close()
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
