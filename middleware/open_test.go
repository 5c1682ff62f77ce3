package middleware_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/middleware"
)

func ExampleOpen() {
	weir, done, err := middleware.Open("testdata/weir.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer done()
	handler := weir.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "found for %s", middleware.FromContext(r.Context()).Decision.Client.Key())
	}))

	for range 3 {
		r := httptest.NewRequest("GET", "/search?q=weir", nil)
		r.RemoteAddr = "10.0.0.1:80"
		r.Header.Set("X-Forwarded-For", "198.51.100.9, 203.0.113.7")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"), w.Header().Get("X-RateLimit-Remaining"))
		if w.Code == http.StatusOK {
			fmt.Println(w.Body)
		}
	}
	// Output:
	// 200 "search";q=2;w=3600 1
	// found for 203.0.113.7/32
	// 200 "search";q=2;w=3600 0
	// found for 203.0.113.7/32
	// 429 "search";q=2;w=3600 0
}

func ExampleFromContext() {
	weir, done, err := middleware.Open("testdata/weir.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer done()
	handler := weir.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := middleware.FromContext(r.Context())
		fmt.Println(call.Decision.Client.Source, call.Decision.Rule.Name, call.Decision.Reason)
	}))
	r := httptest.NewRequest("GET", "/search", nil)
	r.RemoteAddr = "192.0.2.1:80"
	handler.ServeHTTP(httptest.NewRecorder(), r)
	// Output:
	// direct search within limits
}

// Every fault of the file is told at once, each with its place, and nothing is left running.
func TestOpenRefuses(t *testing.T) {
	tests := []struct {
		name, yaml string
		want       []string
	}{
		{"two faults", "listn: x\ndefault: {limits: [{rate: 60/1}]}\n", []string{":1:1: listn:", ":2:27: default.limits[0].rate:"}},
		{"a tie", "rules:\n  - {name: a, path: /a}\n  - {name: b, path: /a/}\n", []string{":3:"}},
		{"another store", "store: {redis: {url: 'redis://127.0.0.1'}}\n", []string{"redis"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "weir.yaml")
			if err := os.WriteFile(path, []byte(test.yaml), 0o600); err != nil {
				t.Fatal(err)
			}
			m, done, err := middleware.Open(path)
			if err == nil || m != nil || done != nil {
				t.Fatalf("opened: %v", err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error does not say %q:\n%v", want, err)
				}
			}
		})
	}
	if _, _, err := middleware.Open(filepath.Join(t.TempDir(), "none.yaml")); err == nil || !strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("no file: got %v", err)
	}
}

func TestOpenFollowsTheAnswerOptions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.yaml")
	const yaml = `
headers: legacy
legacy_reset: epoch
problem_type_base: "https://api.example/problems/"
html: true
cors: {allow_origin: "https://app.example"}
default: {limits: [{rate: 1/1h, per: client}]}
`
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	m, done, err := middleware.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	ask := func(accept string) *http.Response {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Accept", accept)
		r.Header.Set("Origin", "https://app.example")
		w := httptest.NewRecorder()
		m.Wrap(http.NotFoundHandler()).ServeHTTP(w, r)
		return w.Result()
	}
	ask("*/*")
	answer, page := ask("*/*"), ask("text/html")
	body, _ := io.ReadAll(answer.Body)
	got := []any{
		answer.Header.Get("RateLimit"), len(answer.Header.Get("X-RateLimit-Reset")), answer.Header.Get("Access-Control-Allow-Origin"),
		strings.Contains(string(body), `"type":"https://api.example/problems/quota-exceeded"`), page.Header.Get("Content-Type"),
	}
	want := []any{"", len("1700000000"), "https://app.example", true, "text/html; charset=utf-8"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("RateLimit, digits of the reset, origin, type, page (-want +got):\n%s", diff)
	}
}

// What is opened counts, and finds out that its picture of the proxies is wrong, as the program does.
func TestOpenCountsAndDiagnoses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(path, []byte("client: {from_right: 2, peers: [private]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		m, done, err := middleware.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		handler := m.Wrap(http.NotFoundHandler())
		for i := range 250 { // through one proxy, not two
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = "10.0.0.1:80"
			r.Header.Set("X-Forwarded-For", fmt.Sprintf("203.0.113.%d", i%200))
			handler.ServeHTTP(httptest.NewRecorder(), r)
		}
		time.Sleep(time.Minute)
		w := httptest.NewRecorder()
		m.Metrics().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		for _, want := range []string{
			`weir_decisions_total{action="pass",front="middleware",rule="default"} 250`, `weir_client_diagnosis{code="depth.high"} 1`,
			"weir_memory_keys 1", "weir_memory_evictions_total 0", "weir_tarpit_held 0",
		} {
			if !strings.Contains(w.Body.String(), want+"\n") {
				t.Errorf("the metrics lack %s", want)
			}
		}
	})
}

// The journal of a middleware that was built by hand is somebody else's.
func TestMetricsOfAMiddlewareThatWasNotOpened(t *testing.T) {
	w := httptest.NewRecorder()
	middleware.New(nil, middleware.Options{}).Metrics().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("got %d, want 404", w.Code)
	}
}

// A shared count is refused rather than passed over: every process would grant the whole limit.
func TestOpenRefusesASharedCount(t *testing.T) {
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte("listen: :80\nupstream: http://127.0.0.1:1\nstore: {redis: {url: \"redis://127.0.0.1:1\"}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := middleware.Open(file); err == nil || !strings.Contains(err.Error(), "store.redis") {
		t.Errorf("got %v", err)
	}
}
