package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// elsewhere lets connections seem to come from another address.
type elsewhere struct {
	net.Listener
	peer net.Addr
}

func (l elsewhere) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return fromElsewhere{c, l.peer}, err
}

type fromElsewhere struct {
	net.Conn
	peer net.Addr
}

func (c fromElsewhere) RemoteAddr() net.Addr { return c.peer }

// vector is a case of testdata/proxy-protocol.json.
type vector struct {
	Name   string
	Peer   string `json:"socket_peer"`
	Bytes  string `json:"first_bytes_hex"`
	Config struct {
		Mode    string   `json:"proxy_protocol"`
		Trusted []string `json:"trusted_peers"`
	}
	Expected string
	Client   string `json:"expected_client"`
}

func vectors(t *testing.T) []vector {
	t.Helper()
	data, err := os.ReadFile("testdata/proxy-protocol.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Vectors []vector `json:"proxy_protocol_vectors"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Vectors) != 13 {
		t.Fatalf("%d vectors, want 13", len(file.Vectors))
	}
	return file.Vectors
}

// play sends a vector's bytes to a proxy that is configured as it says, and returns whether they were
// accepted, as whose, and the HTTP status.
func (v vector) play(t *testing.T) (client string, status int) {
	var o Options
	if v.Config.Mode == "required" {
		for _, network := range v.Config.Trusted {
			o.ProxyProtocol = append(o.ProxyProtocol, netip.MustParsePrefix(network))
		}
	}
	peer := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(v.Peer))
	h := build(t, plan{options: o, upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Header.Get("X-Forwarded-For"))
	}), listener: func(l net.Listener) net.Listener { return elsewhere{l, peer} }})
	first, err := hex.DecodeString(v.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	c := h.dial()
	c.Write(first)
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return "", 0 // closed without a word
	}
	body, _ := io.ReadAll(answer.Body)
	return string(body), answer.StatusCode
}

func TestProxyProtocolVectors(t *testing.T) {
	for _, v := range vectors(t) {
		client, status := v.play(t)
		if v.Expected == "accept" && (status != 200 || client != v.Client) {
			t.Errorf("%s: HTTP status %d, client %s, want %s", v.Name, status, client, v.Client)
		}
		if v.Expected == "reject" && status != 400 && status != 0 {
			t.Errorf("%s: HTTP status %d, want a refusal", v.Name, status)
		}
		if v.Name == "untrusted-peer-sends-header" && status != 400 {
			t.Errorf("%s: HTTP status %d, want 400: it is not HTTP", v.Name, status)
		}
	}
}

func TestListedPeersMustSpeakTheProxyProtocol(t *testing.T) {
	o := Options{ProxyProtocol: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, HeaderTimeout: headerTime}
	h := build(t, plan{options: o, upstream: http.HandlerFunc(echo)})
	for _, first := range []string{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", ""} {
		c := h.dial()
		io.WriteString(c, first)
		if got, err := io.ReadAll(c); len(got) > 0 && err == nil {
			t.Errorf("%q: answered %s", first, got)
		}
	}
	if n := h.journal.Totals().Requests; n != 0 {
		t.Errorf("%d requests are recorded", n)
	}
}

// A listed peer that begins with something else is told of; a health check that says nothing, one that
// says LOCAL, and a client that leaves after its header are not.
func TestAMissingProxyHeaderIsTold(t *testing.T) {
	for _, o := range []Options{{}, secure(t)} {
		refused := make(chan string, 10)
		o.ProxyProtocol = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		o.Refused = func(fault string, peer netip.Addr) { refused <- fault + " from " + peer.String() }
		h := build(t, plan{options: o, upstream: http.HandlerFunc(echo)})
		for _, first := range []string{"", "PROXY TCP4 203.0.113.7 10.0.0.1 1 80\r\n", "PROXY UNKNOWN\r\n", signature + "\x20\x00\x00\x00"} {
			c := h.dial()
			io.WriteString(c, first)
			c.(*net.TCPConn).CloseWrite()
			io.ReadAll(c)
		}
		c := h.dial()
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		io.ReadAll(c)
		if got, want := told(refused), noHeader+" from 127.0.0.1"; got != want || len(refused) > 0 || !slices.Contains(Faults(), noHeader) {
			t.Errorf("TLS %v: told of %s and %d more, want %s", o.Cert != "", got, len(refused), want)
		}
	}
}

