// Package middleware puts Weir before any net/http handler. [Open] does it in one call, by a
// configuration file; [New] is for programs that build the engine themselves.
//
// It is also the one HTTP road of the weir program: its reverse proxy is [Middleware.Wrap] around
// forwarding.
package middleware

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"sync"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/internal/tarpit"
)

// Options say what a middleware is part of. The zero Options are those of an embedded one.
type Options struct {
	// Front is the name of the way in; middleware if empty.
	Front string
	// Peer tells who is at the other end of the connection, in canonical form, and whether it is a unix
	// socket. Nil: as RemoteAddr says.
	Peer func(*http.Request) (addr netip.Addr, unix bool)
}

// A Middleware decides requests before a handler sees them. It is safe for concurrent use.
type Middleware struct {
	engine  *engine.Engine
	front   string
	peer    func(*http.Request) (netip.Addr, bool)
	tarpit  tarpit.Tarpit
	bodies  sync.Pool    // of *[]byte, each empty
	metrics http.Handler // nil but for Open's
}

// New returns a middleware that asks e.
func New(e *engine.Engine, o Options) *Middleware {
	m := &Middleware{engine: e, front: o.Front, peer: o.Peer}
	if m.front == "" {
		m.front = "middleware"
	}
	if m.peer == nil {
		m.peer = func(r *http.Request) (netip.Addr, bool) { return weir.ParsePeer(r.RemoteAddr) }
	}
	return m
}

// Held is how many askers the tarpit holds at this moment.
func (m *Middleware) Held() int { return m.tarpit.Held() }

// A Call is one admitted request on its way through the next handler. It is good until that handler
// returns.
type Call struct {
	Decision *weir.Decision
	Snapshot *engine.Snapshot // the one that decided
	// Outcome is recorded when the handler returns. The handler may fill in Upstream and Err; the rest
	// is seen from outside.
	Outcome weir.Outcome
	Span    engine.Span // nil: the request is not traced

	body    *body
	context callContext // lies here so that Wrap needs no memory of its own
}

// BodyRefused reports whether the body was ended because it is too long, too slow or broken. Whatever the
// handler answers then, what is sent says so.
func (c *Call) BodyRefused() bool { return c.body.fault.Load() != nil }

// FromContext returns the call that ctx belongs to, or nil. Only handlers behind Wrap have one.
func FromContext(ctx context.Context) *Call {
	c, _ := ctx.Value(callKey{}).(*Call)
	return c
}

type callKey struct{}

// callContext is a request's context that knows its call.
type callContext struct {
	context.Context
	call *Call
}

func (c *callContext) Value(key any) any {
	if key == (callKey{}) {
		return c.call
	}
	return c.Context.Value(key)
}

// Wrap returns a handler that hands admitted requests to next.
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	admitted := func(w http.ResponseWriter, r *http.Request, c *Call) {
		c.context = callContext{r.Context(), c}
		next.ServeHTTP(w, r.WithContext(&c.context))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.Serve(w, r, admitted) })
}

// Serve decides r, and either answers it or hands it to next. Whatever happens, the decision is
// recorded exactly once, when the answer ended; what r had in flight is given back then.
func (m *Middleware) Serve(w http.ResponseWriter, r *http.Request, next func(http.ResponseWriter, *http.Request, *Call)) {
	s, req := m.engine.Current(), m.request(r)
	switch {
	case s.Whoami && asks(&req, WhoamiPath):
		req.Trace, next = true, tellWho
	case s.Policy.OwnLimits() && asks(&req, LimitsPath):
		req.OwnLimits, next = true, tellLimits
	}
	v := verdict{snapshot: s}
	if s.Tracer != nil {
		v.span = s.Tracer.Start(req)
	}
	v.decision = m.engine.Decide(r.Context(), v.deciding(), req)
	if v.decision.Refused() {
		m.refuse(w, r, v)
		return
	}
	x := &exchange{house: m, call: Call{Decision: v.decision, Snapshot: s, Span: v.span}, request: r}
	x.w.to, x.w.exchange, x.call.body = w, x, &x.body
	m.admit(x, next)
}

// A verdict is a decision, and what it is recorded with.
type verdict struct {
	snapshot *engine.Snapshot
	decision *weir.Decision
	span     engine.Span // nil: the request is not traced
}

// deciding is the snapshot to decide under.
func (v *verdict) deciding() *engine.Snapshot {
	if v.span == nil {
		return v.snapshot
	}
	return v.snapshot.Traced(v.span)
}

// record records v, once.
func (m *Middleware) record(v verdict, o weir.Outcome) {
	if v.span != nil {
		v.span.End(v.decision, o)
	}
	m.engine.Record(v.snapshot, v.decision, o)
}

// admit hands x to next and sees to its end. A panic goes on to whoever called.
func (m *Middleware) admit(x *exchange, next func(http.ResponseWriter, *http.Request, *Call)) {
	finished := false
	defer func() { m.end(x, finished) }()
	x.pass(next)
	finished = true
}

// errPanicked is the outcome of a handler that did not return.
var errPanicked = errors.New("handler panicked")

// end completes the answer of x and records it. A handler that did not finish panicked, and then
// net/http ends the connection or the stream.
func (m *Middleware) end(x *exchange, finished bool) {
	c, gone := &x.call, x.request.Context().Err()
	if finished && gone == nil {
		x.w.finish()
	}
	x.leave()
	switch {
	case c.Outcome.Err != nil:
	case gone != nil:
		c.Outcome.Err = gone
	case !finished:
		c.Outcome.Err = errPanicked
	}
	v := verdict{c.Snapshot, c.Decision, c.Span}
	c.Decision = nil // whoever kept the call must not read another request's
	c.Outcome.HTTP = x.w.status
	m.record(v, c.Outcome)
}
