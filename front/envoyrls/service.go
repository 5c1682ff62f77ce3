package envoyrls

import (
	"context"
	"net/http"
	"runtime/debug"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/engine"
)

// frontName is this front's in Request.Front.
const frontName = "rls"

const (
	// mostDescriptors is how many descriptors one request may have, and mostHits how many of them are
	// counted. A proxy asks with a handful; many more would keep the store from answering others.
	mostDescriptors = 1 << 14
	mostHits        = 1 << 10
)

// panicked is the reason of an answer that a fault of ours made.
const panicked weir.Reason = "internal error"

// ShouldRateLimit implements envoy.service.ratelimit.v3.RateLimitService. An error is InvalidArgument,
// FailedPrecondition without a configuration, Unavailable if the store could not count, or Internal; never
// Unknown.
func (s *Server) ShouldRateLimit(ctx context.Context, req *pb.RateLimitRequest) (answer *pb.RateLimitResponse, err error) {
	began := time.Now()
	snapshot := s.engine.Current()
	c := s.calls.get()
	c.request, c.rules, c.d = req, s.current.Load(), s.engine.Begin(weir.Request{Front: frontName})
	s.under.Add(1)
	defer func() {
		if v := recover(); v != nil {
			s.options.Logger.Error("panic in the rate limit service", "value", v, "stack", string(debug.Stack()))
			c.d.Statuses = c.d.Statuses[:0] // who knows which of them are filled
			answer, err = nil, refuse(c.d, panicked, codes.Internal, "internal error")
		}
		s.end(snapshot, c)
		s.metrics.took(time.Since(began), err)
	}()
	if err := s.decide(ctx, snapshot, c); err != nil {
		return nil, err
	}
	return s.answer(snapshot, c), nil
}

// end records what became of the call.
func (s *Server) end(snapshot *engine.Snapshot, c *call) {
	d := c.d
	if cap(d.Keys) > mostKeyBytes {
		d.Keys = nil // it would be kept for the next request
	}
	s.calls.put(c)
	s.engine.Record(snapshot, d, weir.Outcome{HTTP: d.HTTP})
	s.under.Add(-1)
}

// decide fills the call's decision. An error is the answer.
func (s *Server) decide(ctx context.Context, snapshot *engine.Snapshot, c *call) error {
	d := c.d
	d.Action, d.Reason, d.HTTP = weir.Pass, weir.WithinLimits, http.StatusOK
	switch {
	case c.request.GetDomain() == "":
		return refuse(d, weir.BadRequest, codes.InvalidArgument, "rate limit domain must not be empty")
	case len(c.request.GetDescriptors()) == 0:
		return refuse(d, weir.BadRequest, codes.InvalidArgument, "rate limit descriptor list must not be empty")
	case len(c.request.GetDescriptors()) > mostDescriptors:
		return refuse(d, weir.BadRequest, codes.InvalidArgument, "too many descriptors")
	case c.rules == nil:
		return refuse(d, weir.BadRequest, codes.FailedPrecondition, "no rate limit configuration loaded")
	case snapshot.Policy != nil && snapshot.Policy.Disabled:
		d.Reason = weir.Disabled
		return nil
	case s.options.Counting == Own && !s.options.Settings.Shadow && c.banned(snapshot):
		return nil
	}
	c.find(s)
	if c.hits(s.options.OnFailure); len(d.Hits) > mostHits {
		d.Hits, d.Statuses = nil, nil
		return refuse(d, weir.BadRequest, codes.InvalidArgument, "too many descriptors with a limit")
	}
	if len(d.Hits) == 0 {
		return nil
	}
	return s.charge(ctx, snapshot, c)
}

// charge asks the store.
func (s *Server) charge(ctx context.Context, snapshot *engine.Snapshot, c *call) (err error) {
	d := c.d
	if s.options.Counting == Own {
		err = s.engine.Charge(ctx, snapshot, d)
	} else {
		err = s.options.Store.Take(ctx, d.At, d.Hits, d.Statuses)
	}
	if err == nil {
		for i := range d.Statuses {
			d.Degraded = d.Degraded || d.Statuses[i].Degraded
		}
		return nil
	}
	d.Statuses = d.Statuses[:0]
	d.Degraded = ctx.Err() == nil // an asker that has gone is nobody's failure
	if s.options.OnFailure == weir.FailAllow {
		d.Reason = weir.StoreFailed
		return nil
	}
	s.metrics.storeFailures.Add(1)
	return refuse(d, weir.StoreFailed, codes.Unavailable, "the request cannot be counted at the moment")
}

// refuse makes d a refusal without an answer, and returns the error that stands for it.
func refuse(d *weir.Decision, reason weir.Reason, code codes.Code, text string) error {
	d.Action, d.Reason, d.HTTP = weir.Reject, reason, httpStatus(code)
	return status.Error(code, text)
}

// httpStatus is what /json answers for an error.
func httpStatus(code codes.Code) int {
	switch code {
	case codes.Unavailable:
		return http.StatusServiceUnavailable
	case codes.Internal:
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}
