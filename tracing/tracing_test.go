package tracing_test

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/internal/proctest"
	"github.com/weirgate/weir/tracing"
)

const (
	trace    = "4bf92f3577b34da6a3ce929d0e0e4736"
	caller   = "00f067aa0ba902b7"
	sampled  = "00-" + trace + "-" + caller + "-01"
	passed   = "00-" + trace + "-" + caller + "-00"
	enough   = 10 * time.Second
	greeting = "203.0.113.9"
)

func request(header http.Header) weir.Request {
	if header == nil {
		header = http.Header{}
	}
	return weir.Request{Front: "proxy", Method: "GET", Host: "www.example.com", Path: "/shop", Query: "card=4111", Scheme: "https", Header: header}
}

// decision is one that passed.
func decision(req weir.Request) *weir.Decision {
	d := &weir.Decision{Request: req, Rule: &weir.Rule{Name: "shop"}, Action: weir.Pass, Reason: weir.WithinLimits}
	d.Client.Addr, d.Client.Source = netip.MustParseAddr(greeting), weir.FromHeader
	return d
}

// follow traces one request to its end, and returns whether it was traced.
func follow(tracer engine.Tracer, req weir.Request) bool {
	s := tracer.Start(req)
	if s == nil {
		return false
	}
	s.End(decision(req), weir.Outcome{HTTP: 200})
	return true
}

func shut(t *testing.T, e *tracing.Exporter) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), enough)
	defer cancel()
	if err := e.Close(ctx); err != nil {
		t.Error(err)
	}
}

// What a caller decided is obeyed; what no caller decided is decided by the share (W3C Trace Context, section 3.2).
func TestTheCallersDecisionIsObeyed(t *testing.T) {
	for name, tc := range map[string]struct {
		header http.Header
		sample float64
		traced bool
		parent string // of the span that arrives
	}{
		"nobody decided, none are traced": {nil, 0, false, ""},
		"nobody decided, all are traced":  {nil, 1, true, ""},
		"traced by the caller":            {http.Header{"Traceparent": {sampled}}, 0, true, caller},
		"not traced by the caller":        {http.Header{"Traceparent": {passed}}, 1, false, ""},
		"garbage, none":                   {http.Header{"Traceparent": {"00-xyz"}}, 0, false, ""},
		"garbage, all":                    {http.Header{"Traceparent": {"00-xyz"}}, 1, true, ""},
		"zeros":                           {http.Header{"Traceparent": {"00-" + strings.Repeat("0", 32) + "-" + caller + "-01"}}, 0, false, ""},
		"two callers are none":            {http.Header{"Traceparent": {sampled, sampled}}, 0, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReceiver(t)
			e, _ := open(t, r.URL)
			if got := follow(e.Tracer(hidden(tracing.View{Sample: tc.sample})), request(tc.header)); got != tc.traced {
				t.Errorf("traced: %v, want %v", got, tc.traced)
			}
			shut(t, e)
			if !tc.traced {
				r.got(t, 0)
				return
			}
			s := r.got(t, 1)[0]
			if got := hex.EncodeToString(s.ParentSpanId); got != tc.parent {
				t.Errorf("parent %q, want %q", got, tc.parent)
			}
			if tc.parent != "" && hex.EncodeToString(s.TraceId) != trace {
				t.Errorf("trace %x", s.TraceId)
			}
		})
	}
}

// The share is one of many requests.
func TestSample(t *testing.T) {
	e, _ := open(t, "http://127.0.0.1:9")
	defer closeNow(e)
	tracer, n := e.Tracer(hidden(tracing.View{Sample: 0.25})), 0
	for range 4000 {
		if tracer.Start(request(nil)) != nil {
			n++
		}
	}
	if n < 800 || n > 1200 { // seven standard deviations
		t.Errorf("%d of 4000 are traced, want a quarter", n)
	}
}

// closeNow drops what waits.
func closeNow(e *tracing.Exporter) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = e.Close(ctx) // that spans were dropped is known
}

