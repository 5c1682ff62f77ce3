package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/weirgate/weir/admin"
	"github.com/weirgate/weir/front/extauthz"
	"github.com/weirgate/weir/front/forwardauth"
	"github.com/weirgate/weir/front/proxy"
	"github.com/weirgate/weir/front/spoe"
	"github.com/weirgate/weir/internal/bounded"
)

// A front is a way in that listens.
type front struct {
	name     string // the field of the configuration that opens it
	listener net.Listener
	server   server
}

// A server answers the connections of a listener until it is drained.
type server interface {
	// Serve returns nil once the server is drained.
	Serve(net.Listener) error
	// Drain accepts nothing more, and lets what is under way end until ctx is done; the rest is cut off,
	// and an error says how much.
	Drain(ctx context.Context) error
}

// What connections are refused for where a front holds as many as it may, as metrics name it.
const (
	tooManyAsks  = "ask_too_many_connections"
	tooManyRLS   = "rls_too_many_connections"
	tooManyAuthz = "ext_authz_too_many_connections"
	tooManySPOP  = "spop_too_many_connections"
	tooManyAdmin = "admin_too_many_connections"
)

// faults are the names of all that a front may refuse without a decision.
func faults() []string {
	return slices.Concat(proxy.Faults(), forwardauth.Faults(), spoe.Faults(), admin.Faults(),
		[]string{tooManyAsks, tooManyRLS, tooManyAuthz, tooManySPOP, tooManyAdmin})
}

// A door is where a front is to listen.
type door struct {
	field, addr string
	// tooMany is what connections beyond the front's room are refused for. Empty: the front has a room of its own.
	tooMany string
}

// openFronts opens every front that l names.
func (a *App) openFronts(l *Loaded) error {
	c := l.Config
	for _, f := range []struct {
		door   door
		server func(*Loaded) (server, error)
	}{
		{door{"listen", c.Listen, ""}, a.newProxy},
		{door{"forward_auth.listen", c.ForwardAuth.Listen, tooManyAsks}, a.newForwardAuth},
		{door{"rls.listen", c.RLS.Listen, tooManyRLS}, a.newRLS},
		{door{"ext_authz.listen", c.ExtAuthz.Listen, tooManyAuthz}, a.newExtAuthz},
		{door{"spoe.listen", c.SPOE.Listen, tooManySPOP}, a.newSPOE},
	} {
		if f.door.addr == "" {
			continue
		}
		if err := a.openFront(f.door, func() (server, error) { return f.server(l) }); err != nil {
			return err
		}
	}
	return a.openRLSPorts(l)
}

// openFront opens a front at d.
func (a *App) openFront(d door, server func() (server, error)) error {
	l, err := a.listen(d.field, d.addr)
	if err != nil {
		return err
	}
	if d.tooMany != "" {
		l = a.bounded(l, a.room.asks, d.tooMany)
	}
	f := &front{name: d.field, listener: l}
	a.fronts = append(a.fronts, f)
	f.server, err = server()
	return err
}

// bounded returns l with room for so many connections.
func (a *App) bounded(l net.Listener, most int, tooMany string) net.Listener {
	return &bounded.Listener{Listener: l, Most: most, Refused: func(peer netip.Addr) { a.journal.RefusedConnection(tooMany, peer) }}
}

func (a *App) newProxy(l *Loaded) (server, error) {
	p, err := proxy.New(a.engine, a.proxyOptions(l.Config))
	if err != nil {
		return nil, fmt.Errorf("%w: tls.cert and tls.key must name a readable pair of PEM files", err)
	}
	a.proxy = p
	return p, nil
}

func (a *App) newForwardAuth(l *Loaded) (server, error) {
	bounds := l.Config.Server
	return forwardauth.New(a.engine, forwardauth.Options{
		HeaderTimeout: time.Duration(bounds.HeaderTimeout),
		IdleTimeout:   time.Duration(bounds.IdleTimeout),
		MaxHeader:     int(bounds.MaxHeader),
		Logger:        a.log,
		Refused:       a.journal.RefusedConnection,
	}), nil
}

func (a *App) newExtAuthz(*Loaded) (server, error) {
	return extauthz.New(a.engine, extauthz.Options{Log: a.log}), nil
}

func (a *App) newSPOE(l *Loaded) (server, error) {
	return spoe.New(a.engine, spoe.Options{KeyHeader: l.Config.Keys.Header, Refused: a.journal.RefusedConnection, Log: a.log}), nil
}

// drainFronts drains all fronts at once, within the configured time.
func (a *App) drainFronts() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(a.started.Server.Drain))
	defer cancel()
	errs := make([]error, len(a.fronts))
	var draining sync.WaitGroup
	for i, f := range a.fronts {
		draining.Go(func() { errs[i] = f.server.Drain(ctx) })
	}
	draining.Wait()
	return errors.Join(errs...)
}
