package behind_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Requests on one connection are counted one by one.
func (r *road) keepAlive(t *testing.T) {
	c := r.client()
	var statuses []int
	var reused []bool
	for range 4 {
		req := c.request(http.MethodGet, "/", nil, nil)
		req = req.WithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			GotConn: func(info httptrace.GotConnInfo) { reused = append(reused, info.Reused) },
		}))
		statuses = append(statuses, c.do(t, req).status)
	}
	if want := []int{200, 200, 200, 429}; !cmp.Equal(statuses, want) {
		t.Errorf("HTTP statuses %v, want %v", statuses, want)
	}
	if want := []bool{false, true, true, true}; !cmp.Equal(reused, want) {
		t.Errorf("reused %v, want %v", reused, want)
	}
}

// bodySize is more than any buffer on the way, and less than the 1 MiB that nginx lets pass.
const bodySize = 700 << 10

// A body arrives whole, with and without a length that is known before.
func (r *road) bodiesArrive(t *testing.T) {
	c := r.client()
	body := bytes.Repeat([]byte("0123456789abcdef"), bodySize/16)
	sum := sha256.Sum256(body)
	want := seen{Method: "POST", Target: "/open/body", Length: bodySize, Sum: hex.EncodeToString(sum[:])}
	for name, reader := range map[string]io.Reader{"length": bytes.NewReader(body), "chunked": io.MultiReader(bytes.NewReader(body))} {
		a := c.do(t, c.request(http.MethodPost, "/open/body", nil, reader))
		got := seen{Method: a.seen.Method, Target: a.seen.Target, Length: a.seen.Length, Sum: a.seen.Sum}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s, -want +got:\n%s", name, diff)
		}
	}
}

// What is not a request and its answer goes through the proxies and Weir, too.
func TestStreams(t *testing.T) {
	for _, kinds := range chains {
		t.Run(strings.Join(kinds, "_"), func(t *testing.T) {
			t.Parallel()
			r := open(t, plan{proxies: line(kinds...), client: strategies(kinds)["path"]})
			t.Run("events", r.eventsComeAtOnce)
			t.Run("socket", r.socketOpens)
			t.Run("socket refused", r.socketIsCounted)
		})
	}
}

// The first event is there while the upstream waits for its reader to have it.
func (r *road) eventsComeAtOnce(t *testing.T) {
	c := r.client()
	res, err := c.http.Do(c.request(http.MethodGet, "/open/events", nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	wantHeader(t, answer{status: res.StatusCode, header: res.Header}, "Content-Type", "text/event-stream")
	lines := bufio.NewReader(res.Body)
	if first, err := lines.ReadString('\n'); first != "data: one\n" {
		t.Fatalf("first event %q: %v", first, err)
	}
	select {
	case r.upstream.next <- struct{}{}:
	case <-time.After(patience):
		t.Fatal("the upstream does not wait any more")
	}
	if rest, err := io.ReadAll(lines); string(rest) != "\ndata: two\n\n" || err != nil {
		t.Errorf("then %q: %v", rest, err)
	}
}

const handshake = "GET %s HTTP/1.1\nHost: site.example\nUpgrade: websocket\nConnection: Upgrade\n" +
	"Sec-WebSocket-Version: 13\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\nX-Forwarded-For: 198.51.100.9\n\n"

// upgrade asks for a WebSocket and returns the answer, and how to talk on.
func (c *client) upgrade(t *testing.T, target string) (*http.Response, io.ReadWriteCloser, *bufio.Reader) {
	t.Helper()
	conn := c.dial(t)
	io.WriteString(conn, strings.ReplaceAll(fmt.Sprintf(handshake, target), "\n", "\r\n"))
	reader := bufio.NewReader(conn)
	res, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	return res, conn, reader
}

// A WebSocket opens, both sides are heard at once, and both learn of the end.
func (r *road) socketOpens(t *testing.T) {
	c := r.client()
	res, conn, reader := c.upgrade(t, "/open/socket")
	a := answer{status: res.StatusCode, header: res.Header}
	if a.status != http.StatusSwitchingProtocols {
		t.Fatalf("HTTP status %d, want 101", a.status)
	}
	wantHeader(t, a, "Sec-WebSocket-Accept", `s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=`)
	wantHeader(t, a, "X-Seen-For", c.addr)
	for _, word := range []string{"one\n", "two\n"} {
		io.WriteString(conn, word)
		if got, err := reader.ReadString('\n'); got != word {
			t.Errorf("heard %q, want %q: %v", got, word, err)
		}
	}
	conn.Close()
}

// A handshake is a request like any other.
func (r *road) socketIsCounted(t *testing.T) {
	c := r.client()
	if got, want := c.statuses(t, 3), []int{200, 200, 200}; !cmp.Equal(got, want) {
		t.Fatalf("HTTP statuses %v, want %v", got, want)
	}
	res, conn, _ := c.upgrade(t, "/socket")
	defer conn.Close()
	if res.StatusCode != http.StatusTooManyRequests {
		t.Errorf("HTTP status %d, want 429", res.StatusCode)
	}
}

// Clients that speak HTTP/2 to the front are who they are.
func TestHTTP2(t *testing.T) {
	for _, kinds := range [][]string{{"caddy"}, {"haproxy"}, {"caddy", "nginx"}} {
		t.Run(strings.Join(kinds, "_"), func(t *testing.T) {
			t.Parallel()
			r := open(t, plan{proxies: line(kinds...), client: strategies(kinds)["path"]})
			c, other := r.client().overHTTP2(), r.client().overHTTP2()
			for i := range 3 {
				a := c.get(t, "/", http.Header{"X-Forwarded-For": {forged(i)}})
				if a.status != http.StatusOK || a.proto != "HTTP/2.0" {
					t.Fatalf("HTTP status %d in %s", a.status, a.proto)
				}
				a.wantOnly(t, c.addr)
			}
			refused := c.get(t, "/", http.Header{"X-Forwarded-For": {forged(4)}})
			if refused.status != http.StatusTooManyRequests || refused.proto != "HTTP/2.0" {
				t.Fatalf("HTTP status %d in %s, want 429", refused.status, refused.proto)
			}
			refused.wantProblem(t)
			if a := other.get(t, "/", nil); a.status != http.StatusOK {
				t.Errorf("another client: HTTP status %d", a.status)
			}
		})
	}
}
