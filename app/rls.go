package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/front/envoyrls"
	"github.com/weirgate/weir/front/envoyrls/descriptors"
	"github.com/weirgate/weir/front/envoyrls/descriptors/follow"
	"github.com/weirgate/weir/front/envoyrls/environment"
	"github.com/weirgate/weir/front/envoyrls/xds"
	"github.com/weirgate/weir/internal/farewell"
	"github.com/weirgate/weir/internal/noise"
	"github.com/weirgate/weir/store/redis"
)

// An rls is Envoy's rate limit service, and where its descriptors come from.
type rls struct {
	*envoyrls.Server
	settings *environment.Settings
	config   string // a path, or an xds:// URL
	options  descriptors.Options
}

// xdsScheme begins an rls.config that names a control plane in place of files.
const xdsScheme = "xds://"

// loadRLS adds to l what the environment of envoyproxy/ratelimit says, where there is one, and what is
// wrong with it and with the descriptors.
func (l *Loaded) loadRLS(env []string) {
	c := l.Config
	if c.RLS.Listen == "" {
		return
	}
	if !environment.Present(env) {
		env = []string{"RUNTIME_IGNOREDOTFILES=true"} // what a Kubernetes ConfigMap needs
	}
	settings, problems := environment.Read(env)
	l.RLS = &settings
	l.Problems = append(l.Problems, problems...)
	switch {
	case c.RLS.Config == "":
	case strings.HasPrefix(c.RLS.Config, xdsScheme):
		if _, _, ok := parseXDS(c.RLS.Config); !ok {
			l.Problems = append(l.Problems, c.Problem("rls.config", c.RLS.Config, "want xds://HOST:PORT/NODE"))
		}
	default:
		l.loadDescriptors()
	}
}

// loadDescriptors notes what is wrong with the descriptors. That there are none to be read is a fault of the
// configuration.
func (l *Loaded) loadDescriptors() {
	_, problems := descriptors.Load(l.Config.RLS.Config, rlsOptions(l.Config, l.RLS))
	if _, err := os.Stat(l.Config.RLS.Config); err != nil {
		l.Problems = append(l.Problems, problems...)
		return
	}
	l.Descriptors = problems
}

// parseXDS returns what an xds:// URL names.
func parseXDS(text string) (server, node string, ok bool) {
	u, err := url.Parse(text)
	if err != nil || u.Port() == "" || u.RawQuery != "" || u.User != nil {
		return "", "", false
	}
	return u.Host, strings.Trim(u.Path, "/"), true
}

// rlsOptions returns how descriptors are read.
func rlsOptions(c *config.Config, s *environment.Settings) descriptors.Options {
	o := s.Options()
	o.Extensions = !c.RLS.Compat
	return o
}

// instead returns the variables of Weir's own that say what those of envoyproxy/ratelimit say, where
// there are any: Weir can then be put in that program's place, with the same deployment.
func instead(env []string) []string {
	if !environment.Present(env) {
		return nil
	}
	s, _ := environment.Read(env) // problems are told when the configuration is loaded
	descriptors := s.ConfigPath()
	if strings.EqualFold(s.ConfigType, "grpc_xds_sotw") {
		descriptors = xdsScheme + path.Join(s.XDS.ServerURL, s.XDS.NodeID)
	}
	vars := []string{"WEIR_LOG_LEVEL=" + levelOf(s.LogLevel), "WEIR_LOG_FORMAT=" + s.LogFormat, "WEIR_RLS_LISTEN=" + s.GRPCListen(), "WEIR_RLS_CONFIG=" + descriptors, "WEIR_ADMIN=" + net.JoinHostPort("127.0.0.1", portOf(s.DebugListen()))}
	if s.Redis.URL == "" {
		return vars
	}
	r := s.Store()
	return append(vars, "WEIR_STORE_REDIS_URL="+string(r.URL), "WEIR_STORE_REDIS_USERNAME="+r.Username, "WEIR_STORE_REDIS_PASSWORD="+string(r.Password),
		"WEIR_STORE_REDIS_SENTINEL_MASTER="+r.SentinelMaster,
		"WEIR_STORE_REDIS_TLS_CA="+r.TLS.CA, "WEIR_STORE_REDIS_TLS_CERT="+r.TLS.Cert, "WEIR_STORE_REDIS_TLS_KEY="+r.TLS.Key)
}

