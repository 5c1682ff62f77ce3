package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirgate/weir/internal/leaktest"
	"github.com/weirgate/weir/internal/proctest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// logs are the lines that a Weir wrote.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// lines returns those that say what, each as its fields.
func (l *logs) lines(what string) (found []map[string]any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		fields := map[string]any{}
		if json.Unmarshal([]byte(line), &fields) != nil {
			fields = map[string]any{"msg": "not JSON: " + line}
		}
		if msg, _ := fields["msg"].(string); strings.Contains(msg, what) {
			found = append(found, fields)
		}
	}
	return found
}

const (
	refusedLine = "configuration not reloaded"
	changedLine = "configuration changed"
	sameLine    = "the configuration says what it said before"
	restartLine = "these settings take effect at the next start"
)

// A house is a running Weir before a running service.
type house struct {
	*App
	t    testing.TB
	logs *logs
	file string // of the configuration
	stop context.CancelFunc
	done chan error
}

// A plan is what a house is built from.
type plan struct {
	yaml    string       // with ${LISTEN}, ${ADMIN} and ${UPSTREAM} where they belong
	service http.Handler // nil: one that says yes
	env     []string
	edit    func(*Options)
}

// basics is what most configurations begin with.
const basics = "listen: \"${LISTEN}\"\nadmin: \"${ADMIN}\"\nupstream: \"${UPSTREAM}\"\n"

// options returns the options of a plan, whose files lie in a folder of the test.
func options(t testing.TB, p plan) (Options, *logs) {
	t.Helper()
	if p.service == nil {
		p.service = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "yes") })
	}
	file, written := filepath.Join(t.TempDir(), "weir.yaml"), new(logs)
	write(t, file, p.yaml)
	o := Options{Config: file, Log: written, Version: "test",
		Env: append([]string{"LISTEN=127.0.0.1:0", "ADMIN=localhost:0", "UPSTREAM=" + serve(t, p.service), "WEIR_DATA_DIR=" + filepath.Join(filepath.Dir(file), "data")}, p.env...)}
	if !strings.Contains(p.yaml, "drain:") {
		o.Env = append(o.Env, "WEIR_SERVER_DRAIN=5s") // of which a tenth is waited for every unused connection
	}
	if p.edit != nil {
		p.edit(&o)
	}
	return o, written
}

// build returns the running house of a plan. It is stopped when the test ends, if not before.
func build(t testing.TB, p plan) *house {
	t.Helper()
	o, written := options(t, p)
	a, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	return run(t, a, o, written)
}

// run runs what Start returned.
func run(t testing.TB, a *App, o Options, written *logs) *house {
	ctx, stop := context.WithCancel(context.Background())
	h := &house{App: a, t: t, logs: written, file: o.Config, stop: stop, done: make(chan error, 1)}
	go func() { h.done <- a.Run(ctx) }()
	t.Cleanup(func() { h.end() })
	return h
}

// end stops the house and returns what Run returned.
func (h *house) end() error {
	h.stop()
	err := <-h.done
	h.done <- err // for whoever asks again
	return err
}

// serve runs a service over HTTP/1.1 and HTTP/2 in the clear until the test ends, and returns its URL.
func serve(t testing.TB, handler http.Handler) string {
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// rename puts text in the place of a file in one step.
func rename(t testing.TB, path, text string) {
	t.Helper()
	write(t, path+".new", text)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// url returns the address of a path behind Weir.
func (h *house) url(path string) string {
	return "http://" + h.fronts[0].listener.Addr().String() + path
}

// client returns one that speaks HTTP/1.1, or HTTP/2 in the clear.
func client(t testing.TB, http2 bool) *http.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 200, Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(!http2)
	transport.Protocols.SetUnencryptedHTTP2(http2)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

// An answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask returns the answer to one request.
func ask(c *http.Client, url string, header ...string) (answer, error) {
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return answer{}, err
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := c.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(body)}, err
}

// get is ask for a path behind Weir.
func (h *house) get(path string) answer {
	h.t.Helper()
	a, err := ask(client(h.t, false), h.url(path))
	if err != nil {
		h.t.Fatal(err)
	}
	return a
}

// passes counts how many of n requests pass.
func (h *house) passes(n int, path string) (passed int) {
	h.t.Helper()
	c := client(h.t, false)
	for range n {
		a, err := ask(c, h.url(path))
		if err != nil {
			h.t.Fatal(err)
		}
		if a.status == http.StatusOK {
			passed++
		}
	}
	return passed
}

// admin asks the admin address for a path.
func (h *house) adminGet(path string, header ...string) answer {
	h.t.Helper()
	c := client(h.t, false)
	defer c.CloseIdleConnections() // the admin address holds so many
	a, err := ask(c, "http://"+h.admin.listener.Addr().String()+path, header...)
	if err != nil {
		h.t.Fatal(err)
	}
	return a
}

// metric returns the value of one series, as in weir_config_reload_total{result="failure"}, or -1.
func (h *house) metric(series string) float64 {
	h.t.Helper()
	for line := range strings.Lines(h.adminGet("/metrics").body) {
		if text, ok := strings.CutPrefix(line, series+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				h.t.Fatal(err)
			}
			return v
		}
	}
	return -1
}

// reloads puts yaml in the file's place and in force.
func (h *house) reloads(yaml string) {
	h.t.Helper()
	rename(h.t, h.file, yaml)
	if err := h.Reload(); err != nil {
		h.t.Fatal(err)
	}
}

// eventually waits for what another goroutine is about to do.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: waited for 15 s in vain", what)
		}
	}
}

// A load is a stream of requests that should all pass.
type load struct {
	t     testing.TB
	stop  chan bool
	tasks sync.WaitGroup
	mu    sync.Mutex
	asked int
	wrong []string
}

// underLoad asks for url from four connections, about 400 times per second.
func underLoad(t testing.TB, url string) *load {
	l := &load{t: t, stop: make(chan bool)}
	for range 4 {
		c := client(t, false)
		l.tasks.Go(func() {
			every := time.NewTicker(10 * time.Millisecond)
			defer every.Stop()
			for {
				select {
				case <-l.stop:
					return
				case <-every.C:
					l.note(ask(c, url))
				}
			}
		})
	}
	return l
}

func (l *load) note(a answer, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	if err != nil || a.status != http.StatusOK {
		l.wrong = append(l.wrong, fmt.Sprint(a.status, " ", err))
	}
}

// flows waits until n more requests were answered.
func (l *load) flows(n int) {
	asked := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.asked
	}
	before := asked()
	eventually(l.t, "load", func() bool { return asked() >= before+n })
}

// end stops the load and complains of every request that did not pass.
func (l *load) end() {
	l.t.Helper()
	close(l.stop)
	l.tasks.Wait()
	if len(l.wrong) > 0 {
		l.t.Errorf("%d of %d requests failed: %v", len(l.wrong), l.asked, slices.Compact(l.wrong))
	}
	l.t.Logf("%d requests", l.asked)
}

// free returns a loopback address that nobody listens on.
func free(t testing.TB) string {
	t.Helper()
	addr, err := proctest.QuietAddress()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}
