package middleware

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/weirgate/weir"
)

// An exchange is one admitted request and its answer, in one piece of memory.
type exchange struct {
	house   *Middleware
	call    Call
	request *http.Request
	body    body
	held    *heldBody // the body, once it was read whole, or nil
	w       hijackable
}

// pass hands x to next, if its body and its firewall let it.
func (x *exchange) pass(next func(http.ResponseWriter, *http.Request, *Call)) {
	r := x.request
	if !x.call.Snapshot.Policy.Disabled {
		if !x.take() {
			return
		}
		r = marked(r, &x.call)
	}
	next(x.w.asFor(), r, &x.call)
}

// refuse answers x with a rejection.
func (x *exchange) refuse(why weir.Reason, status int) {
	x.call.Decision.Refuse(why, status)
	x.w.status = x.call.Snapshot.Respond.Refusal(x.w.to, x.request, x.call.Decision)
}

// response is the writer that next gets. It sets the rate limit fields the moment the header is sent,
// so that they replace next's own, and sees the HTTP status.
type response struct {
	to       http.ResponseWriter
	exchange *exchange
	status   int  // sent, or 0
	replaced bool // the answer is a refusal in place of next's
}

// A hijackable is a response over HTTP/1, which can be taken over and knows sendfile.
type hijackable struct{ response }

// asFor returns w as next may use it: hijackable if the writer behind it is.
func (w *hijackable) asFor() http.ResponseWriter {
	if _, ok := w.to.(http.Hijacker); ok {
		return w
	}
	return &w.response
}

// Unwrap lets [http.ResponseController] reach deadlines and full duplex.
func (w *response) Unwrap() http.ResponseWriter { return w.to }

// SetReadDeadline is what [http.ResponseController] calls. The body's pace holds beside it.
func (w *response) SetReadDeadline(t time.Time) error {
	asked := int64(0)
	if !t.IsZero() {
		asked = t.UnixNano()
	}
	w.exchange.body.asked.Store(asked)
	return http.NewResponseController(w.to).SetReadDeadline(t)
}

func (w *response) Header() http.Header { return w.to.Header() }

// WriteHeader sends the header. Informational ones pass as they are.
func (w *response) WriteHeader(status int) {
	if status >= 100 && status < 200 && status != http.StatusSwitchingProtocols {
		w.to.WriteHeader(status)
		return
	}
	if w.status != 0 {
		w.to.WriteHeader(status) // net/http tells the author of next
		return
	}
	if fault := w.exchange.body.fault.Load(); fault != nil {
		w.replace(fault)
		return
	}
	w.commit(status)
	w.to.WriteHeader(status)
}

// commit is the last moment before the header is sent.
func (w *response) commit(status int) {
	w.status = status
	c := &w.exchange.call
	if !c.Snapshot.Policy.Disabled {
		c.Snapshot.Respond.Headers(w.to.Header(), c.Decision)
	}
}

// replace refuses where next was kept from reading the whole body, whatever next says.
func (w *response) replace(fault *bodyFault) {
	w.replaced = true
	w.exchange.refuse(fault.why, fault.status)
}

// start sends the implied header.
func (w *response) start() {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
}

// finish sets the fields of an answer that net/http will complete, since next did not write any.
func (w *response) finish() {
	switch fault := w.exchange.body.fault.Load(); {
	case w.status != 0:
	case fault != nil:
		w.replace(fault)
	default:
		w.commit(http.StatusOK)
	}
}

func (w *response) Write(b []byte) (int, error) {
	w.start()
	if w.replaced {
		return len(b), nil
	}
	return w.to.Write(b)
}

// WriteString implements io.StringWriter.
func (w *response) WriteString(s string) (int, error) {
	w.start()
	if w.replaced {
		return len(s), nil
	}
	return io.WriteString(w.to, s)
}

// Flush implements http.Flusher.
func (w *response) Flush() { _ = w.FlushError() } // this interface has no room for it

// FlushError is what [http.ResponseController] calls.
func (w *response) FlushError() error {
	w.start()
	return http.NewResponseController(w.to).Flush()
}

// ReadFrom keeps sendfile working.
func (w *hijackable) ReadFrom(from io.Reader) (int64, error) {
	w.start()
	if w.replaced {
		return io.Copy(io.Discard, from)
	}
	if to, ok := w.to.(io.ReaderFrom); ok {
		return to.ReadFrom(from)
	}
	return io.Copy(struct{ io.Writer }{w.to}, from)
}

// Hijack hands over the connection. The call goes on until next returns: a WebSocket is in flight for
// as long as its handler runs.
func (w *hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	sent := w.status
	if sent == 0 {
		w.commit(http.StatusSwitchingProtocols)
	}
	conn, buffered, err := http.NewResponseController(w.to).Hijack()
	if err != nil {
		w.status = sent
	}
	return conn, buffered, err
}
