package middleware

import (
	"net/http"
	"strings"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/credential"
	"github.com/weirgate/weir/internal/mark"
)

// request is what r says, unjudged.
func (m *Middleware) request(r *http.Request) weir.Request {
	req := weir.Request{Front: m.front, Method: r.Method, Host: r.Host, Scheme: "http", Header: r.Header}
	req.Peer, req.Unix = m.peer(r)
	if r.TLS != nil {
		req.Scheme = "https"
	}
	req.Path, req.Query = target(r)
	return req
}

// target returns the path and query as they were sent. The authority of an absolute form is r.Host
// already, where net/http puts it in place of the Host header (RFC 9112, section 3.2.2). A target that
// is none of the forms of section 3.2, or has a raw '#', is a path as a whole: one that no policy takes.
func target(r *http.Request) (path, query string) {
	sent := r.RequestURI
	switch {
	case sent == "": // not from the wire: a request that a program made
		return orRoot(r.URL.EscapedPath()), r.URL.RawQuery
	case strings.IndexByte(sent, '#') >= 0:
		return sent, ""
	case sent[0] == '/' || sent == "*":
	case r.Method == http.MethodConnect:
		return "/", ""
	default:
		_, rest, absolute := strings.Cut(sent, "://")
		if !absolute {
			return sent, ""
		}
		sent = rest[len(rest)-len(strings.TrimLeftFunc(rest, inAuthority)):]
	}
	path, query, _ = strings.Cut(sent, "?")
	return orRoot(path), query
}

func inAuthority(c rune) bool { return c != '/' && c != '?' }

func orRoot(path string) string {
	if path == "" {
		return "/"
	}
	return path
}

// marked returns r as next may see it: without header fields that pose as ours and without API keys, and with
// what the decision has to tell. r itself is not changed.
func marked(r *http.Request, c *Call) *http.Request {
	secrets := c.Snapshot.Secrets
	fields, gone := mark.Fields(c.Decision), mark.Posers(r.Header, c.Decision)
	gone = append(gone, secrets.Fields(r.Header)...)
	if expectationMet(r) {
		gone = append(gone, "Expect")
	}
	if secrets.InQuery(c.Decision.Request.Query) {
		r = withoutKey(r, secrets)
	}
	if fields == nil && gone == nil {
		return r
	}
	to := *r
	to.Header = r.Header.Clone()
	for _, name := range gone {
		delete(to.Header, name)
	}
	for _, f := range fields {
		to.Header.Set(f.Name, f.Value)
	}
	return &to
}

// expectationMet reports whether the asker was told to go on, since the body of r was read already. A service
// that is asked again would tell him again, or keep whoever asks waiting.
func expectationMet(r *http.Request) bool {
	_, held := r.Body.(*heldBody)
	line := r.Header["Expect"]
	return held && len(line) == 1 && strings.EqualFold(line[0], "100-continue")
}

// withoutKey returns r without the API key in its query.
func withoutKey(r *http.Request, secrets *credential.Places) *http.Request {
	to, u := *r, *r.URL
	u.RawQuery = secrets.WithoutKey(u.RawQuery)
	to.URL = &u
	if path, query, found := strings.Cut(r.RequestURI, "?"); found {
		to.RequestURI = path
		if query = secrets.WithoutKey(query); query != "" {
			to.RequestURI += "?" + query
		}
	}
	return &to
}
