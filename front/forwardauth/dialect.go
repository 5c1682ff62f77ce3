package forwardauth

import (
	"net/http"
	"strings"

	"github.com/weirgate/weir"
)

// A dialect is how one proxy tells of the request that it holds. Each names only header fields that its
// proxy overwrites: any other may be the client's own.
type dialect struct {
	path   string // where it is spoken
	method string // these name fields, as net/http keeps them
	target string
	host   string
	scheme string
	id     string // names the request, or empty: the proxy has no name for it that a client cannot choose
	spells bool   // the proxy does not hand on an answer as it is: see spelled
}

var dialects = [...]dialect{
	{
		path: "/auth/nginx", spells: true,
		method: "X-Original-Method", target: "X-Original-Uri", host: "X-Original-Host", scheme: "X-Forwarded-Proto", id: "X-Weir-Request-Id",
	},
	{path: "/auth/caddy", method: "X-Forwarded-Method", target: "X-Forwarded-Uri", host: "X-Forwarded-Host", scheme: "X-Forwarded-Proto"},
	{path: "/auth/traefik", method: "X-Forwarded-Method", target: "X-Forwarded-Uri", host: "X-Forwarded-Host", scheme: "X-Forwarded-Proto"},
}

// dialectAt returns the dialect that is spoken at path, or nil.
func dialectAt(path string) *dialect {
	for i := range dialects {
		if dialects[i].path == path {
			return &dialects[i]
		}
	}
	return nil
}

// read fills req with the request that h tells of, and takes those fields out of h: what is left is the
// client's, and its address's.
func (d *dialect) read(h http.Header, req *weir.Request) fault {
	var f fault
	f = max(f, one(h, d.method, &req.Method))
	f = max(f, one(h, d.host, &req.Host))
	f = max(f, one(h, d.scheme, &req.Scheme))
	var target string
	if f = max(f, one(h, d.target, &target)); f != none {
		return f
	}
	req.Header = h
	return max(readTarget(target, req), readScheme(req))
}

// one takes the only line of a field out of h.
func one(h http.Header, name string, to *string) fault {
	lines := h[name]
	delete(h, name)
	switch len(lines) {
	case 0:
		return missingField
	case 1:
		*to = lines[0]
		return none
	}
	return repeatedField
}

// readTarget reads a request target in origin or asterisk form (RFC 9112, section 3.2). That of CONNECT
// has no path. A raw '#' belongs to the path, which no rule takes then.
func readTarget(target string, req *weir.Request) fault {
	switch {
	case strings.IndexFunc(target, func(c rune) bool { return c <= ' ' || c == 0x7f }) >= 0:
		return badField
	case req.Method == http.MethodConnect && target != "":
		req.Path = "/"
		return none
	case target == "", target[0] != '/' && target != "*":
		return badField
	case strings.IndexByte(target, '#') >= 0:
		req.Path = target
		return none
	}
	req.Path, req.Query, _ = strings.Cut(target, "?")
	return none
}

// readScheme reads req.Scheme as it was sent. Traefik tells of WebSockets by theirs.
func readScheme(req *weir.Request) fault {
	switch req.Scheme {
	case "http", "https":
	case "ws":
		req.Scheme = "http"
	case "wss":
		req.Scheme = "https"
	default:
		return badField
	}
	return none
}

// readID takes the request's name out of h. It is nginx's $request_id, 32 hex digits; anything else is
// no name.
func (d *dialect) readID(h http.Header) string {
	var id string
	if d.id == "" || one(h, d.id, &id) != none || len(id) != 32 || strings.Trim(id, "0123456789abcdef") != "" {
		return ""
	}
	return id
}
