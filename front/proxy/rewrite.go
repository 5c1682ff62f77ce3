package proxy

import (
	"io"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"strings"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/middleware"
)

// rewrite turns a request into the one that the upstream gets.
func (up *upstream) rewrite(pr *httputil.ProxyRequest) {
	in, out := pr.In, pr.Out
	c := middleware.FromContext(in.Context())
	up.aim(out, c.Decision)
	restore(out.Header, in.Header)
	declineUpgrade(out.Header)
	up.headers.clean(out.Header, c.Decision)
	up.headers.tell(out.Header, in, c.Decision)
	if out.Body != nil && in.Trailer != nil {
		up.headers.cleanTrailer(in.Trailer) // as announced
		out.Trailer = in.Trailer            // filled in when the body has been read
		out.Body = &trailed{out.Body, in.Trailer, up.headers}
	}
}

// aim points out at the upstream, with the path and query as they were sent.
func (up *upstream) aim(out *http.Request, d *weir.Decision) {
	out.URL.Scheme, out.URL.Host = up.base.Scheme, up.base.Host
	out.URL.RawQuery = strings.ReplaceAll(d.Request.Query, " ", "%20") // HTTP/2 can carry a space, a request line cannot
	path := d.Request.Path
	if up.base.Path != "" && path != "*" {
		path = up.base.Path + path
	}
	if path == out.URL.EscapedPath() {
		return
	}
	if plain(path) && !strings.HasPrefix(path, "//") {
		out.URL.Opaque = path // goes to the wire as it is
		return
	}
	// What cannot stand in a request line is encoded, and the opaque form cannot begin with two slashes.
	out.URL.Path, out.URL.RawPath = up.base.Path+out.URL.Path, up.base.Path+out.URL.EscapedPath()
}

// plain reports whether path can stand in a request line.
func plain(path string) bool {
	for i := range len(path) {
		if path[i] <= ' ' || path[i] == 0x7f {
			return false
		}
	}
	return true
}

// restore puts back header fields that were nominated in Connection (RFC 9110 section 7.6.1) although
// they are meant for the upstream. Naming them there is a way to have a proxy strip a credential.
func restore(out, in http.Header) {
	for _, line := range in["Connection"] {
		for option := range strings.SplitSeq(line, ",") {
			name := textproto.CanonicalMIMEHeaderKey(textproto.TrimString(option))
			if lines := in[name]; lines != nil && endToEnd(name) {
				out[name] = lines
			}
		}
	}
}

// endToEnd reports whether name is a field that no connection can own: one for the upstream to read, by
// the standards or because we set it.
func endToEnd(name string) bool {
	switch name {
	case "Authorization", "Cookie", "Origin", "Referer", "From", "Host", "Range", "Date", "Via", "Pragma", "Cache-Control",
		"User-Agent", "Expect", "Max-Forwards", "Priority", "Traceparent", "Tracestate", "Baggage", "X-Api-Key",
		"X-Csrf-Token", "X-Requested-With", "X-Request-Id", "X-Http-Method-Override", "Idempotency-Key", "Digest", "Signature",
		"Signature-Input":
		return true
	}
	for _, family := range [...]string{"Accept", "Content-", "If-", "Sec-", "Access-Control-", "X-Weir-", "Grpc-"} {
		if strings.HasPrefix(name, family) {
			return true
		}
	}
	return false
}

// declineUpgrade keeps a connection from changing to another form of HTTP, in which requests would pass
// unseen. Any other protocol may be changed to.
func declineUpgrade(h http.Header) {
	protocol := strings.ToLower(first(h["Upgrade"]))
	if strings.Contains(protocol, "h2c") || strings.Contains(protocol, "http/") || strings.Contains(protocol, "tls/") {
		delete(h, "Upgrade")
		delete(h, "Connection")
	}
	delete(h, "Http2-Settings")
}

func first(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return lines[0]
}

// trailed is a request body whose trailer fields are cleaned as soon as they are there.
type trailed struct {
	io.ReadCloser
	trailer http.Header
	headers *headers
}

func (t *trailed) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	if err == io.EOF {
		t.headers.cleanTrailer(t.trailer)
	}
	return n, err
}
