package farewell_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgate/weir/internal/farewell"
	"github.com/weirgate/weir/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A hall is a listener without a network, so that a test has the clock.
type hall struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

func newHall() *hall {
	h := &hall{conns: make(chan net.Conn), closed: make(chan struct{})}
	h.close = sync.OnceFunc(func() { close(h.closed) })
	return h
}

func (h *hall) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

func (h *hall) Close() error   { h.close(); return nil }
func (h *hall) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }

// A house is a server that is to be left.
type house struct {
	t *testing.T
	*hall
	*farewell.Farewell
	server  *http.Server
	served  chan error
	drained chan error
	done    atomic.Bool // drained holds how
}

// build returns a server that is drained within 10 s, and so keeps unused connections for one.
func build(t *testing.T, handler http.HandlerFunc) *house {
	h := &house{t: t, hall: newHall(), server: &http.Server{Handler: handler}, served: make(chan error, 1), drained: make(chan error, 1)}
	h.Farewell = farewell.To(h.server)
	go func() { h.served <- h.Serve(h.hall) }()
	t.Cleanup(func() { h.server.Close() })
	return h
}

func (h *house) drain() {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err := h.Drain(ctx)
		h.done.Store(true)
		h.drained <- err
	}()
	synctest.Wait()
}

// A visitor is a client's end of a connection.
type visitor struct {
	net.Conn
	in *bufio.Reader
}

// enter returns a connection, or nil if nobody takes it.
func (h *house) enter() *visitor {
	ours, theirs := net.Pipe()
	select {
	case h.conns <- theirs:
		h.t.Cleanup(func() { ours.Close() })
		synctest.Wait()
		return &visitor{ours, bufio.NewReader(ours)}
	case <-h.closed:
		return nil
	}
}

// ask returns an answer, and whether it is said to be the last.
func (v *visitor) ask(t *testing.T) (last bool) {
	t.Helper()
	if _, err := io.WriteString(v, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(v.in, nil)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, res.Body)
	synctest.Wait()
	return res.Close
}

// open reports whether the server has not closed the connection.
func (v *visitor) open() bool {
	_ = v.SetReadDeadline(time.Now().Add(time.Nanosecond))
	_, err := v.in.Peek(1)
	_ = v.SetReadDeadline(time.Time{})
	var late net.Error
	return errors.As(err, &late) && late.Timeout()
}

func yes(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "yes") }

// A connection is closed after an answer that says so, or once it was unused for a tenth of the drain's time;
// for as long new ones are accepted. Then everybody is gone, and the drain is over at once.
func TestUnusedConnectionsAreKeptForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, yes)
		used, unused, silent := h.enter(), h.enter(), h.enter()
		if used.ask(t) || unused.ask(t) {
			t.Fatal("the last answer before the drain")
		}
		time.Sleep(time.Minute) // however long that was before
		h.drain()
		time.Sleep(time.Second - time.Millisecond)
		late := h.enter()
		if !unused.open() || !silent.open() || late == nil {
			t.Fatal("closed before a second was over")
		}
		if !used.ask(t) || !late.ask(t) || used.open() || late.open() {
			t.Error("an answer is not the last")
		}
		time.Sleep(10 * time.Millisecond)
		if unused.open() || silent.open() || h.enter() != nil {
			t.Error("open after a second")
		}
		if err := errors.Join(<-h.drained, <-h.served); err != nil {
			t.Error(err)
		}
	})
}

// An answer that had begun before the drain could not say that it is the last: its connection is kept for a
// second from its end, and the next answer says so.
func TestAnswersUnderWayEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := true
		h := build(t, func(w http.ResponseWriter, r *http.Request) {
			if !first {
				return
			}
			first = false
			w.Header().Set("Content-Length", "3")
			w.(http.Flusher).Flush()
			time.Sleep(5 * time.Second)
			io.WriteString(w, "yes")
		})
		v := h.enter()
		go func() { time.Sleep(time.Second); h.drain() }() // once it has begun
		if v.ask(t) || h.done.Load() {
			t.Fatal("the answer was the last, or its end was not awaited")
		}
		time.Sleep(900 * time.Millisecond)
		if !v.open() || h.done.Load() || !v.ask(t) || v.open() {
			t.Error("the next answer is not the last")
		}
		if err := <-h.drained; err != nil {
			t.Error(err)
		}
	})
}

// What takes longer than there is time is for the caller to cut off.
func TestWhatTakesTooLongIsToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, func(http.ResponseWriter, *http.Request) { time.Sleep(time.Minute) })
		v := h.enter()
		go io.WriteString(v, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
		synctest.Wait()
		began := time.Now()
		h.drain()
		if err := <-h.drained; !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		time.Sleep(time.Minute)
	})
}

// A deaf connection is one whose client takes nothing: what it is told over HTTP/2 takes a minute, unless the
// connection is closed before; the first Close of another takes 5 s, as with TLS.
type deaf struct {
	net.Conn
	http2  bool
	ended  chan struct{}
	closed atomic.Bool
}

func (d *deaf) HTTP2() bool { return d.http2 }

func (d *deaf) GoAway() {
	select {
	case <-d.ended:
	case <-time.After(time.Minute):
	}
}

func (d *deaf) Close() error {
	if !d.closed.Swap(true) {
		close(d.ended)
		if !d.http2 {
			time.Sleep(5 * time.Second)
		}
	}
	return d.Conn.Close()
}

// Clients that take nothing hold up neither the drain nor the leave of others.
func TestDeafClientsAreNotAwaited(t *testing.T) {
	for _, http2 := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			h := build(t, func(http.ResponseWriter, *http.Request) { time.Sleep(2 * time.Second) })
			for range 5 {
				ours, theirs := net.Pipe()
				t.Cleanup(func() { ours.Close() })
				h.conns <- &deaf{Conn: theirs, http2: http2, ended: make(chan struct{})}
			}
			unused, used := h.enter(), h.enter()
			go io.Copy(io.Discard, used)
			io.WriteString(used, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
			synctest.Wait()
			began := time.Now()
			h.drain()
			time.Sleep(1100 * time.Millisecond)
			if unused.open() {
				t.Errorf("HTTP/2 %v: another is open after a second", http2)
			}
			<-h.drained
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("HTTP/2 %v: the drain took %v of 10 s", http2, took)
			}
			h.server.Close()
			time.Sleep(time.Minute)
		})
	}
}

// A server that nobody visits, or that does not serve yet, is gone at once. One that was drained serves nobody.
func TestNobodyIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 2 {
			h := build(t, yes)
			began := time.Now()
			h.drain()
			if err := errors.Join(<-h.drained, <-h.served); err != nil || !time.Now().Equal(began) {
				t.Errorf("%v after %v", err, time.Since(began))
			}
			if err := h.Serve(newHall()); err != nil {
				t.Error(err)
			}
		}
	})
}

// A connection that was hijacked is none of the server's.
func TestHijackedConnectionsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var taken net.Conn
		h := build(t, func(w http.ResponseWriter, _ *http.Request) { taken, _, _ = http.NewResponseController(w).Hijack() })
		v := h.enter()
		go io.WriteString(v, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
		synctest.Wait()
		defer taken.Close()
		h.drain()
		if err := <-h.drained; err != nil || !v.open() {
			t.Errorf("%v, open: %v", err, v.open())
		}
	})
}

// The server's own ends other than by Drain are its errors.
func TestServeTellsOfItsListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, yes)
		synctest.Wait()
		h.hall.close()
		if err := <-h.served; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}
