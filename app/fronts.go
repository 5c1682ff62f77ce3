package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/front/proxy"
)

// A front is a way in that listens.
type front struct {
	name     string // of the section of the configuration that opens it
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

// openFronts opens every front that c names.
func (a *App) openFronts(c *config.Config) error {
	if c.Listen == "" {
		return nil
	}
	l, err := a.listen("listen", c.Listen)
	if err != nil {
		return err
	}
	if a.proxy, err = proxy.New(a.engine, proxyOptions(c, a.log, a.journal.RefusedConnection)); err != nil {
		return fmt.Errorf("%w: tls.cert and tls.key must name a readable pair of PEM files", err)
	}
	l.server = a.proxy
	return nil
}

// listen opens the address that the field name gives, for a front that is still to get its server.
func (a *App) listen(name, addr string) (*front, error) {
	l, err := proxy.Listen(addr)
	if err != nil {
		return nil, listenError(name, addr, err)
	}
	f := &front{name: name, listener: l}
	a.fronts = append(a.fronts, f)
	return f, nil
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
