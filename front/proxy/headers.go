package proxy

import (
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/clientip"
)

// headers says which header fields the upstream may believe. It is never changed.
type headers struct {
	forward Forward
	tags    []string // canonical names that never pass from outside
}

func newHeaders(o UpstreamOptions) *headers {
	h := &headers{forward: o.Forward}
	for _, name := range o.Tags {
		h.tags = append(h.tags, textproto.CanonicalMIMEHeaderKey(name))
	}
	return h
}

// An asker is who sent a request, and by whose word.
type asker struct {
	*weir.Decision
	resolver *clientip.Resolver
}

// request returns the header that the upstream gets: what in says to it, without what poses as a word
// of ours or of a trusted proxy, and what we know about who asks. It shares the lines of in.
func (x *headers) request(in *http.Request, by asker) http.Header {
	const told = 6 // fields that are set below
	h := make(http.Header, len(in.Header)+told)
	untouched := by.Reason == weir.Disabled
	for name, lines := range in.Header {
		if !hopByHop(name) && (untouched || !x.poses(name, in.Header, by)) {
			h[name] = lines
		}
	}
	x.nominate(h, in.Header, by)
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = []string{""} // keeps the transport from naming itself
	}
	if !untouched {
		x.tell(h, in, by)
	}
	return h
}

// hopByHop reports whether name is a field of one connection only (RFC 9110 section 7.6.1).
func hopByHop(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade", "Http2-Settings":
		return true
	}
	return false
}

// nominate follows in's Connection, Upgrade and TE. It deletes the fields that Connection names, but for
// those that are meant for the upstream: naming them there is a way to have a proxy strip a credential.
func (x *headers) nominate(h, in http.Header, by asker) {
	for _, line := range in["Connection"] {
		for option := range strings.SplitSeq(line, ",") {
			name := textproto.CanonicalMIMEHeaderKey(textproto.TrimString(option))
			if !endToEnd(name) && !slices.Contains(x.tags, name) && !by.resolver.IsIdentity(name) {
				delete(h, name)
			}
			if protocol := first(in["Upgrade"]); name == "Upgrade" && mayUpgrade(protocol) {
				h["Connection"], h["Upgrade"] = []string{"Upgrade"}, []string{protocol}
			}
		}
	}
	for _, line := range in["Te"] {
		if strings.Contains(strings.ToLower(line), "trailers") {
			h["Te"] = []string{"trailers"}
		}
	}
}

// mayUpgrade reports whether protocol is not another form of HTTP, in which requests would pass unseen.
func mayUpgrade(protocol string) bool {
	protocol = strings.ToLower(protocol)
	return protocol != "" && !strings.Contains(protocol, "h2c") && !strings.Contains(protocol, "http/") && !strings.Contains(protocol, "tls/")
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
	for _, family := range [...]string{"Accept", "Content-", "If-", "Sec-", "Access-Control-", "X-Weir-", "X-Forwarded-", "Grpc-"} {
		if strings.HasPrefix(name, family) {
			return true
		}
	}
	return false
}

func first(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return lines[0]
}

// cleanTrailer deletes from the trailer fields all that would be believed in a header.
func (x *headers) cleanTrailer(trailer http.Header, r *clientip.Resolver) {
	for name := range trailer {
		if same := hyphened(name); x.ours(same) || r.IsIdentity(same) || strings.HasPrefix(same, "X-Forwarded-") {
			delete(trailer, name)
		}
	}
}

// poses reports whether the field called name must not reach the upstream. Some servers read '_' and
// '.' in a name as '-': such a name is dropped if it then is one of ours, or one that is there as well.
func (x *headers) poses(name string, h http.Header, by asker) bool {
	if strings.IndexByte(name, '_') < 0 && strings.IndexByte(name, '.') < 0 {
		return x.untrusted(name, by)
	}
	same := hyphened(name)
	_, beside := h[same]
	return beside || x.ours(same) || otherTarget(same) || by.resolver.IsIdentity(same) || strings.HasPrefix(same, "X-Forwarded-")
}

// untrusted reports whether name, spelled with hyphens, is a field that nobody trusted has written.
func (x *headers) untrusted(name string, by asker) bool {
	switch {
	case name == "X-Forwarded-Host" || name == "X-Forwarded-Proto", otherTarget(name):
		return true // what there is to say we say
	case by.resolver.IsIdentity(name):
		return !by.resolver.Vouches(name, &by.Client)
	case strings.HasPrefix(name, "X-Forwarded-"):
		return by.Client.Source == weir.Direct
	case slices.Contains(x.tags, name):
		return by.Action != weir.Tag || !strings.EqualFold(by.Rule.TagHeader, name)
	}
	return false
}

// otherTarget reports whether some servers read the field called name in place of the request's path: then no
// rule saw what is asked for (CVE-2018-14773).
func otherTarget(name string) bool { return name == "X-Original-Url" || name == "X-Rewrite-Url" }

// ours reports whether name, spelled with hyphens, is a field that only we may set. The middleware has
// taken away those that came so spelled.
func (x *headers) ours(name string) bool {
	return strings.HasPrefix(name, "X-Weir-") || slices.Contains(x.tags, name)
}

// hyphened returns the canonical name that name is read as where '_' and '.' are the same as '-'.
func hyphened(name string) string {
	folded := []byte(name)
	for i, c := range folded {
		folded[i] = weir.FoldField(c)
	}
	return textproto.CanonicalMIMEHeaderKey(string(folded))
}

const unresolvedHeader = "X-Weir-Client"

// tell sets what we know about who asks. Each field has one value at most.
func (x *headers) tell(h http.Header, in *http.Request, by asker) {
	addr := by.Client.Addr
	if by.Client.Source == weir.Unresolved {
		addr = by.Request.Peer
		h[unresolvedHeader] = []string{"unresolved"}
	}
	values := [4]string{2: by.Request.Host, 3: scheme(in.Header, by)}
	v := values[:]
	if v[2] != "" { // HTTP/1.0 may leave the host out
		h["X-Forwarded-Host"] = v[2:3:3]
	}
	h["X-Forwarded-Proto"] = v[3:4:4]
	if !addr.IsValid() { // a unix socket has no address
		return
	}
	v[0] = addr.String()
	v[1] = v[0]
	if x.forward == Append {
		v[1] = by.resolver.ForwardChain(&by.Request, &by.Client)
	}
	h["X-Real-Ip"], h["X-Forwarded-For"] = v[0:1:1], v[1:2:2]
}

// scheme is what the client used: as a trusted proxy says, which may have ended TLS, else as the
// listener saw it. Traefik tells of WebSockets by theirs, which many services do not know.
func scheme(in http.Header, by asker) string {
	said := in["X-Forwarded-Proto"]
	if by.Client.Source == weir.Direct || len(said) != 1 {
		return by.Request.Scheme
	}
	switch strings.ToLower(said[0]) { // RFC 3986 section 3.1
	case "http", "ws":
		return "http"
	case "https", "wss":
		return "https"
	}
	return by.Request.Scheme
}
