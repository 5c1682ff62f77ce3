package config

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Each function here judges one value and returns what to write in its place, or "" if it is good.

// wantListen judges an address to listen on: host:port or unix:/path.
func wantListen(address string) string {
	if file, ok := strings.CutPrefix(address, "unix:"); ok {
		if !strings.HasPrefix(file, "/") && !strings.HasPrefix(file, "@") {
			return "want an absolute path, as in unix:/run/weir.sock"
		}
		return ""
	}
	const want = `want host:port, as in ":8080", or unix:/path`
	host, port, err := net.SplitHostPort(address)
	if err != nil || strings.ContainsAny(host, "/ @") {
		return want
	}
	return wantPort(port)
}

// reaches reports whether a service's URL names the very address that a listener is on, by one of this
// machine's own names.
func reaches(service, listen string) bool {
	u, err := url.Parse(service)
	host, port, wrong := net.SplitHostPort(listen)
	if err != nil || wrong != nil {
		return false
	}
	at := cmp.Or(u.Port(), map[string]string{"https": "443"}[u.Scheme], "80")
	to := strings.ToLower(u.Hostname())
	switch {
	case at != port || port == "0":
		return false
	case host == "" || host == "::":
		return isLoopback(net.JoinHostPort(to, port))
	case host == "0.0.0.0":
		return to == "localhost" || strings.HasPrefix(to, "127.")
	}
	return strings.EqualFold(host, to) || to == "localhost" && (host == "127.0.0.1" || host == "::1")
}

func wantPort(port string) string {
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return "want a port from 0 to 65535"
	}
	return ""
}

// isLoopback reports whether only this machine can reach a listener on address.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if strings.HasPrefix(address, "unix:") || err == nil && strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// wantURL judges the URL of a service, of one of schemes.
func wantURL(text string, schemes ...string) string {
	u, err := url.Parse(text)
	want := "want a URL, as in " + schemes[0] + "://127.0.0.1:3000"
	switch {
	case err != nil || !slices.Contains(schemes, u.Scheme):
		if len(schemes) > 1 {
			want += ", with " + OneOf(schemes, "")
		}
		return want
	case u.Hostname() == "":
		return want
	case strings.Contains(u.Host, "$"):
		return "want a host; a variable is written ${NAME}"
	case u.User != nil:
		return "want no credentials in the URL; they would not be sent"
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "want neither ? nor # in the URL"
	case strings.HasSuffix(u.Host, ":"):
		return "want a port behind the colon"
	case u.Port() != "":
		return wantPort(u.Port())
	}
	return ""
}

// wantKeySet judges the URL of a key set. It may have a query, by which some issuers tell their key sets apart.
func wantKeySet(text string) string {
	before, query, _ := strings.Cut(text, "?")
	if u, err := url.Parse(text); err != nil || u.Fragment != "" || strings.Contains(query, "#") {
		return "want a URL without #, as in https://id.example.com/keys"
	}
	return wantURL(before, "https", "http")
}

// wantOrigins judges whom answers allow to read them: *, an origin, or several separated by commas.
func wantOrigins(text string) string {
	for origin := range strings.SplitSeq(text, ",") {
		if origin = strings.TrimSpace(origin); origin == "*" && text != "*" {
			return "want * alone, for it stands for every origin"
		} else if want := wantOrigin(origin); want != "" {
			return want
		}
	}
	return ""
}

// wantOrigin judges what Access-Control-Allow-Origin may say (RFC 6454 section 6.1).
func wantOrigin(origin string) string {
	if origin == "*" || origin == "null" {
		return ""
	}
	u, err := url.Parse(origin)
	if err != nil || u.Scheme == "" || u.Host == "" || origin != u.Scheme+"://"+u.Host {
		return "want *, or origins without a path, as in https://app.example.com"
	}
	usual := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	switch plain := strings.ToLower(strings.TrimSuffix(u.Host, usual)); {
	case strings.Contains(plain, "*"):
		return "want every origin in full; only * alone stands for others"
	case plain != u.Host:
		return "want it as browsers send it: " + u.Scheme + "://" + plain
	case strings.ContainsFunc(plain, func(r rune) bool { return r > '~' }):
		return "want ASCII; a name in other letters begins with xn--"
	}
	return ""
}

