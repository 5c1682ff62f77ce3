package envoyrls

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/weirgate/weir/internal/proctest"
)

// Health is good once there is a configuration and until the drain; the empty name stands for the process, and
// other names are not found.
func TestHealth(t *testing.T) {
	h := build(t, plan{})
	c := h.connect(t)
	check := func(service string) string {
		a, err := grpc_health_v1.NewHealthClient(c).Check(context.Background(), &grpc_health_v1.HealthCheckRequest{Service: service})
		if err != nil {
			return status.Code(err).String()
		}
		return a.Status.String()
	}
	overHTTP := func() int {
		w := httptest.NewRecorder()
		h.HTTP().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthcheck", nil))
		if w.Code == http.StatusOK && w.Body.String() != "OK" {
			t.Errorf("body %q", w.Body)
		}
		return w.Code
	}
	if got := check("ratelimit"); got != "NOT_SERVING" || overHTTP() != http.StatusInternalServerError {
		t.Errorf("without a configuration: %s, %d", got, overHTTP())
	}
	h.Set(parse(t, map[string]string{"c.yaml": someLimits}, plan{}.read))
	for service, want := range map[string]string{"ratelimit": "SERVING", "": "SERVING", "other": "NotFound"} {
		if got := check(service); got != want {
			t.Errorf("%q: %s, want %s", service, got, want)
		}
	}
	if overHTTP() != http.StatusOK {
		t.Error("/healthcheck is not good")
	}
	if err := h.Drain(context.Background()); err != nil {
		t.Error(err)
	}
	if overHTTP() != http.StatusInternalServerError {
		t.Error("/healthcheck is good after the drain")
	}
}

// A call under way ends within the drain, or is cut off and told of.
func TestDrain(t *testing.T) {
	for _, c := range []struct {
		name   string
		ends   bool
		code   codes.Code
		reason string
	}{
		{"in time", true, codes.OK, ""},
		{"too slow", false, codes.Unavailable, "rls: 1 calls cut off"},
	} {
		t.Run(c.name, func(t *testing.T) {
			began, release := make(chan bool, 1), make(chan bool)
			h := build(t, plan{yaml: someLimits, options: Options{Store: &scripted{do: func() error {
				began <- true
				<-release
				return nil
			}}}})
			client := h.dial(t)
			done := make(chan error, 1)
			go func() {
				_, err := client.ShouldRateLimit(context.Background(), request(descriptor("l3", "a")))
				done <- err
			}()
			<-began
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			drained := make(chan error, 1)
			go func() { drained <- h.Drain(ctx) }()
			if c.ends {
				close(release)
			} else {
				proctest.Eventually(t, "the drain", h.drained.Load)
				cancel()
				time.AfterFunc(50*time.Millisecond, func() { close(release) })
			}
			err := <-drained
			if (err == nil) != (c.reason == "") || err != nil && err.Error() != c.reason {
				t.Errorf("drain: %v, want %q", err, c.reason)
			}
			if err := <-done; status.Code(err) != c.code {
				t.Errorf("the call: %v, want %v", err, c.code)
			}
		})
	}
}

