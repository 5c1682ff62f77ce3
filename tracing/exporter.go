// Package tracing tells a collector of traces about requests, by OpenTelemetry's protocol over HTTP.
//
// It is the only package that knows OpenTelemetry. What is not delivered in time is dropped: no request waits
// for a collector, and what waits to be sent is bounded.
package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

const (
	mostWaiting = 2048             // spans that wait to be sent; more are dropped
	batch       = 512              // spans that are sent at once
	sendEvery   = 2 * time.Second  // unless a batch is full before
	sendWithin  = 10 * time.Second // with all attempts
	attempt     = 4 * time.Second  // one of them
)

// tracesPath is where a collector takes traces if its URL has no path (OTLP 1.x, OTLP/HTTP Request).
const tracesPath = "/v1/traces"

// Options say where spans go.
type Options struct {
	// Endpoint is a collector's URL: http or https. Without a path it is /v1/traces of that host.
	Endpoint string
	Version  string       // of the program
	Log      *slog.Logger // is told when spans cannot be delivered, and when they are again; nil: nobody is
}

// An Exporter sends spans to one collector. It is safe for concurrent use.
type Exporter struct {
	processor sdk.SpanProcessor
	resource  *resource.Resource
	transport *http.Transport
}

// Open returns an exporter to o.Endpoint. The collector is not asked: it may come later. Header fields that it
// wants, such as a token, are taken from OTEL_EXPORTER_OTLP_HEADERS, as OpenTelemetry has it.
func Open(o Options) (*Exporter, error) {
	u, err := parse(o.Endpoint)
	if err != nil {
		return nil, err
	}
	e := &Exporter{
		resource:  resource.NewSchemaless(semconv.ServiceName("weir"), semconv.ServiceVersion(o.Version)),
		transport: &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConns: 1, IdleConnTimeout: time.Minute},
	}
	sender, err := otlptracehttp.New(context.Background(),
		otlptracehttp.WithEndpointURL(u.String()),
		otlptracehttp.WithHTTPClient(&http.Client{Transport: e.transport, Timeout: attempt}),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: time.Second, MaxInterval: attempt, MaxElapsedTime: sendWithin}))
	if err != nil {
		return nil, fmt.Errorf("tracing: %s: %w", u.Redacted(), err)
	}
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	e.processor = sdk.NewBatchSpanProcessor(&reporter{SpanExporter: sender, log: log, to: u.Redacted()},
		sdk.WithMaxQueueSize(mostWaiting), sdk.WithMaxExportBatchSize(batch), sdk.WithBatchTimeout(sendEvery), sdk.WithExportTimeout(sendWithin))
	return e, nil
}

// parse reads the URL of a collector.
func parse(endpoint string) (*url.URL, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("tracing: %q: want a URL, as in http://127.0.0.1:4318", endpoint)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = tracesPath
	}
	return u, nil
}

// Close sends what waits, until ctx ends, and drops what is left. Spans that end afterwards are dropped.
func (e *Exporter) Close(ctx context.Context) error {
	defer e.transport.CloseIdleConnections()
	if err := e.processor.Shutdown(ctx); err != nil {
		return fmt.Errorf("tracing: spans that were not sent are dropped: %w", err)
	}
	return nil
}

// provider returns what makes spans for e.
func (e *Exporter) provider(sample float64) *sdk.TracerProvider {
	limits := sdk.SpanLimits{AttributeValueLengthLimit: -1, AttributeCountLimit: 32} // no events, no links; text is short already
	return sdk.NewTracerProvider(sdk.WithSpanProcessor(e.processor), sdk.WithResource(e.resource), sdk.WithRawSpanLimits(limits),
		sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(sample))))
}

// A reporter says once that spans cannot be delivered, and once that they are again.
type reporter struct {
	sdk.SpanExporter
	log    *slog.Logger
	to     string
	failed atomic.Bool
}

func (r *reporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := r.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err != nil && !r.failed.Swap(true):
		r.log.Warn("traces cannot be delivered and are dropped", "to", r.to, "err", err)
	case err == nil && r.failed.Swap(false):
		r.log.Info("traces are delivered again", "to", r.to)
	}
	return nil // it was said: OpenTelemetry would print it
}

// text is an attribute. Strangers' bytes that are no UTF-8 would keep a whole batch from being sent.
func text(key attribute.Key, value string) attribute.KeyValue {
	return key.String(strings.ToValidUTF8(value[:min(len(value), longestText)], "\uFFFD"))
}
