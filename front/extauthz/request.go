package extauthz

import (
	"context"
	"net/http"
	"net/netip"
	"net/textproto"
	"strings"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/peer"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/clientip"
)

// request is what a tells, as it would have come through the Envoy that asks. Where a tells nothing, it is a
// request without a method, which no policy takes.
func request(ctx context.Context, r *clientip.Resolver, a *authpb.AttributeContext) weir.Request {
	told := a.GetRequest().GetHttp()
	req := weir.Request{Front: "ext_authz", Method: told.GetMethod(), Host: told.GetHost(), Scheme: scheme(told), Header: header(told)}
	req.Path, req.Query = target(told.GetPath())
	req.Peer, req.Unix = asker(ctx)
	behind(r, &req, source(a.GetSource().GetAddress()))
	return req
}

func scheme(told *authpb.AttributeContext_HttpRequest) string {
	if strings.EqualFold(told.GetScheme(), "https") {
		return "https"
	}
	return "http"
}

// target returns the path and query as Envoy received them. One with a raw '#' is a path as a whole, which
// no policy takes.
func target(sent string) (path, query string) {
	if strings.IndexByte(sent, '#') >= 0 {
		return sent, ""
	}
	path, query, _ = strings.Cut(sent, "?")
	if path == "" {
		path = "/" // CONNECT has none
	}
	return path, query
}

// header returns the header lines that Envoy tells of, in either of its two ways: one value per name, or as
// they came (encode_raw_headers).
func header(told *authpb.AttributeContext_HttpRequest) http.Header {
	h := make(http.Header, len(told.GetHeaders())+len(told.GetHeaderMap().GetHeaders())+1)
	for name, value := range told.GetHeaders() {
		add(h, name, value)
	}
	for _, line := range told.GetHeaderMap().GetHeaders() {
		if raw := line.GetRawValue(); len(raw) > 0 {
			add(h, line.GetKey(), string(raw))
			continue
		}
		add(h, line.GetKey(), line.GetValue())
	}
	return h
}

// add adds a line to h, but for pseudo-header fields and Host, which are told apart.
func add(h http.Header, name, value string) {
	name = textproto.CanonicalMIMEHeaderKey(name)
	if name != "" && name[0] != ':' && name != "Host" {
		h[name] = append(h[name], value)
	}
}

// asker returns the other end of the connection that the question came by: the address of the Envoy that
// asks, or whether it is at a unix socket.
func asker(ctx context.Context) (addr netip.Addr, unix bool) {
	p, ok := peer.FromContext(ctx)
	switch {
	case !ok || p.Addr == nil:
		return netip.Addr{}, false
	case p.Addr.Network() == "unix":
		return netip.Addr{}, true
	}
	return weir.ParsePeer(p.Addr.String())
}

// source returns who is connected to Envoy: the other end of the connection itself, whatever
// X-Forwarded-For says, or the PROXY protocol's source where Envoy reads that. It is the zero Addr for a
// unix socket and wherever else there is no address.
func source(a *corepb.Address) netip.Addr {
	addr, err := netip.ParseAddr(a.GetSocketAddress().GetAddress())
	if err != nil || addr.IsUnspecified() {
		return netip.Addr{}
	}
	return weir.Canonical(addr)
}

// chainName is the header that Envoy appends its peer to, under use_remote_address.
const chainName = "X-Forwarded-For"

// behind puts req where Weir would stand behind the asking Envoy, src being who is connected to that. With
// use_remote_address Envoy has written src into the chain before it asks, and without it has not: what is
// there at the very end already is not written again. Nobody but Envoy, or src itself, can have written src
// there. Without src nothing that came with the request is believed: the client is unresolved.
func behind(r *clientip.Resolver, req *weir.Request, src netip.Addr) {
	if !src.IsValid() {
		req.Peer, req.Unix = netip.Addr{}, false
		return
	}
	before := req.Header[chainName]
	r.Behind(req, src)
	if len(req.Header[chainName]) > len(before) && last(before) == src {
		req.Header[chainName] = before
	}
}

// last returns the rightmost entry of a chain, as Envoy writes it, or the zero Addr.
func last(lines []string) netip.Addr {
	if len(lines) == 0 {
		return netip.Addr{}
	}
	line := lines[len(lines)-1]
	addr, err := netip.ParseAddr(strings.TrimSpace(line[strings.LastIndexByte(line, ',')+1:]))
	if err != nil {
		return netip.Addr{}
	}
	return weir.Canonical(addr)
}
