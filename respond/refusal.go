package respond

import (
	"net/http"
	"strconv"
	"time"

	"github.com/weirgate/weir"
)

// Refusal answers req with the refusal d, and returns the HTTP status that it sent: a problem
// document (RFC 9457), a page for who prefers one, or gRPC's form for a gRPC request.
func (r *Responder) Refusal(w http.ResponseWriter, req *http.Request, d *weir.Decision) int {
	b := r.buffer()
	defer r.done(b)
	p := refusalOf(*b, d)
	if form := grpcForm(req.Header); form != notGRPC {
		return r.refuseGRPC(w, req, form, &p)
	}
	f := fields{text: *b}
	if p.wait > 0 {
		f.text = strconv.AppendInt(f.text, p.wait, 10)
		f.end("Retry-After")
	}
	if p.status == http.StatusRequestTimeout {
		f.add("Connection", "close")
	}
	r.addLimits(&f, d)
	r.addChallenge(&f, d)
	f.add("Access-Control-Expose-Headers", r.exposed())
	*b = r.send(w, req, &f, &p)
	return p.status
}

// Problem answers req with any other HTTP status of 400 and above, in the same form. A request that was
// too slow (408) is the last of its connection.
func (r *Responder) Problem(w http.ResponseWriter, req *http.Request, status int, detail string) {
	p := problem{status: status, title: title(status), detail: detail}
	if form := grpcForm(req.Header); form != notGRPC {
		r.problemGRPC(w, req, form, &p)
		return
	}
	b := r.buffer()
	defer r.done(b)
	f := fields{text: *b}
	if status == http.StatusRequestTimeout {
		f.add("Connection", "close")
	}
	*b = r.send(w, req, &f, &p)
}

func (r *Responder) exposed() string {
	if r.expose == "" {
		return exposeDraft
	}
	return r.expose
}

// send writes p with the fields of f, and returns the memory that it used.
func (r *Responder) send(w http.ResponseWriter, req *http.Request, f *fields, p *problem) []byte {
	asPage := r.html && prefersHTML(req.Header["Accept"])
	h := w.Header()
	delete(h, "Content-Length")
	delete(h, "Content-Encoding")
	f.add("Content-Type", contentType(asPage))
	f.add("Cache-Control", "no-store")
	f.set(h)
	r.allow(h, req)
	if r.html {
		vary(h, "Accept")
	}
	w.WriteHeader(p.status)
	if req.Method == http.MethodHead {
		return f.text
	}
	var b []byte
	if asPage {
		b = appendPage(f.text[:0], p)
	} else {
		b = r.appendProblem(f.text[:0], p)
	}
	_, _ = w.Write(b) // an asker that is gone needs no answer
	return b
}

func contentType(asPage bool) string {
	if asPage {
		return "text/html; charset=utf-8"
	}
	return "application/problem+json"
}

// title returns the reason phrase of an HTTP status.
func title(status int) string {
	if status == http.StatusRequestEntityTooLarge {
		return "Content Too Large" // RFC 9110, section 15.5.14; net/http has the older one
	}
	return http.StatusText(status)
}

// A problem is a refusal in words.
type problem struct {
	status int
	name   string // in the registry of problem types; empty: about:blank
	title  string
	detail string
	wait   int64          // Retry-After in whole seconds; 0: none
	d      *weir.Decision // of a refusal; nil for other problems
}

// refusalOf puts d into words, with the memory of b to work in.
func refusalOf(b []byte, d *weir.Decision) problem {
	p := problem{status: d.HTTP, d: d}
	if p.status < 400 {
		p.status = http.StatusTooManyRequests
	}
	p.title = title(p.status)
	switch {
	case p.status == http.StatusTooManyRequests:
		p.name, p.title = "quota-exceeded", "Request cannot be satisfied as assigned quota has been exceeded"
		p.wait = retryAfter(d)
	case p.status == http.StatusServiceUnavailable:
		p.name, p.title = "temporary-reduced-capacity", "Request cannot be satisfied due to temporary server capacity constraints"
		p.wait = 1
	case d.Ban != nil:
		p.wait = retryAfter(d)
	}
	p.detail = string(appendDetail(b, d, p.wait))
	return p
}

// retryAfter is the wait in whole seconds, rounded up and at least 1; 0 if no waiting helps.
func retryAfter(d *weir.Decision) int64 {
	wait := d.RetryAfter()
	if wait == weir.Never {
		return 0
	}
	return seconds(max(wait, time.Second))
}

// appendDetail appends a sentence for whoever reads the refusal.
func appendDetail(b []byte, d *weir.Decision, wait int64) []byte {
	var few [8]*weir.Status
	tightest := tightestFirst(few[:0], d)
	if d.Ban != nil {
		return appendBanned(b, wait)
	}
	if len(tightest) == 0 || tightest[0].Allowed || d.Reason != weir.OverLimit && d.Reason != weir.TooManyHeld {
		return append(b, details(d)...)
	}
	l := tightest[0].Limit
	b = append(b, "The limit "...)
	b = append(b, l.Name...)
	b = append(b, " ("...)
	b = append(b, l.Rate...)
	if wait == 0 {
		return append(b, ") is below what one such request costs."...)
	}
	b = append(b, left(tightest[0])...)
	b = append(b, " Retry after "...)
	b = strconv.AppendInt(b, wait, 10)
	return append(b, " s."...)
}

// appendBanned appends what a banned asker is told: until when, and neither by whom nor why.
func appendBanned(b []byte, wait int64) []byte {
	b = append(b, "This client is banned."...)
	if wait == 0 {
		return b
	}
	b = append(b, " Retry after "...)
	b = strconv.AppendInt(b, wait, 10)
	return append(b, " s."...)
}

// left ends a sentence about a limit that refused but may let in later.
func left(s *weir.Status) string {
	if s.Remaining > 0 {
		return ") has too little left for this request."
	}
	return ") is used up."
}

// details is a sentence for refusals without a limit.
func details(d *weir.Decision) string {
	switch d.Reason {
	case weir.StoreFailed:
		return "The request cannot be counted at the moment."
	case weir.ClientUnresolved:
		return "It cannot be told whom the request is from."
	case weir.AmbiguousPath:
		return "The path can be read in more than one way."
	case weir.BadRequest:
		return "The request target is not valid."
	case weir.KeyMissing:
		return "The request needs an API key or a token."
	case weir.KeyRefused:
		return "The API key or token is not valid."
	case weir.KeyAmbiguous:
		return "The request bears two API keys or tokens that differ."
	case weir.KeyUnverifiable:
		return "The API key or token cannot be verified at the moment."
	case weir.ScopeMissing:
		return "The API key or token is not meant for this."
	case weir.BannedClient:
		return "Requests from this client are refused at the moment."
	case weir.AttackFound:
		return "The request looks like an attack. If it is none, tell the service's operator the incident."
	case weir.Uninspectable:
		return "The request cannot be inspected: " + d.Inspection.Refused + ": " + d.Inspection.Detail + "."
	case weir.NoInspector:
		return "The request cannot be inspected at the moment."
	case weir.BodyTooLarge:
		return "The request body is larger than the service takes."
	case weir.BodyTooSlow:
		return "The request body came too slowly."
	case weir.BodyBroken:
		return "The request body is broken, or not as long as it said."
	}
	return "The request was refused: " + string(d.Reason) + "."
}
