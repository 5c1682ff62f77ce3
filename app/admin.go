package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/weirgate/weir/admin"
	"github.com/weirgate/weir/admin/dashboard"
	"github.com/weirgate/weir/internal/farewell"
	"github.com/weirgate/weir/internal/noise"
)

// An adminServer answers for metrics and health, and serves the admin API and the dashboard.
type adminServer struct {
	listener net.Listener
	server   http.Server
	farewell *farewell.Farewell
	leaving  context.Context // done when the dashboard's events are to end, which have no end of their own
	leave    context.CancelFunc
	ready    func() error // why nobody should send requests here, or nil
	trail    *admin.Trail
}

// mostAdmin is how many connections the admin address holds, so that whoever reaches it cannot take the descriptors
// that the fronts live on. A browser has 6, and 32 may listen to events.
const mostAdmin = 256

func (a *App) openAdmin(l *Loaded) error {
	c := l.Config
	listener, err := a.listen("admin", c.Admin)
	if err != nil {
		return err
	}
	s := &adminServer{listener: a.bounded(listener, a.room.admin, tooManyAdmin), ready: a.ready, trail: admin.NewTrail(c.DataDir)}
	s.leaving, s.leave = context.WithCancel(context.Background())
	a.admin = s
	api := admin.New(a.adminOptions(l))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.Handle("GET /metrics", api.Protect(a.journal.Handler()))
	mux.HandleFunc("GET /api/v1/events", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer context.AfterFunc(s.leaving, cancel)()
		api.ServeHTTP(w, r.WithContext(ctx))
	})
	mux.Handle("/", api)
	s.server = http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second, // events set their own
		IdleTimeout:       10 * time.Second, // so that who holds all places asks for them again and again
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          noise.Log(a.log),
	}
	s.farewell = farewell.To(&s.server)
	return nil
}

// adminOptions are what the API shows, and whom it obeys.
func (a *App) adminOptions(l *Loaded) admin.Options {
	gauges := a.gauges()
	o := admin.Options{
		Engine: a.engine, Journal: a.journal, Log: a.log,
		AdminToken: l.Config.AdminToken, ReadToken: l.Config.AdminReadToken, Local: nearness(l.Config.Admin),
		Version: a.options.Version, Started: time.Now(), Ready: a.ready, Backend: a.store.backend(), Gauges: gauges,
		Config: a.inForce, Reload: a.reloadForAPI, NeedStart: a.needStart, Problems: problemLines,
		Trail: a.admin.trail, Page: dashboard.Handler(), Blocked: a.blocked, Bans: a.bans,
		Keys: a.knownKeys,
	}
	for _, f := range a.fronts {
		o.Fronts = append(o.Fronts, admin.FrontPlace{Name: f.name, Address: f.listener.Addr().String()})
	}
	return o
}

// nearness tells who can connect to an address.
func nearness(addr string) admin.Local {
	if strings.HasPrefix(addr, "unix:") {
		return admin.Socket
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return admin.Anywhere
	}
	if ip, err := netip.ParseAddr(host); host == "localhost" || err == nil && ip.Unmap().IsLoopback() {
		return admin.Loopback
	}
	return admin.Anywhere
}

// inForce returns the configuration in force, for the API.
func (a *App) inForce() admin.InForce {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	return a.nowInForce()
}

// nowInForce holds reloading.
func (a *App) nowInForce() admin.InForce {
	return admin.InForce{File: cmp.Or(a.options.Config, "defaults"), Hash: a.hash, Config: a.config, Since: a.since, Refused: a.refused}
}

// reloadForAPI is a reload that the API asked for, and writes down.
func (a *App) reloadForAPI() (admin.InForce, error) {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	err := a.reload()
	return a.nowInForce(), err
}

// needStart returns the settings in force that take effect at the next start only.
func (a *App) needStart() []string {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	return a.waiting
}

// problemLines returns what is wrong with a configuration, a line each, or nothing if err is about
// something else.
func problemLines(err error) []string {
	var c *ConfigError
	if !errors.As(err, &c) {
		return nil
	}
	return strings.Split(c.Error(), "\n")
}

// refuse notes that a reload was refused. It holds reloading.
func (a *App) refuse(err error) {
	a.journal.ReloadFailed(err)
	a.refused = &admin.Refused{Time: time.Now().UTC(), Errors: problemLines(err)}
	if a.refused.Errors == nil {
		a.refused.Errors = []string{err.Error()}
	}
}

// written writes a reload down that nobody asked for through the API.
func (a *App) written(who string, before string, err error) {
	if a.admin == nil {
		return
	}
	line := admin.AuditLine{Time: time.Now().UTC(), Who: who, What: "reload", Target: a.options.Config, Before: before, After: a.nowInForce().Hash}
	if err != nil {
		line.Error = err.Error()
	}
	if err := a.admin.trail.Append(line); err != nil {
		a.log.Warn("a reload is not written down", "err", err)
	}
}

// readyz says whether a load balancer should send requests here.
func (s *adminServer) readyz(w http.ResponseWriter, _ *http.Request) {
	if err := s.ready(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

func (s *adminServer) serve() error {
	if err := s.farewell.Serve(s.listener); err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	return nil
}

// adminDrain is how long what is asked at the end may take, after server.drain.
const adminDrain = 5 * time.Second

// drain takes leave of who asks.
func (s *adminServer) drain() {
	s.leave()
	ctx, cancel := context.WithTimeout(context.Background(), adminDrain)
	defer cancel()
	_ = s.farewell.Drain(ctx) // who is left is cut off
	s.close()
}

// close ends the server, and what it is answering.
func (s *adminServer) close() {
	s.leave()
	s.server.Close()
	s.listener.Close()
}