// A span says what a request was and what became of it, and no address unless addresses are told.
func TestWhatASpanSays(t *testing.T) {
	all := map[string]any{
		"http.request.method": "GET", "url.scheme": "https", "url.path": "/shop", "server.address": "www.example.com", "weir.front": "proxy",
		"weir.action": "pass", "weir.reason": "within limits", "weir.rule": "shop", "weir.client.source": "header", "http.response.status_code": int64(200),
	}
	refused := func(d *weir.Decision, o *weir.Outcome) {
		d.Refuse(weir.AttackFound, 403)
		d.Degraded, d.Inspection.Incident, o.HTTP = true, "ABC", 403
	}
	for name, tc := range map[string]struct {
		edit   func(*weir.Decision, *weir.Outcome)
		view   tracing.View
		want   map[string]any
		failed bool
	}{
		"passed":             {func(*weir.Decision, *weir.Outcome) {}, tracing.View{}, nil, false},
		"addresses are told": {func(*weir.Decision, *weir.Outcome) {}, tracing.View{Addresses: tracing.Told}, map[string]any{"client.address": greeting}, false},
		"a refusal is no error": {refused, tracing.View{}, map[string]any{"weir.action": "reject", "weir.reason": "attack found", "weir.incident": "ABC",
			"weir.degraded": true, "http.response.status_code": int64(403)}, false},
		"the upstream failed": {func(_ *weir.Decision, o *weir.Outcome) {
			o.HTTP, o.Err = 502, errors.New("dial tcp 10.0.0.7:80: refused")
		}, tracing.View{},
			map[string]any{"http.response.status_code": int64(502), "error.type": "_OTHER"}, true},
		"the client left": {func(_ *weir.Decision, o *weir.Outcome) { o.Err = context.Canceled }, tracing.View{}, map[string]any{"error.type": "canceled"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReceiver(t)
			e, _ := open(t, r.URL)
			tc.view.Sample = 1
			req := request(nil)
			d, o := decision(req), weir.Outcome{HTTP: 200}
			tc.edit(d, &o)
			s := e.Tracer(hidden(tc.view)).Start(req)
			s.End(d, o)
			shut(t, e)
			got := r.got(t, 1)[0]
			if diff := cmp.Diff(with(all, tc.want), attributes(got.Attributes)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if failed := got.Status.GetCode() == otlp.Status_STATUS_CODE_ERROR; failed != tc.failed || got.Status.GetMessage() != "" || got.Name != "GET" || got.Kind != otlp.Span_SPAN_KIND_SERVER {
				t.Errorf("%v", got)
			}
			if !strings.Contains(r.of[0], "service.name:weir") || !strings.Contains(r.of[0], "service.version:1.2.3") {
				t.Errorf("resource: %s", r.of)
			}
		})
	}
}

// Parts lie within their request, in its trace.
func TestParts(t *testing.T) {
	r := newReceiver(t)
	e, _ := open(t, r.URL+"/")
	req := request(http.Header{"Traceparent": {sampled}, "Tracestate": {"a=1", "b=2"}})
	s := e.Tracer(hidden(tracing.View{})).Start(req)
	s.Part(engine.PartStore)(errors.New("down"))
	s.Part(engine.PartInspection)(nil)
	out := httptest.NewRequest("GET", "http://10.0.0.7:8080/base/shop?card=4111", nil)
	out.Header = req.Header.Clone()
	out.Header.Set("Baggage", "k=v")
	s.Upstream(out)(503, nil)
	s.End(decision(req), weir.Outcome{HTTP: 503})
	shut(t, e)

	spans := r.got(t, 4)
	whole := spans[3]
	for i, want := range []struct {
		name string
		kind otlp.Span_SpanKind
		all  map[string]any
	}{
		{"store", otlp.Span_SPAN_KIND_INTERNAL, map[string]any{"error.type": "_OTHER"}},
		{"inspection", otlp.Span_SPAN_KIND_INTERNAL, map[string]any{}},
		{"GET", otlp.Span_SPAN_KIND_CLIENT, map[string]any{"http.request.method": "GET", "server.address": "10.0.0.7", "server.port": int64(8080),
			"url.full": "http://10.0.0.7:8080/base/shop", "http.response.status_code": int64(503), "error.type": "503"}},
	} {
		got := spans[i]
		if diff := cmp.Diff(want.all, attributes(got.Attributes)); diff != "" || got.Name != want.name || got.Kind != want.kind {
			t.Errorf("%v (-want +got):\n%s", got, diff)
		}
		if string(got.ParentSpanId) != string(whole.SpanId) || string(got.TraceId) != string(whole.TraceId) ||
			got.StartTimeUnixNano < whole.StartTimeUnixNano || got.EndTimeUnixNano > whole.EndTimeUnixNano {
			t.Errorf("%s is no part of the request: %v", want.name, got)
		}
	}
	want := http.Header{"Traceparent": {"00-" + trace + "-" + hex.EncodeToString(spans[2].SpanId) + "-01"}, "Tracestate": {"a=1,b=2"}, "Baggage": {"k=v"}}
	if diff := cmp.Diff(want, out.Header); diff != "" {
		t.Errorf("the upstream is told (-want +got):\n%s", diff)
	}
}

// The state of a trace that nobody can read belongs to no other.
func TestANewTraceHasNoState(t *testing.T) {
	e, _ := open(t, "http://127.0.0.1:9")
	defer closeNow(e)
	for name, header := range map[string]http.Header{
		"no caller":      {"Tracestate": {"a=1"}},
		"too long":       {"Traceparent": {sampled}, "Tracestate": {"a=" + strings.Repeat("x", 255), "b=" + strings.Repeat("x", 255)}},
		"not to be read": {"Traceparent": {sampled}, "Tracestate": {"=,="}},
	} {
		out := httptest.NewRequest("GET", "http://10.0.0.7/", nil)
		out.Header = header
		e.Tracer(hidden(tracing.View{Sample: 1})).Start(request(header)).Upstream(out)(200, nil)
		if got := out.Header.Get("Tracestate"); got != "" || out.Header.Get("Traceparent") == sampled || out.Header.Get("Traceparent") == "" {
			t.Errorf("%s: %v", name, out.Header)
		}
	}
}

// Strangers choose methods, paths and hosts: no choice keeps spans from being delivered, or makes them long.
func TestStrangersBytes(t *testing.T) {
	r := newReceiver(t)
	e, _ := open(t, r.URL)
	tracer := e.Tracer(hidden(tracing.View{Sample: 1}))
	for _, req := range []weir.Request{
		{Method: "\xff\xfe", Path: "/\xff\x00", Host: "\xff"}, {Method: "BREW" + strings.Repeat("E", 9000), Path: "/" + strings.Repeat("é", 9000), Host: strings.Repeat("h", 9000)}, {},
	} {
		follow(tracer, req)
	}
	shut(t, e)
	for _, s := range r.got(t, 3) {
		if s.Name != "HTTP" || attributes(s.Attributes)["http.request.method"] != "_OTHER" {
			t.Errorf("a method of a stranger's is a name: %v", s)
		}
		for name, value := range attributes(s.Attributes) {
			if text, ok := value.(string); ok && len(text) > 310 {
				t.Errorf("%s: %d bytes", name, len(text))
			}
		}
	}
}

// What is secret in a path is hidden before it goes anywhere.
func TestSecretsAreHidden(t *testing.T) {
	r := newReceiver(t)
	e, _ := open(t, r.URL)
	star := func(string) string { return "*" }
	s := e.Tracer(tracing.View{Sample: 1, HidePath: star, HideHost: star}).Start(request(nil))
	s.Upstream(httptest.NewRequest("GET", "http://10.0.0.7/shop", nil))(200, nil)
	s.End(decision(request(nil)), weir.Outcome{HTTP: 200})
	shut(t, e)
	for _, span := range r.got(t, 2) {
		for name, value := range attributes(span.Attributes) {
			if text, _ := value.(string); strings.Contains(text, "/shop") || strings.Contains(text, "example.com") {
				t.Errorf("%s: %s", name, text)
			}
		}
	}
}

// A collector that does not answer holds nobody up: what it does not take is dropped, and the log says so once.
func TestADeadCollectorHoldsNobodyUp(t *testing.T) {
	r := newReceiver(t)
	r.wait = make(chan struct{})
	e, _ := open(t, r.URL)
	tracer := e.Tracer(hidden(tracing.View{Sample: 1}))
	for range 20_000 {
		follow(tracer, request(nil))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := e.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("closed with %v, want that spans were dropped", err)
	}
	follow(tracer, request(nil)) // who is late is not waited for
	close(r.wait)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.spans) > 4096 {
		t.Errorf("%d spans waited", len(r.spans))
	}
}

