package envoyrls

import (
	"sync"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/front/envoyrls/descriptors"
)

// A call is one question under way, with the memory that the next one uses again.
type call struct {
	request *pb.RateLimitRequest
	rules   *rules
	d       *weir.Decision
	asked   []asked

	entries []descriptors.Entry
	match   descriptors.Match
}

// An asked is one descriptor of a request, and what applies to it.
type asked struct {
	limit    *limit // nil: none applies
	stats    *series
	n        int64 // what it costs
	refund   bool  // its hits were to be given back
	from, to int   // of its key, in the decision's Keys
	tag      int   // bytes of its key's tag
	hit      int   // of the decision's; -1: it is not counted
}

const (
	// mostCost is what one descriptor may cost. No limit is as high.
	mostCost = 1 << 52
	// mostKept is of how many descriptors the memory is kept.
	mostKept = 64
	// mostKeyBytes is of how many bytes of keys the memory is kept.
	mostKeyBytes = 1 << 14
)

type callPool struct{ pool sync.Pool }

func (p *callPool) get() *call {
	if c, _ := p.pool.Get().(*call); c != nil {
		return c
	}
	return new(call)
}

func (p *callPool) put(c *call) {
	if cap(c.asked) > mostKept || cap(c.entries) > mostKept {
		return
	}
	clear(c.asked)
	clear(c.entries)
	clear(c.match.Entries)
	*c = call{asked: c.asked[:0], entries: c.entries[:0], match: descriptors.Match{Entries: c.match.Entries[:0]}}
	p.pool.Put(c)
}

// find finds what applies to each descriptor, and writes the keys of what is counted.
func (c *call) find(s *Server) {
	ofRequest := int64(max(c.request.GetHitsAddend(), 1))
	for _, descriptor := range c.request.GetDescriptors() {
		a := asked{n: ofRequest, hit: -1}
		if own := descriptor.GetHitsAddend(); own != nil {
			a.n = int64(min(own.GetValue(), mostCost))
		}
		if a.refund = descriptor.GetIsNegativeHits(); a.refund {
			a.n = 0
		}
		c.apply(s, descriptor, &a)
		c.asked = append(c.asked, a)
	}
	c.replace()
}

// apply finds the limit of one descriptor. One that it brings along with a unit that is known takes the place of
// the configuration's.
func (c *call) apply(s *Server, descriptor *ratelimitv3.RateLimitDescriptor, a *asked) {
	c.entries = c.entries[:0]
	for _, e := range descriptor.GetEntries() {
		c.entries = append(c.entries, descriptors.Entry{Key: e.GetKey(), Value: e.GetValue()})
	}
	domain := c.request.GetDomain()
	c.rules.set.Find(domain, c.entries, &c.match)
	if !c.match.Domain {
		return
	}
	c.d.Rule = c.rules.rule(domain)
	counted := c.match.Entries
	if own := descriptor.GetLimit(); own != nil && overrideUnit(own.GetUnit()) != descriptors.NoUnit {
		unit := overrideUnit(own.GetUnit())
		a.limit = s.newLimit(descriptors.Limit{Unit: unit, Window: unit.Window(), PerUnit: own.GetRequestsPerUnit(), Metric: overrideMetric})
		a.stats = s.metrics.override(domain)
		counted = c.entries
	} else if c.match.Limit != nil {
		a.limit = c.rules.limit(domain, c.match.Limit)
		a.stats = a.limit.stats
		if c.match.Metric != c.match.Limit.Metric {
			a.stats = s.metrics.askedFor(domain, c.match.Metric)
		}
	}
	if a.limit != nil && !a.limit.from.Unlimited {
		a.from = len(c.d.Keys)
		c.d.Keys, a.tag = s.appendKey(c.d.Keys, keyed{domain, counted, &a.limit.counted, c.d.At})
		a.to = len(c.d.Keys)
	}
}

// replace takes away the limits whose names others say that they replace, wherever these stand, and also
// if they are taken away themselves.
func (c *call) replace() {
	var names map[string]bool
	for i := range c.asked {
		if l := c.asked[i].limit; l != nil {
			for _, name := range l.from.Replaces {
				if names == nil {
					names = map[string]bool{}
				}
				names[name] = true
			}
		}
	}
	for i := range c.asked {
		if l := c.asked[i].limit; l != nil && !l.from.Unlimited && names[l.from.Name] {
			c.asked[i].limit = nil
		}
	}
}

// hits makes the decision's hits of what is counted.
func (c *call) hits(onFailure weir.OnFailure) {
	for i := range c.asked {
		a := &c.asked[i]
		if a.limit == nil || a.limit.from.Unlimited {
			continue
		}
		a.hit = len(c.d.Hits)
		key := c.d.Keys[a.from:a.to:a.to]
		c.d.Hits = append(c.d.Hits, weir.Hit{Limit: &a.limit.counted, Key: key, TagLen: a.tag, N: a.n, OnFailure: onFailure})
		c.d.Statuses = append(c.d.Statuses, weir.Status{})
	}
}
