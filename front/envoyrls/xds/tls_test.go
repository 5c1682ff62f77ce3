package xds

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirgate/weir/internal/proctest"
)

// An authority signs certificates.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.cert, a.key = a.sign(t, "ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// sign writes NAME.pem and NAME.key.
func (a *authority) sign(t *testing.T, name string, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	a.write(t, name+".pem", &pem.Block{Type: "CERTIFICATE", Bytes: der})
	a.write(t, name+".key", &pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})
	signed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return signed, key
}

func (a *authority) write(t *testing.T, name string, b *pem.Block) {
	t.Helper()
	if err := os.WriteFile(a.file(name), pem.EncodeToMemory(b), 0o600); err != nil {
		t.Fatal(err)
	}
}

// With TLS both sides show a certificate, and the server's must be good for the name that is wanted.
func TestBothSidesShowCertificates(t *testing.T) {
	a := newAuthority(t)
	a.sign(t, "server", &x509.Certificate{DNSNames: []string{"gateway.test"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	a.sign(t, "client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	pair, err := tls.LoadX509KeyPair(a.file("server.pem"), a.file("server.key"))
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(a.cert)
	secure := &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: trusted, ClientAuth: tls.RequireAndVerifyClientCert}
	good := TLSFiles{Cert: a.file("client.pem"), Key: a.file("client.key"), ServerCA: a.file("ca.pem"), ServerName: "gateway.test"}
	for name, c := range map[string]struct {
		files TLSFiles
		taken bool
	}{
		"good":           {good, true},
		"another name":   {TLSFiles{Cert: good.Cert, Key: good.Key, ServerCA: good.ServerCA, ServerName: "other.test"}, false},
		"no certificate": {TLSFiles{ServerCA: good.ServerCA, ServerName: good.ServerName}, false},
		"unknown server": {TLSFiles{Cert: good.Cert, Key: good.Key, ServerName: good.ServerName}, false},
	} {
		l := listen(t, "127.0.0.1:0")
		s := start(t, l, secure)
		s.push(t, "1", domain("d", 3))
		config, err := ClientTLS(c.files)
		if err != nil {
			t.Fatal(err)
		}
		k := run(t, Options{Server: l.Addr().String(), TLS: config})
		if c.taken {
			proctest.Eventually(t, "a configuration", func() bool { return k.limit("d") == 3 })
			continue
		}
		k.paused(t)
		if got := k.limit("d"); got != -3 {
			t.Errorf("%s: limit %d, want none", name, got)
		}
	}
}

// Files that cannot be used are named.
func TestBadTLSFiles(t *testing.T) {
	a := newAuthority(t)
	missing := a.file("missing.pem")
	for _, c := range []struct {
		files TLSFiles
		want  string
	}{
		{TLSFiles{ServerCA: missing}, missing},
		{TLSFiles{ServerCA: a.file("ca.key")}, "ca.key holds no PEM certificate"},
		{TLSFiles{Cert: a.file("ca.pem")}, "ca.pem"},
		{TLSFiles{Cert: missing, Key: a.file("ca.key")}, missing},
	} {
		if _, err := ClientTLS(c.files); err == nil || !strings.HasPrefix(err.Error(), "xds tls: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s in it", c.files, err, c.want)
		}
	}
}
