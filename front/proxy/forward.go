package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/weirgate/weir/front/proxy/guard"
	"github.com/weirgate/weir/middleware"
)

// forward hands an admitted request to its upstream.
func (p *Proxy) forward(w http.ResponseWriter, r *http.Request, c *middleware.Call) {
	up := pick(c)
	switch {
	case r.Method == http.MethodConnect:
		c.Snapshot.Respond.Problem(w, r, http.StatusNotImplemented, "This is no forward proxy: CONNECT is not served.")
		return
	case oddExpectation(r.Header["Expect"]):
		w.Header().Set("Connection", "close")
		c.Snapshot.Respond.Problem(w, r, http.StatusExpectationFailed, "The expectation is not 100-continue.")
		return
	case r.URL.Path == "*" && r.Method != http.MethodOptions: // RFC 9112 section 3.2.4
		w.Header().Set("Connection", "close")
		c.Snapshot.Respond.Problem(w, r, http.StatusBadRequest, "The target * is for OPTIONS alone.")
		return
	case up == nil:
		c.Snapshot.Respond.Problem(w, r, http.StatusNotFound, "No upstream serves this host and path.")
		return
	}
	if r.ProtoMajor == 1 && r.ContentLength != 0 {
		// The upstream may answer before it has read everything, and go on reading.
		_ = http.NewResponseController(w).EnableFullDuplex() // HTTP/1 over net/http can
	}
	if r.ProtoMajor > 1 {
		patient := newPatient(w, p.options.IdleTimeout)
		defer patient.stop()
		w = patient
	}
	t := &transfer{proxy: p, w: w, in: r, call: c, up: up}
	t.run()
}

// oddExpectation reports whether a request expects something else than 100-continue (RFC 9110 section 10.1.1), or
// that beside others: net/http finds the word in any list, and an upstream may not.
func oddExpectation(lines []string) bool {
	return len(lines) > 1 || len(lines) == 1 && !strings.EqualFold(lines[0], "100-continue")
}

var (
	errUpstreamDied = errors.New("upstream ended its answer early")
	errClientGone   = errors.New("client went away")
	errNotTaken     = fmt.Errorf("%w: it takes nothing more: %w", errClientGone, context.Canceled)
)

// gone is the outcome of a request whose client did not wait.
func gone(ctx context.Context) error { return fmt.Errorf("%w: %w", errClientGone, ctx.Err()) }

// fail answers a request that its upstream did not.
func (t *transfer) fail(err error) {
	ctx := t.in.Context()
	status, detail := http.StatusBadGateway, "The upstream cannot be reached."
	switch fault := faultOf(ctx); {
	case fault != guard.None:
		err = &guard.Error{Fault: fault}
		status, detail = fault.Status(), fault.String()
		t.w.Header().Set("Connection", "close")
	case t.call.BodyRefused(): // the middleware says why
	case t.body.broken.Load():
		status, detail = http.StatusBadRequest, "The request's body is not as long as it said."
		t.w.Header().Set("Connection", "close")
	case ctx.Err() != nil:
		t.abort(err) // who half-closed and still listens must not take nothing for an answer
	case errors.Is(err, errNoLink):
		t.unsent()
		return
	case late(err):
		status, detail = http.StatusGatewayTimeout, "The upstream did not answer in time."
	}
	t.call.Outcome.Err = err
	t.call.Snapshot.Respond.Problem(t.w, t.in, status, detail)
}

// unsent answers a request that there was no connection for. Its upstream was not asked, and has not failed.
func (t *transfer) unsent() {
	t.proxy.refused(NoLink, t.in.RemoteAddr)
	t.call.Outcome.Upstream = 0
	t.w.Header().Set("Retry-After", "1")
	t.call.Snapshot.Respond.Problem(t.w, t.in, http.StatusServiceUnavailable, "Too many requests are being answered at this moment.")
}

// abort ends the connection or the stream, so that the asker sees that something is missing.
func (t *transfer) abort(err error) {
	t.call.Outcome.Err = errUpstreamDied
	switch ctx := t.in.Context(); {
	case ctx.Err() != nil:
		t.call.Outcome.Err = gone(ctx)
	case err == errNotTaken:
		t.call.Outcome.Err = err
	}
	panic(http.ErrAbortHandler)
}

// faultOf returns what was wrong with the body of the request.
func faultOf(ctx context.Context) guard.Fault {
	if conn := guard.From(ctx); conn != nil {
		return conn.Fault()
	}
	return guard.None
}

// late reports whether err is an answer that did not come in time. A connection that was not made in
// time is no answer at all.
func late(err error) bool {
	var timeout net.Error
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return false
	}
	return errors.As(err, &timeout) && timeout.Timeout()
}

// begin notes, as a negative duration, how long after the decision the upstream is asked. answered
// turns that into how long its header took.
func begin(c *middleware.Call) { c.Outcome.Upstream = -max(1, time.Since(c.Decision.At)) }

func answered(c *middleware.Call) { c.Outcome.Upstream += time.Since(c.Decision.At) }