// wantToken judges a header's, method's or cookie's name (RFC 9110, section 5.6.2).
func wantToken(name string) string {
	const signs = "!#$%&'*+-.^_`|~"
	for i := range len(name) {
		c := name[i]
		if !('0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || strings.IndexByte(signs, c) >= 0) {
			return "want letters, digits and " + signs
		}
	}
	if name == "" {
		return "want a name"
	}
	return ""
}

// wantMethod judges an HTTP method. Methods are case-sensitive (RFC 9110, section 9.1).
func wantMethod(method string) string {
	if want := wantToken(method); want != "" {
		return "want a method, as in POST"
	}
	if upper := strings.ToUpper(method); upper != method {
		return "want " + upper + ", in upper case"
	}
	return ""
}

// wantName judges the name of a rule or limit, which stands in headers and in metrics.
func wantName(name string) string {
	for _, r := range name {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			return `want printable ASCII without " and \`
		}
	}
	if name != strings.TrimSpace(name) || len(name) > 128 {
		return "want at most 128 characters, and no spaces around them"
	}
	return ""
}

// wantKey judges the name of a plan or preset, which is the key of a mapping.
func wantKey(name string) string {
	if name == "" {
		return "want a name"
	}
	return wantName(name)
}

// wantHost judges a host pattern: a name, an address, or *.NAME for all below it.
func wantHost(host string) string {
	const want = "want a name without scheme, port and path, as in api.example.com or *.example.com"
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return ""
	}
	if host == "*" {
		return "want no host where any will do"
	}
	for label := range strings.SplitSeq(strings.TrimPrefix(host, "*."), ".") {
		if strings.Contains(label, "*") {
			return "want the * in front alone, as in *.example.com"
		}
		for _, r := range label {
			if r > '~' {
				return "want ASCII; a name in other letters begins with xn--"
			}
		}
		if label == "" || len(label) > 63 || strings.ContainsAny(label, ":/?#@[] %\\") {
			return want
		}
	}
	return ""
}

// wantPath judges a path pattern: /PATH and all below it, or =/PATH alone; * is one segment. Paths are
// compared as they are once they are resolved, so what resolving takes away never matches. A lone *
// is the target of OPTIONS *.
func wantPath(pattern string) string {
	text := strings.TrimPrefix(pattern, "=")
	switch {
	case pattern == "*":
		return ""
	case !strings.HasPrefix(text, "/"):
		return "want a / in front, as in /api or =/api"
	case strings.ContainsAny(text, "?#"):
		return "want the path alone; ? and # never match"
	case strings.ContainsAny(text, ";\\"):
		return "want neither ; nor \\, which never match"
	case strings.Contains(text, "//") || path.Clean(text) != strings.TrimRight(text, "/") && text != "/":
		return "want neither //, /. nor /.., which never match; " + path.Clean(text) + " would"
	}
	for segment := range strings.SplitSeq(text, "/") {
		switch {
		case segment == "**":
			return "want no **; a path takes all below it"
		case segment != "*" && strings.Contains(segment, "*"):
			return "want the * as a whole segment, as in /users/*/orders"
		}
	}
	return ""
}

// wantNetwork judges a network in CIDR form or a single address.
func wantNetwork(text string) string {
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		return ""
	}
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return "want a network or address, as in 192.0.2.0/24"
	case p.Masked() != p:
		return "want the network's first address: " + p.Masked().String()
	}
	return ""
}

// wantPer judges one part of what a limit is counted per.
func wantPer(per string) string {
	words := []string{"client", "ip", "key", "plan", "global", "host", "method", "path", "rule"}
	if kind, name, ok := strings.Cut(per, ":"); ok && (kind == "header" || kind == "cookie") {
		if want := wantToken(name); name == "" {
			return "want a name behind " + kind + ":"
		} else if want != "" {
			return "want a name of " + strings.TrimPrefix(want, "want ") + " behind " + kind + ":"
		}
		return ""
	}
	if slices.Contains(words, per) {
		return ""
	}
	return "want " + OneOf(append(words, "header:NAME", "cookie:NAME"), per)
}
