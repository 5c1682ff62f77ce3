package proxy

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"

	"github.com/pires/go-proxyproto"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/front/proxy/guard"
)

// Listen listens on host:port, or on unix:PATH. A socket file that nobody listens on any more is
// replaced.
func Listen(addr string) (net.Listener, error) {
	path, unix := strings.CutPrefix(addr, "unix:")
	if !unix {
		return listen("tcp", addr)
	}
	l, err := listen("unix", path)
	if !errors.Is(err, syscall.EADDRINUSE) || !stale(path) {
		return l, err
	}
	if err := os.Remove(path); err != nil {
		return nil, fmt.Errorf("listen %s: stale socket: %w", addr, err)
	}
	return listen("unix", path)
}

func listen(network, addr string) (net.Listener, error) {
	l, err := net.Listen(network, addr)
	if err != nil {
		return nil, fmt.Errorf("listen %s: %w", addr, err)
	}
	return l, nil
}

// stale reports whether path is a socket that refuses connections, so that its owner is gone.
func stale(path string) bool {
	c, err := net.Dial("unix", path)
	if err == nil {
		c.Close()
		return false
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// guarded returns l with everything between the socket and net/http.
func (p *Proxy) guarded(l net.Listener) net.Listener {
	if len(p.options.ProxyProtocol) > 0 {
		l = &proxyproto.Listener{Listener: l, ConnPolicy: p.speaks, ReadHeaderTimeout: p.options.HeaderTimeout}
	}
	if p.certificate != nil {
		l = tls.NewListener(l, &tls.Config{
			GetCertificate: p.certificate.get,
			MinVersion:     tls.VersionTLS12,
			NextProtos:     []string{"h2", "http/1.1"},
		})
	}
	return &guard.Listener{Listener: l, MaxHeader: p.options.MaxHeader, Stall: p.options.IdleTimeout}
}

// speaks requires the PROXY protocol of the peers that are listed. From all others its header is read
// as the HTTP that it is not.
func (p *Proxy) speaks(c proxyproto.ConnPolicyOptions) (proxyproto.Policy, error) {
	peer, _ := weir.ParsePeer(c.Upstream.String())
	if within(p.options.ProxyProtocol, peer) {
		return proxyproto.REQUIRE, nil
	}
	return proxyproto.SKIP, nil
}

// within reports whether a is in one of the networks.
func within(networks []netip.Prefix, a netip.Addr) bool {
	for _, n := range networks {
		if n.Contains(a) {
			return true
		}
	}
	return false
}
