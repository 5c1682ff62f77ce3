// Package spoe is the front that HAProxy asks about requests it holds: an agent that speaks SPOP 2.0
// (HAProxy's doc/SPOE.txt) and answers the message weir-check with variables of the transaction.
//
// Every NOTIFY frame is acknowledged, whatever is in it and whatever happens here: HAProxy would keep
// the request for its whole time-out otherwise. A variable named action is set by a decision alone; where
// there is none, HAProxy's own rules say what follows.
package spoe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weirgate/weir/engine"
)

// Options say what an agent takes. The zero Options are those of the files that are shipped for HAProxy.
type Options struct {
	// KeyHeader is the request header that the argument key stands for; X-API-Key if empty.
	KeyHeader string
	// Caps are the lengths at which HAProxy's configuration cuts the arguments.
	Caps Caps
	// MaxPending is how many checks wait for the store at once; 1024 if 0. Further ones are decided
	// without it, as if it were away.
	MaxPending int
	// Refused is told of connections that are ended for a fault, by one of the names of [Faults]. It must
	// not block. Nil: nobody is.
	Refused func(fault string, peer netip.Addr)
	// Log is told, once a minute, of a message that could not be read, and of panics. Nil: nobody is.
	Log *slog.Logger
}

const defaultPending = 1024

func (o Options) withDefaults() Options {
	if o.KeyHeader == "" {
		o.KeyHeader = "X-API-Key"
	}
	if o.MaxPending <= 0 {
		o.MaxPending = defaultPending
	}
	if o.Refused == nil {
		o.Refused = func(string, netip.Addr) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Caps = o.Caps.withDefaults()
	return o
}

// A Server is an agent. It is safe for concurrent use.
type Server struct {
	engine  *engine.Engine
	options Options
	reader  argumentReader
	pending chan struct{} // holds one per check that waits for the store
	checks  sync.Pool     // of *check
	phase   atomic.Int32  // serving, draining or leaving
	tell    atomic.Int64  // when a message that could not be read is told of again, in Unix nanoseconds

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	served    sync.WaitGroup // one per connection
}

const (
	serving  = iota
	draining // connections end when they are quiet
	leaving  // connections end when what was asked is answered
)

// New returns an agent that asks e.
func New(e *engine.Engine, o Options) *Server {
	o = o.withDefaults()
	return &Server{
		engine:    e,
		options:   o,
		reader:    newArgumentReader(o),
		pending:   make(chan struct{}, o.MaxPending),
		listeners: map[net.Listener]struct{}{},
		conns:     map[*conn]struct{}{},
	}
}

// Serve answers the connections of l, however many it accepts, and returns nil after Drain was called.
func (s *Server) Serve(l net.Listener) error {
	defer l.Close()
	if !s.listen(l) {
		return nil
	}
	for {
		c, err := l.Accept()
		switch {
		case err == nil:
			s.welcome(c)
		case s.phase.Load() != serving:
			return nil
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ECONNABORTED):
			time.Sleep(acceptPause)
		default:
			return fmt.Errorf("spoe %s: %w", l.Addr(), err)
		}
	}
}

// acceptPause is waited where there is no file descriptor for a connection.
const acceptPause = 20 * time.Millisecond

// listen notes that l is served, if the server is not draining.
func (s *Server) listen(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase.Load() != serving {
		return false
	}
	s.listeners[l] = struct{}{}
	return true
}

// welcome serves raw, unless the server is draining.
func (s *Server) welcome(raw net.Conn) {
	c := newConn(s, raw)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase.Load() != serving {
		raw.Close()
		return
	}
	s.conns[c] = struct{}{}
	s.served.Add(1)
	go c.serve()
}

// forget is the end of c.
func (s *Server) forget(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	s.served.Done()
}

// Drain accepts no more connections, and takes leave of HAProxy on each of the others once nothing was
// asked on it for a moment. Where ctx ends before that, leave is taken between two questions, which may
// cost HAProxy one, and an error says on how many connections.
func (s *Server) Drain(ctx context.Context) error {
	s.mu.Lock()
	s.phase.Store(draining)
	for l := range s.listeners {
		l.Close()
	}
	s.mu.Unlock()
	s.each(func(c *conn) { c.hurry(0) }) // who waits, waits anew
	ended := make(chan struct{})
	go func() { s.served.Wait(); close(ended) }()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	s.phase.Store(leaving)
	left := s.each(func(c *conn) { c.hurry(0) })
	select {
	case <-ended:
	case <-time.After(leaveTime):
		s.each(func(c *conn) { c.raw.Close() })
		<-ended
	}
	if left == 0 {
		return nil
	}
	return fmt.Errorf("spoe: drain: %d connections cut off: %w", left, ctx.Err())
}

// leaveTime is how long an HAProxy may take to read its last acknowledgements, once there is no more time.
const leaveTime = 500 * time.Millisecond

// each calls do with every connection, and returns how many there are.
func (s *Server) each(do func(*conn)) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		do(c)
	}
	return len(s.conns)
}
