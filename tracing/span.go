package tracing

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/weirgate/weir"
)

// A span is one traced request.
type span struct {
	tracer       *Tracer
	ctx          context.Context // of the request's span
	span         trace.Span
	name, method string
}

// Part implements engine.Span.
func (s *span) Part(name string) func(error) {
	_, part := s.tracer.tracer.Start(s.ctx, name, trace.WithSpanKind(trace.SpanKindInternal))
	return func(err error) {
		fail(part, err)
		part.End()
	}
}

// Upstream implements engine.Span. The URL is told without its query.
func (s *span) Upstream(out *http.Request) func(int, error) {
	ctx, part := s.tracer.tracer.Start(s.ctx, s.name, trace.WithSpanKind(trace.SpanKindClient))
	out.Header.Del("Tracestate") // it belongs to the trace that it came with
	propagation.TraceContext{}.Inject(ctx, carrier(out.Header))
	part.SetAttributes(text(semconv.HTTPRequestMethodKey, s.method), text(semconv.ServerAddressKey, out.URL.Hostname()),
		text(semconv.URLFullKey, out.URL.Scheme+"://"+out.URL.Host+s.tracer.view.HidePath(out.URL.EscapedPath())))
	if port, err := strconv.Atoi(out.URL.Port()); err == nil {
		part.SetAttributes(semconv.ServerPort(port))
	}
	return func(status int, err error) {
		if status != 0 {
			part.SetAttributes(semconv.HTTPResponseStatusCode(status))
		}
		if status >= http.StatusBadRequest { // for a caller it is an error
			failed(part, strconv.Itoa(status))
		}
		fail(part, err)
		part.End()
	}
}

// End implements engine.Span. A refusal is no error: it is what Weir is for.
func (s *span) End(d *weir.Decision, o weir.Outcome) {
	s.span.SetAttributes(s.tracer.rest(d, o)...)
	if o.HTTP >= http.StatusInternalServerError {
		failed(s.span, strconv.Itoa(o.HTTP))
	}
	fail(s.span, o.Err)
	s.span.End()
}

// fail notes that a span failed, if it did.
func fail(s trace.Span, err error) {
	switch {
	case err == nil:
	case errors.Is(err, context.Canceled):
		failed(s, "canceled")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		failed(s, "timeout")
	default:
		failed(s, semconv.ErrorTypeOther.Value.AsString())
	}
}

// failed notes a failure by one of few words. What an error says may name addresses.
func failed(s trace.Span, kind string) {
	s.SetAttributes(attribute.Key(semconv.ErrorTypeKey).String(kind))
	s.SetStatus(codes.Error, "")
}
