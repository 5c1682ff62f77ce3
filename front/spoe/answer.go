package spoe

import (
	"net/http"
	"strings"

	"github.com/weirgate/weir/front/spoe/spop"
	"github.com/weirgate/weir/internal/mark"
)

// The variables that a decision sets, all of the transaction. action is allow or deny.
var fields = [...]struct{ header, variable string }{
	{"Retry-After", "retry_after"},
	{"Ratelimit", "ratelimit"},
	{"Ratelimit-Policy", "ratelimit_policy"},
	{"X-Ratelimit-Limit", "limit"},
	{"X-Ratelimit-Remaining", "remaining"},
	{"X-Ratelimit-Reset", "reset"},
}

// answer makes the acknowledgement of a decision: first what HAProxy's rules test, then what the asker is
// told, of which a frame takes as much as was agreed on. Frames of the usual 16,380 bytes take all of it.
func (k *check) answer() {
	d, h := k.decision, k.refusal.header
	clear(h)
	k.refusal.body = k.refusal.body[:0]
	action, status := "allow", http.StatusOK
	if d.Refused() {
		action, status = "deny", k.snapshot.Respond.Refusal(&k.refusal, &k.refusal.request, d)
		k.sent = status
	} else {
		k.snapshot.Respond.Headers(h, d)
	}
	k.begin()
	k.set("action", spop.Text(action))
	k.set("status", spop.Number(uint32(status)))
	k.set("degraded", spop.Truth(d.Degraded))
	if d.Rule != nil {
		k.set("rule", spop.Text(d.Rule.Name))
	}
	for _, f := range fields {
		if lines := h[f.header]; len(lines) > 0 {
			k.set(f.variable, spop.Text(lines[0]))
		}
	}
	for _, f := range mark.Fields(d) {
		k.set(markVariable(f.Name), spop.Text(f.Value))
	}
	if len(k.refusal.body) > 0 {
		k.set("body", spop.Text(strings.TrimSuffix(string(k.refusal.body), "\n")))
	}
	k.end()
}

// markVariable returns the variable for a header field that tells the service of the decision. HAProxy names
// the field of a tag: a variable cannot.
func markVariable(field string) string {
	switch field {
	case "X-Weir-Shadow":
		return "shadow"
	case "X-Weir-Key-Id":
		return "key_id"
	case "X-Weir-Plan":
		return "plan"
	}
	return "tag"
}

func (k *check) begin() {
	k.ack = spop.BeginFrame(k.ack[:0], spop.Ack, k.frame.Stream, k.frame.ID)
}

func (k *check) end() { k.ack = spop.EndFrame(k.ack, 0) }

// set sets a variable, if the frame can take it.
func (k *check) set(name string, v spop.Value) {
	before := len(k.ack)
	k.ack = spop.AppendSetVar(k.ack, name, v)
	if len(k.ack)-spop.LengthSize > int(k.conn.maxFrame) {
		k.ack = k.ack[:before]
	}
}

// A refusal is what HAProxy is to answer. It implements http.ResponseWriter.
type refusal struct {
	request http.Request // any: HAProxy leaves the body away where none is wanted
	header  http.Header
	body    []byte
}

func newRefusal() refusal {
	return refusal{request: http.Request{Method: http.MethodGet, Header: http.Header{}}, header: http.Header{}}
}

// Header implements http.ResponseWriter.
func (r *refusal) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter. The HTTP status is known otherwise.
func (r *refusal) WriteHeader(int) {}

func (r *refusal) Write(b []byte) (int, error) {
	r.body = append(r.body, b...)
	return len(b), nil
}
