package guard

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	lingerTime  = 500 * time.Millisecond // how long a refused peer may go on sending
	lingerBytes = 256 << 10              // and how much
)

// errRefused ends net/http's reading. As the error of a read it is not answered a second time.
var errRefused = &net.OpError{Op: "read", Net: "tcp", Err: errors.New("refused")}

// A Listener guards the connections that it accepts.
type Listener struct {
	net.Listener
	MaxHeader int           // bytes of a request line with its header; 431 above
	Stall     time.Duration // how long a peer may take nothing of what is written to it
	// Refused is told of each fault that is answered here, and of the peer. Nil: nobody is.
	Refused func(Fault, net.Addr)
}

// Accept waits for a connection and returns it guarded.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	guarded := New(c, l.MaxHeader, l.Stall)
	guarded.refused = l.Refused
	return guarded, nil
}

// A Conn is a server's connection whose requests have one reading. The server must tell it of every
// change of its state, through [Follow], give it to requests through [WithConn], and tell it through
// [Conn.Handle] of each that reached the handler.
type Conn struct {
	net.Conn

	stall   time.Duration
	refused func(Fault, net.Addr)
	framing framing      // belongs to the reader
	answer  atomic.Bool  // a request is being answered
	handled atomic.Bool  // by the handler
	passed  atomic.Bool  // nothing that is read is followed any more
	fault   atomic.Int32 // found in a body whose header had passed
	closed  bool         // the fault was answered here; belongs to the reader
	broken  bool         // nothing can be read any more; belongs to the reader
	writeBy atomic.Int64 // the write deadline in Unix nanoseconds

	deadline readDeadline

	// HTTP/2 alone.
	http2   atomic.Bool // frames are followed, requests are not
	in, out pulse       // belong to the reader, and to who holds leave
	leave   leave
	purse   atomic.Int64 // see the constant
	payday  time.Time    // when the purse was last paid into; belongs to the reader

	secure sync.Once
	state  *tls.ConnectionState
}

// New returns c guarded, with headers of at most maxHeader bytes and a peer that takes what is written
// to it within stall.
func New(c net.Conn, maxHeader int, stall time.Duration) *Conn {
	return &Conn{Conn: c, stall: stall, framing: framing{max: maxHeader}}
}

// Follow is the [http.Server.ConnState] of a server whose connections are guarded.
func Follow(c net.Conn, s http.ConnState) {
	g, ok := c.(*Conn)
	if !ok {
		return
	}
	if s == http.StateHijacked {
		g.passed.Store(true)
	}
	g.answer.Store(s == http.StateActive)
	g.handled.Store(false)
}

// Handle tells c that the handler has a request: what is written until the state changes is its answer.
// What is written before is the server's own and says that it takes no such request.
func (c *Conn) Handle() { c.handled.Store(true) }

type key struct{}

// WithConn is the [http.Server.ConnContext] that lets [From] find a request's connection.
func WithConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, key{}, c)
}

// From returns the connection that a request came over, or nil if it is not guarded.
func From(ctx context.Context) *Conn {
	c, _ := ctx.Value(key{}).(*Conn)
	return c
}

// Fault returns what is wrong with the body that is being read, or None.
func (c *Conn) Fault() Fault { return Fault(c.fault.Load()) }

// NetConn returns the connection that is guarded.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// TLS returns the state of the TLS session, or nil if there is none. It must not be called before a
// request was read.
//
// The method is not called ConnectionState, since net/http would take that to mean that HTTP/2 was
// negotiated or cannot be spoken.
func (c *Conn) TLS() *tls.ConnectionState {
	c.secure.Do(func() {
		if t, ok := c.Conn.(*tls.Conn); ok {
			s := t.ConnectionState()
			c.state = &s
		}
	})
	return c.state
}

// SetDeadline is SetReadDeadline and SetWriteDeadline at once.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetWriteDeadline does nothing for the zero time, which net/http sets after each request: every write
// has a deadline of its own.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	if t.IsZero() {
		return nil
	}
	c.writeBy.Store(t.UnixNano())
	return c.Conn.SetWriteDeadline(t)
}

// Read hands on what belongs to requests that have one reading. A fault in a header is answered here,
// after the answers to the requests before it; a fault in a body whose header has been handed on is
// the error of the read.
func (c *Conn) Read(p []byte) (int, error) {
	if c.http2.Load() {
		return c.readFrames(p)
	}
	if c.passed.Load() {
		return c.read(p)
	}
	if c.framing.fault != None {
		return 0, c.refuse()
	}
	n, err := c.read(p)
	if c.passed.Load() {
		return n, err
	}
	c.broken = err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
	ok := c.framing.scan(p[:n])
	if c.framing.state == isHTTP2 {
		c.purse.Store(purse)
		c.payday = time.Now()
		c.receive(p[c.framing.begin:n])
		c.http2.Store(true)
		c.passed.Store(true)
	}
	switch {
	case ok > 0:
		return ok, nil // an error comes back with the next read
	case c.framing.fault != None:
		return 0, c.refuse()
	case c.late(err):
		c.framing.fault = HeaderTooSlow
		return 0, c.refuse()
	}
	return 0, err
}

