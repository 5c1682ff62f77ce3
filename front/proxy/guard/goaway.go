package guard

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
)

// goAway is a frame that asks an HTTP/2 client to begin no further request here, and refuses none that it has
// begun: GOAWAY, no error, with the highest stream there can be (RFC 9113 section 6.8). net/http's own says at once
// which stream is the last, so that requests on their way are lost.
const goAway = "\x00\x00\x08\x07\x00\x00\x00\x00\x00" + "\x7f\xff\xff\xff" + "\x00\x00\x00\x00"

const frameHead = 9 // bytes (RFC 9113 section 4.1)

// frames follow what a server writes over HTTP/2, so that a frame can be put between two others.
type frames struct {
	mu   sync.Mutex
	head []byte      // of the frame that has begun, as far as it is written
	rest int         // bytes of its payload to come
	any  bool        // one has ended: the first must be SETTINGS (section 3.4)
	ask  atomic.Bool // goAway is to be written
	said atomic.Bool // it was
}

// HTTP2 reports whether the connection speaks HTTP/2.
func (c *Conn) HTTP2() bool { return c.http2.Load() }

// GoAway asks the client, if that was not done yet, to begin no further request on a connection that speaks HTTP/2. Where
// a frame is half written, it is asked after that.
func (c *Conn) GoAway() {
	if c.out.said.Load() {
		return
	}
	c.out.ask.Store(true)
	c.say()
}

// say writes goAway if it is to be, between two frames. Whoever holds the lock says it in our place.
func (c *Conn) say() {
	if !c.out.ask.Load() || !c.out.mu.TryLock() {
		return
	}
	defer c.out.mu.Unlock()
	if c.out.between() && c.out.ask.Swap(false) && !c.out.said.Swap(true) {
		_, _ = c.writeInTime([]byte(goAway)) // the connection that ends here has no more use for it
	}
}

// writeFrames writes what belongs to HTTP/2.
func (c *Conn) writeFrames(p []byte) (int, error) {
	defer c.say()
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	n, err := c.writeInTime(p)
	c.out.pass(p[:n])
	return n, err
}

// between reports whether a frame may be put here.
func (f *frames) between() bool { return f.any && len(f.head) == 0 && f.rest == 0 }

// pass notes that p was written.
func (f *frames) pass(p []byte) {
	for len(p) > 0 {
		if f.rest == 0 {
			n := min(frameHead-len(f.head), len(p))
			f.head, p = append(f.head, p[:n]...), p[n:]
			if len(f.head) < frameHead {
				return
			}
			f.rest, f.head = int(binary.BigEndian.Uint32(f.head)>>8), f.head[:0] // 24 bits
		}
		n := min(f.rest, len(p))
		f.rest, p = f.rest-n, p[n:]
		f.any = f.any || f.rest == 0
	}
}
