package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/weirgate/weir/front/proxy/guard"
	"github.com/weirgate/weir/middleware"
)

// forward hands an admitted request to its upstream.
func (p *Proxy) forward(w http.ResponseWriter, r *http.Request) {
	c := middleware.FromContext(r.Context())
	up := pick(c)
	switch {
	case r.Method == http.MethodConnect:
		c.Snapshot.Respond.Problem(w, r, http.StatusNotImplemented, "This is no forward proxy: CONNECT is not served.")
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
	defer interrupted(r.Context(), c)
	begin(c)
	up.proxy.ServeHTTP(w, r)
}

// begin notes, as a negative duration, how long after the decision the upstream was asked. asked turns
// that into how long its header took.
func begin(c *middleware.Call) { c.Outcome.Upstream = -max(1, time.Since(c.Decision.At)) }

func asked(c *middleware.Call) {
	if c.Outcome.Upstream < 0 {
		c.Outcome.Upstream += time.Since(c.Decision.At)
	}
}

// answered is called with the header of the upstream's answer.
func answered(r *http.Response) error {
	asked(middleware.FromContext(r.Request.Context()))
	return nil
}

var (
	errUpstreamDied = errors.New("upstream ended its answer early")
	errClientGone   = errors.New("client went away")
)

// interrupted notes why an answer broke off. The panic is how ReverseProxy tells net/http to end the
// connection or the stream, so that the asker sees that something is missing.
func interrupted(ctx context.Context, c *middleware.Call) {
	why := recover()
	if why == nil {
		return
	}
	if c.Outcome.Err == nil && why == http.ErrAbortHandler {
		c.Outcome.Err = errUpstreamDied
		if ctx.Err() != nil {
			c.Outcome.Err = gone(ctx)
		}
	}
	panic(why)
}

// gone is the outcome of a request whose client did not wait.
func gone(ctx context.Context) error { return fmt.Errorf("%w: %w", errClientGone, ctx.Err()) }

// failed answers a request that its upstream did not.
func failed(w http.ResponseWriter, r *http.Request, err error) {
	c := middleware.FromContext(r.Context())
	asked(c)
	status, detail := http.StatusBadGateway, "The upstream cannot be reached."
	switch fault := faultOf(r.Context()); {
	case fault != guard.None:
		err = &guard.Error{Fault: fault}
		status, detail = fault.Status(), fault.String()
		w.Header().Set("Connection", "close")
	case r.Context().Err() != nil:
		c.Outcome.Err = gone(r.Context())
		return
	case late(err):
		status, detail = http.StatusGatewayTimeout, "The upstream did not answer in time."
	}
	c.Outcome.Err = err
	c.Snapshot.Respond.Problem(w, r, status, detail)
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
