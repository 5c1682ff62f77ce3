package admin

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/clientip"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/policy"
	"github.com/weirgate/weir/respond"
)

// reload puts the configuration file in force.
func (s *Server) reload(c *call) (any, error) {
	var body Change
	if err := c.read(&body); err != nil {
		return nil, err
	}
	before := s.o.Config()
	var after InForce
	line := AuditLine{What: "reload", Target: before.File, Reason: body.Reason, Before: before.Hash}
	err := s.change(c, &line, func() error {
		var err error
		after, err = s.o.Reload()
		line.After = s.o.Config().Hash
		return err
	})
	if err != nil {
		p := problem(http.StatusUnprocessableEntity, "refused", "the configuration was refused, the old one stays in force")
		if p.Errors = s.o.Problems(err); len(p.Errors) == 0 {
			p.Errors = []string{err.Error()}
		}
		var known *Problem
		if errors.As(err, &known) {
			return nil, known
		}
		return nil, p
	}
	return Reload{
		Changed: append([]string{}, config.Diff(before.Config, after.Config)...), NeedsRestart: append([]string{}, s.o.NeedStart()...), ConfigHash: after.Hash,
	}, nil
}

// explain decides a request that was never sent, and counts nothing.
func (s *Server) explain(c *call) (any, error) {
	var q Question
	if err := c.read(&q); err != nil {
		return nil, err
	}
	req, err := q.request()
	if err != nil {
		return nil, err
	}
	peeking := s.snapshot().Peeking()
	d := s.o.Engine.Decide(c.r.Context(), peeking, req) // it is not recorded: nothing happened
	return Explain(peeking.Policy, d), nil
}

// Explain returns what there is to say of a decision by p.
func Explain(p *policy.Policy, d *weir.Decision) Explanation {
	e := Explanation{Decision: respond.View(d), Why: p.Why(d), Notes: []Note{}}
	for _, n := range clientip.Notes(d.Client.Chain.Codes) {
		e.Notes = append(e.Notes, Note{n.Code.Names()[0], n.Text})
	}
	return e
}

// mostFields is how many header lines a question may have.
const mostFields = 100

// request returns what the proxy would have made of the request.
func (q *Question) request() (weir.Request, error) {
	r := weir.Request{Front: "proxy", Method: cmp.Or(q.Method, http.MethodGet), Header: http.Header{}, Trace: true}
	u, err := url.Parse(q.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return r, badRequest("url: %s: want http://HOST/PATH or https://HOST/PATH, percent-encoded", cut(q.URL))
	}
	r.Scheme, r.Host, r.Path, r.Query = u.Scheme, u.Host, cmp.Or(u.EscapedPath(), "/"), u.RawQuery
	if r.Peer, r.Unix = weir.ParsePeer(cmp.Or(q.Remote, "192.0.2.1")); !r.Peer.IsValid() && !r.Unix {
		return r, badRequest("remote: %s: want an IP address, with or without a port, or @ for a unix socket", cut(q.Remote))
	}
	if !clientip.IsToken(r.Method) {
		return r, badRequest("method: %s: want a method, as in POST", cut(r.Method))
	}
	if len(q.Headers) > mostFields {
		return r, badRequest("headers: %d: want at most %d", len(q.Headers), mostFields)
	}
	for i, f := range q.Headers {
		switch value := strings.TrimSpace(f.Value); {
		case !clientip.IsToken(f.Name):
			return r, badRequest("headers[%d].name: %s: want a header's name", i, cut(f.Name))
		case strings.EqualFold(f.Name, "Host"):
			r.Host = value
		case strings.EqualFold(f.Name, engine.NonceHeader): // it is for a request that is sent
		default:
			r.Header.Add(f.Name, value)
		}
	}
	return r, nil
}

// newNonce begins to watch for a request.
func (s *Server) newNonce(c *call) (any, error) {
	line := AuditLine{What: "verify", Target: "one request"}
	var nonce string
	err := s.change(c, &line, func() error {
		var err error
		nonce, err = s.o.Engine.Watch()
		return err
	})
	if errors.Is(err, engine.ErrTooManyWatched) {
		return nil, problem(http.StatusServiceUnavailable, "busy", err.Error())
	}
	return Nonce{Nonce: nonce, Header: engine.NonceHeader, Expires: engine.NonceLife.Seconds()}, err
}

// sighting tells how the request with the nonce arrived.
func (s *Server) sighting(c *call) (any, error) {
	seen, known := s.o.Engine.Sighting(c.r.PathValue("nonce"))
	switch {
	case !known:
		return nil, notFound("this nonce was never given out, or its minute is over")
	case seen == nil:
		return nil, notFound("no request with this nonce arrived yet")
	}
	d := weir.Decision{Client: seen.Client}
	v := Sighting{
		Time: seen.At.UTC(), Front: seen.Front, Peer: seen.Peer.Address, Trusted: seen.Peer.Trusted,
		Strategy: s.snapshot().Policy.Resolver().Strategy(), Client: respond.View(&d).Client, Headers: []FieldLine{},
	}
	for _, l := range seen.Lines {
		v.Headers = append(v.Headers, FieldLine(l))
	}
	return v, nil
}

// openAPI answers with the document of this API.
func (s *Server) openAPI(c *call) (any, error) {
	c.w.Header().Set("Content-Type", "application/json")
	if _, err := c.w.Write(s.document); err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	return nil, nil
}