// readFrames hands on what is in the frames of HTTP/2, whose peer may not send too many for nothing.
func (c *Conn) readFrames(p []byte) (int, error) {
	if c.closed {
		return 0, errRefused
	}
	n, err := c.read(p)
	if !c.receive(p[:n]) {
		return n, err
	}
	c.closed = true
	if c.refused != nil {
		c.refused(FrameFlood, c.Conn.RemoteAddr())
	}
	return 0, errRefused
}

// Write fails if the peer does not take p in time: between half of stall and all of it. A server's own
// write time-out would bound whole answers, and end streams.
//
// An answer of the server's own, which is plain text or empty, is replaced.
func (c *Conn) Write(p []byte) (int, error) {
	if !c.handled.Load() && !c.passed.Load() {
		c.replace(p)
		return len(p), nil
	}
	if c.http2.Load() {
		return c.writeFrames(p)
	}
	return c.writeInTime(p)
}

func (c *Conn) writeInTime(p []byte) (int, error) {
	now := time.Now()
	if c.writeBy.Load() < now.Add(c.stall/2).UnixNano() {
		by := now.Add(c.stall)
		if err := c.Conn.SetWriteDeadline(by); err != nil {
			return 0, err
		}
		c.writeBy.Store(by.UnixNano())
	}
	return c.Conn.Write(p)
}

// replace answers in place of own, with which the server ends the connection. A connection that broke off
// is no request at fault.
func (c *Conn) replace(own []byte) {
	if c.closed || c.broken {
		return
	}
	c.closed, c.framing.fault = true, Invalid
	switch status, _, _ := bytes.Cut(bytes.TrimPrefix(own, []byte("HTTP/1.1 ")), []byte(" ")); string(status) {
	case "417":
		c.framing.fault = Expectation
	case "431":
		c.framing.fault = HeaderTooLarge
	}
	c.close()
}

// refuse returns the error that the fault is for the reader.
func (c *Conn) refuse() error {
	if c.framing.inBody {
		c.fault.Store(int32(c.framing.fault))
		return &Error{c.framing.fault}
	}
	if c.answer.Load() {
		// A request before the one at fault is being answered. Its reader only waits for the client to
		// go away, or to be interrupted.
		return c.discard()
	}
	if !c.closed {
		c.closed = true
		c.close()
	}
	return errRefused
}

// close answers the fault and waits for the peer to stop sending, so that the answer is not lost in a
// reset.
func (c *Conn) close() {
	if c.refused != nil {
		c.refused(c.framing.fault, c.Conn.RemoteAddr())
	}
	_ = c.Conn.SetDeadline(time.Now().Add(lingerTime))
	if _, err := c.Conn.Write(answer(c.framing.fault)); err != nil {
		return
	}
	if c.CloseWrite() != nil {
		return
	}
	var scratch [2048]byte
	for n := 0; n < lingerBytes; {
		m, err := c.Conn.Read(scratch[:])
		if err != nil {
			return
		}
		n += m
	}
}

// discard reads and forgets until reading ends.
func (c *Conn) discard() error {
	var scratch [512]byte
	for {
		if _, err := c.read(scratch[:]); err != nil {
			return err
		}
	}
}

// CloseWrite tells the peer that nothing more will come.
func (c *Conn) CloseWrite() error {
	w, ok := Below[interface{ CloseWrite() error }](c.Conn)
	if !ok {
		return errors.ErrUnsupported
	}
	return w.CloseWrite()
}

// SetLinger sets what becomes of unsent data when the connection is closed: see [net.TCPConn].
func (c *Conn) SetLinger(seconds int) error {
	s, ok := Below[interface{ SetLinger(int) error }](c.Conn)
	if !ok {
		return errors.ErrUnsupported
	}
	return s.SetLinger(seconds)
}

// Below returns the outermost of c and the connections below it that is a T.
func Below[T any](c net.Conn) (t T, ok bool) {
	for c != nil {
		if t, ok = c.(T); ok {
			return t, true
		}
		switch below := c.(type) {
		case interface{ NetConn() net.Conn }:
			c = below.NetConn()
		case interface{ Raw() net.Conn }:
			c = below.Raw()
		default:
			return t, false
		}
	}
	return t, false
}
