package proxy

import (
	"bytes"
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
	if f, err := os.Lstat(path); err != nil || f.Mode().Type() != os.ModeSocket {
		return false
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		c.Close()
		return false
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// guarded returns l with everything between the socket and net/http.
func (p *Proxy) guarded(l net.Listener) net.Listener {
	l = inRoom{l, &p.room}
	if len(p.options.ProxyProtocol) > 0 {
		l = &proxyproto.Listener{Listener: unspecified{l}, ConnPolicy: p.speaks, ReadHeaderTimeout: p.options.HeaderTimeout}
		l = announced{l, p}
	}
	if p.certificate != nil {
		l = tls.NewListener(l, &tls.Config{
			GetCertificate: p.certificate.get,
			MinVersion:     tls.VersionTLS12,
			NextProtos:     []string{"h2", "http/1.1"},
		})
	}
	return &guard.Listener{
		Listener:  l,
		MaxHeader: p.options.MaxHeader,
		Stall:     p.options.IdleTimeout,
		Refused:   func(f guard.Fault, peer net.Addr) { p.refused(f.Name(), peer.String()) },
	}
}

// refused tells whoever wants to know. The peer is as [net.Addr] writes it.
func (p *Proxy) refused(fault, peer string) {
	if p.options.Refused != nil {
		addr, _ := weir.ParsePeer(peer)
		p.options.Refused(fault, addr)
	}
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

// unspecified lets connections begin with a PROXY protocol header without an address, which HAProxy
// writes where it knows none: version 2, command PROXY, family UNSPEC. The specification (section 2.2)
// leaves it to the receiver to use the peer's address then; proxyproto does so for command LOCAL only.
type unspecified struct{ net.Listener }

func (l unspecified) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &unspecifiedConn{Conn: c}, nil
}

type unspecifiedConn struct {
	net.Conn
	began bool
}

const (
	signature = "\r\n\r\n\x00\r\nQUIT\n"
	proxyV2   = '\x21' // version 2, command PROXY
	localV2   = '\x20' // version 2, command LOCAL
)

// Read makes the one header of the other. Headers come in one piece (section 2).
func (c *unspecifiedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.began && n > 0 {
		c.began = true
		if bytes.HasPrefix(p[:n], []byte(signature+string(proxyV2)+"\x00")) {
			p[len(signature)] = localV2
		}
	}
	return n, err
}

// NetConn returns the connection below.
func (c *unspecifiedConn) NetConn() net.Conn { return c.Conn }

// announced tells the proxy of connections that begin with something else than the PROXY protocol. They
// are closed without an answer. Who connects and says nothing, as a health check does, is not told of.
type announced struct {
	net.Listener
	proxy *Proxy
}

func (l announced) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if must, ok := c.(*proxyproto.Conn); ok {
		return &announcedConn{Conn: must, proxy: l.proxy}, nil
	}
	return c, err
}

type announcedConn struct {
	*proxyproto.Conn
	proxy *Proxy
	began bool
}

// Read reads what follows the header.
func (c *announcedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.began {
		c.began = true
		if below, ok := c.Raw().(*unspecifiedConn); ok && below.began && err != nil && c.ProxyHeader() == nil {
			c.proxy.refused(noHeader, below.RemoteAddr().String())
		}
	}
	return n, err
}
