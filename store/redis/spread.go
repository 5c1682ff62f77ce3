package redis

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/weirgate/weir"
)

// A part is the hits of a request whose counters share a slot.
type part struct {
	slot  int
	at    []int // where its hits stand in the request
	least int64 // the smallest capacity among its limits
	job   *job
}

// split sorts the calls of j, a request, by their slots: the narrowest limit first, so that those
// which many share are charged last.
func split(j *job) []*part {
	var parts []*part
	for i := range j.calls {
		c := &j.calls[i]
		n := slot(c.key)
		k := slices.IndexFunc(parts, func(p *part) bool { return p.slot == n })
		if k < 0 {
			k = len(parts)
			parts = append(parts, &part{slot: n, least: c.limit.Capacity(), job: newJob(1)})
		}
		p := parts[k]
		p.at, p.least = append(p.at, i), min(p.least, c.limit.Capacity())
		p.job.calls = append(p.job.calls, *c)
	}
	for _, p := range parts {
		for i := range p.job.calls {
			p.job.calls[i].last = i == len(p.job.calls)-1
		}
	}
	slices.SortStableFunc(parts, func(a, b *part) int { return cmp.Compare(a.least, b.least) })
	return parts
}

// fill puts the part's statuses where they belong.
func (p *part) fill(out []weir.Status) {
	for i, at := range p.at {
		p.job.status(i, &out[at])
	}
}

// takeSpread charges a request slot by slot. If one refuses or does not answer, what was charged is
// given back.
func (s *Store) takeSpread(ctx context.Context, whole *job, until time.Duration, hits []weir.Hit, out []weir.Status) error {
	parts := split(whole)
	for i, p := range parts {
		if err := s.run(ctx, p.job, until); err != nil {
			s.work.Go(func() { _ = s.refund(context.Background(), parts[:i], s.clock()+s.timeout, nil) })
			return err
		}
		p.fill(out)
		if p.refuses(out) {
			return s.undo(ctx, parts, i, until, out)
		}
	}
	for _, p := range parts {
		s.leases.holdPart(p, hits, out, s.clock())
	}
	return nil
}

// refuses reports whether an enforcing hit of the part is over its limit.
func (p *part) refuses(out []weir.Status) bool {
	return slices.ContainsFunc(p.at, func(at int) bool {
		return !out[at].Allowed && out[at].Limit.Mode == weir.Enforce
	})
}

// undo gives back what the parts before the one that refused were charged, and fills out with what
// holds then; of those after it with what they would have said.
func (s *Store) undo(ctx context.Context, parts []*part, refused int, until time.Duration, out []weir.Status) error {
	if err := s.refund(ctx, parts[:refused], until, out); err != nil {
		return err
	}
	for _, p := range parts[refused+1:] {
		for i := range p.job.calls {
			p.job.calls[i].op = opPeek
		}
		if err := s.run(ctx, p.job, until); err != nil {
			return err
		}
		p.fill(out)
		if !p.refuses(out) {
			if err := s.look(ctx, p, until, out); err != nil {
				return err
			}
		}
	}
	return nil
}

// refund gives back what parts were charged, and fills out, unless it is nil, with what is left then.
func (s *Store) refund(ctx context.Context, parts []*part, until time.Duration, out []weir.Status) (err error) {
	for _, p := range parts {
		j := newJob(2 * len(p.at))
		j.owed = true // even if nobody waits for it
		for i, c := range p.job.calls {
			var st weir.Status
			if p.job.status(i, &st); c.n == 0 || !st.Allowed {
				continue
			}
			c.at = p.job.now
			if c.withLease() {
				j.calls = append(j.calls, c.as(opRelease))
			} else {
				j.calls = append(j.calls, c.as(opRefund))
			}
		}
		if len(j.calls) > 0 {
			if e := s.run(ctx, j, until); e != nil {
				s.leases.owe(j.calls, s.clock())
				err = e
			}
		}
		if err == nil && out != nil {
			err = s.look(ctx, p, until, out)
		}
	}
	return err
}

// look fills out with what is left of the part's limits, without a charge.
func (s *Store) look(ctx context.Context, p *part, until time.Duration, out []weir.Status) error {
	j := newJob(len(p.at))
	for _, c := range p.job.calls {
		c.op, c.n = opPeek, 0
		j.calls = append(j.calls, c.as(opPeek))
	}
	if err := s.run(ctx, j, until); err != nil {
		return err
	}
	for i, at := range p.at {
		var free weir.Status
		j.status(i, &free)
		out[at].Remaining, out[at].ResetAfter = free.Remaining, free.ResetAfter
	}
	return nil
}

// holdPart is hold for a part of a request.
func (s *leases) holdPart(p *part, hits []weir.Hit, out []weir.Status, now time.Duration) {
	mine, said := make([]weir.Hit, len(p.at)), make([]weir.Status, len(p.at))
	for i, at := range p.at {
		mine[i], said[i] = hits[at], out[at]
	}
	s.hold(p.job, mine, said, now)
}

// peekSpread asks slot by slot. If something refuses, what is told of the rest holds without a charge.
func (s *Store) peekSpread(ctx context.Context, whole *job, until time.Duration, hits []weir.Hit, out []weir.Status) error {
	parts := split(whole)
	for _, p := range parts {
		if err := s.run(ctx, p.job, until); err != nil {
			return err
		}
		p.fill(out)
	}
	if !refuses(hits, out) {
		return nil
	}
	for _, p := range parts {
		if err := s.look(ctx, p, until, out); err != nil {
			return err
		}
	}
	return nil
}
