package proxy

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/internal/enginetest"
	"github.com/weirgate/weir/internal/leaktest"
	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/middleware"
	"github.com/weirgate/weir/store/memory"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// watch only counts nothing: every request passes.
const watchOnly = "default: {limits: []}\n"

// A house is a proxy with everything behind it, listening on loopback.
type house struct {
	*Proxy
	t       testing.TB
	store   *memory.Store
	journal *journal.Journal
	address string
	ends    chan error // what became of each forwarded request, as its outcome says
}

// A plan is what a house is built from. The zero plan watches only.
type plan struct {
	yaml      string // policy
	options   Options
	upstreams UpstreamOptions
	upstream  http.Handler                                               // becomes upstreams.Default, over HTTP/1.1
	next      func(http.ResponseWriter, *http.Request, *middleware.Call) // in place of forwarding
	listener  func(net.Listener) net.Listener
}

// quiet are the fast settings of tests.
func quiet(o Options) Options {
	o.Logger = slog.New(slog.DiscardHandler)
	if o.HeaderTimeout == 0 {
		o.HeaderTimeout = 10 * time.Second
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = 20 * time.Second
	}
	if o.MaxHeader == 0 {
		o.MaxHeader = 16 << 10
	}
	return o
}

// build returns the running house of a plan.
func build(t testing.TB, p plan) *house {
	t.Helper()
	if p.upstream != nil {
		p.upstreams.Default = serve(t, p.upstream).URL
	}
	h := &house{t: t, ends: make(chan error, 5000), store: memory.New(memory.Options{MaxKeys: 10_000})}
	t.Cleanup(h.store.Close)
	s := h.snapshot(p, nil)
	h.journal = journal.New(journal.Options{Recent: 2000, Rules: s.Policy.Names()})
	proxy, err := New(engine.New(s, h.journal, time.Now), quiet(p.options))
	if err != nil {
		t.Fatal(err)
	}
	h.Proxy = proxy
	proxy.next = h.watch
	if p.next != nil {
		proxy.next = p.next
	}
	h.listen(p.listener)
	return h
}

// watch forwards, and keeps how it ended.
func (h *house) watch(w http.ResponseWriter, r *http.Request, c *middleware.Call) {
	defer func() {
		select {
		case h.ends <- c.Outcome.Err:
		default: // nobody asks
		}
	}()
	h.forward(w, r, c)
}

// snapshot compiles a plan, beside the upstreams of the snapshot before.
func (h *house) snapshot(p plan, prev []*engine.Upstream) *engine.Snapshot {
	h.t.Helper()
	if p.yaml == "" {
		p.yaml = watchOnly
	}
	p.upstreams.Connect, p.upstreams.Idle = 2*time.Second, 10*time.Second
	if p.upstreams.ResponseHeader == 0 {
		p.upstreams.ResponseHeader = 10 * time.Second
	}
	ups, err := NewUpstreams(p.upstreams, prev)
	if err != nil {
		h.t.Fatal(err)
	}
	s := enginetest.Snapshot(h.t, p.yaml, h.store)
	s.Upstreams = ups
	return s
}

// listen serves a free port until the test ends.
func (h *house) listen(wrap func(net.Listener) net.Listener) {
	h.t.Helper()
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		h.t.Fatal(err)
	}
	h.address = l.Addr().String()
	if wrap != nil {
		l = wrap(l)
	}
	done := make(chan error, 1)
	go func() { done <- h.Serve(l) }()
	h.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		_ = h.Drain(ctx) // what a test left open is cut off
		if err := <-done; err != nil {
			h.t.Error(err)
		}
	})
}

// url returns the address of a path.
func (h *house) url(path string) string {
	if h.certificate != nil {
		return "https://" + h.address + path
	}
	return "http://" + h.address + path
}

// dial opens a connection of its own for a client that writes bytes.
func (h *house) dial() net.Conn {
	h.t.Helper()
	c, err := net.Dial("tcp", h.address)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(15 * time.Second)) // so that a test that waits in vain ends
	return c
}

