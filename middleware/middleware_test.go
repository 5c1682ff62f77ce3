package middleware

import (
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/racing"
)

var quiet = log.New(io.Discard, "", 0)

func TestOfAThousandAtOnceExactlyAHundredPass(t *testing.T) {
	for _, p := range protocols {
		t.Run(string(p), func(t *testing.T) {
			h := build(t, `default: {limits: [{rate: 100/1h, per: client}]}`)
			var reached atomic.Int64
			client, server := serve(t, p, h.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				reached.Add(1)
				ok(w, r)
			})))
			statuses := map[int]int{}
			var mu sync.Mutex
			var all sync.WaitGroup
			turns := make(chan struct{}, 100)
			for range 1000 {
				all.Go(func() {
					turns <- struct{}{}
					defer func() { <-turns }()
					answer, _ := get(t, client, server.URL)
					mu.Lock()
					statuses[answer.StatusCode]++
					mu.Unlock()
				})
			}
			all.Wait()
			if diff := cmp.Diff(map[int]int{200: 100, 429: 900}, statuses); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
			if reached.Load() != 100 {
				t.Errorf("%d requests reached the handler, want 100", reached.Load())
			}
			h.records(t, 1000)
		})
	}
}

func TestAdmittedAnswersTellTheLimits(t *testing.T) {
	h := build(t, `default: {limits: [{name: mine, rate: 3/1h, per: client}]}`)
	for _, p := range protocols {
		t.Run(string(p), func(t *testing.T) {
			client, server := serve(t, p, h.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {})))
			answer, _ := get(t, client, server.URL)
			if got := answer.Header.Values("RateLimit-Policy"); !cmp.Equal(got, []string{`"mine";q=3;w=3600`}) {
				t.Errorf("RateLimit-Policy: got %q", got)
			}
		})
	}
}

// Kong#14353: the handler's fields and the gateway's stood side by side. However the header comes to
// be sent, it has each field once, and it is ours.
func TestTheHandlersFieldsAreReplaced(t *testing.T) {
	send := map[string]func(w http.ResponseWriter){
		"nothing written":  func(w http.ResponseWriter) {},
		"a status":         func(w http.ResponseWriter) { w.WriteHeader(429) },
		"a body":           func(w http.ResponseWriter) { w.Write([]byte("x")) },
		"a text":           func(w http.ResponseWriter) { io.WriteString(w, "x") },
		"a flush":          func(w http.ResponseWriter) { w.(http.Flusher).Flush() },
		"a flush by error": func(w http.ResponseWriter) { http.NewResponseController(w).Flush() },
		"a copy":           func(w http.ResponseWriter) { io.Copy(w, io.LimitReader(zeros{}, 1)) },
		"a hint before":    func(w http.ResponseWriter) { w.WriteHeader(103); w.WriteHeader(200) },
	}
	for name, write := range send {
		for _, p := range []protocol{http1, http2} {
			t.Run(name+"/"+string(p), func(t *testing.T) {
				h := build(t, "headers: both\ndefault: {limits: [{name: mine, rate: 10/1m, per: client, algorithm: token_bucket}]}")
				client, server := serve(t, p, h.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					for _, field := range []string{"RateLimit", "RateLimit-Policy", "X-RateLimit-Remaining", "Retry-After"} {
						w.Header().Set(field, "3")
					}
					write(w)
				})))
				answer, _ := get(t, client, server.URL)
				got := map[string][]string{}
				for _, field := range []string{"RateLimit", "RateLimit-Policy", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After"} {
					got[field] = answer.Header.Values(field)
				}
				want := map[string][]string{
					"RateLimit": {`"mine";r=9;t=6`}, "RateLimit-Policy": {`"mine";q=10;w=60`},
					"X-RateLimit-Limit": {"10"}, "X-RateLimit-Remaining": {"9"}, "X-RateLimit-Reset": {"6"},
					"Retry-After": {"3"}, // the handler's own
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("fields (-want +got):\n%s", diff)
				}
			})
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// express-rate-limit#69: a browser got half of its limit, since each of its questions was charged.
func TestPreflightIsNotCharged(t *testing.T) {
	h := build(t, `rules: [{name: v1, path: /v1, limits: [{rate: 40/1h, per: client}]}]`)
	handler := h.Wrap(http.HandlerFunc(ok))
	send := func(method string, header ...string) int {
		r := local(method, "/v1/x", "192.0.2.1")
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code
	}
	preflight := []string{"Origin", "https://app.example", "Access-Control-Request-Method", "GET"}
	for i := range 40 {
		if got := send("OPTIONS", preflight...); got != 200 {
			t.Fatalf("preflight %d: got %d", i, got)
		}
		if got := send("GET"); got != 200 {
			t.Fatalf("request %d: got %d", i, got)
		}
	}
	got := []int{send("OPTIONS", preflight...), send("OPTIONS"), send("GET")}
	if want := []int{200, 429, 429}; !cmp.Equal(got, want) {
		t.Errorf("preflight, plain OPTIONS, GET after the limit: got %v, want %v", got, want)
	}
}

