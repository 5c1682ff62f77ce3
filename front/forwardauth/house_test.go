package forwardauth

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/internal/enginetest"
	"github.com/weirgate/weir/internal/leaktest"
	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/store/memory"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// noon is when tests begin: on a minute, so that windows begin with them.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// A house is a server with everything below it, and a clock that stands still until it is set.
type house struct {
	*Server
	t       testing.TB
	journal *journal.Journal
	clock   atomic.Int64 // since noon
	log     *logbook
	faults  chan string // what Refused was told
	// connections is how many there were.
	connections atomic.Int64
}

// proxyAddr is where proxies are.
var proxyAddr = netip.MustParseAddr("127.0.0.1")

// behind is the client section of most tests: nginx, or whichever proxy, on the loopback interface.
const behind = "client: {path: [nginx]}\n"

// build returns the house of a configuration, over a store in memory.
func build(t testing.TB, yaml string) *house {
	t.Helper()
	store := memory.New(memory.Options{MaxKeys: 10_000})
	t.Cleanup(store.Close)
	return buildOver(t, yaml, store)
}

func buildOver(t testing.TB, yaml string, store engine.Store) *house {
	t.Helper()
	h := &house{t: t, log: new(logbook), faults: make(chan string, 1000)}
	s := enginetest.Snapshot(t, yaml, store)
	h.journal = journal.New(journal.Options{Rules: s.Policy.Names(), Faults: Faults()})
	e := engine.New(s, h.journal, func() time.Time { return noon.Add(time.Duration(h.clock.Load())) })
	h.Server = New(e, Options{
		HeaderTimeout: time.Second, IdleTimeout: time.Minute, MaxHeader: 64 << 10,
		Logger:  slog.New(slog.NewJSONHandler(h.log, nil)),
		Refused: func(fault string, peer netip.Addr) { h.faults <- fault + " " + peer.String() },
	})
	h.server.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			h.connections.Add(1)
		}
	}
	return h
}

// at sets the clock to d after noon.
func (h *house) at(d time.Duration) { h.clock.Store(int64(d)) }

// ask asks at a path with these header fields, as a proxy on the loopback interface.
func (h *house) ask(path string, header http.Header) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.RemoteAddr = "127.0.0.1:4242"
	r.Header = header.Clone()
	return h.send(r)
}

func (h *house) send(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// serve listens on the loopback interface until the test ends, and returns where.
func (h *house) serve() string {
	h.t.Helper()
	return h.serveAt("127.0.0.1:0")
}

func (h *house) serveAt(addr string) string {
	h.t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		h.t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- h.Serve(l) }()
	h.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = h.Drain(ctx) // a connection that a test left half-way is cut off
		if err := <-served; err != nil {
			h.t.Error(err)
		}
	})
	return l.Addr().String()
}

// asked is how many asks were recorded as requests, and as further ones about the same.
func (h *house) asked() (requests int, again string) {
	w := httptest.NewRecorder()
	h.journal.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if n, ok := strings.CutPrefix(line, "weir_asked_again_total "); ok {
			again = strings.TrimSpace(n)
		}
	}
	return int(h.journal.Totals().Requests), again
}

// nginxAsks is what nginx sends about a request for target, by the shipped configuration.
func nginxAsks(target string) http.Header {
	return http.Header{
		"X-Original-Uri": {target}, "X-Original-Method": {"GET"}, "X-Original-Host": {"site.example"},
		"X-Forwarded-Proto": {"http"}, "X-Forwarded-For": {"203.0.113.7"}, "X-Real-Ip": {"203.0.113.7"},
		"X-Weir-Request-Id": {"0123456789abcdef0123456789abcdef"},
	}
}

// caddyAsks is what Caddy sends, and Traefik as far as Weir reads it.
func caddyAsks(target string) http.Header {
	return http.Header{
		"X-Forwarded-Uri": {target}, "X-Forwarded-Method": {"GET"}, "X-Forwarded-Host": {"site.example"},
		"X-Forwarded-Proto": {"http"}, "X-Forwarded-For": {"203.0.113.7"},
	}
}

// asks are the dialects' headers by their paths.
var asks = map[string]func(target string) http.Header{
	"/auth/nginx": nginxAsks, "/auth/caddy": caddyAsks, "/auth/traefik": caddyAsks,
}

// with returns h with a field added or, without a value, taken away.
func with(h http.Header, name string, lines ...string) http.Header {
	h = h.Clone()
	delete(h, name)
	if len(lines) > 0 {
		h[name] = lines
	}
	return h
}

// A logbook is a logger's output.
type logbook struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// lines returns what was logged, decoded.
func (l *logbook) lines(t testing.TB) []map[string]any {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []map[string]any
	for d := json.NewDecoder(strings.NewReader(l.text.String())); ; {
		var line map[string]any
		switch err := d.Decode(&line); err {
		case nil:
			all = append(all, line)
		case io.EOF:
			return all
		default:
			t.Fatal(err)
		}
	}
}
