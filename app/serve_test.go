package app

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Of 1,000 parallel requests against a limit of 100, exactly 100 pass, on HTTP/1.1 and HTTP/2.
func TestExactlyTheLimitPasses(t *testing.T) {
	const asked, wide = 1000, 100
	for _, http2 := range []bool{false, true} {
		var seen, passed, refused atomic.Int64
		h := build(t, plan{yaml: basics + "default: {limits: [{rate: 100/1h, per: client}]}\n",
			service: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen.Add(1) })})
		c := client(t, http2)
		var asking sync.WaitGroup
		for range wide {
			asking.Go(func() {
				for range asked / wide {
					switch a, err := ask(c, h.url("/")); {
					case err != nil:
						t.Error(err)
					case a.status == http.StatusOK:
						passed.Add(1)
					case a.status == http.StatusTooManyRequests:
						refused.Add(1)
					}
				}
			})
		}
		asking.Wait()
		if passed.Load() != 100 || refused.Load() != 900 || seen.Load() != 100 {
			t.Errorf("HTTP/2 %v: %d passed, %d refused, the service saw %d", http2, passed.Load(), refused.Load(), seen.Load())
		}
	}
}

// Requests in flight end when Weir is told to stop; nobody new is let in; Run returns nil.
func TestStopDrains(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		began, release := make(chan bool), make(chan bool)
		h := build(t, plan{yaml: basics, service: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			began <- true
			<-release
			io.WriteString(w, "done")
		})})
		answered := make(chan string, 1)
		go func() {
			a, err := ask(client(t, http2), h.url("/"))
			answered <- fmt.Sprint(a.body, err)
		}()
		<-began
		h.stop()
		eventually(t, "the listener's end", func() bool { return refuses("tcp", h.fronts[0].listener.Addr().String()) })
		select {
		case err := <-h.done:
			t.Fatalf("Run did not wait: %v", err)
		default:
		}
		close(release)
		if got := <-answered; got != "done<nil>" {
			t.Errorf("HTTP/2 %v: %s", http2, got)
		}
		if err := h.end(); err != nil {
			t.Errorf("Run returned %v", err)
		}
		if !refuses("tcp", h.admin.listener.Addr().String()) {
			t.Error("the admin address is open after Run")
		}
	}
}

func refuses(network, address string) bool {
	c, err := net.Dial(network, address)
	if err == nil {
		c.Close()
	}
	return err != nil
}

// While the drain lasts requests are decided, and what follows from decisions follows: an offence is punished.
func TestStopJudgesToTheLast(t *testing.T) {
	began, release := make(chan bool), make(chan bool)
	h := build(t, plan{service: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { began <- true; <-release }),
		yaml: nightly("") + "server: {drain: 5m}\nrules: [{name: trap, path: /trap, limits: [{rate: 0/1m}]}]\npenalties: [{after: 1 denials in 10m, ban: 1h}]\n"})
	var asking sync.WaitGroup
	defer asking.Wait()
	defer close(release)
	asking.Go(func() {
		if a, err := ask(client(t, false), h.url("/"), "Connection", "close"); err != nil || a.status != http.StatusOK {
			t.Errorf("what was under way ended with %d, %v", a.status, err)
		}
	})
	<-began
	h.stop()
	eventually(t, "the drain", h.draining.Load)
	if a, err := ask(client(t, false), h.url("/trap"), "X-Forwarded-For", "203.0.113.9"); err != nil || a.status != http.StatusTooManyRequests {
		t.Fatalf("got %d, %v", a.status, err)
	}
	eventually(t, "a ban", func() bool { return h.bans.Count() == 1 })
}

// What was upgraded has until the drain's end, is cut off then, and that is no failure.
func TestStopCutsOffWebSockets(t *testing.T) {
	h := build(t, plan{yaml: basics + "server: {drain: 200ms}\n", service: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello\n")
		io.Copy(io.Discard, c)
	})})
	c, err := net.Dial("tcp", h.fronts[0].listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(15 * time.Second))
	io.WriteString(c, "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	r := bufio.NewReader(c)
	if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("upgrade: %v, %v", res, err)
	}
	if line, err := r.ReadString('\n'); line != "hello\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	began := time.Now()
	if err := h.end(); err != nil {
		t.Errorf("Run returned %v", err)
	}
	if took := time.Since(began); took < 200*time.Millisecond {
		t.Errorf("cut off after %v, want the whole drain of 200 ms", took)
	}
	if _, err := r.ReadByte(); err == nil {
		t.Error("the connection is open")
	}
	if got := len(h.logs.lines("1 requests cut off")); got != 1 {
		t.Errorf("%d lines tell of it, want 1", got)
	}
}

