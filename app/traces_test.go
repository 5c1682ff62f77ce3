package app

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A collector keeps the spans that it is sent.
type traceCollector struct {
	url   string
	mu    sync.Mutex
	spans []*otlp.Span
}

func newTraceCollector(t *testing.T) *traceCollector {
	c := new(traceCollector)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var batch collector.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(body, &batch) != nil {
			http.Error(w, "no OTLP", http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, of := range batch.ResourceSpans {
			for _, scope := range of.ScopeSpans {
				c.spans = append(c.spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(s.Close)
	c.url = s.URL
	return c
}

// said is one line for each span that arrived: its name, and some of what it says.
func (c *traceCollector) said() (lines []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		line := s.Name
		for _, a := range s.Attributes {
			switch a.Key {
			case "http.response.status_code", "weir.rule", "weir.reason", "url.path", "client.address":
				line += fmt.Sprintf(" %s=%v%v", a.Key, a.Value.GetStringValue(), cmpInt(a.Value.GetIntValue()))
			}
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

func cmpInt(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

const fromOutside = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// traced asks for a path as a caller does who traces, and returns the HTTP status.
func (h *house) traced(path string) int {
	h.t.Helper()
	a, err := ask(client(h.t, false), h.url(path), "Traceparent", fromOutside)
	if err != nil {
		h.t.Fatal(err)
	}
	return a.status
}

// A request is followed through Weir to its service: by the service under the name of the span that Weir has for
// it. Refusals are followed, too. What waits is sent before the process ends.
func TestRequestsAreTraced(t *testing.T) {
	c, heard := newTraceCollector(t), make(chan string, 10)
	h := build(t, plan{
		yaml: basics + "tracing: {otlp_endpoint: \"" + c.url + "\"}\nlog: {addresses: full}\nwaf: {ruleset: fast}\n" +
			"rules: [{name: shop, path: /shop, limits: [{rate: 1/1h}]}]\ndefault: {limits: []}\n",
		service: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { heard <- r.Header.Get("Traceparent") }),
	})
	var statuses []int
	for _, path := range []string{"/shop", "/shop", "/pay/4111111111111111", "/x?q=1%27%20OR%20%271%27=%271"} {
		statuses = append(statuses, h.traced(path))
	}
	statuses = append(statuses, h.get("/free").status)
	if !slices.Equal(statuses, []int{200, 429, 200, 403, 200}) {
		t.Fatalf("HTTP statuses %v", statuses)
	}
	if err := h.end(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"GET http.response.status_code=200", "GET http.response.status_code=200",
		"GET url.path=/pay/[card] weir.reason=within limits weir.rule=default client.address=127.0.0.1 http.response.status_code=200",
		"GET url.path=/shop weir.reason=over limit weir.rule=shop client.address=127.0.0.1 http.response.status_code=429",
		"GET url.path=/shop weir.reason=within limits weir.rule=shop client.address=127.0.0.1 http.response.status_code=200",
		"GET url.path=/x weir.reason=attack found weir.rule=default client.address=127.0.0.1 http.response.status_code=403",
		"inspection", "inspection", "inspection", "store", "store", "store", "store",
	}
	if diff := cmp.Diff(want, c.said()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	first := <-heard
	if i := slices.IndexFunc(c.spans, func(s *otlp.Span) bool {
		return s.Kind == otlp.Span_SPAN_KIND_CLIENT && strings.Contains(first, "-"+hex.EncodeToString(s.SpanId)+"-01")
	}); i < 0 || !strings.HasPrefix(first, fromOutside[:36]) {
		t.Errorf("the service was called by %s", first)
	}
	if <-heard; len(heard) != 1 || <-heard != "" {
		t.Error("a request that is not traced got a trace")
	}
}

// Tracing begins, changes and ends with a reload, and what waits is sent then.
func TestTracingIsReloaded(t *testing.T) {
	first, second := newTraceCollector(t), newTraceCollector(t)
	h := build(t, plan{yaml: basics})
	to := func(tracing string) {
		write(t, h.file, basics+tracing)
		if err := h.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	ask := func() { h.traced("/") }
	ask()
	to("tracing: {otlp_endpoint: \"" + first.url + "\"}\n")
	ask()
	to("tracing: {otlp_endpoint: \"" + first.url + "\", sample: 1}\n")
	h.get("/")
	to("tracing: {otlp_endpoint: \"" + second.url + "\"}\n")
	if n := len(first.said()); n == 0 {
		t.Error("what waited for the first collector was not sent")
	}
	ask()
	to("")
	ask()
	h.get("/")
	for name, c := range map[string]*traceCollector{"first": first, "second": second} {
		requests := slices.DeleteFunc(c.said(), func(line string) bool { return !strings.Contains(line, "url.path") })
		if want := map[string]int{"first": 2, "second": 1}[name]; len(requests) != want {
			t.Errorf("%s: %d requests, want %d: %q", name, len(requests), want, requests)
		}
	}
}

// A collector that is away keeps nobody from starting, asking or ending.
func TestNoCollector(t *testing.T) {
	h := build(t, plan{yaml: basics + "tracing: {otlp_endpoint: \"http://127.0.0.1:9\", sample: 1}\n"})
	for range 3 {
		if a := h.get("/"); a.status != 200 {
			t.Fatalf("%+v", a)
		}
	}
	if err := h.end(); err != nil {
		t.Error(err)
	}
	if n := len(h.logs.lines("traces cannot be delivered")) + len(h.logs.lines("dropped")); n == 0 {
		t.Error("the log does not say that traces are dropped")
	}
}
