package middleware_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/embedded"
	"github.com/weirgate/weir/middleware"
)

// What follows are ways to use the library wrongly, one a test: what happens then, beside what is right.

// open returns a middleware with n requests per hour for every client, and what ends it.
func open(t *testing.T, change func(*config.Config)) *middleware.Middleware {
	t.Helper()
	cfg := config.Default()
	cfg.Default.Limits = []config.Limit{{Rate: &config.Rate{N: 4, Window: time.Hour}}}
	if change != nil {
		change(cfg)
	}
	m, stop, err := middleware.OpenConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return m
}

// ask returns the statuses of n requests from remote with what is in its X-Forwarded-For.
func ask(h http.Handler, n int, remote, chain string) (statuses []int) {
	for range n {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = remote
		if chain != "" {
			r.Header.Set("X-Forwarded-For", chain)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		statuses = append(statuses, w.Code)
	}
	return statuses
}

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) })

// Wrapping twice counts twice: half of the limit is all there is.
func TestTrapWrappedTwice(t *testing.T) {
	once, twice := open(t, nil), open(t, nil)
	if got := ask(once.Wrap(hello), 5, "192.0.2.1:1", ""); !cmp.Equal(got, []int{200, 200, 200, 200, 429}) {
		t.Errorf("wrapped once: %v", got)
	}
	if got := ask(twice.Wrap(twice.Wrap(hello)), 3, "192.0.2.1:1", ""); !cmp.Equal(got, []int{200, 200, 429}) {
		t.Errorf("wrapped twice: %v, want what this test warns of", got)
	}
}

// Two calls of Open are two counts: one middleware is for all handlers that share a limit.
func TestTrapOpenedTwice(t *testing.T) {
	one := open(t, nil)
	mux := http.NewServeMux()
	mux.Handle("/a", one.Wrap(hello))
	mux.Handle("/", one.Wrap(hello))
	if got := ask(mux, 5, "192.0.2.1:1", ""); got[4] != 429 {
		t.Errorf("one middleware: %v", got)
	}
	for range 2 {
		if got := ask(open(t, nil).Wrap(hello), 4, "192.0.2.1:1", ""); slices.Contains(got, 429) {
			t.Errorf("a middleware of its own: %v, want what this test warns of", got)
		}
	}
}

// Behind a proxy, everyone is the proxy until client says that there is one; and a client that nobody stands
// before must not be believed.
func TestTrapUnnamedProxy(t *testing.T) {
	named := func(c *config.Config) { c.Client.Path = []config.Hop{{Name: "nginx"}} }
	if got := ask(open(t, nil).Wrap(hello), 4, "10.0.0.1:1", "203.0.113.7"); slices.Contains(got, 429) {
		t.Fatal(got)
	}
	unnamed, right := open(t, nil).Wrap(hello), open(t, named).Wrap(hello)
	ask(unnamed, 4, "10.0.0.1:1", "203.0.113.7")
	ask(right, 4, "10.0.0.1:1", "203.0.113.7")
	if got := ask(unnamed, 1, "10.0.0.1:1", "203.0.113.8"); got[0] != 429 {
		t.Errorf("another client of an unnamed proxy: %v, want what this test warns of", got)
	}
	if got := ask(right, 1, "10.0.0.1:1", "203.0.113.8"); got[0] != 200 {
		t.Errorf("another client of a named proxy: %v", got)
	}
	if got := ask(right, 5, "198.51.100.9:1", "203.0.113.9"); got[4] != 429 {
		t.Errorf("a client that forges: %v", got)
	}
}

// r.RemoteAddr, and r.Header, stay as they came. The client is in the call.
func TestTrapRemoteAddr(t *testing.T) {
	m := open(t, func(c *config.Config) { c.Client.Path = []config.Hop{{Name: "nginx"}} })
	var remote, chain, client string
	ask(m.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		remote, chain = r.RemoteAddr, r.Header.Get("X-Forwarded-For")
		client = middleware.FromContext(r.Context()).Decision.Client.Addr.String()
	})), 1, "10.0.0.1:1", "6.6.6.6, 203.0.113.7")
	if got, want := []string{remote, chain, client}, []string{"10.0.0.1:1", "6.6.6.6, 203.0.113.7", "203.0.113.7"}; !cmp.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// What rewrites RemoteAddr by a header, before Weir, lets every client choose whose limit it uses.
func TestTrapRewrittenRemoteAddr(t *testing.T) {
	rewriting := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.RemoteAddr = r.Header.Get("X-Forwarded-For")
			next.ServeHTTP(w, r)
		})
	}
	outside, inside := open(t, nil), open(t, nil)
	for i, chain := range []string{"6.6.6.1", "6.6.6.2", "6.6.6.3", "6.6.6.4", "6.6.6.5"} {
		forged := ask(rewriting(outside.Wrap(hello)), 1, "198.51.100.9:1", chain)
		right := ask(inside.Wrap(rewriting(hello)), 1, "198.51.100.9:1", chain)
		if want := []int{200, 200, 200, 200, 429}[i]; forged[0] != 200 || right[0] != want {
			t.Errorf("%s: Weir inside %v, outside %v, want %d", chain, forged, right, want)
		}
	}
}

// The decision belongs to the call: who keeps the call beyond the handler finds none in it. What is wanted later is
// copied.
func TestTrapKeptCall(t *testing.T) {
	m := open(t, nil)
	var kept *middleware.Call
	var copied weir.Client
	ask(m.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		kept = middleware.FromContext(r.Context())
		copied = kept.Decision.Client
	})), 1, "192.0.2.1:1", "")
	if kept.Decision != nil || copied.Addr.String() != "192.0.2.1" {
		t.Errorf("kept %v, copied %v", kept.Decision, copied)
	}
}

// A front of one's own gives every decision to Record, exactly once. One that forgets to is in no metric, and what
// the request had in flight is never given back.
func TestTrapForgottenRecord(t *testing.T) {
	cfg := config.Default()
	cfg.Default.Limits = []config.Limit{{InFlight: new(int64(1)), Per: config.List{"global"}}}
	e, err := embedded.New(cfg, embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	decide := func() *weir.Decision {
		return e.Decide(t.Context(), e.Current(), weir.Request{Front: "middleware", Method: "GET", Path: "/"})
	}
	for range 2 { // as it should be
		d := decide()
		if d.Refused() {
			t.Error("refused, though nothing is in flight")
		}
		e.Record(e.Current(), d, weir.Outcome{HTTP: 200})
	}
	if forgotten := decide(); forgotten.Refused() {
		t.Error("refused, though nothing is in flight")
	}
	d := decide()
	if !d.Refused() {
		t.Error("passed, want what this test warns of")
	}
	e.Record(e.Current(), d, weir.Outcome{HTTP: 429})
}

// A recorded decision is another request's: who records it twice, or reads it afterwards, tells of that one.
func TestTrapRecordedTwice(t *testing.T) {
	e, err := embedded.New(config.Default(), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s := e.Current()
	d := e.Decide(t.Context(), s, weir.Request{Front: "middleware", Method: "GET", Path: "/"})
	e.Record(s, d, weir.Outcome{HTTP: 200})
	if d.Rule != nil || d.Request.Path != "" || len(d.Statuses) > 0 {
		t.Errorf("a recorded decision still says %+v", d)
	}
}