// A refusal is recorded with the status that was sent, an admission with the handler's.
func TestRecordedOnce(t *testing.T) {
	h := build(t, `default: {limits: [{rate: 2/1h, per: client}]}`)
	handler := h.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/teapot" {
			w.WriteHeader(418)
		}
	}))
	for _, target := range []string{"/teapot", "/", "/"} {
		handler.ServeHTTP(httptest.NewRecorder(), local("GET", target, "192.0.2.1"))
	}
	var got [][2]any
	for _, e := range h.records(t, 3) {
		got = append(got, [2]any{e.Action, e.Status})
	}
	want := [][2]any{{"reject", 429}, {"pass", 200}, {"pass", 418}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("newest first (-want +got):\n%s", diff)
	}
}

func TestAPanicGoesOn(t *testing.T) {
	h := build(t, ``)
	var call *Call
	handler := h.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call = FromContext(r.Context())
		panic("the handler's")
	}))
	defer func() {
		if got := recover(); got != "the handler's" {
			t.Errorf("recovered %v, want the handler's own", got)
		}
		if got := h.records(t, 1)[0].Status; got != 0 || !errors.Is(call.Outcome.Err, errPanicked) {
			t.Errorf("recorded status %d and error %v, want 0 and %v", got, call.Outcome.Err, errPanicked)
		}
	}()
	handler.ServeHTTP(httptest.NewRecorder(), local("GET", "/", "192.0.2.1"))
}

func TestTheCallInFlight(t *testing.T) {
	h := build(t, `default: {limits: [{name: mine, rate: 2/1h, per: client}]}`)
	var calls []*Call
	see := func(c *Call) {
		if c.Decision.Client.Addr.String() != "192.0.2.1" || c.Snapshot != h.engine.Current() {
			t.Errorf("decision for %v under %p", c.Decision.Client.Addr, c.Snapshot)
		}
		calls = append(calls, c)
	}
	h.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		type other struct{}
		if r.Context().Value(other{}) != nil {
			t.Error("the context knows what nobody told it")
		}
		see(FromContext(r.Context()))
	})).ServeHTTP(httptest.NewRecorder(), local("GET", "/", "192.0.2.1"))
	down := errors.New("upstream down")
	h.Serve(httptest.NewRecorder(), local("GET", "/", "192.0.2.1"), func(w http.ResponseWriter, r *http.Request, c *Call) {
		see(c)
		c.Outcome.Err, c.Outcome.Upstream = down, time.Second
		w.WriteHeader(502)
	})
	h.Serve(httptest.NewRecorder(), local("GET", "/", "192.0.2.1"), func(http.ResponseWriter, *http.Request, *Call) {
		t.Error("a refused request reached the handler")
	})
	want := weir.Outcome{HTTP: 502, Upstream: time.Second, Err: down, Duration: calls[1].Outcome.Duration}
	if got := calls[1].Outcome; got != want || calls[1].Decision != nil {
		t.Errorf("outcome: got %+v, want %+v and no decision any longer", got, want)
	}
	if FromContext(t.Context()) != nil {
		t.Error("a context without a call has one")
	}
}

