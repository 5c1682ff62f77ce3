package engine

import (
	"context"
	"crypto/rand"
	"net/http"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/waf"
)

// A Content is what a front has of a request beyond the [weir.Request]. The zero Content is that there is
// no body.
type Content struct {
	Proto string // as HTTP/1.1; empty where it is not known
	// Header stands in place of the request's, if it is not nil: with trailer fields, as they came.
	Header  http.Header
	Body    []byte // whole, as sent
	Chunked bool   // its length was not declared
	Absent  bool   // there may be a body, which is not at hand
	TooLong bool   // it is absent since it is longer than what is inspected
}

// Firewall returns how d's request is to be inspected under s, or nil if it is not.
func (s *Snapshot) Firewall(d *weir.Decision) *weir.Firewall {
	if f := d.Firewall; f != nil && f.Mode != weir.Off && f.Set < len(s.Firewalls) {
		return f
	}
	return nil
}

// Inspect has the firewall judge the request of d, which passed, and makes it a rejection if it blocks. Where
// d is not to be inspected it does nothing. It keeps nothing of c.
func (e *Engine) Inspect(ctx context.Context, s *Snapshot, d *weir.Decision, c Content) {
	f := s.Firewall(d)
	if f == nil || d.Refused() {
		return
	}
	in, w, i := e.inputs.Get().(*waf.Input), s.Firewalls[f.Set], &d.Inspection
	fill(in, d, f, &c)
	began := e.now()
	w.Inspect(ctx, in, i)
	i.Took = e.now().Sub(began)
	if look := w.Again(in, i.Verdict); look != nil {
		e.again(d, look)
	}
	if c.TooLong {
		notWhole(i)
	}
	if i.Found() {
		i.Incident = incident()
	}
	if i.Verdict == weir.Blocked {
		d.Refuse(reason(i), i.HTTP)
	}
	*in = waf.Input{} // what it points to is the request's
	e.inputs.Put(in)
}

// again tells the journal what a second look at d's request finds, some time after it was answered.
func (e *Engine) again(d *weir.Decision, look func(tell func(weir.Inspection))) {
	kept := weir.Decision{At: d.At, Client: d.Client, Rule: d.Rule, Request: d.Request}
	kept.Request.Header = nil
	look(func(i weir.Inspection) {
		i.Incident = incident()
		kept.Inspection = i
		e.journal.Insight(&kept)
	})
}

// incident returns a new incident's name: 60 random bits.
func incident() string { return rand.Text()[:12] }

// fill puts the question.
func fill(in *waf.Input, d *weir.Decision, f *weir.Firewall, c *Content) {
	r := &d.Request
	*in = waf.Input{
		Mode: f.Mode, Now: d.At, Client: d.Client.APIKey, Addr: d.Client.Addr,
		Method: r.Method, Proto: c.Proto, Host: r.Host, Path: r.Path, Query: r.Query, Header: r.Header,
		Body: c.Body, Chunked: c.Chunked, NoBody: c.Absent,
	}
	if c.Header != nil {
		in.Header = c.Header
	}
	if in.Client == "" {
		in.Client = d.Client.Key()
	}
}

// notWhole notes that a body was longer than what is inspected, where that is only reported.
func notWhole(i *weir.Inspection) {
	if i.Verdict == weir.Clean || i.Verdict == weir.Plain {
		i.Verdict = weir.Detected
	}
	if i.Refused == "" {
		i.Refused, i.Detail = "max_body", "the body is longer than what is inspected"
	}
}

// reason returns why a request is blocked.
func reason(i *weir.Inspection) weir.Reason {
	switch {
	case i.Fault != "":
		return weir.NoInspector
	case i.Refused != "":
		return weir.Uninspectable
	}
	return weir.AttackFound
}
