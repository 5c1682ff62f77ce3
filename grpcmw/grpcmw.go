// Package grpcmw puts Weir before the handlers of a grpc-go server. [Open] does it in one call, by a
// configuration file; [New] is for programs that have an engine already, as one that serves HTTP through
// the package middleware, too.
//
// To the configuration a call is a POST of /package.Service/Method. The answers are those of Weir's reverse
// proxy to a gRPC client: a refusal is RESOURCE_EXHAUSTED with RetryInfo, and is not retried.
package grpcmw

import (
	"context"
	"errors"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/embedded"
	"github.com/weirgate/weir/engine"
)

// A Limiter decides calls before their handlers see them. Its two interceptors belong outermost, and
// together: a server has two chains, and a method that streams is seen by the second alone. It is safe for
// concurrent use.
type Limiter struct {
	engine  *engine.Engine
	metrics http.Handler // nil but for Open's
}

// New returns a limiter that asks e.
func New(e *engine.Engine) *Limiter { return &Limiter{engine: e} }

// Open returns a limiter as the configuration file at path says: over the engine of [embedded.Open], which
// is its own. The returned function ends what it runs in the background; it is called when no call is on
// its way any longer.
func Open(path string) (*Limiter, func(), error) {
	return over(embedded.Open(path, embedded.Options{}))
}

// OpenConfig returns a limiter as cfg says, which is [config.Default] with changes: over the engine of
// [embedded.New]. The returned function is that of [Open].
func OpenConfig(cfg *config.Config) (*Limiter, func(), error) {
	return over(embedded.New(cfg, embedded.Options{}))
}

func over(e *embedded.Engine, err error) (*Limiter, func(), error) {
	if err != nil {
		return nil, nil, err
	}
	return &Limiter{e.Engine, e.Metrics()}, e.Close, nil
}

// Metrics serves the metrics of a limiter that [Open] or [OpenConfig] returned, in the Prometheus text
// format. For any other, whose journal somebody else has, it answers 404.
func (l *Limiter) Metrics() http.Handler {
	if l.metrics == nil {
		return http.NotFoundHandler()
	}
	return l.metrics
}

// UnaryServerInterceptor is a [grpc.UnaryServerInterceptor]. What the call has in flight is given back when
// its handler returns.
func (l *Limiter) UnaryServerInterceptor(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	c := l.decide(ctx, info.FullMethod)
	defer c.end()
	if c.decision.Refused() {
		fields, err := c.refuse()
		_ = grpc.SetTrailer(ctx, fields) // fails only where no call is
		return nil, err
	}
	if fields := c.fields(); fields != nil {
		_ = grpc.SetHeader(ctx, fields) // the same
	}
	answer, err := handler(c, req)
	c.answered(err)
	return answer, err
}

// StreamServerInterceptor is a [grpc.StreamServerInterceptor]. A stream is one call, however many messages
// it has, and in flight until its handler returns.
func (l *Limiter) StreamServerInterceptor(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	c := l.decide(stream.Context(), info.FullMethod)
	defer c.end()
	if c.decision.Refused() {
		fields, err := c.refuse()
		stream.SetTrailer(fields)
		return err
	}
	if fields := c.fields(); fields != nil {
		_ = stream.SetHeader(fields) // nothing was sent yet
	}
	err := handler(srv, &admittedStream{stream, c})
	c.answered(err)
	return err
}

// An admittedStream is a stream whose context knows its call.
type admittedStream struct {
	grpc.ServerStream
	context context.Context
}

// Context returns the call's context.
func (s *admittedStream) Context() context.Context { return s.context }

// FromContext returns the decision about the call that ctx belongs to, or nil: only handlers behind a
// limiter have one. It is good until the handler returns.
func FromContext(ctx context.Context) *weir.Decision {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c.decision
	}
	return nil
}

type callKey struct{}

// A call is one call on its way, and its context: to gRPC what came in, to handlers without what poses as
// ours and with what the decision has to tell.
type call struct {
	context.Context
	engine   *engine.Engine
	snapshot *engine.Snapshot
	decision *weir.Decision // nil once it was recorded
	outcome  weir.Outcome
}

// Value knows the call beside what the context knows.
func (c *call) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// decide returns the decided call of ctx. It is to be ended.
func (l *Limiter) decide(ctx context.Context, method string) *call {
	incoming, _ := metadata.FromIncomingContext(ctx)
	s := l.engine.Current()
	c := &call{Context: ctx, engine: l.engine, snapshot: s}
	c.decision = l.engine.Decide(ctx, s, request(ctx, method, incoming))
	c.outcome.Err = errPanicked
	if !s.Policy.Disabled && !c.decision.Refused() {
		c.mark(incoming)
	}
	return c
}

// errPanicked is the outcome of a handler that did not return.
var errPanicked = errors.New("handler panicked")

// answered notes what the call is answered with.
func (c *call) answered(err error) {
	c.outcome = weir.Outcome{HTTP: httpStatus(err), Err: c.Err()}
}

// end records the decision. That of a handler that panicked has no HTTP status.
func (c *call) end() {
	d := c.decision
	c.decision = nil // whoever kept the context must not read another call's
	c.engine.Record(c.snapshot, d, c.outcome)
}
