package grpcmw

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/textproto"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/mark"
)

// request is what a call of method says, unjudged: as it came over HTTP/2, where every call is a POST.
func request(ctx context.Context, method string, incoming metadata.MD) weir.Request {
	req := weir.Request{Front: "grpc", Method: http.MethodPost, Path: method, Scheme: "http", Header: header(incoming)}
	if authority := incoming[":authority"]; len(authority) > 0 {
		req.Host = authority[0]
	}
	if p, ok := peer.FromContext(ctx); ok {
		req.Peer, req.Unix = address(p.Addr)
		if p.AuthInfo != nil && p.AuthInfo.AuthType() == "tls" {
			req.Scheme = "https"
		}
	}
	return req
}

// address returns who is at the other end of a connection, and whether it is a unix socket. Connections
// within the process have no address: their callers are one client, unresolved:none.
func address(a net.Addr) (addr netip.Addr, unix bool) {
	switch a := a.(type) {
	case nil:
		return netip.Addr{}, false
	case *net.TCPAddr:
		return weir.Canonical(a.AddrPort().Addr()), false
	case *net.UnixAddr:
		return netip.Addr{}, true
	}
	return weir.ParsePeer(a.String())
}

// header returns the metadata that came as text under its names in HTTP. Binary values are left out: they
// are decoded already, and nothing is decided by them.
func header(incoming metadata.MD) http.Header {
	h := make(http.Header, len(incoming))
	for name, lines := range incoming {
		if !strings.HasPrefix(name, ":") && !strings.HasSuffix(name, "-bin") {
			h[textproto.CanonicalMIMEHeaderKey(name)] = lines
		}
	}
	return h
}

// mark gives the call's context the metadata that the handler may see: without what poses as ours and without
// API keys, and with what the decision has to tell.
func (c *call) mark(incoming metadata.MD) {
	fields, gone := mark.Fields(c.decision), mark.Posers(incoming, c.decision)
	gone = append(gone, c.snapshot.Secrets.Fields(incoming)...)
	if fields == nil && gone == nil {
		return
	}
	marked := incoming.Copy()
	for _, name := range gone {
		delete(marked, name)
	}
	for _, f := range fields {
		marked.Set(f.Name, f.Value)
	}
	c.Context = metadata.NewIncomingContext(c.Context, marked)
}
