package guard

import (
	"sync"
	"sync/atomic"
)

// goAway is a frame that asks an HTTP/2 client to begin no further request here, and refuses none that it has
// begun: GOAWAY, no error, with the highest stream there can be (RFC 9113 section 6.8). net/http's own says at once
// which stream is the last, so that requests on their way are lost.
const goAway = "\x00\x00\x08\x07\x00\x00\x00\x00\x00" + "\x7f\xff\xff\xff" + "\x00\x00\x00\x00"

// A leave is taken of a client between two frames that a server writes.
type leave struct {
	mu   sync.Mutex  // held while a frame is written
	ask  atomic.Bool // goAway is to be written
	said atomic.Bool // it was
}

// HTTP2 reports whether the connection speaks HTTP/2.
func (c *Conn) HTTP2() bool { return c.http2.Load() }

// GoAway asks the client, if that was not done yet, to begin no further request on a connection that speaks HTTP/2. Where
// a frame is half written, it is asked after that.
func (c *Conn) GoAway() {
	if c.leave.said.Load() {
		return
	}
	c.leave.ask.Store(true)
	c.say()
}

// say writes goAway if it is to be, between two frames. Whoever holds the lock says it in our place.
func (c *Conn) say() {
	if !c.leave.ask.Load() || !c.leave.mu.TryLock() {
		return
	}
	defer c.leave.mu.Unlock()
	if c.out.between() && c.leave.ask.Swap(false) && !c.leave.said.Swap(true) {
		_, _ = c.writeInTime([]byte(goAway)) // the connection that ends here has no more use for it
	}
}

// writeFrames writes what belongs to HTTP/2.
func (c *Conn) writeFrames(p []byte) (int, error) {
	defer c.say()
	c.leave.mu.Lock()
	defer c.leave.mu.Unlock()
	n, err := c.writeInTime(p)
	c.send(p[:n])
	return n, err
}
