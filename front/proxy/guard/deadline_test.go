package guard

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A counted connection counts how often it is told until when it may be read.
type counted struct {
	net.Conn
	told atomic.Int32
}

func (c *counted) SetReadDeadline(t time.Time) error {
	c.told.Add(1)
	return c.Conn.SetReadDeadline(t)
}

// countedPair is pair, with an eye on what the connection below is told.
func countedPair(t *testing.T) (server *Conn, below *counted, client net.Conn) {
	a, b := net.Pipe()
	t.Cleanup(func() { a.Close(); b.Close() })
	below = &counted{Conn: a}
	return New(below, 1000, time.Minute), below, b
}

// interrupt is what net/http does to a read that it does not want any more.
func interrupt(c *Conn) { _ = c.SetReadDeadline(time.Unix(1, 0)) }

// serveOnce does with c what net/http does for one request, with the deadlines in their order.
func serveOnce(t *testing.T, c *Conn, client net.Conn) {
	t.Helper()
	var p [100]byte
	send(client, get)
	c.SetReadDeadline(time.Now().Add(2 * time.Minute)) // the next request may take its time
	if n, err := c.Read(p[:]); n != len(get) || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	c.SetReadDeadline(time.Time{})
	c.SetReadDeadline(time.Now().Add(10 * time.Second)) // its header may not
	c.SetReadDeadline(time.Time{})
	interrupt(c) // it is answered, before anybody read on
	if n, err := c.Read(p[:1]); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the interrupted read: %d, %v", n, err)
	}
	c.SetReadDeadline(time.Time{})
}

func TestTheConnectionBelowIsSeldomTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, below, client := countedPair(t)
		for range 100 {
			serveOnce(t, server, client)
			time.Sleep(time.Second)
		}
		if got := below.told.Load(); got != 1 {
			t.Errorf("told %d times for 100 requests in 100 s, want once", got)
		}
	})
}

// A deadline below that comes before its time is not the reader's.
func TestALaterDeadlineHolds(t *testing.T) {
	for what, c := range map[string]struct {
		later time.Duration // 0: none
		speak time.Duration // when the client says something
		want  time.Duration // when the read ends
	}{
		"it passes":               {later: time.Minute, speak: time.Hour, want: time.Minute},
		"something comes before":  {later: time.Minute, speak: 30 * time.Second, want: 30 * time.Second},
		"there is none any more":  {speak: time.Hour, want: time.Hour},
		"a sooner one comes back": {later: time.Second, speak: time.Hour, want: time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			server, client := pair(t)
			send(client, get)
			server.SetReadDeadline(time.Now().Add(10 * time.Second))
			var p [100]byte
			if _, err := server.Read(p[:]); err != nil {
				t.Fatal(what, err)
			}
			until := time.Time{}
			if c.later > 0 {
				until = time.Now().Add(c.later)
			}
			server.SetReadDeadline(until)
			said := time.AfterFunc(c.speak, func() { io.WriteString(client, get) })
			defer said.Stop()
			began := time.Now()
			_, err := server.Read(p[:])
			if late := errors.Is(err, os.ErrDeadlineExceeded); late != (c.want != c.speak) || time.Since(began) != c.want {
				t.Errorf("%s: %v after %s, want an end after %s", what, err, time.Since(began), c.want)
			}
		})
	}
}

// What is set while a read waits holds for it: sooner, later or at once.
func TestAReadUnderWayIsTold(t *testing.T) {
	for _, c := range []struct{ first, then, want time.Duration }{
		{0, time.Minute, time.Minute},
		{time.Hour, time.Minute, time.Minute},
		{time.Minute, time.Hour, time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			server, _ := pair(t)
			began := time.Now()
			if c.first > 0 {
				server.SetReadDeadline(began.Add(c.first))
			}
			time.AfterFunc(time.Second, func() { server.SetReadDeadline(began.Add(c.then)) })
			_, err := server.Read(make([]byte, 10))
			if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != c.want {
				t.Errorf("%s, then %s: %v after %s", c.first, c.then, err, time.Since(began))
			}
		})
	}
}

func TestAnInterruptedReadLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := pair(t)
		time.AfterFunc(time.Second, func() { interrupt(server) })
		var p [100]byte
		for range 2 { // the one under way, and one that begins afterwards
			if n, err := server.Read(p[:]); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("interrupted: %d, %v", n, err)
			}
		}
		send(client, get)
		server.SetReadDeadline(time.Time{})
		if n, err := server.Read(p[:]); n != len(get) || err != nil {
			t.Errorf("afterwards: %d, %v", n, err)
		}
	})
}

// A deadline that has passed is over only once another is set.
func TestAPassedDeadlineStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := pair(t)
		server.SetReadDeadline(time.Now().Add(time.Second))
		var p [100]byte
		for range 3 {
			if _, err := server.Read(p[:]); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("late: %v", err)
			}
		}
		if waited := server.SetDeadline(time.Now().Add(time.Minute)); waited != nil {
			t.Error(waited)
		}
		send(client, get)
		if n, err := server.Read(p[:]); n != len(get) || err != nil {
			t.Errorf("afterwards: %d, %v", n, err)
		}
	})
}

// A broken connection is one that is late whatever it is told.
type broken struct{ net.Conn }

func (broken) Read([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

// A TLS handshake that took too long is such an error for ever.
func TestWhatIsAlwaysLateIsReadOnce(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	server := New(broken{a}, 1000, time.Minute)
	for _, until := range []time.Time{time.Now().Add(time.Minute), time.Now().Add(time.Hour), {}} {
		server.SetReadDeadline(until)
		if _, err := server.Read(make([]byte, 10)); err != os.ErrDeadlineExceeded {
			t.Errorf("until %s: %v", until, err)
		}
	}
}

// However a read and its interruption meet, the read ends.
func TestNoInterruptionIsLost(t *testing.T) {
	server, _ := pair(t)
	ended := make(chan error)
	for range 2000 {
		server.SetReadDeadline(time.Time{})
		go func() {
			_, err := server.Read(make([]byte, 1))
			ended <- err
		}()
		interrupt(server)
		if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
	}
}
