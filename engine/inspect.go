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

// An inquiry is one question to a firewall. Its memory is used again.
type inquiry struct {
	input  waf.Input
	result waf.Result
}

// Inspect has the firewall judge the request of d, which passed, and makes it a rejection if it blocks. Where
// d is not to be inspected it does nothing. It keeps nothing of c.
func (e *Engine) Inspect(ctx context.Context, s *Snapshot, d *weir.Decision, c Content) {
	f := s.Firewall(d)
	if f == nil || d.Refused() {
		return
	}
	q := e.inquiries.Get().(*inquiry)
	q.fill(d, f, &c)
	s.Firewalls[f.Set].Inspect(ctx, &q.input, &q.result)
	q.tell(&d.Inspection)
	if c.TooLong {
		notWhole(&d.Inspection)
	}
	if d.Inspection.Found() {
		d.Inspection.Incident = rand.Text()[:incidentLen]
	}
	if d.Inspection.Verdict == weir.Blocked {
		d.Refuse(reason(&d.Inspection), q.result.HTTP)
	}
	q.input = waf.Input{} // what it points to is the request's
	e.inquiries.Put(q)
}

// incidentLen is the length of an incident's name: 60 random bits.
const incidentLen = 12

// modes are the firewall's words for what may follow an inspection.
var modes = [...]waf.Mode{weir.Enforce: waf.ModeBlock, weir.Shadow: waf.ModeDetect, weir.Off: waf.ModeOff}

// fill puts the question.
func (q *inquiry) fill(d *weir.Decision, f *weir.Firewall, c *Content) {
	r := &d.Request
	q.input = waf.Input{
		Mode: modes[f.Mode], Now: d.At, Client: d.Client.APIKey, Addr: d.Client.Addr,
		Method: r.Method, Proto: c.Proto, Host: r.Host, Path: r.Path, Query: r.Query, Header: r.Header,
		Body: c.Body, Chunked: c.Chunked, NoBody: c.Absent,
	}
	if c.Header != nil {
		q.input.Header = c.Header
	}
	if q.input.Client == "" {
		q.input.Client = d.Client.Key()
	}
}

// tell writes down the answer.
func (q *inquiry) tell(to *weir.Inspection) {
	r := &q.result
	*to = weir.Inspection{
		Verdict: weir.Verdict(r.Verdict), Ruleset: r.Ruleset, Inspected: r.Inspected, Score: r.Score, Matches: to.Matches[:0],
		Refused: r.Refused, Detail: r.Detail, Fault: r.Fault, Trace: r.Trace,
	}
	for _, m := range r.Matches {
		to.Matches = append(to.Matches, weir.Match(m))
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
