package policy

import (
	"slices"

	"github.com/weirgate/weir"
)

// A ClientHit is the hit on a counter that is one client's alone, and the rule that it belongs to.
type ClientHit struct {
	Rule *Rule // the first that charges it
	weir.Hit
}

// ClientHits returns the counters that are the client's alone, by its address or its API key and as its plan
// says, whatever the request: neither those that it shares (a global limit, the wider networks of IPv6) nor those of which
// a header, a path or another value is a part. A client that is known by its API key alone has none by address.
// The hits are looks.
func (p *Policy) ClientHits(c weir.Client) []ClientHit {
	d := weir.Decision{Client: c}
	var hits []ClientHit
	for _, r := range p.rules {
		w := keyWriter{d: &d, rule: r}
		counters := r.charged(&c)
		for i := range counters {
			counter := &counters[i]
			byAddress := r.byAddress(counter, &d)
			if !counter.ofClient() || byAddress && c.Source != weir.Unresolved && !c.Prefix.IsValid() {
				continue
			}
			k := w.key(counter, counter.label, byAddress, whole)
			known := func(h ClientHit) bool { return string(h.Key) == string(k.text) }
			if !slices.ContainsFunc(hits, known) {
				hits = append(hits, ClientHit{r, weir.Hit{Limit: counter.limit, Key: k.text, TagLen: k.tag, OnFailure: r.OnFailure}})
			}
		}
	}
	return hits
}

// ofClient reports whether nothing but the client tells c's counters apart.
func (c *counter) ofClient() bool {
	return len(c.per) > 0 && !slices.ContainsFunc(c.per, func(p part) bool {
		return p.kind != perClient && p.kind != perIP && p.kind != perKey && p.kind != perRule
	})
}