// If one thing cannot be opened, nothing stays open, and the message names the address and the cure.
func TestStartLeavesNothingOpen(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	front, socket := free(t), filepath.Join(t.TempDir(), "weir.sock")
	tests := map[string]struct {
		yaml string
		want []string
	}{
		"front taken":  {"listen: " + taken.Addr().String(), []string{"listen " + taken.Addr().String(), "address already in use", "--listen"}},
		"admin taken":  {"listen: " + front + "\nadmin: " + taken.Addr().String(), []string{"admin " + taken.Addr().String(), "address already in use", "--admin"}},
		"socket":       {"listen: unix:" + socket + "\nadmin: " + taken.Addr().String(), []string{"admin 127.0.0.1"}},
		"no folder":    {"listen: unix:" + socket + "/nowhere/x.sock", []string{"listen unix:"}},
		"not ours":     {"listen: 192.0.2.1:8080", []string{"192.0.2.1:8080", "no interface"}},
		"certificate":  {"listen: " + front + "\ntls: {cert: testdata/nowhere.pem, key: testdata/nowhere.key}", []string{"testdata/nowhere.pem", "tls.cert"}},
		"unknown name": {"listen: " + front + "\nadmin_token: x\nadmin: \"nowhere.invalid:1\"", []string{"admin nowhere.invalid:1"}},
	}
	for name, test := range tests {
		o, written := options(t, plan{yaml: test.yaml + "\nupstream: \"${UPSTREAM}\"\n"})
		if !strings.Contains(test.yaml, "admin:") {
			o.Env = append(o.Env, "WEIR_ADMIN=")
		}
		ignore := goleak.IgnoreCurrent()
		a, err := Start(o)
		if err == nil {
			a.close()
			t.Errorf("%s: started", name)
			continue
		}
		for _, want := range test.want {
			if strings.Count(err.Error(), want) != 1 {
				t.Errorf("%s: %v: want %q in it, once", name, err, want)
			}
		}
		var config *ConfigError
		if errors.As(err, &config) {
			t.Errorf("%s: is a ConfigError, as if the file were wrong", name)
		}
		if lines := written.lines("running"); len(lines) > 0 {
			t.Errorf("%s: %v", name, lines)
		}
		if !refuses("tcp", front) || !refuses("unix", socket) {
			t.Errorf("%s: the front is open", name)
		}
		if err := goleak.Find(ignore); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	l, err := net.Listen("tcp", front)
	if err != nil {
		t.Fatalf("the port is not free again: %v", err)
	}
	l.Close()
}

// Metrics want the token, health does not.
func TestAdminTokens(t *testing.T) {
	h := build(t, plan{yaml: basics + "admin_token: all\nadmin_read_token: look\n"})
	for _, test := range []struct {
		path, authorization string
		want                int
	}{
		{"/metrics", "", 401},
		{"/metrics", "Bearer ", 401},
		{"/metrics", "Bearer wrong", 401},
		{"/metrics", "Bearer alll", 401},
		{"/metrics", "Basic all", 401},
		{"/metrics", "all", 401},
		{"/metrics", "Bearer all", 200},
		{"/metrics", "bearer all", 200}, // the scheme is case-insensitive: RFC 9110 section 11.1
		{"/metrics", "Bearer look", 200},
		{"/livez", "", 200},
		{"/readyz", "", 200},
		{"/nowhere", "", 404},
	} {
		a := h.adminGet(test.path, "Authorization", test.authorization)
		if a.status != test.want {
			t.Errorf("%s with %q: %d, want %d", test.path, test.authorization, a.status, test.want)
		}
		if a.status == 401 && a.header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s: 401 without a challenge (RFC 9110 section 15.5.2)", test.path)
		}
	}
}

func TestAdminWithoutATokenOnLoopback(t *testing.T) {
	h := build(t, plan{yaml: basics})
	h.get("/")
	if got := h.metric(`weir_decisions_total{action="pass",front="proxy",rule="default"}`); got != 1 {
		t.Errorf("decisions: %v, want 1", got)
	}
}

// An upstream that is not there keeps nothing from starting: one line, and answers of 502 until it is.
func TestUpstreamOutOfReach(t *testing.T) {
	nowhere := free(t)
	h := build(t, plan{yaml: strings.ReplaceAll(basics, "${UPSTREAM}", "http://"+nowhere) + "routes: [{path: /a, upstream: \"http://" + nowhere + "\"}]\n"})
	eventually(t, "the warning", func() bool { return len(h.logs.lines("upstream cannot be reached")) > 0 })
	for range 2 {
		a := h.get("/")
		var problem struct{ Status int }
		if err := json.Unmarshal([]byte(a.body), &problem); err != nil || a.status != 502 || problem.Status != 502 ||
			a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("got %d %v %q", a.status, a.header, a.body)
		}
	}
	if got := h.logs.lines("upstream cannot be reached"); len(got) != 1 {
		t.Errorf("%d lines about one upstream: %v", len(got), got)
	}
	h.reloads(read(t, h.file) + "rules: [{name: r, path: /r, limits: []}]\n")
	h.reloads(read(t, h.file) + "client: {ipv6_tiers: {}}\n")
	other := free(t)
	h.reloads(strings.Replace(read(t, h.file), nowhere, other, 1)) // the first of the two
	eventually(t, "the other's warning", func() bool { return len(h.logs.lines("upstream cannot be reached")) == 2 })
	l, err := net.Listen("tcp", nowhere)
	if err != nil {
		t.Skip("somebody took the port: ", err)
	}
	service := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	go service.Serve(l)
	defer service.Close()
	if a := h.get("/a"); a.status != 200 {
		t.Errorf("after the upstream came: %d", a.status)
	}
}

