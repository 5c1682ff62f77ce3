package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/weirgate/weir/front/extauthz"
	"github.com/weirgate/weir/front/forwardauth"
	"github.com/weirgate/weir/front/proxy"
	"github.com/weirgate/weir/front/spoe"
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

// faults are the names of all that a front may refuse without a decision.
func faults() []string {
	return slices.Concat(proxy.Faults(), forwardauth.Faults(), spoe.Faults())
}

// openFronts opens every front that l names.
func (a *App) openFronts(l *Loaded) error {
	c := l.Config
	for _, f := range []struct {
		field, addr string
		server      func(*Loaded) (server, error)
	}{
		{"listen", c.Listen, a.newProxy},
		{"forward_auth.listen", c.ForwardAuth.Listen, a.newForwardAuth},
		{"rls.listen", c.RLS.Listen, a.newRLS},
		{"ext_authz.listen", c.ExtAuthz.Listen, a.newExtAuthz},
		{"spoe.listen", c.SPOE.Listen, a.newSPOE},
	} {
		if f.addr == "" {
			continue
		}
		if err := a.openFront(f.field, f.addr, func() (server, error) { return f.server(l) }); err != nil {
			return err
		}
	}
	return a.openRLSPorts(l)
}

// openFront opens a front at the address that field gives.
func (a *App) openFront(field, addr string, server func() (server, error)) error {
	l, err := proxy.Listen(addr)
	if err != nil {
		return listenError(field, addr, err)
	}
	f := &front{name: field, listener: l}
	a.fronts = append(a.fronts, f)
	f.server, err = server()
	return err
}

func (a *App) newProxy(l *Loaded) (server, error) {
	p, err := proxy.New(a.engine, proxyOptions(l.Config, a.log, a.journal.RefusedConnection))
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
