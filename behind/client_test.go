package behind_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A client asks from an address of its own.
type client struct {
	road *road
	addr string
	http *http.Client
}

// An answer is what a client got.
type answer struct {
	status int
	proto  string
	header http.Header
	body   string
	seen   seen // by the upstream, if the request came that far
}

// client returns a client with an address that nobody else on the road has.
func (r *road) client() *client {
	network := "127.0.0."
	if r.public {
		network = publicNetwork
	}
	return r.clientAt(fmt.Sprint(network, 1+r.clients.Add(1)))
}

func (r *road) clientAt(addr string) *client {
	c := &client{road: r, addr: addr}
	c.http = &http.Client{Transport: &http.Transport{DialContext: c.connect}, Timeout: patience}
	return c
}

// publicNetwork begins the addresses of clients that are not of the loopback interface: somebody in
// front of the first proxy says in the PROXY protocol that they are theirs.
const publicNetwork = "203.0.113."

// connect connects from the client's address.
func (c *client) connect(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: patience}
	own := strings.HasPrefix(c.addr, "127.")
	if own {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(c.addr)}
	}
	conn, err := d.DialContext(ctx, network, address)
	if err != nil || own {
		return conn, err
	}
	family, to := "TCP4", "192.0.2.1"
	if strings.Contains(c.addr, ":") {
		family, to = "TCP6", "2001:db8::1"
	}
	_, err = fmt.Fprintf(conn, "PROXY %s %s %s 1024 80\r\n", family, c.addr, to)
	return conn, err
}

// overHTTP2 makes the client speak HTTP/2 without TLS, from the first byte.
func (c *client) overHTTP2() *client {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	c.http.Transport.(*http.Transport).Protocols = protocols
	return c
}

// request returns a request with these header fields, whose names are sent as they are.
func (c *client) request(method, target string, header http.Header, body io.Reader) *http.Request {
	req, err := http.NewRequest(method, "http://"+c.road.entry+target, body)
	if err != nil {
		c.road.t.Fatal(err)
	}
	for name, lines := range header {
		req.Header[name] = lines
	}
	return req
}

func (c *client) get(t testing.TB, target string, header http.Header) answer {
	t.Helper()
	return c.do(t, c.request(http.MethodGet, target, header, nil))
}

func (c *client) do(t testing.TB, req *http.Request) answer {
	t.Helper()
	res, err := c.http.Do(req)
	if err != nil {
		t.Fatalf("%s: %v", c.addr, err)
	}
	return read(t, res)
}

func read(t testing.TB, res *http.Response) answer {
	t.Helper()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	a := answer{status: res.StatusCode, proto: res.Proto, header: res.Header, body: string(body)}
	if res.StatusCode == http.StatusOK {
		if err := json.Unmarshal(body, &a.seen); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
	}
	return a
}

// dial opens a connection for bytes that net/http would not send.
func (c *client) dial(t testing.TB) net.Conn {
	t.Helper()
	conn, err := c.connect(t.Context(), "tcp", c.road.entry)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	return conn
}

// raw sends a request head byte for byte, with CRLF for its line ends.
func (c *client) raw(t testing.TB, head string) answer {
	t.Helper()
	conn := c.dial(t)
	defer conn.Close()
	io.WriteString(conn, strings.ReplaceAll(head, "\n", "\r\n"))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return answer{body: err.Error()} // closed without an answer
	}
	return read(t, res)
}

// rawGet asks for a target as it is.
func (c *client) rawGet(t testing.TB, target string) answer {
	t.Helper()
	return c.raw(t, "GET "+target+" HTTP/1.1\nHost: site.example\nConnection: close\n\n")
}

// statuses asks n times and returns the HTTP statuses.
func (c *client) statuses(t testing.TB, n int) []int {
	t.Helper()
	var list []int
	for range n {
		list = append(list, c.get(t, "/", nil).status)
	}
	return list
}
