package localdb

import (
	"context"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/limit"
)

// A plan is how one request's hits are divided between the quotas and the store behind.
type plan struct {
	next []limit.State // of each hit on a quota, if it is charged
	rest []weir.Hit    // the other hits
	at   []int         // where they stand in the request
	out  []weir.Status // their answers
}

// divide fills p with the hits that are not on quotas.
func (p *plan) divide(hits []weir.Hit) {
	p.next, p.rest, p.at = p.next[:0], p.rest[:0], p.at[:0]
	for i := range hits {
		p.next = append(p.next, limit.State{})
		if !isQuota(&hits[i]) {
			p.rest, p.at = append(p.rest, hits[i]), append(p.at, i)
		}
	}
	p.out = append(p.out[:0], make([]weir.Status, len(p.rest))...)
}

// tell copies the answers of the store behind to where they belong.
func (p *plan) tell(out []weir.Status) {
	for i, at := range p.at {
		out[at] = p.out[i]
	}
}

// passes reports whether every enforcing hit does.
func passes(hits []weir.Hit, out []weir.Status) bool {
	for i := range hits {
		if !out[i].Allowed && hits[i].Limit.Mode == weir.Enforce {
			return false
		}
	}
	return true
}

// An asking is the Take or Peek of the store behind.
type asking func(context.Context, time.Time, []weir.Hit, []weir.Status) error

// judge fills out and reports whether every enforcing hit passes. ask has the store behind charge its
// part, or look; it is asked only if the quotas pass, and the quotas are charged only if it passes.
func (s *Store) judge(ctx context.Context, ask asking, now time.Time, hits []weir.Hit, out []weir.Status) (bool, error) {
	p, at := &s.plan, limit.Nanos(now)
	p.divide(hits)
	pass := true
	for i := range hits {
		if isQuota(&hits[i]) {
			p.next[i] = limit.Take(hits[i].Limit, s.state(hits[:i], &hits[i], out), at, hits[i].N, &out[i])
			pass = pass && (out[i].Allowed || hits[i].Limit.Mode != weir.Enforce)
		}
	}
	if len(p.rest) > 0 {
		passed, err := s.askBehind(ctx, ask, now, pass)
		if err != nil {
			return false, err
		}
		pass = pass && passed
		p.tell(out)
	}
	if !pass {
		s.uncharged(at, hits, out)
	}
	return pass, nil
}

// state is what h's counter remembers, with what earlier hits of the request take from it.
func (s *Store) state(earlier []weir.Hit, h *weir.Hit, out []weir.Status) limit.State {
	for i := len(earlier) - 1; i >= 0; i-- {
		if e := &earlier[i]; isQuota(e) && out[i].Allowed && string(e.Key) == string(h.Key) {
			return s.plan.next[i]
		}
	}
	if c := s.counts[string(h.Key)]; c != nil {
		return c.state
	}
	return limit.State{}
}

// askBehind has the store behind answer its hits. Where a quota refuses it only looks, and says what
// is left without a charge.
func (s *Store) askBehind(ctx context.Context, ask asking, now time.Time, pass bool) (bool, error) {
	p := &s.plan
	if pass {
		err := ask(ctx, now, p.rest, p.out)
		return err == nil && passes(p.rest, p.out), err
	}
	if err := s.behind.Peek(ctx, now, p.rest, p.out); err != nil || !passes(p.rest, p.out) {
		return false, err // its statuses are those of a refusal already
	}
	free := make([]weir.Status, len(p.rest))
	for i := range p.rest {
		p.rest[i].N = 0
	}
	err := s.behind.Peek(ctx, now, p.rest, free)
	for i := range free {
		p.out[i].Remaining, p.out[i].ResetAfter = free[i].Remaining, free[i].ResetAfter
	}
	return true, err
}

// uncharged has the statuses of the quotas say what is left without a charge.
func (s *Store) uncharged(at int64, hits []weir.Hit, out []weir.Status) {
	for i := range hits {
		if !isQuota(&hits[i]) {
			continue
		}
		var free weir.Status
		var state limit.State
		if c := s.counts[string(hits[i].Key)]; c != nil {
			state = c.state
		}
		limit.Take(hits[i].Limit, state, at, 0, &free)
		out[i].Remaining, out[i].ResetAfter = free.Remaining, free.ResetAfter
	}
}