// levelOf returns Weir's least level for that of envoyproxy/ratelimit, which has more of them.
func levelOf(name string) string {
	switch name = strings.ToLower(name); name {
	case "trace":
		return "debug"
	case "warning":
		return "warn"
	case "fatal", "panic":
		return "error"
	}
	return name
}

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// newRLS returns the service as l says, with its descriptors in force unless a control plane is to send
// them, or it may start without.
func (a *App) newRLS(l *Loaded) (server, error) {
	c, s := l.Config, l.RLS
	o := envoyrls.Options{
		Settings:           envoyrls.SettingsOf(s),
		OnFailure:          onFailure(c.Store.OnFailure),
		MaxConnectionAge:   s.GRPCMaxConnectionAge,
		MaxConnectionGrace: s.GRPCMaxConnectionAgeGrace,
		Logger:             a.log,
	}
	var err error
	if o.Counting = envoyrls.Own; c.RLS.Compat {
		o.Counting = envoyrls.Compat
		if o.Store, err = a.compatStore(l); err != nil {
			return nil, err
		}
	}
	if s.GRPCServerUseTLS {
		files := envoyrls.TLSFiles{Cert: s.GRPCServerTLSCert, Key: s.GRPCServerTLSKey, ClientCA: s.GRPCClientTLSCACert, ClientName: s.GRPCClientTLSSAN}
		if o.TLS, err = envoyrls.ServerTLS(files, a.log); err != nil {
			return nil, err
		}
	}
	a.rls = &rls{envoyrls.New(a.engine, o), s, c.RLS.Config, rlsOptions(c, s)}
	if strings.HasPrefix(c.RLS.Config, xdsScheme) {
		return a.rls, nil
	}
	set, problems := descriptors.Load(c.RLS.Config, a.rls.options)
	switch {
	case set != nil:
		a.rls.put(a, set)
	case !l.bare():
		return nil, &ConfigError{Problems: problems}
	}
	return a.rls, nil
}

func onFailure(name string) weir.OnFailure {
	for f := weir.FailLocal; f <= weir.FailDeny; f++ {
		if f.String() == name {
			return f
		}
	}
	return weir.FailLocal // the configuration allows no other name
}

// follow keeps the descriptors in step with their files or their control plane, until ctx is done.
func (r *rls) follow(ctx context.Context, a *App) {
	var err error
	if strings.HasPrefix(r.config, xdsScheme) {
		err = r.followXDS(ctx, a)
	} else {
		err = follow.Watch(ctx, r.config, r.options, func(set *descriptors.Set, problems []config.Problem) { r.changed(a, set, problems) })
	}
	if err != nil && ctx.Err() == nil {
		a.log.Error("the descriptors are not followed; what is in force stays", "config", r.config, "err", err)
	}
}

// changed puts set in force, or says why nothing changes.
func (r *rls) changed(a *App, set *descriptors.Set, problems []config.Problem) {
	for _, p := range problems {
		a.log.Warn("descriptors", "problem", p.String())
	}
	if set == nil {
		r.SetFailed()
		a.log.Error("descriptors refused; what is in force stays", "config", r.config)
		return
	}
	r.put(a, set)
	a.log.Info("descriptors in force", "config", r.config, "domains", len(set.Domains()), "limits", set.Limits())
}

// put puts set in force.
func (r *rls) put(a *App, set *descriptors.Set) {
	r.Set(set)
	a.nameRules()
}