// Failure and recovery are said, once each.
func TestFailureIsSaidOnce(t *testing.T) {
	r := newReceiver(t)
	r.answer(http.StatusBadRequest)
	e, written := open(t, r.URL)
	defer shut(t, e)
	tracer := e.Tracer(hidden(tracing.View{Sample: 1}))
	said := func(what string) func() error {
		return func() error {
			follow(tracer, request(nil))
			if written.count(what) == 0 {
				return errors.New("not yet")
			}
			return nil
		}
	}
	if err := proctest.Await(30*time.Second, said("cannot be delivered")); err != nil {
		t.Fatal(err)
	}
	r.answer(0)
	if err := proctest.Await(30*time.Second, said("delivered again")); err != nil {
		t.Fatal(err)
	}
	if written.count("cannot be delivered") != 1 || written.count("level=WARN") != 1 || written.count("level=INFO") != 1 {
		t.Errorf("log: %s", &written.text)
	}
}

// A token for the collector comes from the environment, as OpenTelemetry has it.
func TestHeadersOfTheEnvironment(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20hush")
	r := newReceiver(t)
	e, _ := open(t, r.URL)
	follow(e.Tracer(hidden(tracing.View{Sample: 1})), request(nil))
	shut(t, e)
	r.got(t, 1)
	if r.tokens[0] != "Bearer hush" {
		t.Errorf("%q", r.tokens)
	}
}

func TestEndpoint(t *testing.T) {
	for endpoint, ok := range map[string]bool{
		"http://127.0.0.1:4318": true, "https://otel.example/tenant/v1/traces": true, "": false, "127.0.0.1:4318": false, "ftp://x": false, "http://": false, "http://[": false,
	} {
		e, err := tracing.Open(tracing.Options{Endpoint: endpoint})
		if (err == nil) != ok {
			t.Errorf("%q: %v", endpoint, err)
		}
		if err == nil {
			closeNow(e)
		}
	}
}
