package spoe

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/front/spoe/spop"
)

const (
	// maxFrame is the longest frame that we offer to take, in bytes. HAProxy's own bound is its buffer
	// less four bytes: 16,380 unless tune.bufsize says otherwise.
	maxFrame = 64 << 10
	// bufferSize is what a connection holds while it is idle, in bytes: one frame of an HAProxy whose
	// buffers have their usual size.
	bufferSize = 16 << 10
	// maxUnsent is how many bytes of acknowledgements wait for an HAProxy that does not read them.
	maxUnsent = 256 << 10

	helloTime = 5 * time.Second      // for the first frame
	frameTime = 5 * time.Second      // from a frame's first byte to its last
	writeTime = 5 * time.Second      // for acknowledgements to leave
	quietTime = 2 * time.Millisecond // without a question, after which a draining server takes leave
)

// A conn is one connection of an HAProxy. One goroutine reads it; whoever has an acknowledgement writes.
type conn struct {
	server *Server
	raw    net.Conn
	in     *bufio.Reader
	peer   netip.Addr
	unix   bool

	maxFrame   uint32         // bytes, as agreed
	unanswered sync.WaitGroup // one per check whose acknowledgement is not on its way yet
	pending    sync.WaitGroup // one per check that is not over yet

	mu      sync.Mutex
	out     []byte // not given to anybody who writes yet
	spare   []byte // memory for out
	writing bool   // somebody does
	broken  bool   // nothing can be written any more
}

func newConn(s *Server, raw net.Conn) *conn {
	c := &conn{server: s, raw: raw, in: bufio.NewReaderSize(raw, bufferSize), maxFrame: maxFrame}
	if c.unix = raw.RemoteAddr().Network() == "unix"; !c.unix {
		c.peer, _ = weir.ParsePeer(raw.RemoteAddr().String())
	}
	return c
}

// serve reads what HAProxy asks until one of the two takes leave.
func (c *conn) serve() {
	defer c.server.forget(c)
	err := c.converse()
	c.unanswered.Wait() // what was asked is answered before we take leave, and no more is asked before HAProxy knows
	if fault, status := faultOf(err); fault != "" || errors.Is(err, spop.Normal) {
		if fault != "" {
			c.server.options.Refused(fault, c.peer)
		}
		c.send(spop.AppendDisconnect(nil, status))
	}
	c.raw.Close()
	c.pending.Wait()
}

// converse returns why the conversation ended: a [spop.Status] that HAProxy is told, or an error of the
// connection, or nil where there is nothing to say.
func (c *conn) converse() error {
	asks, err := c.greet()
	if err != nil || !asks {
		return err
	}
	for {
		f, err := c.next()
		if err != nil {
			return err
		}
		switch f.Type {
		case spop.Notify:
			c.notified(f)
		case spop.HAProxyDisconnect:
			return spop.Normal
		case spop.HAProxyHello:
			return spop.InvalidFrame
		} // others may be skipped (section 3.2.2)
	}
}

// greet comes to terms with HAProxy. It does not ask if it only wanted to see that we are there.
func (c *conn) greet() (asks bool, err error) {
	_ = c.raw.SetReadDeadline(time.Now().Add(helloTime))
	f, err := c.next()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false, spop.TimedOut
	}
	if err != nil {
		return false, err
	}
	if f.Type != spop.HAProxyHello {
		return false, spop.InvalidFrame
	}
	hello, err := spop.ParseHello(f.Payload)
	if err != nil {
		return false, err
	}
	terms, err := hello.Agree(maxFrame)
	if err != nil {
		return false, err
	}
	c.maxFrame = terms.MaxFrame
	c.send(spop.AppendHello(nil, terms))
	c.patient()
	return !hello.Healthcheck, nil
}

// patient waits for the next frame as long as HAProxy likes. All deadlines are set in vain where the
// connection has ended.
func (c *conn) patient() { _ = c.raw.SetReadDeadline(time.Time{}) }

// hurry waits for the next frame no longer than the server's draining allows.
func (c *conn) hurry(quiet time.Duration) { _ = c.raw.SetReadDeadline(time.Now().Add(quiet)) }

// next returns the next frame.
func (c *conn) next() (spop.Frame, error) {
	head, err := c.head()
	if err != nil {
		return spop.Frame{}, err
	}
	length := binary.BigEndian.Uint32(head)
	if length > c.maxFrame {
		return spop.Frame{}, spop.TooBig
	}
	text, err := c.frame(int(length))
	if err != nil {
		return spop.Frame{}, err
	}
	f, err := spop.ParseFrame(text)
	if err == nil && !f.Whole() {
		return spop.Frame{}, spop.Fragmented
	}
	return f, err
}

// head waits for the length of the next frame. A draining server takes leave where none comes; what came
// before the draining began is read first.
func (c *conn) head() ([]byte, error) {
	for {
		phase := c.server.phase.Load()
		switch phase {
		case draining:
			c.hurry(quietTime)
		case leaving:
			c.hurry(0)
		}
		head, err := c.in.Peek(spop.LengthSize)
		switch {
		case !errors.Is(err, os.ErrDeadlineExceeded), c.in.Buffered() > 0:
			return head, err
		case phase != c.server.phase.Load():
		case phase == serving:
			return nil, err
		default:
			return nil, spop.Normal
		}
	}
}

// frame returns the frame of that length whose length was seen. Its rest must not be long in coming.
func (c *conn) frame(length int) (string, error) {
	size := spop.LengthSize + length
	if c.in.Buffered() < size {
		_ = c.raw.SetReadDeadline(time.Now().Add(frameTime))
		defer c.patient()
	}
	if size > c.in.Size() {
		long := make([]byte, size)
		_, err := io.ReadFull(c.in, long)
		return string(long[spop.LengthSize:]), err
	}
	whole, err := c.in.Peek(size)
	if err != nil {
		return "", err
	}
	text := string(whole[spop.LengthSize:])
	_, err = c.in.Discard(size)
	return text, err
}

// notified has f answered: on the side if the store may be asked, else here and now.
func (c *conn) notified(f spop.Frame) {
	k := c.server.check()
	k.conn, k.frame = c, f
	c.unanswered.Add(1)
	c.pending.Add(1)
	select {
	case c.server.pending <- struct{}{}:
		go k.run()
	default:
		k.serve(uncounted(c.server.engine.Current()))
	}
}

// send writes b, or leaves it to whoever is writing, so that acknowledgements which come together leave
// together. A connection that takes nothing for long is ended.
func (c *conn) send(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = append(c.out, b...)
	if len(c.out) > maxUnsent {
		c.abandon()
	}
	if c.writing {
		return
	}
	c.writing = true
	for len(c.out) > 0 && !c.broken {
		c.flush()
	}
	c.writing = false
}

// flush writes what there is, with c.mu held but while it writes.
func (c *conn) flush() {
	batch := c.out
	c.out = c.spare[:0]
	c.mu.Unlock()
	_ = c.raw.SetWriteDeadline(time.Now().Add(writeTime))
	_, err := c.raw.Write(batch)
	c.mu.Lock()
	if cap(batch) <= maxFrame {
		c.spare = batch[:0] // what grew large is left to the collector
	}
	if err != nil {
		c.abandon()
	}
}

// abandon ends the connection, since nothing can be written.
func (c *conn) abandon() {
	c.broken, c.out, c.spare = true, nil, nil
	c.raw.Close()
}
