package replicas_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirgate/weir/embedded"
	inredis "github.com/weirgate/weir/embedded/shared"
	"github.com/weirgate/weir/middleware"
)

// A library is a program that has Weir inside.
type library struct {
	url     string
	metrics http.Handler
}

// startLibrary runs a user of the library, with the middleware before s, as the configuration says.
func startLibrary(t testing.TB, s *service, yaml string) *library {
	t.Helper()
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	engine, err := embedded.Open(file, embedded.Options{Shared: inredis.Redis})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(middleware.New(engine.Engine, middleware.Options{}).Wrap(s))
	t.Cleanup(func() {
		server.Close()
		engine.Close()
	})
	return &library{server.URL, engine.Metrics()}
}

// metric is one of its metrics, as of a replica.
func (l *library) metric(series string) float64 {
	w := httptest.NewRecorder()
	l.metrics.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return seriesOf(w.Body)[series]
}
