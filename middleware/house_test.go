package middleware

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/internal/enginetest"
	"github.com/weirgate/weir/internal/leaktest"
	"github.com/weirgate/weir/internal/proctest"
	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/store/memory"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // what is embedded tells it of every refusal
	leaktest.Main(m)
}

// A house is a middleware with everything behind it but the handler.
type house struct {
	*Middleware
	journal *journal.Journal
}

// build returns the house that a configuration file describes.
func build(t testing.TB, yaml string) *house {
	t.Helper()
	store := memory.New(memory.Options{MaxKeys: 10_000})
	t.Cleanup(store.Close)
	s := enginetest.Snapshot(t, yaml, store)
	j := journal.New(journal.Options{Recent: 2000, Rules: s.Policy.Names()})
	return &house{New(engine.New(s, j, time.Now), Options{}), j}
}

// records waits until n decisions are recorded, and fails if there are ever more.
func (h *house) records(t *testing.T, n int) []journal.Entry {
	t.Helper()
	proctest.Eventually(t, "records", func() bool { return len(h.journal.Recent(n)) >= n })
	got := h.journal.Recent(n + 1)
	if len(got) != n {
		t.Fatalf("%d decisions are recorded, want %d", len(got), n)
	}
	return got
}

// A protocol is a way in which a client and a server talk.
type protocol string

const (
	http1 protocol = "HTTP/1.1"
	http2 protocol = "HTTP/2 over TLS"
	h2c   protocol = "HTTP/2 in the clear"
)

var protocols = []protocol{http1, http2, h2c}

// serve runs handler on a free port and returns a client for it.
func serve(t testing.TB, p protocol, handler http.Handler) (*http.Client, *httptest.Server) {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = quiet
	s.Config.Protocols, s.EnableHTTP2 = new(http.Protocols), p == http2
	transport := &http.Transport{Protocols: new(http.Protocols), MaxIdleConnsPerHost: 100}
	switch p {
	case http1:
		s.Config.Protocols.SetHTTP1(true)
		transport.Protocols.SetHTTP1(true)
		s.Start()
	case h2c:
		s.Config.Protocols.SetUnencryptedHTTP2(true)
		transport.Protocols.SetUnencryptedHTTP2(true)
		s.Start()
	case http2:
		s.Config.Protocols.SetHTTP2(true)
		transport.Protocols.SetHTTP2(true)
		s.StartTLS()
		transport.TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig
	}
	t.Cleanup(func() { transport.CloseIdleConnections(); s.Close() })
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}, s
}

// dial opens a connection of its own for a client that writes bytes.
func dial(t testing.TB, s *httptest.Server) net.Conn {
	t.Helper()
	address := s.Listener.Addr().String()
	if s.TLS == nil {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// get sends a request and returns the answer, whose body is read.
func get(t testing.TB, c *http.Client, url string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return do(t, c, r)
}

func do(t testing.TB, c *http.Client, r *http.Request) (*http.Response, string) {
	t.Helper()
	answer, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(body)
}

// ok answers every request with the text ok.
func ok(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }

// local is a request without a network, from a client of the given address.
func local(method, target, client string) *http.Request {
	r := httptest.NewRequest(method, target, strings.NewReader(""))
	r.RemoteAddr = client + ":1234"
	return r
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func sameAddr(a, b netip.Addr) bool { return a == b }
