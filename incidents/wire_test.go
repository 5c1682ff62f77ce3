package incidents_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A call is one request on a connection of its own, in memory, and what came of it.
type call struct {
	request upstream
	let     chan struct{} // closed when an upstream that waits may answer

	near, far net.Conn
	peer      string
	began     time.Time
	done      chan struct{} // closed once reply is there
	reply     reply
	saw       http.Header // what the upstream was sent
}

// A reply is what an asker got.
type reply struct {
	what   string // the HTTP status, dropped or held
	header http.Header
	body   string
	took   time.Duration
	at     time.Time   // when it was asked
	saw    http.Header // what the upstream was sent; nil if it was not asked
	text   string      // of a reload
}

// patience is how long an asker waits for an answer, so that a lost one ends the test.
const patience = time.Hour

// start sends the i-th of q over conns.
func start(conns chan<- net.Conn, q *request, i int, let chan struct{}) *call {
	c := &call{request: q.upstream, let: let, began: time.Now(), done: make(chan struct{})}
	c.near, c.far = net.Pipe()
	c.peer = remote(expand(q.peer, i), i)
	conns <- serverSide{c.far, c}
	go c.run(q.wire(i), q.method)
	return c
}

// remote returns a peer as net/http shows it. Another connection has another port.
func remote(peer string, i int) string {
	if peer == "unix" {
		return "@"
	}
	return net.JoinHostPort(peer, strconv.Itoa(20000+i%40000))
}

// wire is the i-th request as bytes.
func (q *request) wire(i int) string {
	lines := []string{q.method + " " + q.target + " HTTP/1.1", "Host: example.com"}
	for _, h := range q.header {
		switch {
		case h == "no Host":
			lines = append(lines[:1], lines[2:]...)
		case strings.HasPrefix(h, "Host: ") && len(lines) > 1 && lines[1] == "Host: example.com":
			lines[1] = h
		default:
			lines = append(lines, h)
		}
	}
	return expand(strings.Join(lines, "\r\n"), i) + "\r\n\r\n"
}

// run carries out the exchange.
func (c *call) run(text, method string) {
	defer close(c.done)
	defer c.near.Close()
	_ = c.near.SetDeadline(c.began.Add(patience))
	go func() { _, _ = io.WriteString(c.near, text) }() // an answer may come before all is read
	c.reply = reply{what: "dropped", at: c.began}
	if res, err := http.ReadResponse(bufio.NewReader(c.near), &http.Request{Method: method}); err == nil {
		body, err := io.ReadAll(res.Body)
		if err == nil {
			c.reply = reply{what: strconv.Itoa(res.StatusCode), header: res.Header, body: string(body), at: c.began}
		}
	}
	c.reply.took = time.Since(c.began)
}

// finished returns the reply, which is held if there is none yet.
func (c *call) finished() reply {
	select {
	case <-c.done:
		c.reply.saw = c.saw
		return c.reply
	default:
		return reply{what: "held", at: c.began, saw: c.saw}
	}
}

// serve is the upstream.
func serve(w http.ResponseWriter, r *http.Request) {
	c := r.Context().Value(callKey{}).(*call)
	c.saw = r.Header.Clone()
	if c.request.waits {
		select {
		case <-c.let:
		case <-r.Context().Done():
		}
	}
	if c.request.panics {
		panic("the upstream's handler broke")
	}
	for _, line := range c.request.header {
		name, value, _ := strings.Cut(line, ": ")
		w.Header().Add(name, value)
	}
	if c.request.status > 0 {
		w.WriteHeader(c.request.status)
	}
	fmt.Fprint(w, "the upstream's answer")
}

// callKey is where the upstream finds its call.
type callKey struct{}

// serverSide is the server's end of a call's connection.
type serverSide struct {
	net.Conn
	call *call
}

// RemoteAddr is the peer that the script names.
func (s serverSide) RemoteAddr() net.Addr { return address(s.call.peer) }

type address string

func (address) Network() string  { return "memory" }
func (a address) String() string { return string(a) }

// A listener hands over connections that are made in memory.
type listener struct {
	conns chan net.Conn
	stop  chan struct{}
}

func (l listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.stop:
		return nil, net.ErrClosed
	}
}

func (l listener) Close() error   { close(l.stop); return nil }
func (l listener) Addr() net.Addr { return address("memory") }

// newServer returns a server of handler that knows the call of each connection.
func newServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:  handler,
		ErrorLog: log.New(io.Discard, "", 0),
		// As the proxy front does: OPTIONS * is a request like any other.
		DisableGeneralOptionsHandler: true,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, callKey{}, c.(serverSide).call)
		},
	}
}
