package middleware

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/proctest"
)

const tarpit5s = `
rules:
  - {name: pit, path: /pit, action: tarpit, tarpit: {delay: 5s, max_held: 2, max_held_per_client: 1}, limits: [{rate: 1/1h, per: client}]}
`

// The answer comes as late as the rule says, and its waits have counted down meanwhile.
func TestTarpit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, `rules: [{name: pit, path: /pit, action: tarpit, tarpit: {delay: 5s, max_held: 9, max_held_per_client: 9}, limits: [{rate: 1/20s, per: client, algorithm: token_bucket}]}]`)
		handler := h.Wrap(http.HandlerFunc(ok))
		handler.ServeHTTP(httptest.NewRecorder(), local("GET", "/pit", "192.0.2.1"))
		began, w := time.Now(), httptest.NewRecorder()
		handler.ServeHTTP(w, local("GET", "/pit", "192.0.2.1"))
		got := []any{time.Since(began), w.Code, w.Header().Get("Retry-After"), w.Header().Get("RateLimit")}
		if diff := cmp.Diff([]any{5 * time.Second, 429, "15", `"pit";r=0;t=15`}, got); diff != "" {
			t.Errorf("delay, status, Retry-After, RateLimit (-want +got):\n%s", diff)
		}
	})
}

// Past the bounds an asker is refused at once, and it is recorded why.
func TestTarpitIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, tarpit5s)
		handler := h.Wrap(http.HandlerFunc(ok))
		for _, client := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"} {
			handler.ServeHTTP(httptest.NewRecorder(), local("GET", "/pit", client))
		}
		for _, client := range []string{"192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.3"} {
			go handler.ServeHTTP(httptest.NewRecorder(), local("GET", "/pit", client))
			synctest.Wait()
		}
		if h.Held() != 2 {
			t.Errorf("%d are held, want 2", h.Held())
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		var got []string
		for _, e := range h.journal.Recent(4) {
			got = append(got, e.Action+": "+e.Reason)
		}
		full, over := "reject: "+string(weir.TooManyHeld), "tarpit: "+string(weir.OverLimit)
		if diff := cmp.Diff([]string{over, over, full, full}, got); diff != "" {
			t.Errorf("actions and reasons, newest first (-want +got):\n%s", diff)
		}
	})
}

// haproxy#783: other streams of the connection go on, and who leaves is forgotten at once.
func TestTarpitHoldsOneStream(t *testing.T) {
	for _, p := range protocols {
		t.Run(string(p), func(t *testing.T) {
			h := build(t, `rules: [{name: pit, path: /pit, action: tarpit, tarpit: {delay: 5m, max_held: 9, max_held_per_client: 9}, limits: [{rate: 0/1h, per: client}]}]`)
			client, server := serve(t, p, h.Wrap(http.HandlerFunc(ok)))
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			left := make(chan error)
			go func() {
				r, _ := http.NewRequestWithContext(ctx, "GET", server.URL+"/pit", nil)
				answer, err := client.Do(r)
				if err == nil {
					answer.Body.Close()
				}
				left <- err
			}()
			proctest.Eventually(t, "held", func() bool { return h.Held() == 1 })
			if answer, _ := get(t, client, server.URL); answer.StatusCode != 200 || h.Held() != 1 {
				t.Errorf("beside it: got %d, and %d held", answer.StatusCode, h.Held())
			}
			leave()
			if err := <-left; !errors.Is(err, context.Canceled) {
				t.Errorf("the held request: %v", err)
			}
			proctest.Eventually(t, "freed", func() bool { return h.Held() == 0 })
			h.records(t, 2)
		})
	}
}

// A held asker that sends a body is gone when its connection is.
func TestTarpitNoticesWhoLeavesInTheMiddleOfABody(t *testing.T) {
	h := build(t, `rules: [{name: pit, path: /pit, action: tarpit, tarpit: {delay: 5m, max_held: 9, max_held_per_client: 9}, limits: [{rate: 0/1h, per: client}]}]`)
	_, server := serve(t, http1, h.Wrap(http.HandlerFunc(ok)))
	conn := dial(t, server)
	io.WriteString(conn, "POST /pit HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc")
	proctest.Eventually(t, "held", func() bool { return h.Held() == 1 })
	conn.Close()
	proctest.Eventually(t, "freed", func() bool { return h.Held() == 0 })
	h.records(t, 1)
}

// An HTTP/1.0 request and a WebSocket's are held as any other, let go of when they leave, and answered
// when their time has come.
func TestTarpitHoldsOldAndUpgradingRequests(t *testing.T) {
	for name, request := range map[string]string{
		"HTTP/1.0":  "GET /pit HTTP/1.0\r\n\r\n",
		"WebSocket": "GET /pit HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
	} {
		for _, delay := range []string{"5m", "50ms"} {
			h := build(t, `rules: [{name: pit, path: /pit, action: tarpit, tarpit: {delay: `+delay+`, max_held: 9, max_held_per_client: 9}, limits: [{rate: 0/1h, per: client}]}]`)
			_, server := serve(t, http1, h.Wrap(http.HandlerFunc(ok)))
			conn := dial(t, server)
			io.WriteString(conn, request)
			if delay == "5m" {
				proctest.Eventually(t, "held", func() bool { return h.Held() == 1 })
				conn.Close()
			} else if answer, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || answer.StatusCode != 429 {
				t.Errorf("%s: %v, %v, want 429", name, answer, err)
			}
			proctest.Eventually(t, "freed", func() bool { return h.Held() == 0 })
			h.records(t, 1)
		}
	}
}

