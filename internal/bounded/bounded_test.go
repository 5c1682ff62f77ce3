package bounded

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A door is a listener with two places.
type door struct {
	*Listener
	t       *testing.T
	refused chan netip.Addr
}

func open(t *testing.T, network, addr string) *door {
	t.Helper()
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	d := &door{t: t, refused: make(chan netip.Addr, 100)}
	d.Listener = &Listener{Listener: l, Most: 2, Refused: func(peer netip.Addr) { d.refused <- peer }}
	return d
}

// knock connects and returns the client's end.
func (d *door) knock() net.Conn {
	d.t.Helper()
	c, err := net.Dial(d.Addr().Network(), d.Addr().String())
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { c.Close() })
	return c
}

// enter knocks and returns the server's end.
func (d *door) enter() net.Conn {
	d.t.Helper()
	d.knock()
	c, err := d.Accept()
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { c.Close() })
	return c
}

// closed reports whether the other side ends c at once.
func closed(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	_, err := c.Read(make([]byte, 1))
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

// Two are let in. A third is closed at once, and told of by its address, and the next that comes when there is room
// again is let in, however often the one that left was closed.
func TestFurtherConnectionsAreClosed(t *testing.T) {
	d := open(t, "tcp", "127.0.0.1:0")
	first := d.enter()
	d.enter()
	third := d.knock()
	accepted := make(chan net.Conn)
	go func() {
		c, _ := d.Accept() // fails only when the test has failed
		accepted <- c
	}()
	if !closed(third) {
		t.Error("the third is not closed")
	}
	if got := <-d.refused; got != netip.MustParseAddr("127.0.0.1") {
		t.Errorf("told of %v, want the peer", got)
	}
	for range 3 {
		first.Close()
	}
	d.knock()
	c := <-accepted
	if c == nil {
		t.Fatal("nobody is let in where there is room")
	}
	defer c.Close()
	if got := d.held.Load(); got != 2 {
		t.Errorf("%d are held, want 2", got)
	}
}

// A connection is closed for writing as the one below is, so that what was said last is read.
func TestCloseWrite(t *testing.T) {
	d := open(t, "tcp", "127.0.0.1:0")
	client := d.knock()
	c, err := d.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "bye"); err != nil {
		t.Fatal(err)
	}
	if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if said, err := io.ReadAll(client); string(said) != "bye" || err != nil {
		t.Errorf("the client read %q, %v", said, err)
	}
	if _, err := io.WriteString(client, "!"); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("nothing is read any more: %v", err)
	}
	one, other := net.Pipe()
	defer one.Close()
	defer other.Close()
	if err := (&conn{Conn: one}).CloseWrite(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("of one that cannot: %v", err)
	}
}

// A unix socket has no address to tell of.
func TestUnix(t *testing.T) {
	d := open(t, "unix", filepath.Join(t.TempDir(), "s"))
	d.enter()
	d.enter()
	go d.Accept() // until the listener is closed
	if !closed(d.knock()) || (<-d.refused).IsValid() {
		t.Error("want the third closed, without an address")
	}
}

// What the listener below says is passed on: a server ends by it, or tries again.
func TestErrorsPass(t *testing.T) {
	d := open(t, "tcp", "127.0.0.1:0")
	d.Close()
	if _, err := d.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want that it is closed", err)
	}
}

// Of many that come and go at once never more than two are held, and in the end none.
func TestManyAtOnce(t *testing.T) {
	d := open(t, "tcp", "127.0.0.1:0")
	var inside, most atomic.Int64
	var serving, knocking sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := d.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				if n := inside.Add(1); n > most.Load() {
					most.Store(n)
				}
				_, _ = io.ReadAll(c) // until the client leaves
				inside.Add(-1)
				c.Close()
			})
		}
	})
	for range 20 {
		knocking.Go(func() {
			for range 5 {
				c, err := net.Dial("tcp", d.Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				c.Close()
			}
		})
	}
	knocking.Wait()
	d.Close()
	serving.Wait()
	if diff := cmp.Diff([]int64{0, 0}, []int64{d.held.Load(), inside.Load()}); diff != "" || most.Load() > 2 {
		t.Errorf("most %d, want 2; left (-want +got):\n%s", most.Load(), diff)
	}
}
