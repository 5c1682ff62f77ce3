package envoyrls

import (
	"bufio"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// A split is one listener for two: what begins like HTTP/1 goes to one, all else, which is HTTP/2 or
// TLS, to the other. Each connection tells by its first three bytes, for which it has helloTimeout.
type split struct {
	net.Listener
	http1, other *half
	asking       sync.WaitGroup
	asked        sync.Map // of net.Conn: those that have not told yet
}

const (
	// http2Begins is how the preface of HTTP/2 begins (RFC 9113, section 3.4). No method of HTTP/1
	// begins so; PRI is reserved.
	http2Begins = "PRI"
	// tlsBegins is the content type of a TLS handshake (RFC 8446, section 5.1).
	tlsBegins    = 0x16
	helloTimeout = 5 * time.Second
	// acceptAgain is how long nobody is accepted when there are no descriptors left.
	acceptAgain = 20 * time.Millisecond
)

func newSplit(l net.Listener) *split {
	closed := make(chan struct{})
	return &split{
		Listener: l,
		http1:    &half{listener: l, conns: make(chan net.Conn), closed: closed},
		other:    &half{listener: l, conns: make(chan net.Conn), closed: closed},
	}
}

// serve accepts until the listener is closed, and returns why it ended. Both halves are closed then, and
// the connections that have not told whose they are.
func (s *split) serve() error {
	defer s.asking.Wait()
	defer s.asked.Range(func(c, _ any) bool { c.(net.Conn).Close(); return true })
	defer close(s.http1.closed)
	for {
		c, err := s.Accept()
		if passes(err) {
			time.Sleep(acceptAgain)
			continue
		}
		if err != nil {
			return err
		}
		s.asked.Store(c, nil)
		s.asking.Go(func() { s.hand(c) })
	}
}

// passes reports whether err, of an accept, is for want of descriptors or of a connection that went before
// it was taken: others will come.
func passes(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOBUFS) ||
		errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.ECONNABORTED)
}

// hand gives c to the half that its first bytes ask for, or ends it.
func (s *split) hand(c net.Conn) {
	_ = c.SetReadDeadline(time.Now().Add(helloTimeout))
	r := bufio.NewReaderSize(c, 16)
	first, err := r.Peek(len(http2Begins))
	s.asked.Delete(c)
	if err != nil && len(first) == 0 {
		c.Close()
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	half := s.http1
	if string(first) == http2Begins || first[0] == tlsBegins {
		half = s.other
	}
	select {
	case half.conns <- &begun{Conn: c, r: r}:
	case <-half.closed:
		c.Close()
	}
}

// A half is the listener of one of the two.
type half struct {
	listener net.Listener
	conns    chan net.Conn
	closed   chan struct{}
}

func (h *half) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close closes the listener that was split, and so the other half, too.
func (h *half) Close() error   { return h.listener.Close() }
func (h *half) Addr() net.Addr { return h.listener.Addr() }

// A begun is a connection of which the first bytes were looked at.
type begun struct {
	net.Conn
	r *bufio.Reader
}

func (b *begun) Read(p []byte) (int, error) {
	if b.r.Buffered() > 0 {
		return b.r.Read(p)
	}
	return b.Conn.Read(p)
}
