package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/admin"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/internal/leaktest"
	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/policy"
	"github.com/weirgate/weir/store/memory"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const rules = `
client: {path: [nginx]}
limits: [{name: site, rate: 100/1m, per: global}]
rules:
  - {name: search, path: /search, limits: [{rate: 3/1m}, {name: trial, rate: 1/1m, mode: shadow}]}
default: {limits: [{rate: 5/1m}]}
`

// A house is a server with all below it.
type house struct {
	*admin.Server
	engine  *engine.Engine
	journal *journal.Journal
	trail   *admin.Trail

	mu     sync.Mutex
	config *config.Config
	next   string // what a reload reads
}

// build returns the house of the rules. change may change the options.
func build(t testing.TB, change func(*admin.Options)) *house {
	t.Helper()
	store := memory.New(memory.Options{MaxKeys: 10_000})
	t.Cleanup(store.Close)
	h := &house{trail: admin.NewTrail(t.TempDir()), next: rules}
	var p *policy.Policy
	h.config, p = compile(t, rules)
	open := false
	gauges := journal.Gauges{MemoryKeys: store.Keys, MemoryEvictions: store.Evictions, BreakerOpen: func() bool { return open }}
	h.journal = journal.New(journal.Options{Rules: p.Names(), Gauges: gauges})
	h.engine = engine.New(&engine.Snapshot{Policy: p, Store: store}, h.journal, time.Now)
	o := admin.Options{
		Engine: h.engine, Journal: h.journal, Local: admin.Loopback, Version: "test", Started: time.Now(), Ready: func() error { return nil },
		Fronts: []admin.FrontPlace{{Name: "listen", Address: "127.0.0.1:8080"}}, Backend: "memory", Gauges: gauges,
		Config: h.inForce, Reload: h.reload, NeedStart: func() []string { return nil }, Problems: func(err error) []string { return []string{err.Error()} },
		Trail: h.trail,
	}
	if change != nil {
		change(&o)
	}
	h.Server = admin.New(o)
	return h
}

func compile(t testing.TB, yaml string) (*config.Config, *policy.Policy) {
	t.Helper()
	cfg, problems := config.Parse("weir.yaml", []byte(yaml), nil)
	p, more := policy.Compile(cfg)
	if p == nil || config.HasErrors(problems) {
		t.Fatal(problems, more)
	}
	return cfg, p
}

func (h *house) inForce() admin.InForce {
	h.mu.Lock()
	defer h.mu.Unlock()
	return admin.InForce{File: "weir.yaml", Hash: fmt.Sprintf("%p", h.config), Config: h.config}
}

var errBroken = errors.New("weir.yaml:1:1: rulez: unknown key")

func (h *house) reload() (admin.InForce, error) {
	if h.next == "" {
		return admin.InForce{}, errBroken
	}
	cfg, problems := config.Parse("weir.yaml", []byte(h.next), nil)
	if config.HasErrors(problems) {
		return admin.InForce{}, errBroken
	}
	h.mu.Lock()
	h.config = cfg
	h.mu.Unlock()
	return h.inForce(), nil
}

// visit has a client behind the proxy ask for path n times.
func (h *house) visit(client, path string, n int) {
	for range n {
		s := h.engine.Current()
		d := h.engine.Decide(context.Background(), s, weir.Request{
			Front: "proxy", Peer: netip.MustParseAddr("127.0.0.1"), Method: "GET", Host: "example.com", Path: path, Scheme: "http",
			Header: http.Header{"X-Forwarded-For": {client}},
		})
		h.engine.Record(s, d, weir.Outcome{HTTP: d.HTTP})
	}
}

// An ask is a request to the API.
type ask struct {
	method, path, body string
	header             map[string]string
	host               string
}

// do sends it as a program on this machine does.
func (h *house) do(a ask) *httptest.ResponseRecorder {
	if a.method == "" {
		a.method = "GET"
	}
	var body io.Reader
	if a.body != "" {
		body = bytes.NewBufferString(a.body)
	}
	r := httptest.NewRequest(a.method, a.path, body)
	r.Host = "127.0.0.1:9090"
	if a.host != "" {
		r.Host = a.host
	}
	if a.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, value := range a.header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// get decodes the answer to a GET.
func get[T any](t *testing.T, h *house, path string) T {
	t.Helper()
	return decode[T](t, h.do(ask{path: path}), http.StatusOK)
}

func decode[T any](t testing.TB, w *httptest.ResponseRecorder, status int) T {
	t.Helper()
	var v T
	d := json.NewDecoder(w.Body)
	d.DisallowUnknownFields()
	if w.Code != status {
		t.Fatalf("HTTP status %d, want %d: %s", w.Code, status, w.Body)
	}
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}
