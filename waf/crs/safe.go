package crs

import (
	"net/http"
	"strings"

	"github.com/weirgate/weir/waf"
	"github.com/weirgate/weir/waf/feed"
)

// The fast pass: a request in which every byte is of a kind that no rule of paranoia 1 matches skips the
// rules. TestFastPass runs the rule set's whole suite with and without it.

// maxSafe bounds the path and query that pass fast, in bytes.
const maxSafe = 1024

// isSafe reports whether no rule of paranoia 1 can match the request.
func (r *Rules) isSafe(c *waf.Case) bool {
	in := c.Input
	return isSafeMethod(in) && len(c.Feed.Leaves) == 0 && len(in.Path)+len(in.Query) <= maxSafe && in.Host != "" && !isNumeric(in.Host) &&
		(in.Proto == "HTTP/1.1" || in.Proto == "HTTP/2.0") && isSafePath(in.Path) && isSafeQuery(in.Query) && isSafeHeader(in.Header) &&
		!r.files.In(in.Path) && !r.agents.In(in.Header.Get("User-Agent"))
}

// isSafeMethod reports whether the method goes with the body. A body of which the feed listed nothing
// holds nothing that a rule matches, if the feed read it.
func isSafeMethod(in *waf.Input) bool {
	switch in.Method {
	case "GET", "HEAD", "DELETE":
		return len(in.Body) == 0 && !in.Chunked && in.Header["Content-Type"] == nil && (in.Header["Content-Length"] == nil || in.Header["Content-Length"][0] == "0")
	case "POST", "PUT", "PATCH":
		media := in.Header["Content-Type"]
		return len(in.Body) > 0 && len(media) == 1 && (media[0] == "application/json" || media[0] == "application/json; charset=utf-8")
	}
	return false
}

// isNumeric reports whether the host is an address, of which a rule takes notice.
func isNumeric(host string) bool {
	c := host[0]
	return '0' <= c && c <= '9' || c == '['
}

// isSafePath reports whether every segment is a word with single dots between its parts, and the last
// has no ending that tells of a file on the server.
func isSafePath(path string) bool {
	for i := range len(path) {
		switch c := path[i]; {
		case c == '/' && i+1 < len(path) && (path[i+1] == '.' || path[i+1] == '/'):
			return false
		case c == '.' && i+1 < len(path) && path[i+1] == '.':
			return false
		case c != '/' && !isSafeByte(c):
			return false
		}
	}
	dot := strings.LastIndexByte(path, '.')
	return strings.HasPrefix(path, "/") && (dot < 0 || isSafeEnding(path[dot+1:])) && isSafeWords(path)
}

// isSafeEnding reports whether a path may end so after its last dot: digits, as in a version, or one of
// the endings that an API and its pages serve.
func isSafeEnding(ending string) bool {
	switch ending {
	case "json", "html", "css", "js", "png", "jpg", "svg", "ico", "webp", "woff2", "txt", "xml", "csv", "pdf":
		return true
	}
	return ending != "" && strings.Trim(ending, "0123456789") == ""
}

// isSafeQuery reports whether the query is pairs of words.
func isSafeQuery(query string) bool {
	for i := range len(query) {
		switch c := query[i]; {
		case c == '=' || c == '&':
		case c == '.' && (i == 0 || !isSafeByte(query[i-1]) || query[i-1] == '.'):
			return false
		case !isSafeByte(c):
			return false
		}
	}
	return isSafeWords(query)
}

// isSafeByte reports whether c is a letter, digit, or one of _ - and the dot.
func isSafeByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-' || c == '.'
}

// isSafeWords reports whether none of the words of text is one that a rule knows.
func isSafeWords(text string) bool {
	for len(text) > 0 {
		end := strings.IndexAny(text, "/&=.")
		if end < 0 {
			end = len(text)
		}
		if !feed.Plain(text[:end]) {
			return false
		}
		text = text[min(end+1, len(text)):]
	}
	return true
}

// isSafeHeader reports whether every field is one that all clients send, with a value that clients send.
func isSafeHeader(h http.Header) bool {
	for name, lines := range h {
		if len(lines) != 1 || !isSafeField(name, lines[0]) {
			return false
		}
	}
	return true
}

// isSafeField reports whether no rule matches the field.
func isSafeField(name, value string) bool {
	switch name {
	case "User-Agent":
		return isSafeAgent(value)
	case "Accept":
		return value != "" && isMadeOf(value, "*/;=,.+ ")
	case "Accept-Encoding", "Accept-Language", "Cache-Control", "Pragma", "Te", "Dnt", "Priority", "Upgrade-Insecure-Requests":
		return isMadeOf(value, "*;=,. ")
	case "Connection":
		return strings.EqualFold(value, "keep-alive") || strings.EqualFold(value, "close")
	case "Authorization", "X-Api-Key", "X-Request-Id", "Traceparent", "If-Modified-Since":
		return isMadeOf(value, " =,:")
	case "Origin", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-For", "X-Real-Ip":
		return isMadeOf(value, ":/, ")
	case "Content-Length":
		return isMadeOf(value, "")
	case "Content-Type":
		return true // judged with the method
	}
	return strings.HasPrefix(name, "Sec-Fetch-") && isMadeOf(value, "?")
}

// isMadeOf reports whether value is safe bytes and those of more, without what begins a comment or goes
// up a path.
func isMadeOf(value, more string) bool {
	for i := range len(value) {
		if c := value[i]; !isSafeByte(c) && strings.IndexByte(more, c) < 0 {
			return false
		}
	}
	return !strings.Contains(value, "--") && !strings.Contains(value, "..")
}

// isSafeAgent reports whether value is a browser's or client library's name in the usual form.
func isSafeAgent(value string) bool {
	product, _, _ := strings.Cut(value, "/")
	switch product {
	case "Mozilla", "curl", "Go-http-client", "okhttp", "Dart", "Java", "node", "axios", "python-requests", "PostmanRuntime":
		return isMadeOf(value, "/ ();:,+_")
	}
	return false
}
