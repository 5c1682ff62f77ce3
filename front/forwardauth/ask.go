package forwardauth

import (
	"net/http"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/internal/mark"
)

// An ask is one question of a proxy.
type ask struct {
	*Server
	dialect  *dialect // nil: there is none at the path
	snapshot *engine.Snapshot
	request  *http.Request
}

// answer answers the ask in the form that its proxy understands.
func (a *ask) answer(w http.ResponseWriter) {
	if !a.spells() {
		a.say(w)
		return
	}
	s := &spelled{ResponseWriter: w}
	a.say(s)
	s.send()
}

// spells reports whether the proxy has to be told an answer in another form than HTTP's.
func (a *ask) spells() bool { return a.dialect != nil && a.dialect.spells }

// say decides the ask, or refuses it for a fault. Where Weir is turned off, no fault matters.
func (a *ask) say(w http.ResponseWriter) {
	req := weir.Request{Front: "forward_auth"}
	if f := a.read(&req); f != none && !a.snapshot.Policy.Disabled {
		a.refuse(w, f, &req)
		return
	}
	a.decide(w, req)
}

// read fills req. Nothing is read of what a stranger sends.
func (a *ask) read(req *weir.Request) fault {
	req.Peer, req.Unix = weir.ParsePeer(a.request.RemoteAddr)
	switch {
	case a.dialect == nil:
		return unknownPath
	case !a.snapshot.Policy.Resolver().Believes(req.Peer, req.Unix):
		return untrustedPeer
	}
	req.ID = a.dialect.readID(a.request.Header)
	f := a.dialect.read(a.request.Header, req)
	if f == none && a.dialect.id != "" && req.ID == "" {
		a.notices.tell(noID, req)
	}
	return f
}

// refuse answers an ask that is not understood.
func (a *ask) refuse(w http.ResponseWriter, f fault, req *weir.Request) {
	a.notices.tell(f, req)
	if a.refused != nil {
		a.refused(remedies[f].name, req.Peer)
	}
	a.plain()
	a.snapshot.Respond.Problem(w, a.request, remedies[f].status, remedies[f].detail)
}

// plain has a refusal written for HTTP, whatever the client speaks: gRPC's form of one is a 200, which
// every proxy takes for a pass. nginx has room for one form of body.
func (a *ask) plain() {
	delete(a.request.Header, "Content-Type")
	if a.spells() {
		delete(a.request.Header, "Accept")
	}
}

// decide answers req by a decision, and records it.
func (a *ask) decide(w http.ResponseWriter, req weir.Request) {
	d := a.engine.Decide(a.request.Context(), a.snapshot, req)
	d.Deferred = d.Deferred[:0] // what the service answers is never known here
	a.engine.Inspect(a.request.Context(), a.snapshot, d, engine.Content{Absent: true})
	var o weir.Outcome
	defer func() { a.engine.Record(a.snapshot, d, o) }()
	if d.Refused() {
		a.plain()
		d.Action = weir.Reject // nothing is dropped or held in the name of a proxy
		o.HTTP = a.snapshot.Respond.Refusal(w, a.request, d)
	} else {
		o.HTTP = http.StatusOK
		a.pass(w, d)
	}
	o.Err = a.request.Context().Err()
}

// pass lets the request through: always by 200.
func (a *ask) pass(w http.ResponseWriter, d *weir.Decision) {
	h := w.Header()
	for _, f := range mark.Fields(d) {
		h.Set(f.Name, f.Value)
	}
	a.snapshot.Respond.Headers(h, d)
	w.WriteHeader(http.StatusOK)
}
