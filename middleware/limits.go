package middleware

import (
	"net/http"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/respond"
)

// LimitsPath is where an asker is told what its own limits have left, by its key, token or address, if the
// configuration lets it. The request falls under [policy.OwnLimitsRule]: it costs none of the limits that it tells
// of, and bans and wrong keys are refused as everywhere. No service sees it.
const LimitsPath = "/.well-known/weir/limits"

// mostTold is how many limits are told at once, so that asking is a bounded question to the store.
const mostTold = 100

// tellLimits answers with the limits of whom c is from, by one look at the store.
func tellLimits(w http.ResponseWriter, r *http.Request, c *Call) {
	s := c.Snapshot
	own := s.Policy.ClientHits(c.Decision.Client)
	told := own[:min(len(own), mostTold)]
	d := weir.Decision{Client: c.Decision.Client, Statuses: make([]weir.Status, len(told))}
	for i := range told {
		d.Hits = append(d.Hits, told[i].Hit)
	}
	if err := s.Store.Peek(r.Context(), c.Decision.At, d.Hits, d.Statuses); err != nil {
		s.Respond.Problem(w, r, http.StatusServiceUnavailable, "What is left cannot be told at the moment.")
		return
	}
	v := respond.ViewOwn(&d)
	v.More = len(own) - len(told)
	tell(w, v)
}
