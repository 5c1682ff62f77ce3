package middleware

import (
	"bufio"
	"io"
	"net/http"
	"testing"
	"time"
)

// Who says that a body will come, and sends none, has his answer soon, and is not held for ever.
func TestARefusalDoesNotWaitForTheBody(t *testing.T) {
	for name, head := range map[string]string{
		"declared": "Content-Length: 1000\r\n\r\n",
		"chunked":  "Transfer-Encoding: chunked\r\n\r\n5\r\nhel",
	} {
		h := build(t, "default: {limits: [{rate: 0/1m}]}\n")
		_, server := serve(t, http1, h.Wrap(http.HandlerFunc(ok)))
		conn := dial(t, server)
		_ = conn.SetReadDeadline(time.Now().Add(10 * lateBody))
		io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\n"+head)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: no answer: %v", name, err)
			continue
		}
		if answer.StatusCode != http.StatusTooManyRequests || !answer.Close {
			t.Errorf("%s: %s, close %v", name, answer.Status, answer.Close)
		}
		_ = conn.SetReadDeadline(time.Now().Add(20 * lateBody))
		if _, err := io.Copy(io.Discard, conn); err != nil {
			t.Errorf("%s: the connection is still open: %v", name, err)
		}
	}
}

// A body that does come keeps its connection.
func TestARefusedBodyKeepsItsConnection(t *testing.T) {
	h := build(t, "default: {limits: [{rate: 0/1m}]}\n")
	_, server := serve(t, http1, h.Wrap(http.HandlerFunc(ok)))
	conn := dial(t, server)
	in := bufio.NewReader(conn)
	for i := range 3 {
		io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
		answer, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		io.Copy(io.Discard, answer.Body)
		if answer.Close {
			t.Fatalf("request %d: the connection is closed", i)
		}
	}
}
