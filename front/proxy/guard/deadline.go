package guard

import (
	"errors"
	"os"
	"sync"
	"time"
)

// A readDeadline is until when a connection may be read. net/http sets one six times for each request, mostly
// while nobody reads, and every time costs the runtime's timers. So the connection below is told one only when a
// read would wait for too long otherwise; a read that ends before its time goes on.
type readDeadline struct {
	mu      sync.Mutex
	until   time.Time // what was set last; zero: none
	told    time.Time // what the connection below goes by
	reading bool
}

// longAgo is a deadline that has passed, whatever the clock.
var longAgo = time.Unix(1, 0)

// interrupts reports whether t ends reads at once: net/http sets a deadline of 1970 for that.
func interrupts(t time.Time) bool { return !t.IsZero() && t.Unix() < int64(time.Hour/time.Second) }

// SetReadDeadline bounds the read under way, and those that follow.
func (c *Conn) SetReadDeadline(t time.Time) error {
	r := &c.deadline
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until = t
	if !r.reading {
		return nil
	}
	return c.tell()
}

// tell tells the connection below, unless a read there ends soon enough. It holds mu.
func (c *Conn) tell() error {
	r := &c.deadline
	sooner := !r.told.IsZero() && !interrupts(r.told) && (r.until.IsZero() || r.told.Before(r.until))
	if sooner || r.told.Equal(r.until) {
		return nil
	}
	r.told = r.until
	return c.Conn.SetReadDeadline(r.until)
}

// read reads what is there, until the deadline.
func (c *Conn) read(p []byte) (n int, err error) {
	for again := true; again; {
		if !c.beginRead() {
			return 0, os.ErrDeadlineExceeded
		}
		n, err = c.Conn.Read(p)
		again = c.endRead(n, err)
	}
	return n, err
}

// beginRead reports whether there is any time to read.
func (c *Conn) beginRead() bool {
	r := &c.deadline
	r.mu.Lock()
	defer r.mu.Unlock()
	if interrupts(r.until) {
		return false
	}
	r.reading = true
	_ = c.tell() // a connection that takes none cannot be read
	return true
}

// endRead reports whether a read ended before its time, by a deadline that was not its own.
func (c *Conn) endRead(n int, err error) (early bool) {
	r := &c.deadline
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reading = false
	if err == nil || n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	early = !r.told.Equal(r.until) && (r.until.IsZero() || time.Now().Before(r.until))
	r.told = longAgo // it stands below for as long as nothing else is told
	return early
}

// late reports whether err says that a header that had begun was not complete in time. net/http also
// interrupts reads.
func (c *Conn) late(err error) bool {
	if c.answer.Load() || !c.framing.inHeader() || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	c.deadline.mu.Lock()
	defer c.deadline.mu.Unlock()
	return !interrupts(c.deadline.until)
}
