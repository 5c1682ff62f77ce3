package middleware

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/weirgate/weir"
)

// An exchange is one admitted request and its answer, in one piece of memory.
type exchange struct {
	call     Call
	request  *http.Request
	body     boundedBody
	tooLarge atomic.Bool // the body went past its bound
	w        hijackable
}

// pass hands x to next, if its body may be as long as it says.
func (x *exchange) pass(next func(http.ResponseWriter, *http.Request, *Call)) {
	r := x.request
	if !x.call.Snapshot.Policy.Disabled {
		if tooLong(x.call.Decision, r) {
			x.call.Snapshot.Respond.Problem(&x.w, r, http.StatusRequestEntityTooLarge, tooLarge)
			return
		}
		x.boundBody()
		r = marked(r, x.call.Decision)
	}
	next(x.w.asFor(), r, &x.call)
}

// response is the writer that next gets. It sets the rate limit fields the moment the header is sent,
// so that they replace next's own, and sees the HTTP status.
type response struct {
	to       http.ResponseWriter
	exchange *exchange
	status   int  // sent, or 0
	replaced bool // the answer is a 413 in place of next's
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
	if w.exchange.tooLarge.Load() {
		w.replace()
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

const tooLarge = "The request body is larger than the service takes."

// replace answers 413 where next was kept from reading the whole body, whatever next says.
func (w *response) replace() {
	w.commit(http.StatusRequestEntityTooLarge)
	w.replaced = true
	w.exchange.call.Snapshot.Respond.Problem(w.to, w.exchange.request, w.status, tooLarge)
}

// start sends the implied header.
func (w *response) start() {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
}

// finish sets the fields of an answer that net/http will complete, since next did not write any.
func (w *response) finish() {
	switch {
	case w.status != 0:
	case w.exchange.tooLarge.Load():
		w.replace()
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

// A boundedBody fails once more than its bound was read, and notes that it did.
type boundedBody struct {
	io.ReadCloser
	tooLarge *atomic.Bool
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		var past *http.MaxBytesError
		b.tooLarge.CompareAndSwap(false, errors.As(err, &past))
	}
	return n, err
}

// tooLong reports whether r declares a body above the rule's bound.
func tooLong(d *weir.Decision, r *http.Request) bool {
	return maxBody(d) > 0 && r.ContentLength > maxBody(d)
}

// boundBody puts the rule's bound before a body of undeclared length. A declared one is bounded by
// net/http.
func (x *exchange) boundBody() {
	bound := maxBody(x.call.Decision)
	if bound == 0 || x.request.ContentLength >= 0 {
		return
	}
	// net/http's own writer must be given: then the connection ends with the answer.
	x.body = boundedBody{http.MaxBytesReader(x.w.to, x.request.Body, bound), &x.tooLarge}
	x.request.Body = &x.body
}

func maxBody(d *weir.Decision) int64 {
	if d.Rule == nil {
		return 0
	}
	return d.Rule.MaxBody
}