func (r *rls) followXDS(ctx context.Context, a *App) error {
	x := &r.settings.XDS
	server, node, _ := parseXDS(r.config) // it was checked
	o := xds.Options{
		Server: server, Node: cmp.Or(node, x.NodeID), Metadata: x.NodeMetadata, Headers: x.Headers,
		Descriptors: r.options, Initial: x.BackoffInitial, Max: x.BackoffMax, Jitter: x.BackoffFactor, MaxMessage: x.MaxMessage,
		Refused: func(error) { r.SetFailed() }, Logger: a.log,
	}
	if !x.BackoffJitter {
		o.Jitter = -1
	}
	if x.UseTLS {
		var err error
		if o.TLS, err = xds.ClientTLS(xds.TLSFiles{ServerCA: x.ServerCA, Cert: x.ClientCert, Key: x.ClientKey, ServerName: x.ServerSAN}); err != nil {
			return err
		}
	}
	return xds.Run(ctx, o, func(set *descriptors.Set) error { r.put(a, set); return nil })
}

// openRLSPorts opens the listeners that the environment names beside the gRPC one.
func (a *App) openRLSPorts(l *Loaded) error {
	s := l.RLS
	if !l.DropIn || a.rls == nil {
		return nil
	}
	err := a.openFront(door{"HOST and PORT", s.HTTPListen(), tooManyRLS}, func() (server, error) { return a.newHTTPServer(a.rls.HTTP()), nil })
	if err != nil || !s.UsePrometheus {
		return err
	}
	metrics := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != s.PrometheusPath {
			http.NotFound(w, r)
			return
		}
		a.rls.Metrics().ServeHTTP(w, r)
	})
	return a.openFront(door{"PROMETHEUS_ADDR", s.PrometheusAddr, tooManyRLS}, func() (server, error) { return a.newHTTPServer(metrics), nil })
}

// An httpServer is a small HTTP server as a front.
type httpServer struct {
	server   http.Server
	farewell *farewell.Farewell
}

func (a *App) newHTTPServer(h http.Handler) *httpServer {
	s := &httpServer{server: http.Server{
		Handler: h, MaxHeaderBytes: 16 << 10, ErrorLog: noise.Log(a.log),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute,
	}}
	s.farewell = farewell.To(&s.server)
	return s
}

func (s *httpServer) Serve(l net.Listener) error { return s.farewell.Serve(l) }

func (s *httpServer) Drain(ctx context.Context) error {
	if err := s.farewell.Drain(ctx); err != nil {
		return errors.Join(err, s.server.Close())
	}
	return nil
}

// refusalBytes is what counters that are known to be above their limit are remembered in, unless the
// environment of envoyproxy/ratelimit says: then an attacker's key costs Redis nothing.
const refusalBytes = 1 << 20

// compatStore returns where the counts of envoyproxy/ratelimit's own way lie: in its keys of the shared
// store, or in memory.
func (a *App) compatStore(l *Loaded) (weir.Store, error) {
	c, s := l.Config, l.RLS
	memory := envoyrls.MemoryOptions{MaxKeys: c.Store.Memory.MaxKeys, Spare: s.StopCacheKeyIncrementWhenOverlimit}
	window := redis.WindowOptions{
		Jitter:   time.Duration(s.ExpirationJitterMaxSeconds) * time.Second,
		Spare:    s.StopCacheKeyIncrementWhenOverlimit,
		Remember: s.LocalCacheSizeInBytes,
	}
	if !l.DropIn {
		window.Remember = refusalBytes
	}
	if a.store.shared == nil || !s.PerSecondRedis {
		return a.store.countAsRatelimit(window, memory), nil
	}
	seconds := *c
	seconds.Store.Redis = s.PerSecondStore()
	seconds.Store.Redis.Timeout, seconds.Store.Redis.Prefix = c.Store.Redis.Timeout, c.Store.Redis.Prefix
	perSecond, err := openStore(&seconds, a.besideStore())
	if err != nil {
		return nil, fmt.Errorf("REDIS_PERSECOND_URL: %w", err)
	}
	a.store.more = append(a.store.more, perSecond)
	return envoyrls.PerSecond(perSecond.countAsRatelimit(window, memory), a.store.countAsRatelimit(window, memory)), nil
}
