package memory

import (
	"github.com/weirgate/weir"
	"github.com/weirgate/weir/limit"
)

// A plan is one of several hits: where its counter is, and what becomes of it if all may be charged.
type plan struct {
	shard  *shard
	index  int // the shard's
	hash   uint64
	passes bool
	next   limit.State
}

// plan appends a plan for each hit.
func (s *Store) plan(plans []plan, hits []weir.Hit) []plan {
	for i := range hits {
		hash, sh := s.place(hits[i].Key)
		plans = append(plans, plan{shard: sh, index: sh.index, hash: hash})
	}
	return plans
}

// lock locks the plans' shards, each once and in the order of their indexes, so that no two calls
// wait for each other.
func (s *Store) lock(plans []plan) {
	for i := nextShard(plans, -1); i >= 0; i = nextShard(plans, i) {
		s.shards[i].mu.Lock()
	}
}

func (s *Store) unlock(plans []plan) {
	for i := nextShard(plans, -1); i >= 0; i = nextShard(plans, i) {
		s.shards[i].mu.Unlock()
	}
}

// nextShard is the lowest index of a shard above last, or -1.
func nextShard(plans []plan, last int) int {
	next := -1
	for i := range plans {
		if p := plans[i].index; p > last && (next < 0 || p < next) {
			next = p
		}
	}
	return next
}

// judge fills out and reports whether every enforcing hit passes. If one does not, the others'
// statuses say what is left without a charge.
func judge(plans []plan, at int64, hits []weir.Hit, out []weir.Status) bool {
	pass := true
	for i := range plans {
		plans[i].judge(plans[:i], at, hits, &out[i])
		pass = pass && (out[i].Allowed || hits[i].Limit.Mode != weir.Enforce)
	}
	if pass {
		return true
	}
	for i := range plans {
		var free weir.Status
		plans[i].shard.look(plans[i].hash, at, &hits[i], &free)
		out[i].Remaining, out[i].ResetAfter = free.Remaining, free.ResetAfter
	}
	return false
}

// judge decides hits[len(earlier)]: what earlier hits of the same request take from the same counter
// is taken into account.
func (p *plan) judge(earlier []plan, at int64, hits []weir.Hit, out *weir.Status) {
	h := &hits[len(earlier)]
	held, state := int64(0), p.shard.state(p.hash)
	for i := range earlier {
		if e := &earlier[i]; e.hash == p.hash && e.shard == p.shard && e.passes {
			held, state = held+max(hits[i].N, 0), e.next
		}
	}
	if h.Limit.Algorithm == weir.SlidingLog {
		p.shard.log(p.hash).Look(h.Limit, at, held, h.N, out)
	} else {
		p.next = limit.Take(h.Limit, state, at, h.N, out)
	}
	p.passes = out.Allowed
}

// charge makes the plan's hit count, unless it is a shadow that is over its limit.
func (p *plan) charge(at int64, h *weir.Hit, st *weir.Status) {
	if p.passes && h.N > 0 {
		p.shard.charge(p.hash, at, h, p.next, st)
	}
}
