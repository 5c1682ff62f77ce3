package tracing

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/engine"
)

const (
	longestText  = 300 // bytes of an attribute
	longestState = 512 // bytes of a tracestate that is taken along (W3C Trace Context, section 3.3.1.5)
)

// A View says which requests are traced, and what is told of them.
type View struct {
	// Sample is the share of requests that are traced, from 0 to 1, of those that no traced caller sent: what a
	// caller decided holds.
	Sample float64
	// Addresses is set if clients' addresses are told.
	Addresses Addresses
	// HidePath and HideHost return them without the secrets in them.
	HidePath, HideHost func(string) string
}

// Addresses says whether clients' addresses are told.
type Addresses uint8

const (
	Withheld Addresses = iota
	Told
)

// A Tracer implements engine.Tracer.
type Tracer struct {
	view   View
	tracer trace.Tracer
}

// Tracer returns what traces by v, and sends to e.
func (e *Exporter) Tracer(v View) *Tracer {
	return &Tracer{view: v, tracer: e.provider(v.Sample).Tracer("github.com/weirgate/weir")}
}

// Start implements engine.Tracer.
func (t *Tracer) Start(req weir.Request) engine.Span {
	ctx := propagation.TraceContext{}.Extract(context.Background(), carrier(req.Header))
	method := knownMethod(req.Method)
	name := method
	if name == otherMethod {
		name = "HTTP"
	}
	ctx, s := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer))
	if !s.IsRecording() {
		return nil
	}
	s.SetAttributes(text(semconv.HTTPRequestMethodKey, method), text(semconv.URLSchemeKey, req.Scheme),
		text(semconv.URLPathKey, t.view.HidePath(req.Path)), text(semconv.ServerAddressKey, t.view.HideHost(req.Host)), text("weir.front", req.Front))
	if method == otherMethod {
		s.SetAttributes(text(semconv.HTTPRequestMethodOriginalKey, req.Method))
	}
	return &span{tracer: t, ctx: ctx, span: s, name: name, method: method}
}

// otherMethod stands for a method that is none of the known ones (semantic conventions for HTTP spans).
const otherMethod = "_OTHER"

// knownMethod returns a method of RFC 9110 or RFC 5789, or otherMethod.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodConnect,
		http.MethodOptions, http.MethodTrace:
		return method
	}
	return otherMethod
}

// A carrier is a header that says of which trace a request is a part. Several lines are one list, so that two
// callers are none (W3C Trace Context, sections 3.2 and 3.3).
type carrier http.Header

// Get implements propagation.TextMapCarrier.
func (c carrier) Get(key string) string {
	value := strings.Join(http.Header(c).Values(key), ",")
	if len(value) > longestState {
		return ""
	}
	return value
}

// Set implements propagation.TextMapCarrier.
func (c carrier) Set(key, value string) { http.Header(c).Set(key, value) }

// Keys implements propagation.TextMapCarrier.
func (c carrier) Keys() []string { return propagation.TraceContext{}.Fields() }

// rest is what the span of a request says at its end.
func (t *Tracer) rest(d *weir.Decision, o weir.Outcome) []attribute.KeyValue {
	all := []attribute.KeyValue{
		text("weir.action", d.Action.String()), text("weir.reason", string(d.Reason)), text("weir.client.source", d.Client.Source.String()),
	}
	if d.Rule != nil {
		all = append(all, text("weir.rule", d.Rule.Name))
	}
	if d.Degraded {
		all = append(all, attribute.Bool("weir.degraded", true))
	}
	if d.Inspection.Incident != "" {
		all = append(all, text("weir.incident", d.Inspection.Incident))
	}
	if t.view.Addresses == Told && d.Client.Addr.IsValid() {
		all = append(all, text(semconv.ClientAddressKey, d.Client.Addr.String()))
	}
	if o.HTTP != 0 {
		all = append(all, semconv.HTTPResponseStatusCode(o.HTTP))
	}
	return all
}
