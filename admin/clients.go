package admin

import (
	"net/http"
	"slices"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/policy"
	"github.com/weirgate/weir/respond"
)

// clientOf returns the client that the path names.
func clientOf(c *call) (weir.Client, error) {
	key := c.r.PathValue("key")
	client, ok := weir.ParseKey(key)
	if !ok {
		return client, badRequest("%s: want a client as it is counted, as in 203.0.113.7/32 or 2001:db8:1:2::/64, with the slash as %%2F", cut(key))
	}
	return client, nil
}

func (s *Server) client(c *call) (any, error) {
	client, err := clientOf(c)
	if err != nil {
		return nil, err
	}
	key := client.Key()
	v := ClientView{Key: key, Windows: []ClientUse{}, Limits: []ClientLimit{}}
	for _, name := range []string{"1m", "1h", "24h"} {
		use := s.o.Journal.Use(key, windows[name])
		v.Windows = append(v.Windows, ClientUse{name, use.Requests, use.Error, use.Refused})
	}
	v.Decisions = slices.DeleteFunc(s.o.Journal.Recent(mostRecent), func(e Decision) bool { return e.Client != key })
	snapshot := s.snapshot()
	owned := snapshot.Policy.ClientHits(client)
	d := weir.Decision{Hits: hitsOf(owned), Statuses: make([]weir.Status, len(owned))}
	if err := snapshot.Store.Peek(c.r.Context(), s.o.Now(), d.Hits, d.Statuses); err != nil {
		return nil, problem(http.StatusServiceUnavailable, "failed", "the store does not answer: "+err.Error())
	}
	for i, l := range respond.View(&d).Limits {
		v.Limits = append(v.Limits, ClientLimit{owned[i].Rule.Name, l})
	}
	return v, nil
}

func hitsOf(owned []policy.ClientHit) []weir.Hit {
	hits := make([]weir.Hit, len(owned))
	for i := range owned {
		hits[i] = owned[i].Hit
	}
	return hits
}

// resetClient forgets the counters that are one client's alone.
func (s *Server) resetClient(c *call) (any, error) {
	client, err := clientOf(c)
	if err != nil {
		return nil, err
	}
	resetter, err := s.resetter()
	if err != nil {
		return nil, err
	}
	hits := hitsOf(s.snapshot().Policy.ClientHits(client))
	line := AuditLine{What: "client.reset", Target: client.Key(), Reason: c.query["reason"], Before: s.leftOf(c, hits)}
	err = s.change(c, &line, func() error {
		if err := resetter.Reset(c.r.Context(), hits); err != nil {
			return problem(http.StatusServiceUnavailable, "failed", "the store does not answer: "+err.Error())
		}
		line.After = s.leftOf(c, hits)
		return nil
	})
	return Reset{client.Key(), len(hits)}, err
}

// leftOf returns what each limit has left, by its name, or nil where that is not known.
func (s *Server) leftOf(c *call, hits []weir.Hit) map[string]int64 {
	statuses := make([]weir.Status, len(hits))
	if len(hits) == 0 || s.snapshot().Store.Peek(c.r.Context(), s.o.Now(), hits, statuses) != nil {
		return nil
	}
	left := map[string]int64{}
	for i := range hits {
		left[hits[i].Limit.Name] = statuses[i].Remaining
	}
	return left
}
