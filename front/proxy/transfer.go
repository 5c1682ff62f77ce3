package proxy

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weirgate/weir/clientip"
	"github.com/weirgate/weir/middleware"
)

// A transfer takes one request to its upstream and the answer back, as they come. It does what
// httputil.ReverseProxy does, without that one's copies of headers: those cost as much as the decision.
type transfer struct {
	proxy *Proxy
	w     http.ResponseWriter
	in    *http.Request
	call  *middleware.Call
	up    *upstream

	// What the upstream's request consists of lies here, in one piece of memory.
	url   url.URL
	body  requestBody
	trace httptrace.ClientTrace

	informing sync.Mutex // held while w is written by the transport
	informed  bool       // the final answer is there: nothing comes before it any more
}

// run returns when the answer has ended.
func (t *transfer) run() {
	out := t.request()
	defer t.body.done.Store(true)
	begin(t.call)
	res, err := t.ask(out)
	answered(t.call)
	t.informing.Lock()
	t.informed = true
	t.informing.Unlock()
	switch {
	case err != nil:
		t.fail(err)
	case res.StatusCode == http.StatusSwitchingProtocols:
		t.upgrade(res, out.Header)
	case res.StatusCode < http.StatusOK: // below 100: net/http would panic rather than write it
		res.Body.Close()
		t.fail(fmt.Errorf("upstream answered with status %d", res.StatusCode))
	default:
		t.answer(res)
	}
}

// ask sends out, and tells the span about it if the request is traced.
func (t *transfer) ask(out *http.Request) (*http.Response, error) {
	if t.call.Span == nil {
		return t.send(out)
	}
	done := t.call.Span.Upstream(out)
	res, err := t.send(out)
	status := 0
	if err == nil {
		status = res.StatusCode
	}
	done(status, err)
	return res, err
}

// send sends out. Where there is no room for a connection, those that other upstreams keep unused make some.
func (t *transfer) send(out *http.Request) (*http.Response, error) {
	res, err := t.up.transport.RoundTrip(out)
	if !errors.Is(err, errNoLink) {
		return res, err
	}
	for _, up := range ours(t.call.Snapshot.Upstreams) {
		if up.transport != t.up.transport { // it has used its own
			up.transport.CloseIdleConnections()
		}
	}
	return t.up.transport.RoundTrip(out) // nothing of it was read
}

// request returns what the upstream gets.
func (t *transfer) request() *http.Request {
	t.trace.Got1xxResponse = t.inform
	out := t.in.WithContext(httptrace.WithClientTrace(t.in.Context(), &t.trace))
	t.up.aim(&t.url, t.in.URL, t.call.Decision)
	t.url.RawQuery = t.call.Snapshot.Secrets.WithoutKey(t.url.RawQuery)
	out.URL = &t.url
	by := asker{t.call.Decision, t.call.Snapshot.Policy.Resolver()}
	out.Header = t.up.headers.request(t.in, by)
	out.Close = false
	out.Body, out.Trailer = nil, nil // a request without a body can be sent again
	if t.in.ContentLength != 0 {
		t.body.from = t.in.Body
		out.Body = &t.body
		if t.in.Trailer != nil {
			t.up.headers.cleanTrailer(t.in.Trailer, by.resolver) // as announced
			out.Trailer = t.in.Trailer                           // filled in when the body has been read
			t.body.trailer, t.body.headers, t.body.resolver = t.in.Trailer, t.up.headers, by.resolver
		}
	}
	return out
}

// inform passes an informational answer on to an asker over HTTP/1.1 (RFC 9110 section 15.2). Over HTTP/2
// net/http may go on reading the header after WriteHeader has returned, if the stream was reset, and
// there is no telling when it is done. The transport calls inform from a goroutine of its own.
func (t *transfer) inform(status int, header textproto.MIMEHeader) error {
	if !t.in.ProtoAtLeast(1, 1) || t.in.ProtoMajor > 1 {
		return nil
	}
	t.informing.Lock()
	defer t.informing.Unlock()
	if t.informed {
		return nil
	}
	h := t.w.Header()
	last := h["Connection"] // the final answer says whether it is
	delete(h, "Connection")
	for name, lines := range header {
		h[name] = lines
	}
	t.w.WriteHeader(status)
	clear(h)
	if last != nil {
		h["Connection"] = last
	}
	return nil
}

// answer passes the answer on.
func (t *transfer) answer(res *http.Response) {
	h := t.w.Header()
	for name, lines := range res.Header {
		if !hopByHop(name) {
			h[name] = lines
		}
	}
	for _, line := range res.Header["Connection"] {
		for option := range strings.SplitSeq(line, ",") {
			h.Del(textproto.TrimString(option))
		}
	}
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // keeps net/http from guessing one
	}
	announced := len(res.Trailer)
	for name := range res.Trailer {
		h.Add("Trailer", name)
	}
	t.w.WriteHeader(res.StatusCode)
	err := t.copy(res)
	res.Body.Close() // fills in the trailer fields
	if err != nil {
		t.abort(err)
	}
	t.trailers(res.Trailer, announced)
}

// trailers passes trailer fields on, announced or not.
func (t *transfer) trailers(trailer http.Header, announced int) {
	if len(trailer) == 0 {
		return
	}
	// A body that is short, or empty, would get a length from net/http, and no trailer fields.
	_ = http.NewResponseController(t.w).Flush()
	prefix := http.TrailerPrefix
	if len(trailer) == announced {
		prefix = ""
	}
	h := t.w.Header()
	for name, lines := range trailer {
		h[prefix+name] = lines
	}
}

// copy passes the body on. What has no length, or is a stream of events, is not held back.
func (t *transfer) copy(res *http.Response) error {
	if res.ContentLength == 0 {
		return nil
	}
	buffer := t.up.buffers.get()
	defer t.up.buffers.put(buffer)
	if res.ContentLength > 0 && !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		return pour(t.w, res.Body, buffer[:], func() error { return nil })
	}
	flush := http.NewResponseController(t.w).Flush
	if flush() != nil { // the header does not wait for the body
		return errNotTaken
	}
	return pour(t.w, res.Body, buffer[:], flush)
}

// pour copies from to w until its end, and calls flush after each piece. The error is errNotTaken if it is w's.
func pour(w io.Writer, from io.Reader, buffer []byte, flush func() error) error {
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil || flush() != nil {
				return errNotTaken
			}
		}
		switch err {
		case nil:
		case io.EOF:
			return nil
		default:
			return err
		}
	}
}

// A requestBody is the client's body as the transport reads it. Closing it does nothing: the transport
// may do so before the client was told to send it, and net/http would wait for it.
type requestBody struct {
	from     io.Reader
	trailer  http.Header // cleaned as soon as it is there; nil: none
	headers  *headers
	resolver *clientip.Resolver
	done     atomic.Bool // the handler has returned, and the body is net/http's again
	broken   atomic.Bool // the client did not send what it said it would
}

func (b *requestBody) Read(p []byte) (int, error) {
	if b.done.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.from.Read(p)
	if err == io.EOF && b.trailer != nil {
		b.headers.cleanTrailer(b.trailer, b.resolver)
	}
	if err != nil && err != io.EOF {
		b.broken.Store(true)
	}
	return n, err
}

func (b *requestBody) Close() error { return nil }
