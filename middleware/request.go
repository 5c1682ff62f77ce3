package middleware

import (
	"net/http"
	"strings"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/respond"
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

const (
	shadowHeader = "X-Weir-Shadow"
	ownPrefix    = "x-weir-"
)

// mark returns r as next may see it: without header fields that pose as ours, and with what the
// decision has to tell. r itself is changed only by getting a header of its own.
func mark(r *http.Request, d *weir.Decision) *http.Request {
	tag := tagOf(d)
	shadow := respond.ShadowRefusals(d)
	posing := posers(r.Header, tagHeader(d))
	if tag == "" && shadow == nil && posing == nil {
		return r
	}
	marked := *r
	marked.Header = r.Header.Clone()
	for _, name := range posing {
		delete(marked.Header, name)
	}
	if shadow != nil {
		marked.Header.Set(shadowHeader, strings.Join(shadow, ", "))
	}
	if tag != "" {
		marked.Header.Set(tagHeader(d), tag)
	}
	return &marked
}

func tagHeader(d *weir.Decision) string {
	if d.Rule == nil {
		return ""
	}
	return d.Rule.TagHeader
}

// tagOf returns what the tag header says: the limits that were passed, or the reason where there is
// none. It is empty if d does not tag.
func tagOf(d *weir.Decision) string {
	if d.Action != weir.Tag || tagHeader(d) == "" {
		return ""
	}
	var names []string
	for i := range d.Statuses {
		if s := &d.Statuses[i]; !s.Allowed && s.Limit.Mode == weir.Enforce {
			names = append(names, s.Limit.Name)
		}
	}
	if names == nil {
		return string(d.Reason)
	}
	return strings.Join(names, ", ")
}

// posers returns the names in h that some servers read as X-Weir-… or as the tag header: in any case,
// and with '_' or '.' for '-'.
func posers(h http.Header, tag string) []string {
	var names []string
	for name := range h {
		if len(name) >= len(ownPrefix) && weir.SameField(name[:len(ownPrefix)], ownPrefix) || tag != "" && weir.SameField(name, tag) {
			names = append(names, name)
		}
	}
	return names
}