// enabled: false passes everything as it came, by file or by environment.
func TestDisabledPassesUntouched(t *testing.T) {
	strict := basics + "default: {limits: [{rate: 0/1m}]}\nrules: [{name: r, path: /r, action: drop, limits: [{rate: 0/1m}]}]\n"
	for name, p := range map[string]plan{
		"file":        {yaml: strict + "enabled: false\n"},
		"environment": {yaml: strict, env: []string{"WEIR_ENABLED=false"}},
	} {
		p.service = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("RateLimit", "the service's own")
			fmt.Fprint(w, r.RequestURI)
		})
		h := build(t, p)
		for _, path := range []string{"/", "/r", "/a//b/../c?x;y"} {
			a := h.get(path)
			if a.status != 200 || a.body != path || a.header.Get("RateLimit") != "the service's own" || a.header.Get("RateLimit-Policy") != "" {
				t.Errorf("%s: %s: got %d %v %q", name, path, a.status, a.header, a.body)
			}
		}
	}
}

func TestListensOnIPv6(t *testing.T) {
	if l, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Skip("no IPv6 here: ", err)
	} else {
		l.Close()
	}
	h := build(t, plan{yaml: basics, env: []string{"LISTEN=[::1]:0"}, service: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Header.Get("X-Forwarded-For"))
	})})
	if a := h.get("/"); a.status != 200 || a.body != "::1" {
		t.Errorf("got %d, client %q", a.status, a.body)
	}
}

// A socket file is made, served, and gone afterwards; one that a dead process left is no obstacle.
func TestListensOnUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.sock")
	stale, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	stale.Close()
	h := build(t, plan{yaml: basics, env: []string{"LISTEN=unix:" + path}})
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	defer transport.CloseIdleConnections()
	if a, err := ask(&http.Client{Transport: transport}, "http://unix/"); err != nil || a.status != 200 {
		t.Errorf("got %d, %v", a.status, err)
	}
	transport.CloseIdleConnections()
	if err := h.end(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

// certify writes a new certificate with that name.
func certify(t testing.TB, cert, key, name string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	private8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	rename(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	rename(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private8})))
}

// A renewed certificate is served without a restart, a broken one leaves the old.
func TestCertificateIsReloaded(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certify(t, cert, key, "one.test")
	h := build(t, plan{yaml: basics + "tls: {cert: " + cert + ", key: " + key + "}\n"})
	name := func() string {
		c, err := tls.Dial("tcp", h.fronts[0].listener.Addr().String(), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	if got := name(); got != "one.test" {
		t.Fatalf("served %s", got)
	}
	rename(t, cert, "no certificate")
	eventually(t, "the complaint", func() bool { return name() == "one.test" && len(h.logs.lines("certificate could not be read")) > 0 })
	certify(t, cert, key, "two.test")
	eventually(t, "the new certificate", func() bool { return name() == "two.test" })
}

// A connection that is refused before there is a request leaves a count and a line.
func TestRefusedConnectionsAreNoted(t *testing.T) {
	h := build(t, plan{yaml: basics})
	c, err := net.Dial("tcp", h.fronts[0].listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n")
	if answer, _ := io.ReadAll(c); !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") {
		t.Errorf("answered %q", answer)
	}
	eventually(t, "the count", func() bool { return h.metric(`weir_refused_connections_total{fault="bare_lf"}`) == 1 })
	eventually(t, "the line", func() bool { return len(h.logs.lines("refused connection")) == 1 })
	if n := h.metric(`weir_refused_connections_total{fault="no_proxy_header"}`); n != 0 {
		t.Errorf("a fault that did not occur is counted %v times", n)
	}
}

// A listener that dies under a running Weir ends it with an error that names it.
func TestRunEndsWithItsListener(t *testing.T) {
	for name, kill := range map[string]func(*house){
		"proxy 127.0.0.1:": func(h *house) { h.fronts[0].listener.Close() },
		"admin":            func(h *house) { h.admin.listener.Close() },
	} {
		h := build(t, plan{yaml: basics})
		if a := h.get("/"); a.status != 200 {
			t.Fatal(a.status)
		}
		h.adminGet("/livez") // both serve
		kill(h)
		err := <-h.done
		h.done <- err
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: Run returned %v", name, err)
		}
		if !refuses("tcp", h.fronts[0].listener.Addr().String()) || !refuses("tcp", h.admin.listener.Addr().String()) {
			t.Errorf("%s: something is left open", name)
		}
	}
}
