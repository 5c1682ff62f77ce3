package envoyrls

import (
	"math"
	"net/http"
	"strconv"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/engine"
)

// answer turns the store's statuses into the answer, and completes the decision.
func (s *Server) answer(snapshot *engine.Snapshot, c *call) *pb.RateLimitResponse {
	if c.d.Ban != nil {
		return banAnswer(snapshot, c)
	}
	a := &pb.RateLimitResponse{Statuses: make([]*pb.RateLimitResponse_DescriptorStatus, len(c.request.Descriptors))}
	statuses := make([]pb.RateLimitResponse_DescriptorStatus, len(a.Statuses))
	resets := make([]durationpb.Duration, len(c.d.Statuses))
	for i := range statuses {
		a.Statuses[i] = &statuses[i]
		statuses[i].Code = pb.RateLimitResponse_OK
		if i < len(c.asked) {
			c.tell(i, &statuses[i], resets)
		}
	}
	s.count(c)
	a.OverallCode = s.overall(c, statuses)
	if a.OverallCode == pb.RateLimitResponse_OVER_LIMIT {
		c.d.Action, c.d.Reason, c.d.HTTP = weir.Reject, weir.OverLimit, http.StatusTooManyRequests
	}
	if s.options.Counting == Own {
		ownHeaders(snapshot, c.d, a)
	} else if s.options.Settings.Headers != nil {
		a.ResponseHeadersToAdd = s.options.Settings.Headers.of(s.closest(c, statuses))
	}
	if s.options.Settings.DynamicMetadata {
		a.DynamicMetadata = s.metadata(c, statuses)
	}
	return a
}

// tell fills in the status of the i-th descriptor.
func (c *call) tell(i int, to *pb.RateLimitResponse_DescriptorStatus, resets []durationpb.Duration) {
	a := &c.asked[i]
	switch {
	case a.limit == nil:
	case a.limit.from.Unlimited:
		to.LimitRemaining = math.MaxUint32
	case a.hit < len(c.d.Statuses): // the store has answered
		st := &c.d.Statuses[a.hit]
		resets[a.hit].Seconds = wholeSeconds(untilReset(st))
		to.CurrentLimit, to.DurationUntilReset = a.limit.told, &resets[a.hit]
		to.LimitRemaining = uint32(min(max(st.Remaining, 0), math.MaxUint32))
		if st.Allowed || a.refund {
			break
		}
		to.LimitRemaining = 0
		if !a.limit.from.Shadow {
			to.Code = pb.RateLimitResponse_OVER_LIMIT
		}
	}
}

// untilReset is when what was refused passes, else when the counter is as new.
func untilReset(st *weir.Status) time.Duration {
	if st.RetryAfter > 0 {
		return st.RetryAfter
	}
	return st.ResetAfter
}

// overall is OVER_LIMIT if an ordinary limit is over, or if there are quotas and all are over.
func (s *Server) overall(c *call, statuses []pb.RateLimitResponse_DescriptorStatus) pb.RateLimitResponse_Code {
	ordinary, quotas, quotasOver := false, 0, 0
	for i := range statuses {
		over := statuses[i].Code == pb.RateLimitResponse_OVER_LIMIT
		switch {
		case c.isQuota(s, i):
			quotas++
			if over {
				quotasOver++
			}
		case over:
			ordinary = true
		}
	}
	switch {
	case !ordinary && (quotas == 0 || quotasOver < quotas):
		return pb.RateLimitResponse_OK
	case s.options.Settings.Shadow:
		s.metrics.globalShadow.Add(1)
		return pb.RateLimitResponse_OK
	}
	return pb.RateLimitResponse_OVER_LIMIT
}

// isQuota reports whether the i-th descriptor is a quota. Unlimited ones are none.
func (c *call) isQuota(s *Server, i int) bool {
	if i >= len(c.asked) {
		return false
	}
	l := c.asked[i].limit
	if l != nil && l.from.Unlimited {
		return false
	}
	return s.options.Settings.Quota || l != nil && l.from.Quota
}

// closest returns the status with the fewest left among those with a limit, the first of several; or the
// last that an ordinary limit refused; or nil.
func (s *Server) closest(c *call, statuses []pb.RateLimitResponse_DescriptorStatus) *pb.RateLimitResponse_DescriptorStatus {
	var found *pb.RateLimitResponse_DescriptorStatus
	for i := range statuses {
		st := &statuses[i]
		switch {
		case st.CurrentLimit == nil:
		case st.Code == pb.RateLimitResponse_OVER_LIMIT && !c.isQuota(s, i):
			found = st
		case found == nil || st.LimitRemaining < found.LimitRemaining:
			found = st
		}
	}
	return found
}

func (h *HeaderNames) withDefaults() *HeaderNames {
	full := *h
	for name, text := range map[*string]string{&full.Limit: "RateLimit-Limit", &full.Remaining: "RateLimit-Remaining", &full.Reset: "RateLimit-Reset"} {
		if *name == "" {
			*name = text
		}
	}
	return &full
}

// of returns the headers that tell of st, or none.
func (h *HeaderNames) of(st *pb.RateLimitResponse_DescriptorStatus) []*corev3.HeaderValue {
	if st == nil {
		return nil
	}
	return []*corev3.HeaderValue{
		{Key: h.Limit, Value: strconv.FormatUint(uint64(st.CurrentLimit.RequestsPerUnit), 10)},
		{Key: h.Remaining, Value: strconv.FormatUint(uint64(st.LimitRemaining), 10)},
		{Key: h.Reset, Value: strconv.FormatInt(st.DurationUntilReset.Seconds, 10)},
	}
}

// count notes the hits for the metrics, and leaves no status with less than nothing: how far a counter of
// Compat is above its limit is told there.
func (s *Server) count(c *call) {
	for i := range c.asked {
		a := &c.asked[i]
		if a.hit < 0 || a.hit >= len(c.d.Statuses) || a.limit == nil || a.limit.from.Unlimited {
			continue
		}
		st := &c.d.Statuses[a.hit]
		a.stats.note(a, st)
		st.Remaining = max(st.Remaining, 0)
	}
}
