package admin

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/weirgate/weir/apikey"
	"github.com/weirgate/weir/config"
)

// anyKeys returns the API keys that requests are asked for, or nil.
func (s *Server) anyKeys() *apikey.Keys {
	if s.o.Keys == nil {
		return nil
	}
	return s.o.Keys()
}

func (s *Server) knownKeys() (*apikey.Keys, error) {
	if keys := s.anyKeys(); keys != nil {
		return keys, nil
	}
	return nil, problem(http.StatusNotImplemented, "not_configured", "requests are asked for no API keys: write keys: {} into the configuration, and reload it")
}

func (s *Server) keys(c *call) (any, error) {
	keys, err := s.knownKeys()
	if err != nil {
		return nil, err
	}
	limit := c.number("limit")
	list, err := keys.List(c.r.Context(), apikey.Query{Owner: c.query["owner"], Plan: c.query["plan"], After: c.query["after"], Limit: limit})
	if err != nil {
		return nil, keyProblem(err)
	}
	page := Keys{Keys: []Key{}}
	for i := range list {
		page.Keys = append(page.Keys, s.shown(&list[i]))
	}
	if len(list) == limit {
		page.Next = list[limit-1].ID
	}
	return page, nil
}

func (s *Server) key(c *call) (any, error) {
	keys, err := s.knownKeys()
	if err != nil {
		return nil, err
	}
	k, err := keys.Get(c.r.Context(), keyID(c))
	if err != nil {
		return nil, keyProblem(err)
	}
	return s.shown(&k), nil
}

// keyID is the id in the path.
func keyID(c *call) string { return cut(named(c.r.PathValue("id"))) }

// named returns the id that somebody means. Who writes an API key in its place, as found where it leaked, means
// that of the key, and the key is written nowhere.
func named(id string) string {
	if of, ok := apikey.IDOf(id); ok {
		return of
	}
	return id
}

// isPlan returns why name is none of plans, or nil. No name is no plan.
func isPlan(name string, plans []string) error {
	switch {
	case name == "" || slices.Contains(plans, name):
		return nil
	case len(plans) == 0:
		return badRequest("plan: %s: the configuration has no plans", cut(name))
	}
	return badRequest("plan: %s: the configuration has no such plan: want %s", cut(name), config.OneOf(plans, name))
}

func (s *Server) createKey(c *call) (any, error) {
	keys, err := s.knownKeys()
	if err != nil {
		return nil, err
	}
	var body NewKey
	if err := c.read(&body); err != nil {
		return nil, err
	}
	if err := isPlan(body.Plan, slices.Sorted(maps.Keys(s.o.Config().Config.Plans))); err != nil {
		return nil, err
	}
	spec := apikey.Spec{Name: body.Name, Owner: body.Owner, Plan: body.Plan, Scopes: body.Scopes, Expires: body.Expires}
	line := AuditLine{What: "key.create", Target: cut(body.Name), Reason: body.Reason}
	var made KeyWithSecret
	err = s.change(c, &line, func() error {
		k, secret, err := keys.Create(c.r.Context(), spec)
		if err != nil {
			return keyProblem(err)
		}
		made = KeyWithSecret{s.shown(&k), secret}
		line.Target, line.After = k.ID, made.Key
		return nil
	})
	return made, err
}

func (s *Server) revokeKey(c *call) (any, error) {
	keys, err := s.knownKeys()
	if err != nil {
		return nil, err
	}
	var after Key
	line := AuditLine{What: "key.revoke", Target: keyID(c), Reason: c.query["reason"]}
	err = s.change(c, &line, func() error {
		k, err := keys.Revoke(c.r.Context(), line.Target)
		if err != nil {
			return keyProblem(err)
		}
		after = s.shown(&k)
		line.After = after
		return nil
	})
	return after, err
}

func (s *Server) rotateKey(c *call) (any, error) {
	keys, err := s.knownKeys()
	if err != nil {
		return nil, err
	}
	var body Rotation
	if err := c.read(&body); err != nil {
		return nil, err
	}
	if body.Overlap < 0 || body.Overlap > apikey.MostOverlap.Seconds() {
		return nil, badRequest("overlap: want 0 to %.0f seconds", apikey.MostOverlap.Seconds())
	}
	var made KeyWithSecret
	line := AuditLine{What: "key.rotate", Target: keyID(c), Reason: body.Reason}
	err = s.change(c, &line, func() error {
		k, secret, err := keys.Rotate(c.r.Context(), line.Target, time.Duration(body.Overlap*float64(time.Second)))
		if err != nil {
			return keyProblem(err)
		}
		made = KeyWithSecret{s.shown(&k), secret}
		line.After = made.Key
		return nil
	})
	return made, err
}

// keyProblem says what is wrong with a question about keys.
func keyProblem(err error) error {
	switch {
	case errors.Is(err, apikey.ErrNotFound):
		return notFound(err.Error())
	case errors.Is(err, apikey.ErrInvalid):
		return badRequest("%s", err)
	case errors.Is(err, apikey.ErrNotLive), errors.Is(err, apikey.ErrTooMany):
		return problem(http.StatusConflict, "conflict", err.Error())
	}
	return problem(http.StatusServiceUnavailable, "failed", "the database of API keys does not answer: "+err.Error())
}

// shown returns k as the API shows it.
func (s *Server) shown(k *apikey.Key) Key {
	v := Key{
		ID: k.ID, Name: k.Name, Owner: k.Owner, Plan: k.Plan, Scopes: append([]string{}, k.Scopes...), State: "live", Created: k.Created,
		Expires: optional(k.Expires), Revoked: optional(k.Revoked), LastUsed: optional(k.LastUsed), OldUntil: optional(k.OldUntil),
	}
	switch now := s.o.Now(); {
	case !k.Revoked.IsZero():
		v.State = "revoked"
	case !k.Live(now):
		v.State = "expired"
	}
	return v
}

// optional returns a time, or nil for none.
func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
