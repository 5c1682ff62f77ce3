// Package h2spec holds Weir's HTTP/2 against h2spec, which is no part of what Weir depends on: a module of its own.
package h2spec

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/summerwind/h2spec/config"
	"github.com/summerwind/h2spec/generic"
	"github.com/summerwind/h2spec/hpack"
	"github.com/summerwind/h2spec/http2"
	"github.com/summerwind/h2spec/spec"
)

// deliberate are the cases that Weir does not pass, and why.
func deliberate() map[string]string {
	return map[string]string{
		"http2/3.5/2":     "what does not begin as HTTP/2 is HTTP/1 to it, and answered 400 as such",
		"http2/4.2/3":     "net/http takes frames of up to 1 MiB, as it announces; the case believes in 16 KiB",
		"http2/6.5.3/1":   "net/http ends connections whose SETTINGS say a thing twice",
		"http2/8.1.2.2/1": "net/http answers 400 and passes nothing on, where a stream error is asked for",
		"http2/8.1.2.2/2": "likewise",
	}
}

// certify writes a certificate and its key into dir.
func certify(t *testing.T, dir string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "cert.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	write(t, filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
}

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// build returns the binary under test.
func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "weir")
	build := exec.Command("go", "build", "-o", binary, "./cmd/weir")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}

// start runs Weir before a service, and returns the port.
func start(t *testing.T, binary, tls string) int {
	t.Helper()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a body that breaks off is the attack
		io.WriteString(w, "an answer that is long enough for every case")
	}))
	t.Cleanup(service.Close)
	dir := t.TempDir()
	certify(t, dir)
	write(t, filepath.Join(dir, "weir.yaml"), []byte("listen: \"127.0.0.1:0\"\nadmin: \"\"\nupstream: \""+service.URL+"\"\ndefault: {limits: []}\n"+tls))
	weir := exec.Command(binary, "run")
	weir.Dir = dir
	stderr, err := weir.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := weir.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = weir.Process.Kill() // it may have ended, which fails the test elsewhere
		_ = weir.Wait()
	})
	return port(t, stderr)
}

// port finds in the log where Weir listens, and reads on.
func port(t *testing.T, log io.Reader) int {
	t.Helper()
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		var fields struct{ Msg, Listen string }
		if json.Unmarshal(lines.Bytes(), &fields) != nil || fields.Msg != "weir is running" {
			continue
		}
		go func() { _, _ = io.Copy(io.Discard, log) }()
		_, text, _ := net.SplitHostPort(fields.Listen)
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	t.Fatal("weir does not run")
	return 0
}

// failures returns the cases of a group that failed.
func failures(g *spec.TestGroup) (failed []string) {
	for i, c := range append(g.Tests, g.StrictTests...) {
		if c.Result != nil && c.Result.Failed {
			failed = append(failed, fmt.Sprintf("%s/%d: %s", g.ID(), i+1, c.Desc))
		}
	}
	for _, below := range g.Groups {
		failed = append(failed, failures(below)...)
	}
	return failed
}

// Weir passes h2spec, strict cases included, in the clear and below TLS, but for what it means to do otherwise.
func TestH2Spec(t *testing.T) {
	binary := build(t)
	for name, tls := range map[string]string{"clear": "", "TLS": "tls: {cert: cert.pem, key: key.pem}\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits for silences most of the time
			c := &config.Config{Host: "127.0.0.1", Port: start(t, binary, tls), Path: "/", Timeout: 2 * time.Second, MaxHeaderLen: 4000,
				Strict: true, TLS: tls != "", Insecure: true}
			passed, reasons := 0, deliberate()
			for _, g := range []*spec.TestGroup{generic.Spec(), http2.Spec(), hpack.Spec()} {
				g.Test(c)
				passed += g.PassedCount
				for _, f := range failures(g) {
					id, _, _ := strings.Cut(f, ":")
					if reasons[id] == "" {
						t.Errorf("failed: %s", f)
					}
					delete(reasons, id)
				}
			}
			if passed < 140 || len(reasons) > 0 {
				t.Errorf("%d passed, want at least 140; these fail deliberately, and passed: %v", passed, reasons)
			}
		})
	}
}