// say sends bytes, and returns the first answer with its body, and whether the connection ended then.
func (h *house) say(request string) (*http.Response, string, bool) {
	h.t.Helper()
	c := h.dial()
	if _, err := io.WriteString(c, request); err != nil {
		h.t.Fatal(err)
	}
	return h.hear(bufio.NewReader(c))
}

// hear reads an answer, and whether nothing follows it.
func (h *house) hear(r *bufio.Reader) (*http.Response, string, bool) {
	h.t.Helper()
	answer, err := http.ReadResponse(r, nil)
	if err != nil {
		h.t.Fatalf("no answer: %v", err)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		h.t.Fatalf("half an answer: %v", err)
	}
	if !answer.Close {
		return answer, string(body), false
	}
	_, err = r.ReadByte()
	return answer, string(body), err == io.EOF
}

// client returns a client that speaks one protocol with h.
func (h *house) client(protocol string) *http.Client {
	t := &http.Transport{Protocols: new(http.Protocols), MaxIdleConnsPerHost: 100, DisableCompression: true}
	switch protocol {
	case "HTTP/1.1":
		t.Protocols.SetHTTP1(true)
	case "h2c":
		t.Protocols.SetUnencryptedHTTP2(true)
	case "h2":
		t.Protocols.SetHTTP2(true)
	}
	t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	h.t.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t, Timeout: 20 * time.Second}
}

// get asks for a path and returns the answer with its body.
func (h *house) get(c *http.Client, path string, header ...string) (*http.Response, string) {
	h.t.Helper()
	r, err := http.NewRequest("GET", h.url(path), nil)
	if err != nil {
		h.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	answer, err := c.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return answer, string(body)
}

// recorded waits until n decisions are recorded, and fails if there are more.
func (h *house) recorded(n int) []journal.Entry {
	h.t.Helper()
	h.eventually("records", func() bool { return len(h.journal.Recent(n)) >= n })
	got := h.journal.Recent(n + 1)
	if len(got) != n {
		h.t.Fatalf("%d decisions are recorded, want %d", len(got), n)
	}
	return got
}

// eventually waits for what another goroutine is about to do.
func (h *house) eventually(what string, done func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			h.t.Fatalf("%s: waited for 10 s in vain", what)
		}
	}
}

// serve runs an upstream over HTTP/1.1 and HTTP/2 in the clear.
func serve(t testing.TB, handler http.Handler) *httptest.Server {
	return observed(t, handler, nil)
}

// observed is serve with an eye on the connections.
func observed(t testing.TB, handler http.Handler, follow func(net.Conn, http.ConnState)) *httptest.Server {
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.ConnState = follow
	s.Config.DisableGeneralOptionsHandler = true
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// raw runs an upstream that reads and writes bytes. It gets each connection in a goroutine.
func raw(t testing.TB, talk func(net.Conn)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				talk(c)
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// echo answers with the request as it came: the request line, then the header in order of names.
func echo(w http.ResponseWriter, r *http.Request) {
	var b strings.Builder
	b.WriteString(r.Method + " " + r.RequestURI + "\nHost: " + r.Host + "\n")
	_ = r.Header.Write(&b)
	_, _ = io.WriteString(w, strings.ReplaceAll(b.String(), "\r", ""))
}

// certify writes a new certificate for loopback into dir, and returns the files.
func certify(t testing.TB, dir, name string) (cert, key string) {
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
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	write(t, cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	write(t, key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
	return cert, key
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// secure returns options with a certificate.
func secure(t testing.TB) Options {
	cert, key := certify(t, t.TempDir(), "one.test")
	return Options{Cert: cert, Key: key}
}

// told returns what comes next on c, or the zero T if nothing comes.
func told[T any](c <-chan T) (v T) {
	select {
	case v = <-c:
	case <-time.After(30 * time.Second):
	}
	return v
}
