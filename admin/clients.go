package admin

import (
	"net/http"
	"slices"
	"strings"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/policy"
	"github.com/weirgate/weir/respond"
)

// keyClient begins the name of a client that is known by its API key or token: key:ID.
const keyClient = "key:"

// clientOf returns the client that the path names, and its name. An API key is on the plan that the query says,
// for nobody here knows the plan of a token.
func (s *Server) clientOf(c *call) (weir.Client, string, error) {
	name := c.r.PathValue("key")
	id, isKey := strings.CutPrefix(name, keyClient)
	plan := c.query["plan"]
	if err := isPlan(plan, s.snapshot().Policy.Plans()); err != nil {
		return weir.Client{}, "", err
	}
	switch {
	case plan != "" && !isKey:
		return weir.Client{}, "", badRequest("plan: only a client key:ID has one")
	case isKey && id != "":
		id = named(id)
		return weir.Client{APIKey: id, Plan: plan}, keyClient + id, nil
	}
	client, ok := weir.ParseKey(name)
	if !ok {
		return client, "", badRequest("%s: want a client as it is counted, as in 203.0.113.7/32 or 2001:db8:1:2::/64, or key:ID", cut(name))
	}
	return client, name, nil
}

func (s *Server) client(c *call) (any, error) {
	client, key, err := s.clientOf(c)
	if err != nil {
		return nil, err
	}
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
	client, key, err := s.clientOf(c)
	if err != nil {
		return nil, err
	}
	resetter, err := s.resetter()
	if err != nil {
		return nil, err
	}
	hits := hitsOf(s.snapshot().Policy.ClientHits(client))
	line := AuditLine{What: "client.reset", Target: key, Reason: c.query["reason"], Before: s.leftOf(c, hits)}
	err = s.change(c, &line, func() error {
		if err := resetter.Reset(c.r.Context(), hits); err != nil {
			return problem(http.StatusServiceUnavailable, "failed", "the store does not answer: "+err.Error())
		}
		line.After = s.leftOf(c, hits)
		return nil
	})
	return Reset{key, len(hits)}, err
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