func TestDisabledTouchesNothing(t *testing.T) {
	h := build(t, "enabled: false\nrules: [{name: small, path: /, max_body: 1B, limits: [{rate: 0/1m, per: client}]}]")
	var got *http.Request
	handler := h.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		w.Header().Set("RateLimit", "the handler's")
	}))
	r := local("POST", "/", "192.0.2.1")
	r.RequestURI, r.ContentLength = "/#", 7
	r.Header.Set("X-Weir-Shadow", "the asker's")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if w.Code != 200 || w.Header().Get("RateLimit") != "the handler's" || got.Header.Get("X-Weir-Shadow") != "the asker's" {
		t.Errorf("got %d, %v, %v", w.Code, w.Header(), got.Header)
	}
	h.records(t, 1)
}

func TestPeerIsTheListenersWord(t *testing.T) {
	h := build(t, ``)
	m := New(h.engine, Options{Front: "proxy", Peer: func(r *http.Request) (netip.Addr, bool) { return netip.MustParseAddr("2001:db8::1"), false }})
	m.Wrap(http.HandlerFunc(ok)).ServeHTTP(httptest.NewRecorder(), local("GET", "/", "192.0.2.1"))
	e := h.records(t, 1)[0]
	if e.Client != "2001:db8::/64" || e.Front != "proxy" {
		t.Errorf("recorded %s by %s, want 2001:db8::/64 by proxy", e.Client, e.Front)
	}
}

func TestAllocations(t *testing.T) {
	if racing.On {
		t.Skip("the race detector allocates")
	}
	h := build(t, `default: {limits: [{rate: 1000000000/1h, per: client}]}`)
	inspecting := build(t, "default: {limits: []}\nwaf: {ruleset: fast}")
	refusing := build(t, `default: {limits: [{rate: 0/1h, per: client}]}`)
	tests := []struct {
		name    string
		handler http.Handler
		most    float64
	}{
		{"admitted by Serve", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.Serve(w, r, nothing) }), 3},
		{"admitted by Wrap", h.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})), 4},
		{"inspected by Serve", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { inspecting.Serve(w, r, nothing) }), 6},
		{"refused", refusing.Wrap(http.HandlerFunc(ok)), 3},
	}
	for _, test := range tests {
		w, r := &nowhere{http.Header{}}, local("GET", "/", "192.0.2.1")
		if got := testing.AllocsPerRun(1000, func() { test.handler.ServeHTTP(w, r) }); got > test.most {
			t.Errorf("%s: %v allocations, want at most %v", test.name, got, test.most)
		}
	}
}

func nothing(http.ResponseWriter, *http.Request, *Call) {}

// nowhere is a writer that costs nothing.
type nowhere struct{ h http.Header }

func (w *nowhere) Header() http.Header         { return w.h }
func (w *nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (w *nowhere) WriteHeader(int)             {}

var empty = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

func BenchmarkMiddleware(b *testing.B) {
	handlers := map[string]http.Handler{
		"admitted": build(b, `default: {limits: [{rate: 1000000000/1h, per: client}]}`).Wrap(empty),
		"refused":  build(b, `default: {limits: [{rate: 0/1h, per: client}]}`).Wrap(empty),
	}
	for name, h := range handlers {
		b.Run(name+"/in memory", func(b *testing.B) {
			w, r := &nowhere{http.Header{}}, local("GET", "/", "192.0.2.1")
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(w, r)
			}
		})
		b.Run(name+"/on loopback", func(b *testing.B) {
			ours, bare := newWire(b, h), newWire(b, empty)
			var with, without []time.Duration
			for b.Loop() {
				without, with = append(without, bare.ask(b)), append(with, ours.ask(b))
			}
			slices.Sort(with)
			slices.Sort(without)
			// Whatever else the machine does comes on top: the quickest tenth says most.
			b.ReportMetric(float64(with[len(with)/10])/float64(without[len(without)/10]), "of-an-empty-handler")
		})
	}
}

// A wire is a connection whose client does next to nothing, so that the server is what is measured.
type wire struct {
	conn   net.Conn
	answer []byte
}

func newWire(b *testing.B, h http.Handler) *wire {
	_, server := serve(b, http1, h)
	return &wire{dial(b, server), make([]byte, 4096)}
}

// ask sends one request and takes the answer, which comes in one piece.
func (w *wire) ask(b *testing.B) time.Duration {
	began := time.Now()
	if _, err := io.WriteString(w.conn, "GET / HTTP/1.1\r\nHost: example\r\n\r\n"); err != nil {
		b.Fatal(err)
	}
	if _, err := w.conn.Read(w.answer); err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}
