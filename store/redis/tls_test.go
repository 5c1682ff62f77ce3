package redis

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/proctest"
	"github.com/weirgate/weir/internal/redistest"
)

// startTLS starts a server that speaks TLS on a port of its own, and returns that address and what
// trusts it.
func startTLS(t *testing.T) (addr string, trust *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames: []string{"redis.example"}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pemFile(t, "CERTIFICATE", der)
	if addr, err = proctest.QuietAddress(); err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(addr)
	redistest.Start(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", pemFile(t, "PRIVATE KEY", secret),
		"--tls-ca-cert-file", cert, "--tls-auth-clients", "no")
	pool := x509.NewCertPool()
	own, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(own)
	return addr, &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

func pemFile(t *testing.T, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// FAL-01: TLS to a server without, and none to a server that speaks nothing else, are told by one line
// each at the first request; so is a name that is not the certificate's.
func TestTLSMismatch(t *testing.T) {
	addr, trust := startTLS(t)
	plain := redistest.Start(t)
	stranger := trust.Clone()
	stranger.ServerName = "other.example"
	for _, c := range []struct {
		name string
		o    Options
		want string // of the error; empty where there is none
	}{
		{"as it should be", Options{URL: "rediss://" + addr, TLS: trust, Timeout: patience}, ""},
		{"TLS to a plain server", Options{URL: "rediss://" + plain.Addr, Timeout: short}, "does the server speak TLS (rediss://)"},
		{"plain to a TLS server", Options{URL: "redis://" + addr, Timeout: patience}, "as one does that speaks TLS only (rediss://)"},
		{"plain with a password", Options{URL: "redis://:hush@" + addr, Timeout: patience}, "as one does that speaks TLS only (rediss://)"},
		{"nobody we trust", Options{URL: "rediss://" + addr, Timeout: patience}, "certificate signed by unknown authority"},
		{"another name", Options{URL: "rediss://" + addr, TLS: stranger, Timeout: patience}, "certificate is valid for redis.example"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := openWith(t, c.o)
			for range 3 {
				eventually(t, c.name, func() error { // a busy machine may take longer for a handshake than it is waited for
					_, err := take(s, hitOn(&weir.Limit{Max: 5, Window: time.Hour}, "a", 1))
					text := fmt.Sprint(err)
					if strings.ContainsAny(text, "\n\x15") || strings.Contains(text, "hush") {
						t.Errorf("%v, want one line without the password", err)
					}
					if (err == nil) == (c.want == "") && strings.Contains(text, c.want) {
						return nil
					}
					return fmt.Errorf("%v, want one about %q", err, c.want)
				})
			}
		})
	}
}

// A server that answers a handshake in its own words is no TLS server either.
func TestHandshakeAnswered(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4096))
			_, _ = c.Write([]byte("-ERR unknown command\r\n"))
			c.Close()
		}
	}()
	s := openWith(t, Options{URL: "rediss://" + l.Addr().String(), Timeout: patience})
	_, err = take(s, hitOn(&weir.Limit{Max: 5, Window: time.Hour}, "a", 1))
	if err == nil || !strings.Contains(err.Error(), errNoHandshake.Error()) {
		t.Errorf("%v, want %v", err, errNoHandshake)
	}
}

// A connection that was good and ends is no matter of TLS.
func TestEndOfAGoodConnection(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	l := &weir.Limit{Max: 5, Window: time.Hour}
	mustTake(t, s, hitOn(l, "a", 1))
	server.Kill()
	for range 2 * poolSize {
		if _, err := take(s, hitOn(l, "a", 1)); err == nil || strings.Contains(err.Error(), "TLS") {
			t.Errorf("%v, want an error that does not speak of TLS", err)
		}
	}
}

func TestIsAlert(t *testing.T) {
	for text, want := range map[string]bool{
		"\x15\x03\x01\x00\x02\x02\x46": true, "\x15\x03": true, "\x15": false, "": false, "+PONG\r\n": false, "\x16\x03\x01": false,
	} {
		if got := isAlert([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
