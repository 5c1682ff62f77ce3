// Package forwardauth answers proxies that hold a request and ask whether to pass it on: nginx's
// auth_request, Caddy's forward_auth and Traefik's ForwardAuth, each at a path of its own.
//
// Nothing is believed but what the asking proxy overwrites, and that only from a proxy that the client
// section of the configuration names. What cannot be understood is refused, never passed. No body is
// ever read, and no answer waits for more than the store's own deadline.
package forwardauth

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/internal/farewell"
	"github.com/weirgate/weir/internal/noise"
)

// Options say how a server listens. Every bound has to be given where it listens.
type Options struct {
	HeaderTimeout time.Duration // for a whole request header, and for an answer to be taken
	IdleTimeout   time.Duration // before an unused connection is closed
	MaxHeader     int           // bytes of a request header; 431 above
	// Logger is told, at most once a minute for each fault, how to mend it. Nil: nobody is.
	Logger *slog.Logger
	// Refused is told of every ask that is refused for a fault without a decision: one of [Faults], and
	// the peer, which is the zero Addr at a unix socket. Nil: nobody is.
	Refused func(fault string, peer netip.Addr)
}

// A Server is the forward-auth front. It is safe for concurrent use.
type Server struct {
	engine   *engine.Engine
	refused  func(fault string, peer netip.Addr)
	notices  notices
	server   http.Server
	farewell *farewell.Farewell
	inFlight atomic.Int64
}

// New returns a server that asks e.
func New(e *engine.Engine, o Options) *Server {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{engine: e, refused: o.Refused, notices: notices{log: o.Logger}}
	s.server = http.Server{
		Handler:                      s,
		DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout:            o.HeaderTimeout,
		WriteTimeout:                 o.HeaderTimeout,
		IdleTimeout:                  o.IdleTimeout,
		MaxHeaderBytes:               o.MaxHeader,
		ErrorLog:                     noise.Log(o.Logger),
	}
	s.farewell = farewell.To(&s.server)
	return s
}

// Serve answers the connections of l until Drain is called. The listener is closed then.
func (s *Server) Serve(l net.Listener) error {
	if err := s.farewell.Serve(l); err != nil {
		return fmt.Errorf("forward auth %s: %w", l.Addr(), err)
	}
	return nil
}

// Drain takes leave of the proxies (package farewell) and waits until what is asked is answered, or until
// ctx is done. What is left then is cut off, and an error says how much.
func (s *Server) Drain(ctx context.Context) error {
	if err := s.farewell.Drain(ctx); err != nil {
		left := s.inFlight.Load()
		s.server.Close()
		return fmt.Errorf("forward auth: drain: %d asks cut off: %w", left, err)
	}
	return nil
}

// ServeHTTP answers one ask. It takes out of r.Header what tells of the request that is asked about.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.inFlight.Add(1)
	defer s.inFlight.Add(-1)
	leaveBody(w, r)
	a := ask{Server: s, dialect: dialectAt(r.URL.Path), snapshot: s.engine.Current(), request: r}
	a.answer(w)
}

// leaveBody sees to it that net/http does not wait for a body that nobody wants before it answers: the
// answer ends the connection. A proxy that asks as documented sends none.
func leaveBody(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 {
		return
	}
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(longAgo) // not every writer has a connection
}

// longAgo as a deadline ends all reading.
var longAgo = time.Unix(1, 0)
