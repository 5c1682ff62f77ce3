package replay

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/policy"
	"github.com/weirgate/weir/replay/accesslog"
	"github.com/weirgate/weir/store/memory"
)

// A Lack is a limit, or a rule, that the log says too little for.
type Lack struct {
	Rule  string `json:"rule"`            // empty: a limit for every request
	Limit string `json:"limit,omitempty"` // empty: the whole rule
	Why   string `json:"why"`
}

// lacks returns what of p cannot be replayed with a log that has no more than has.
func lacks(p *policy.Policy, has *accesslog.Has) (list []Lack, without map[*weir.Limit]bool) {
	list, without = []Lack{}, map[*weir.Limit]bool{}
	for _, r := range p.Rules() {
		if r.Host != "*" && !has.Host {
			list = append(list, Lack{Rule: r.Name, Why: "it takes requests by host, which the log does not have"})
		}
		if r.RequireKey {
			list = append(list, Lack{Rule: r.Name, Why: "it asks for a key, which the log does not have: every request is taken to bear one that is good"})
		}
		late := deferred(r)
		for _, l := range r.Limits() {
			why := lacksOf(&l, has)
			if why == "" && slices.Contains(late, l.Limit) && !has.Status {
				why = "it counts by HTTP status, which the log does not have"
			}
			if why == "" || without[l.Limit] {
				continue
			}
			without[l.Limit] = true
			for _, t := range l.Tiers {
				without[t] = true
			}
			lack := Lack{Rule: r.Name, Limit: l.Name, Why: why}
			if l.Global {
				lack.Rule = ""
			}
			list = append(list, lack)
		}
	}
	return list, without
}

// lacksOf says what the log lacks for l, or nothing.
func lacksOf(l *policy.Limit, has *accesslog.Has) string {
	if l.Plan != "" {
		return "it counts the keys of plan " + l.Plan + ", which the log does not have"
	}
	if l.Algorithm == weir.Concurrency && !has.Duration {
		return "it counts what is in flight, and the log has no durations"
	}
	for _, per := range l.Per {
		name, isHeader := strings.CutPrefix(per, "header:")
		missing := isHeader && !has.Header(textproto.CanonicalMIMEHeaderKey(name)) ||
			strings.HasPrefix(per, "cookie:") && !has.Header("Cookie") ||
			per == "host" && !has.Host || per == "key" || per == "plan"
		if missing {
			return fmt.Sprintf("it counts per %s, which the log does not have", per)
		}
	}
	return ""
}

// deferred returns the limits of r that are charged by the answer.
func deferred(r *policy.Rule) []*weir.Limit {
	var d weir.Decision
	d.Request.Method = "ANY"
	r.Hits(&d)
	limits := make([]*weir.Limit, len(d.Deferred))
	for i := range d.Deferred {
		limits[i] = d.Deferred[i].Limit
	}
	return limits
}

// A partial store counts no hits on limits that cannot be replayed: they pass.
type partial struct {
	*memory.Store
	without map[*weir.Limit]bool
}

// Take implements weir.Store.
func (p *partial) Take(ctx context.Context, now time.Time, hits []weir.Hit, out []weir.Status) error {
	if !slices.ContainsFunc(hits, func(h weir.Hit) bool { return p.without[h.Limit] }) {
		return p.Store.Take(ctx, now, hits, out)
	}
	var kept []weir.Hit
	for _, h := range hits {
		if !p.without[h.Limit] {
			kept = append(kept, h)
		}
	}
	statuses := make([]weir.Status, len(kept))
	if err := p.Store.Take(ctx, now, kept, statuses); err != nil {
		return err
	}
	for i := range hits {
		if l := hits[i].Limit; p.without[l] {
			out[i] = weir.Status{Limit: l, Allowed: true, Remaining: l.Capacity()}
			continue
		}
		out[i], statuses = statuses[0], statuses[1:]
	}
	return nil
}

// A prober tells requests of which what the log lacks could change the rule.
type prober struct {
	policy  *policy.Policy
	hosts   []string // one for each host that a rule names
	headers bool     // the log has all of them
}

func newProber(p *policy.Policy, has *accesslog.Has) *prober {
	b := &prober{policy: p, headers: has.AllHeaders || has.Header("Origin") && has.Header("Access-Control-Request-Method")}
	for _, r := range p.Rules() {
		if r.Host != "*" {
			b.hosts = append(b.hosts, strings.Replace(r.Host, "*", "any", 1))
		}
	}
	return b
}

// lacksHost reports whether req would fall under another rule for some host that a rule names.
func (b *prober) lacksHost(req weir.Request) bool {
	if req.Host != "" || len(b.hosts) == 0 {
		return false
	}
	as := b.match(req)
	return slices.ContainsFunc(b.hosts, func(host string) bool {
		req.Host = host
		return b.match(req) != as
	})
}

// lacksHeaders reports whether req would be exempt if it were a browser's question before another.
func (b *prober) lacksHeaders(req weir.Request) bool {
	if b.headers || req.Method != http.MethodOptions {
		return false
	}
	as := b.match(req)
	asked := http.Header{"Origin": {"null"}, "Access-Control-Request-Method": {"GET"}}
	maps.Copy(asked, req.Header)
	req.Header = asked
	return b.match(req) != as
}

// A matched is what a policy makes of a request before it counts.
type matched struct {
	rule   string
	reason weir.Reason
}

func (b *prober) match(req weir.Request) matched {
	d := weir.Decision{Request: req}
	b.policy.Identify(&d)
	b.policy.Match(&d)
	if d.Rule == nil {
		return matched{reason: d.Reason}
	}
	return matched{d.Rule.Name, d.Reason}
}
