package restarts_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A load asks without end, and never a second time for the same: what is lost is seen.
type load struct {
	t      *testing.T
	ctx    context.Context
	stop   context.CancelFunc
	asking sync.WaitGroup
	passed atomic.Int64 // requests that the service must have seen, too
	asked  atomic.Int64 // asks of a proxy, which are counted, too
}

func newLoad(t *testing.T) *load {
	l := &load{t: t}
	l.ctx, l.stop = context.WithCancel(context.Background())
	t.Cleanup(l.end)
	return l
}

// end stops the load, and waits for its last answers.
func (l *load) end() {
	l.stop()
	l.asking.Wait()
}

// pause is between two requests of an asker.
const pause = 15 * time.Millisecond

// repeat calls ask until the end of the load or the first error, which fails the test. It calls leave then.
func (l *load) repeat(name string, leave func(), ask func() error) {
	l.asking.Go(func() {
		defer leave()
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for l.ctx.Err() == nil {
			if err := ask(); err != nil {
				l.t.Errorf("%s: %v", name, err)
				return
			}
			select {
			case <-tick.C:
			case <-l.ctx.Done():
			}
		}
	})
}

// A line is a connection of a client that speaks HTTP/1.1 and nothing is sent again on.
type line struct {
	addr string // as in a configuration
	head string // of its requests
	conn net.Conn
	in   *bufio.Reader
}

func newLine(addr, path string, header ...string) *line {
	return &line{addr: addr, head: "GET " + path + " HTTP/1.1\r\nHost: a.example\r\n" + strings.Join(append(header, "", ""), "\r\n")}
}

// ask sends one request, over the connection of the one before unless that was told to be the last, and
// returns its answer, whose body was read.
func (l *line) ask() (*http.Response, error) {
	if l.conn == nil {
		if err := l.dial(); err != nil {
			return nil, err
		}
	}
	if _, err := io.WriteString(l.conn, l.head); err != nil {
		return nil, err
	}
	res, err := http.ReadResponse(l.in, nil)
	if err != nil {
		return nil, fmt.Errorf("no answer: %w", err)
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return nil, fmt.Errorf("half an answer: %w", err)
	}
	if res.Close {
		l.close()
	}
	return res, nil
}

func (l *line) dial() error {
	network, addr := "tcp", l.addr
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, addr = "unix", path
	}
	c, err := net.Dial(network, addr)
	if err != nil {
		return err
	}
	_ = c.SetDeadline(time.Now().Add(2 * patience)) // a fresh connection takes it
	l.conn, l.in = c, bufio.NewReader(c)
	return nil
}

func (l *line) close() {
	if l.conn != nil {
		l.conn.Close()
		l.conn = nil
	}
}

// keep asks over connections that are kept as long as Weir keeps them, and counts the answers.
func (l *load) keep(name string, line *line, answers *atomic.Int64) {
	l.over(name, line, answers, func() {})
}

// fresh asks over a new connection each time, and counts the answers.
func (l *load) fresh(name string, line *line, answers *atomic.Int64) {
	l.over(name, line, answers, line.close)
}

func (l *load) over(name string, line *line, answers *atomic.Int64, after func()) {
	l.repeat(name, line.close, func() error {
		defer after()
		res, err := line.ask()
		if err == nil && res.StatusCode != http.StatusOK {
			err = fmt.Errorf("HTTP status %d", res.StatusCode)
		}
		if err == nil {
			answers.Add(1)
		}
		return err
	})
}

// streams asks over HTTP/2, with several requests at once on one connection. Their bodies cannot be sent
// again, so that none that is lost is hidden.
func (l *load) streams(addr string, n int) {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	for range n {
		l.repeat("HTTP/2", transport.CloseIdleConnections, func() error {
			res, err := post(transport, addr)
			if err != nil {
				return err
			}
			defer res.Body.Close()
			if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK || res.ProtoMajor != 2 {
				return fmt.Errorf("%s, HTTP/%d: %w", res.Status, res.ProtoMajor, err)
			}
			l.passed.Add(1)
			return nil
		})
	}
}

// unsent is what net/http says of a request that it meant for a connection which, before the first byte, was
// told to go. Such a one may be asked over another.
const unsent = "cannot rewind body after connection loss"

func post(transport *http.Transport, addr string) (*http.Response, error) {
	for {
		r, err := http.NewRequest(http.MethodPost, "http://"+addr+"/", io.NopCloser(strings.NewReader("a body")))
		if err != nil {
			return nil, err
		}
		res, err := transport.RoundTrip(r)
		if err == nil || !strings.Contains(err.Error(), unsent) {
			return res, err
		}
	}
}
