package behind_test

import (
	"bufio"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// seen is what the upstream saw of a request.
type seen struct {
	Method, Target, Host string
	Header               http.Header
	Length               int64  // of the body, as read
	Sum                  string // of the body
}

// An upstream is the service at the end of the road. It answers with what it saw.
type upstream struct {
	*httptest.Server
	count atomic.Int64  // of requests
	next  chan struct{} // lets a stream of events go on
}

func newUpstream(t *testing.T) *upstream {
	u := &upstream{next: make(chan struct{})}
	u.Server = httptest.NewServer(http.HandlerFunc(u.serve))
	t.Cleanup(func() {
		u.CloseClientConnections()
		u.Close()
	})
	return u
}

func (u *upstream) serve(w http.ResponseWriter, r *http.Request) {
	u.count.Add(1)
	w.Header().Set("X-Upstream", u.URL)
	switch r.URL.Path {
	case "/open/events":
		u.events(w, r)
	case "/open/socket":
		talkBack(w, r)
	default:
		json.NewEncoder(w).Encode(look(r))
	}
}

func look(r *http.Request) seen {
	sum := sha256.New()
	n, _ := io.Copy(sum, r.Body)
	return seen{r.Method, r.RequestURI, r.Host, r.Header, n, hex.EncodeToString(sum.Sum(nil))}
}

// events sends one event, and another once it is told to.
func (u *upstream) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	io.WriteString(w, "data: one\n\n")
	http.NewResponseController(w).Flush()
	select {
	case <-u.next:
		io.WriteString(w, "data: two\n\n")
	case <-r.Context().Done():
	}
}

// talkBack answers a WebSocket handshake and repeats what it is told.
func talkBack(w http.ResponseWriter, r *http.Request) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Accept: "+acceptance(r.Header.Get("Sec-WebSocket-Key"))+"\r\n"+
		"X-Seen-For: "+r.Header.Get("X-Forwarded-For")+"\r\n\r\n")
	repeat(conn, buffered.Reader)
}

func repeat(w io.Writer, r *bufio.Reader) {
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		io.WriteString(w, line)
	}
}

// acceptance answers a key (RFC 6455 section 4.2.2).
func acceptance(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}
