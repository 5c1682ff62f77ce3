package admin

import (
	"bytes"
	"net/http"
	"slices"
	"strings"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/policy"
	"github.com/weirgate/weir/respond"
)

// keyClient begins the name of a client that is known by its API key or token: key:ID.
const keyClient = "key:"

// clientOf returns the client that the path names, and its name. It is on the plan that the query says; an API
// key else on its own, and of a token nobody here knows it.
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
		if plan == "" {
			plan = s.planOf(c, id)
		}
		return weir.Client{APIKey: id, Plan: plan}, keyClient + id, nil
	}
	client, ok := weir.ParseKey(name)
	if !ok {
		return client, "", badRequest("%s: want a client as it is counted, as in 203.0.113.7/32 or 2001:db8:1:2::/64, or key:ID", cut(name))
	}
	return client, name, nil
}

// planOf returns the plan of an API key, or nothing where it is not known or not in force.
func (s *Server) planOf(c *call, id string) string {
	keys := s.anyKeys()
	if keys == nil {
		return ""
	}
	k, err := keys.Get(c.r.Context(), id)
	if err != nil || !slices.Contains(s.snapshot().Policy.Plans(), k.Plan) {
		return ""
	}
	return k.Plan
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
	v.Decisions = s.o.Journal.Select(journal.DefaultRecent, func(e *Decision) bool { return e.Client == key })
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

// countersOf returns the counters that are a client's alone: where it is a key and nobody knows on which plan, those
// of every plan.
func (s *Server) countersOf(client weir.Client) []weir.Hit {
	p := s.snapshot().Policy
	owned := p.ClientHits(client)
	if client.APIKey != "" && client.Plan == "" {
		for _, client.Plan = range p.Plans() {
			owned = append(owned, p.ClientHits(client)...)
		}
	}
	hits := hitsOf(owned)
	slices.SortFunc(hits, func(a, b weir.Hit) int { return bytes.Compare(a.Key, b.Key) })
	return slices.CompactFunc(hits, func(a, b weir.Hit) bool { return bytes.Equal(a.Key, b.Key) })
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
	hits := s.countersOf(client)
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
