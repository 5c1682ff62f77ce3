package guard

import (
	"encoding/binary"
	"time"
)

// Frame types of RFC 9113 section 6.
const (
	frameData     = 0x0
	frameHeaders  = 0x1
	frameReset    = 0x3
	framePush     = 0x5
	frameContinue = 0x9
)

const (
	frameHeader = 9 // bytes, RFC 9113 section 4.1
	endStream   = 0x1
	endHeaders  = 0x4
)

// What frames of HTTP/2 cost their sender. A client that asks and takes its answers earns more than it spends:
// it may acknowledge every frame of an answer twice. One that sends frames for their own sake, or opens
// streams only to reset them, lives on its purse.
const (
	purse     = 1000 // what a connection begins with, and may have at most
	income    = 100  // each second in which the purse is empty, and at once at most
	earnsOpen = 2    // a stream, which a limit counts
	earnsTake = 3    // a frame of an answer
	costReset = 3
	costFrame = 1 // any other that brings nothing, an empty DATA frame among them
)

// A pulse finds where frames begin in one direction of an HTTP/2 connection.
type pulse struct {
	header [frameHeader]byte
	have   int   // bytes of the header
	left   int64 // bytes of the payload that are still to come
	begun  bool  // there was a frame
}

// between reports whether another frame may be put here: the first must be SETTINGS (RFC 9113 section 3.4), and
// the frames of one field block follow each other (section 4.3).
func (f *pulse) between() bool { return f.begun && f.have == 0 && f.left == 0 && !f.inBlock() }

// inBlock reports whether the last whole header begins or continues a field block that it does not end.
func (f *pulse) inBlock() bool {
	switch f.header[3] {
	case frameHeaders, framePush, frameContinue:
		return f.header[4]&endHeaders == 0
	}
	return false
}

// next takes p up to the end of a frame's header, and reports whether there is a whole one. The rest is to be
// given to next again.
func (f *pulse) next(p []byte) (rest []byte, whole bool) {
	skip := min(f.left, int64(len(p)))
	f.left -= skip
	n := copy(f.header[f.have:], p[skip:])
	f.have += n
	if f.have < frameHeader {
		return nil, false
	}
	f.have, f.left, f.begun = 0, int64(f.length()), true
	return p[int(skip)+n:], true
}

// length is that of the payload.
func (f *pulse) length() uint32 { return binary.BigEndian.Uint32(f.header[:]) >> 8 }

// worth is what a client's frame earns, or costs if it is negative.
func (f *pulse) worth() int64 {
	switch kind, flags := f.header[3], f.header[4]; {
	case kind == frameHeaders:
		return earnsOpen
	case kind == frameData && (f.length() > 0 || flags&endStream != 0):
		return 0
	case kind == frameReset:
		return -costReset
	}
	return -costFrame
}

// receive follows what the client sends, and reports whether it sends more frames for nothing than it may.
func (c *Conn) receive(p []byte) (flood bool) {
	for whole := true; ; {
		if p, whole = c.in.next(p); !whole {
			return false
		}
		worth := c.in.worth()
		if c.spend(worth) < 0 && worth < 0 && !c.paid() {
			return true
		}
	}
}

// send follows what the client is sent.
func (c *Conn) send(p []byte) {
	for whole := true; ; {
		if p, whole = c.out.next(p); !whole {
			return
		}
		if kind := c.out.header[3]; kind == frameData || kind == frameHeaders {
			c.spend(earnsTake)
		}
	}
}

// spend adds to the purse, which is never too full, and returns what is in it.
func (c *Conn) spend(n int64) int64 {
	for {
		had := c.purse.Load()
		has := min(had+n, purse)
		if c.purse.CompareAndSwap(had, has) {
			return has
		}
	}
}

// paid puts into the empty purse what came in since it was last paid into, and reports whether there was any. What
// is not called for within a second is lost: the purse is filled once, when the connection begins.
func (c *Conn) paid() bool {
	now := time.Now()
	n := min(income, int64(now.Sub(c.payday).Seconds()*income))
	if n < 1 {
		return false
	}
	c.payday = now
	return c.spend(n) >= 0
}