// One that is still sending when its time has come is answered, and its connection ends.
func TestTarpitAnswersInTheMiddleOfABody(t *testing.T) {
	h := build(t, `rules: [{name: pit, path: /pit, action: tarpit, tarpit: {delay: 50ms, max_held: 9, max_held_per_client: 9}, limits: [{rate: 0/1h, per: client}]}]`)
	_, server := serve(t, http1, h.Wrap(http.HandlerFunc(ok)))
	for _, body := range []string{"abc", "abcdefghij"} {
		conn := dial(t, server)
		io.WriteString(conn, "POST /pit HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n"+body)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := len(body) < 10; answer.StatusCode != 429 || answer.Close != want {
			t.Errorf("%d of 10 bytes: got %d, closing %v, want 429 and %v", len(body), answer.StatusCode, answer.Close, want)
		}
	}
}

const dropping = `rules: [{name: gone, path: /gone, action: drop, limits: [{rate: 0/1h, per: client}]}]`

// HTTP/1: nothing but a reset, with TLS or without.
func TestDropResetsTheConnection(t *testing.T) {
	h := build(t, dropping)
	for _, secure := range []bool{false, true} {
		server := httptest.NewUnstartedServer(h.Wrap(http.HandlerFunc(ok)))
		if server.Start(); secure {
			server.Close()
			server = httptest.NewTLSServer(h.Wrap(http.HandlerFunc(ok)))
		}
		conn := dial(t, server)
		io.WriteString(conn, "GET /gone HTTP/1.1\r\nHost: x\r\n\r\n")
		answer, err := io.ReadAll(conn)
		if len(answer) > 0 || !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("TLS %v: got %q and %v, want a reset", secure, answer, err)
		}
		server.Close()
	}
	for _, e := range h.records(t, 2) {
		if e.Action != "drop" || e.Status != 0 {
			t.Errorf("recorded %s and %d, want drop and 0", e.Action, e.Status)
		}
	}
}

// openfoodfacts-infrastructure#616: HTTP/2 loses the one stream, not the connection.
func TestDropResetsTheStream(t *testing.T) {
	for _, p := range []protocol{http2, h2c} {
		t.Run(string(p), func(t *testing.T) {
			h := build(t, dropping)
			var connections atomic.Int64
			client, server := serve(t, p, h.Wrap(http.HandlerFunc(ok)))
			client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				connections.Add(1)
				return new(net.Dialer).DialContext(ctx, network, address)
			}
			for range 10 {
				r, _ := http.NewRequest("POST", server.URL+"/gone", nil)
				if answer, err := client.Do(r); err == nil {
					answer.Body.Close()
					t.Fatalf("answered with %d", answer.StatusCode)
				}
				if answer, _ := get(t, client, server.URL); answer.StatusCode != 200 {
					t.Errorf("the next stream: got %d", answer.StatusCode)
				}
			}
			if connections.Load() != 1 {
				t.Errorf("%d connections, want 1", connections.Load())
			}
			h.records(t, 20)
		})
	}
}

// A writer that cannot be taken over and is no network's: net/http must end it.
func TestDropWithoutAConnectionAborts(t *testing.T) {
	h := build(t, dropping)
	defer func() {
		if got := recover(); got != http.ErrAbortHandler {
			t.Errorf("recovered %v, want http.ErrAbortHandler", got)
		}
		h.records(t, 1)
	}()
	h.Wrap(http.HandlerFunc(ok)).ServeHTTP(httptest.NewRecorder(), local("GET", "/gone", "192.0.2.1"))
}

// pipe is a connection that is none of TCP's, below what other packages put around one.
type (
	pipe      struct{ net.Conn }
	likeTLS   struct{ net.Conn }
	likeProxy struct{ net.Conn }
)

func (c likeTLS) NetConn() net.Conn { return c.Conn }
func (c likeProxy) Raw() net.Conn   { return c.Conn }

func TestResetFindsTheConnectionBelow(t *testing.T) {
	here, there := net.Pipe()
	reset(likeTLS{likeProxy{pipe{here}}})
	if _, err := there.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the other end reads %v, want the end", err)
	}
}

// A gRPC client gets trailers alone, over HTTP/2 on the wire.
func TestGRPCRefusal(t *testing.T) {
	h := build(t, `default: {limits: [{rate: 0/1h, per: client}]}`)
	client, server := serve(t, h2c, h.Wrap(http.HandlerFunc(ok)))
	answer, body := get(t, client, server.URL, "Content-Type", "application/grpc")
	got := []any{answer.StatusCode, answer.Header.Get("Grpc-Status"), body, len(answer.Trailer)}
	if diff := cmp.Diff([]any{200, "8", "", 0}, got); diff != "" {
		t.Errorf("status, code, body, trailers apart (-want +got):\n%s", diff)
	}
	if got := h.records(t, 1)[0].Status; got != 200 {
		t.Errorf("recorded %d, want what was sent", got)
	}
}
