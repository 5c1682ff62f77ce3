package proxy

import (
	"net/url"
	"strings"

	"github.com/weirgate/weir"
)

// aim points u at the upstream, with the path and query of d as they were sent. sent is them as net/http
// read them.
func (up *upstream) aim(u, sent *url.URL, d *weir.Decision) {
	u.Scheme, u.Host, u.ForceQuery = up.scheme, up.url.Host, sent.ForceQuery
	u.RawQuery = strings.ReplaceAll(d.Request.Query, " ", "%20") // HTTP/2 can carry a space, a request line cannot
	path := d.Request.Path
	if path != "*" {
		path = up.path + path
	}
	if plain(path) && !strings.HasPrefix(path, "//") {
		u.Opaque = path // goes to the wire as it is
		return
	}
	// What cannot stand in a request line is encoded, and the opaque form cannot begin with two slashes.
	u.Path, u.RawPath = up.path+sent.Path, up.path+sent.EscapedPath()
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