// The PROXY protocol stands outside TLS, and TLS outside HTTP/2.
func TestProxyProtocolBeforeTLS(t *testing.T) {
	o := secure(t)
	o.ProxyProtocol = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	h := build(t, plan{options: o, upstream: http.HandlerFunc(echo)})
	for _, protocol := range []string{"HTTP/1.1", "h2"} {
		client := h.client(protocol)
		client.Transport.(*http.Transport).DialContext = func(_ context.Context, network, address string) (net.Conn, error) {
			c, err := net.Dial(network, address)
			if err == nil {
				_, err = io.WriteString(c, "PROXY TCP6 2001:db8::7 2001:db8::1 1 443\r\n")
			}
			return c, err
		}
		if _, body := h.get(client, "/"); !strings.Contains(body, "X-Forwarded-For: 2001:db8::7\n") {
			t.Errorf("%s: %s", protocol, body)
		}
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen("unix:" + path); err == nil {
		t.Error("a socket in use was taken")
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close() // leaves the file, as a killed process does
	l, err = Listen("unix:" + path)
	if err != nil {
		t.Fatalf("a stale socket: %v", err)
	}
	l.Close()
	if _, err := os.Stat(path); err == nil {
		t.Error("the file is left")
	}
	write(t, path, nil)
	if _, err := Listen("unix:" + path); err == nil {
		t.Error("a file was taken for a socket")
	}
	if _, err := os.Stat(path); err != nil {
		t.Error("a file was removed")
	}
}

func TestListenSaysWhere(t *testing.T) {
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err = Listen(l.Addr().String()); err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("got %v", err)
	}
}

// served returns the name on the certificate that h shows.
func (h *house) served() string {
	h.t.Helper()
	c, err := tls.Dial("tcp", h.address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
	if err != nil {
		h.t.Fatal(err)
	}
	defer c.Close()
	if got := c.ConnectionState().NegotiatedProtocol; got != "h2" {
		h.t.Errorf("negotiated %q", got)
	}
	return c.ConnectionState().PeerCertificates[0].Subject.CommonName
}

// A renewed certificate is shown to new connections, and one that is not whole to nobody.
func TestCertificateIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	cert, key := certify(t, dir, "one.test")
	h := build(t, plan{options: Options{Cert: cert, Key: key}, upstream: http.HandlerFunc(echo)})
	if got := h.served(); got != "one.test" {
		t.Errorf("at first: %s", got)
	}
	now := time.Now()
	later := func() { now = now.Add(time.Hour); h.certificate.At(now) }
	write(t, cert, []byte("half a certificate"))
	later()
	if got := h.served(); got != "one.test" {
		t.Errorf("while it is broken: %s", got)
	}
	certify(t, dir, "two.test")
	later()
	if got := h.served(); got != "two.test" {
		t.Errorf("at last: %s", got)
	}
	if _, err := newCertificate(filepath.Join(dir, "nowhere.pem"), key, nil); err == nil || !strings.Contains(err.Error(), "nowhere.pem") {
		t.Errorf("a certificate that is not there: %v", err)
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	h := build(t, plan{options: secure(t), upstream: http.HandlerFunc(echo)})
	c, err := tls.Dial("tcp", h.address, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11})
	if err == nil {
		c.Close()
		t.Error("TLS 1.1 was spoken")
	}
}

// The guard stands above TLS, too.
func TestGuardSeesThroughTLS(t *testing.T) {
	h := build(t, plan{options: secure(t), upstream: http.HandlerFunc(echo)})
	c, err := tls.Dial("tcp", h.address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n")
	if answer, _, ended := h.hear(bufio.NewReader(c)); answer.StatusCode != 400 || !ended {
		t.Errorf("%d, ended %v", answer.StatusCode, ended)
	}
}
