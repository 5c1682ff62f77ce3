package app

import (
	"io"
	"log/slog"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/clientip"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/embedded"
	"github.com/weirgate/weir/front/proxy"
	"github.com/weirgate/weir/internal/noise"
	"github.com/weirgate/weir/internal/plain"
	"github.com/weirgate/weir/journal"
)

// newLogger returns what the configuration says logs look like. A terminal obeys nothing in them: the text handler
// quotes what is not printable.
func newLogger(w io.Writer, level *slog.LevelVar, c config.Log) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if c.Format == "text" {
		return slog.New(slog.NewTextHandler(w, o))
	}
	return slog.New(slog.NewJSONHandler(plain.JSONTo(w), o))
}

// StandardLog is where the process's standard logger is to write. net/http says there what an upstream sent
// unasked, piece by piece and in a form of its own.
func (a *App) StandardLog() io.Writer { return noise.Log(a.log).Writer() }

// logLevel returns the level of that name; the configuration allows no other.
func logLevel(name string) slog.Level {
	var l slog.Level
	_ = l.UnmarshalText([]byte(name))
	return l
}

func (a *App) journalOptions(l *Loaded) (journal.Options, error) {
	o := embedded.JournalOptions(l.Config, l.Policy)
	o.Log, o.Version, o.Faults = a.log, a.options.Version, faults()
	o.Gauges, o.Backend = a.gauges(), a.store.backend()
	o.Dir = l.Config.DataDir
	var err error
	o.ConfigHash, err = l.Config.Hash()
	return o, err
}

func (a *App) gauges() journal.Gauges {
	g := journal.Gauges{
		Enabled:          func() bool { return !a.engine.Current().Policy.Disabled },
		MemoryKeys:       a.store.keys,
		MemoryEvictions:  a.store.evictions,
		TarpitHeld:       func() int { return a.ofProxy((*proxy.Proxy).Held) },
		APIKeys:          a.keyGauges,
		UpstreamInFlight: func() int { return a.ofProxy((*proxy.Proxy).InFlight) },
	}
	g.Bans, g.Penalties, g.PassedOver = a.bans.Count, a.box.Counts, a.box.PassedOver
	if a.store.shared != nil {
		g.BreakerOpen, g.Recalled = a.store.open, a.store.recalled
		g.StoreFailures, g.StoreFindings = a.store.failures, a.store.shared.Gauges().StoreFindings
	}
	return g
}

// ofProxy returns a number of the proxy, or 0 without one.
func (a *App) ofProxy(number func(*proxy.Proxy) int) int {
	if a.proxy == nil {
		return 0
	}
	return number(a.proxy)
}

func (a *App) proxyOptions(c *config.Config) proxy.Options {
	o := proxy.Options{
		Cert:          c.TLS.Cert,
		Key:           c.TLS.Key,
		HeaderTimeout: time.Duration(c.Server.HeaderTimeout),
		IdleTimeout:   time.Duration(c.Server.IdleTimeout),
		MaxHeader:     int(c.Server.MaxHeader),
		MaxOpen:       a.room.clients,
		Logger:        a.log,
		Refused:       a.refusedByProxy,
	}
	for _, cidr := range c.ProxyProtocol.From {
		network, _ := clientip.ParseNetwork(cidr) // the configuration was checked
		o.ProxyProtocol = append(o.ProxyProtocol, network.Masked())
	}
	return o
}

func (a *App) upstreamOptions(l *Loaded) proxy.UpstreamOptions {
	c := l.Config
	o := proxy.UpstreamOptions{
		Default:        c.Upstream,
		Connect:        time.Duration(c.UpstreamTimeouts.Connect),
		ResponseHeader: time.Duration(c.UpstreamTimeouts.ResponseHeader),
		Idle:           time.Duration(c.UpstreamTimeouts.Idle),
		Links:          a.links,
	}
	if c.Client.Forward == "append" {
		o.Forward = proxy.Append
	}
	for _, r := range c.Routes {
		o.Routes = append(o.Routes, r.Upstream)
	}
	for _, r := range l.Policy.Rules() {
		if r.Action == weir.Tag {
			o.Tags = append(o.Tags, r.TagHeader)
		}
	}
	return o
}
