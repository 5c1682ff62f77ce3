package middleware

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/engine"
)

// take has the body of x come in as its rule says, and the request inspected. It reports whether x goes on;
// if not, it is answered, or nobody waits for an answer.
func (x *exchange) take() bool {
	r, f := x.request, x.call.Snapshot.Firewall(x.call.Decision)
	if x.call.Decision.Rule == nil || !hasBody(r) {
		return f == nil || x.inspect(engine.Content{})
	}
	streams := f == nil || f.Streams || isGRPC(r)
	bound := x.bound(f, streams)
	if bound > 0 && r.ContentLength > bound {
		dispose(x.w.to, r)
		x.refuse(weir.BodyTooLarge, http.StatusRequestEntityTooLarge)
		return false
	}
	x.receive(bound)
	if isGRPC(r) {
		x.body.framed, x.body.pace = true, weir.Pace{} // a stream may be silent
	}
	switch {
	case f == nil:
		return true
	case streams || r.ContentLength > f.MaxBody:
		return x.inspect(engine.Content{Absent: true, TooLong: !streams})
	}
	return x.gather(f)
}

func hasBody(r *http.Request) bool {
	return r.ContentLength != 0 && r.Body != nil && r.Body != http.NoBody
}

// isGRPC reports whether a request is gRPC, whose body goes on while it is answered. grpc-web is none.
func isGRPC(r *http.Request) bool {
	line := r.Header["Content-Type"]
	if r.ProtoMajor < 2 || len(line) != 1 {
		return false
	}
	rest, ok := strings.CutPrefix(line[0], "application/grpc")
	return ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

// bound is the longest that x's body may be in bytes, or 0: as the rule says, else as long as can be
// inspected. Where a finding is only reported, a body that is too long to be inspected is one.
func (x *exchange) bound(f *weir.Firewall, streams bool) int64 {
	rule := x.call.Decision.Rule
	if rule.MaxBody == 0 && !streams && f.Mode == weir.Enforce {
		return f.MaxBody
	}
	return rule.MaxBody
}

// gather reads the whole body, which is then what next reads, and has it inspected.
func (x *exchange) gather(f *weir.Firewall) bool {
	r := x.request
	x.body.whole = f.Mode == weir.Enforce
	x.held = x.house.gather(&x.body, f.MaxBody)
	if err := x.held.err; err != nil {
		x.unread(err)
		return false
	}
	r.Body = x.held
	c := engine.Content{Body: x.held.data, Chunked: r.ContentLength < 0}
	if x.held.rest != nil {
		x.body.whole = false
		c = engine.Content{Absent: true, TooLong: true}
	} else if len(r.Trailer) > 0 {
		c.Header = withTrailer(r)
	}
	return x.inspect(c)
}

// withTrailer returns the header of r with the trailer fields in it.
func withTrailer(r *http.Request) http.Header {
	h := r.Header.Clone()
	for name, lines := range r.Trailer {
		h[name] = append(h[name], lines...)
	}
	maps.DeleteFunc(h, func(_ string, lines []string) bool { return len(lines) == 0 })
	return h
}

// unread answers a request whose body could not be read.
func (x *exchange) unread(err error) {
	fault := x.body.fault.Load() // net/http ends the request's context after it
	switch {
	case fault != nil:
	case x.request.Context().Err() != nil:
		return // there is nobody to answer
	default:
		fault = &bodyFault{weir.BodyBroken, http.StatusBadRequest}
	}
	x.call.Outcome.Err = err
	closing(x.w.to, x.request)
	x.refuse(fault.why, fault.status)
}

// inspect has the firewall judge x, and answers it if that blocks.
func (x *exchange) inspect(c engine.Content) bool {
	d := x.call.Decision
	c.Proto = x.request.Proto
	x.judge(c)
	if !d.Refused() {
		return true
	}
	if c.Absent {
		dispose(x.w.to, x.request)
	}
	x.refuse(d.Reason, d.HTTP)
	return false
}

// judge asks the firewall.
func (x *exchange) judge(c engine.Content) {
	if span := x.call.Span; span != nil {
		defer span.Part(engine.PartInspection)(nil)
	}
	x.house.engine.Inspect(x.request.Context(), x.call.Snapshot, x.call.Decision, c)
}

const (
	firstBody = 4 << 10 // what is made ready for a body, in bytes; more as it comes
	mostKept  = 1 << 20 // a longer buffer is not used again
)

// A heldBody is a body that was read before it is handed on. Who reads it after the answer has ended, as a
// transport may that is still sending, gets an error: its memory is another request's then.
type heldBody struct {
	data []byte    // all of it, or the beginning
	rest io.Reader // what follows data, or nil
	err  error     // of reading

	mu     sync.Mutex
	buffer *[]byte
	left   []byte
	over   bool
}

// gather reads from, and stops after most bytes if there are more.
func (m *Middleware) gather(from io.Reader, most int64) *heldBody {
	buffer, ok := m.bodies.Get().(*[]byte)
	if !ok {
		b := make([]byte, 0, firstBody)
		buffer = &b
	}
	h := &heldBody{buffer: buffer}
	in := bytes.NewBuffer(*buffer)
	n, err := in.ReadFrom(io.LimitReader(from, most+1))
	h.data, h.err = in.Bytes(), err
	h.left, *buffer = h.data, h.data[:0]
	if err == nil && n > most {
		h.rest = from
	}
	return h
}

func (h *heldBody) Read(p []byte) (int, error) {
	h.mu.Lock()
	if h.over {
		h.mu.Unlock()
		return 0, http.ErrBodyReadAfterClose
	}
	n := copy(p, h.left)
	h.left = h.left[n:]
	h.mu.Unlock()
	switch {
	case n > 0 || len(p) == 0:
		return n, nil
	case h.rest != nil:
		return h.rest.Read(p)
	}
	return 0, io.EOF
}

func (h *heldBody) Close() error { return nil }

// release gives the memory back. Nobody reads afterwards.
func (h *heldBody) release(m *Middleware) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over, h.left, h.data = true, nil, nil
	if cap(*h.buffer) <= mostKept {
		m.bodies.Put(h.buffer)
	}
}
