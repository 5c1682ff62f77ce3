package tracing_test

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/weirgate/weir/internal/leaktest"
	"github.com/weirgate/weir/internal/proctest"
	"github.com/weirgate/weir/tracing"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A receiver is a collector that keeps what it is sent.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	status int // it answers; 0: 200
	spans  []*otlp.Span
	of     []string // service.name and service.version, of each batch
	tokens []string // Authorization, of each batch
	wait   chan struct{}
}

func newReceiver(t *testing.T) *receiver {
	r := new(receiver)
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) serve(w http.ResponseWriter, q *http.Request) {
	if r.wait != nil {
		<-r.wait
	}
	body, err := io.ReadAll(q.Body)
	var batch collector.ExportTraceServiceRequest
	if err != nil || q.URL.Path != "/v1/traces" || proto.Unmarshal(body, &batch) != nil {
		http.Error(w, "no OTLP", http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status != 0 {
		w.WriteHeader(r.status)
		return
	}
	r.tokens = append(r.tokens, q.Header.Get("Authorization"))
	for _, of := range batch.ResourceSpans {
		r.of = append(r.of, fmt.Sprint(attributes(of.Resource.Attributes)))
		for _, scope := range of.ScopeSpans {
			r.spans = append(r.spans, scope.Spans...)
		}
	}
}

// answer makes the receiver answer with an HTTP status.
func (r *receiver) answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// got waits for n spans and returns them, those of parts before that of their request.
func (r *receiver) got(t *testing.T, n int) []*otlp.Span {
	t.Helper()
	if err := proctest.Await(30*time.Second, func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.spans) < n {
			return fmt.Errorf("%d spans arrived, want %d", len(r.spans), n)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.spans) > n {
		t.Fatalf("%d spans arrived, want %d", len(r.spans), n)
	}
	return r.spans
}

// attributes are all of a span's, by their names.
func attributes(of []*common.KeyValue) map[string]any {
	all := map[string]any{}
	for _, kv := range of {
		switch v := kv.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			all[kv.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			all[kv.Key] = v.IntValue
		case *common.AnyValue_BoolValue:
			all[kv.Key] = v.BoolValue
		default:
			all[kv.Key] = v
		}
	}
	return all
}

// with returns a map that has more in it.
func with(all map[string]any, more map[string]any) map[string]any {
	all = maps.Clone(all)
	maps.Copy(all, more)
	return all
}

// lines are what an exporter logged.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

// open returns an exporter to endpoint, and its log.
func open(t *testing.T, endpoint string) (*tracing.Exporter, *lines) {
	t.Helper()
	written := new(lines)
	e, err := tracing.Open(tracing.Options{Endpoint: endpoint, Version: "1.2.3", Log: slog.New(slog.NewTextHandler(written, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return e, written
}

// hidden is a view that hides nothing.
func hidden(v tracing.View) tracing.View {
	same := func(text string) string { return text }
	v.HidePath, v.HideHost = same, same
	return v
}
