// Package farewell ends an HTTP server so that its clients do not notice. [http.Server.Shutdown] closes
// unused connections at once, while a client may be sending its next request there: it sees a reset. Here
// every answer first says that its connection ends (RFC 9112 section 9.6; over HTTP/2, a GOAWAY frame), and a
// connection on which nothing is asked is closed only after a while.
package farewell

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// quietShare is the part of the time that a drain has for which a connection must have been unused
	// before it is closed: 3 of the default 30 s. For as long new connections are still accepted, since a
	// load balancer may not know yet; and as much at the end is left for HTTP/2 to take leave.
	quietShare = 10
	// step is between two looks at the connections.
	step = 5 * time.Millisecond
)

// A Farewell is the end of an [http.Server]. It is safe for concurrent use.
type Farewell struct {
	server  *http.Server
	leaving atomic.Bool
	door    atomic.Pointer[door] // nil until Serve
	conns   sync.Map             // net.Conn → *conn; without those that were hijacked
}

// A door is where connections come in.
type door struct {
	net.Listener
	closed chan struct{} // once nothing is accepted any more
}

// A conn is what is known of a connection.
type conn struct {
	unused atomic.Int64 // since, in Unix nanoseconds; 0 while it is asked something
	told   time.Time    // over HTTP/2, that it is to go; belongs to Drain
}

// A multiplexed connection may speak HTTP/2, which has a word for leave that loses no request on its way.
type multiplexed interface {
	HTTP2() bool
	GoAway() // may be called again
}

// To prepares s, whose Handler and ConnState must stand and are wrapped. Where connections may speak HTTP/2, the
// listener's have to be of a kind with the methods HTTP2 and GoAway, as those of package guard are.
func To(s *http.Server) *Farewell {
	f := &Farewell{server: s}
	handler, follow := s.Handler, s.ConnState
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.leaving.Load() && r.ProtoMajor == 1 {
			w.Header().Set("Connection", "close")
		}
		handler.ServeHTTP(w, r)
	})
	s.ConnState = func(c net.Conn, state http.ConnState) {
		f.follow(c, state)
		if follow != nil {
			follow(c, state)
		}
	}
	return f
}

// follow notes when a connection comes, is used, and goes.
func (f *Farewell) follow(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		known := new(conn)
		known.unused.Store(time.Now().UnixNano())
		f.conns.Store(c, known)
	case http.StateActive, http.StateIdle:
		known, ok := f.conns.Load(c)
		if !ok {
			return
		}
		since := int64(0)
		if state == http.StateIdle {
			since = time.Now().UnixNano()
		}
		known.(*conn).unused.Store(since)
	default:
		f.conns.Delete(c)
	}
}

// Serve answers the connections of l until Drain, and then returns nil.
func (f *Farewell) Serve(l net.Listener) error {
	d := &door{l, make(chan struct{})}
	defer close(d.closed)
	f.door.Store(d)
	err := f.server.Serve(l)
	if f.leaving.Load() || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Drain takes leave of everybody, and returns nil once nobody is left; connections that were hijacked do not
// count. ctx should have a deadline: without one nobody is given a while. Where it is over before, that is the
// error, and who is left is to be cut off by [http.Server.Close].
func (f *Farewell) Drain(ctx context.Context) error {
	now := time.Now()
	end, _ := ctx.Deadline()
	quiet := end.Sub(now) / quietShare
	f.leaving.Store(true)
	f.await(ctx, now, now.Add(quiet), quiet)
	if d := f.door.Load(); d != nil {
		d.Close()
		<-d.closed // who was accepted is known then
	}
	f.await(ctx, now, end.Add(-quiet), quiet)
	return f.server.Shutdown(ctx)
}

// await returns when nobody is left but who was told over HTTP/2, or at the time until, or when ctx is done.
// Meanwhile it closes connections that were unused for quiet since the leave began.
func (f *Farewell) await(ctx context.Context, began, until time.Time, quiet time.Duration) {
	tick := time.NewTicker(step)
	defer tick.Stop()
	for now := time.Now(); now.Before(until) && f.left(began, now.Add(-quiet)) > 0; {
		select {
		case <-ctx.Done():
			return
		case now = <-tick.C:
		}
	}
}

// left closes the connections that are unused since before, if the leave began before that, and returns how
// many others there are, without those that were told over HTTP/2 before: Shutdown ends them. A client that takes
// nothing holds up what it is told, and TLS at its end: each is told in a goroutine that ends with its connection.
func (f *Farewell) left(began, before time.Time) (n int) {
	f.conns.Range(func(key, value any) bool {
		c, known := key.(net.Conn), value.(*conn)
		since := known.unused.Load()
		m, ok := c.(multiplexed)
		switch ok = ok && m.HTTP2(); {
		case ok && known.told.IsZero():
			known.told = time.Now()
			go m.GoAway()
			n++
		case ok && known.told.After(before), !ok && (since == 0 || since > before.UnixNano() || began.After(before)):
			n++
		case !ok:
			f.conns.Delete(c)
			go c.Close()
		}
		return true
	})
	return n
}