// Only POST is answered on /json, and nothing anywhere else.
func TestHTTPPaths(t *testing.T) {
	h := build(t, plan{yaml: someLimits})
	for ask, want := range map[string]int{"GET /json": 405, "POST /healthcheck": 405, "GET /": 404, "GET /healthcheck": 200} {
		method, path, _ := strings.Cut(ask, " ")
		w := httptest.NewRecorder()
		h.HTTP().ServeHTTP(w, httptest.NewRequest(method, path, nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", ask, w.Code, want)
		}
	}
}

// A party is a certificate and its key, in files.
type party struct {
	cert, key string
	parsed    *x509.Certificate
	private   *ecdsa.PrivateKey
}

// issue makes a certificate for name, signed by ca or by itself, and writes it to dir.
func issue(t *testing.T, dir, name string, ca *party) *party {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<60))
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true, IsCA: ca == nil,
	}
	p := &party{cert: filepath.Join(dir, name+".crt"), key: filepath.Join(dir, name+".key"), parsed: c, private: private}
	signer := p
	if ca != nil {
		signer = ca
	}
	der, err := x509.CreateCertificate(rand.Reader, c, signer.parsed, &private.PublicKey, signer.private)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	if p.parsed, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{p.cert: {Type: "CERTIFICATE", Bytes: der}, p.key: {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// With TLS a client needs the certificate and the name that are asked for, and new files are taken for new
// connections; files that cannot be used are not.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	ca := issue(t, dir, "ca", nil)
	server, envoy, other := issue(t, dir, "rls.test", ca), issue(t, dir, "envoy.test", ca), issue(t, dir, "other.test", ca)
	stranger := issue(t, t.TempDir(), "envoy.test", nil)
	var logs strings.Builder
	settings, err := ServerTLS(TLSFiles{Cert: server.cert, Key: server.key, ClientCA: ca.cert, ClientName: "envoy.test"}, slog.New(slog.NewTextHandler(&logs, nil)))
	if err != nil {
		t.Fatal(err)
	}
	h := build(t, plan{yaml: someLimits, options: Options{TLS: settings}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- h.Serve(l) }()
	defer func() {
		_ = h.Drain(context.Background()) // the house says what came of it
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	roots := x509.NewCertPool()
	roots.AddCert(ca.parsed)
	ask := func(who *party) (serial string, err error) {
		c := &tls.Config{RootCAs: roots, ServerName: "rls.test", VerifyConnection: func(s tls.ConnectionState) error {
			serial = s.PeerCertificates[0].SerialNumber.String()
			return nil
		}}
		if who != nil {
			pair, err := tls.LoadX509KeyPair(who.cert, who.key)
			if err != nil {
				t.Fatal(err)
			}
			c.Certificates = []tls.Certificate{pair}
		}
		conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(c)))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, err = pb.NewRateLimitServiceClient(conn).ShouldRateLimit(context.Background(), request(descriptor("l3", "a")))
		return serial, err
	}
	if _, err := ask(envoy); err != nil {
		t.Fatal(err)
	}
	for name, who := range map[string]*party{"nobody": nil, "another name": other, "another CA": stranger} {
		if _, err := ask(who); err == nil {
			t.Errorf("%s was let in", name)
		}
	}
	renewed := issue(t, dir, "rls.test", ca)
	proctest.Eventually(t, "the new certificate", func() bool {
		serial, err := ask(envoy)
		return err == nil && serial == renewed.parsed.SerialNumber.String()
	})
	if err := os.WriteFile(server.key, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	proctest.Eventually(t, "the warning", func() bool {
		serial, err := ask(envoy)
		if err != nil || serial != renewed.parsed.SerialNumber.String() {
			t.Fatalf("%s, %v", serial, err)
		}
		return strings.Contains(logs.String(), "stays as it was")
	})
}

// Files that cannot be used are named.
func TestTLSFiles(t *testing.T) {
	dir := t.TempDir()
	p := issue(t, dir, "a", nil)
	for _, files := range []TLSFiles{{Cert: "missing", Key: p.key}, {Cert: p.cert, Key: p.key, ClientCA: "missing"}, {Cert: p.cert, Key: p.key, ClientCA: p.key}} {
		if _, err := ServerTLS(files, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "rls tls") {
			t.Errorf("%+v: %v", files, err)
		}
	}
}

// A certificate is good for its DNS names and its URIs, letter by letter.
func TestGoodFor(t *testing.T) {
	c := &x509.Certificate{DNSNames: []string{"envoy.test"}, URIs: []*url.URL{{Scheme: "spiffe", Host: "mesh", Path: "/envoy"}}}
	for name, want := range map[string]bool{
		"envoy.test": true, "spiffe://mesh/envoy": true, "spiffe://mesh/envoy2": false, "other.test": false, "spiffe://mesh": false,
	} {
		if err := goodFor(c, name); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
