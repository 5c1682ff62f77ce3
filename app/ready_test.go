package app

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weirgate/weir/config"
)

func TestNotReadyWhileDraining(t *testing.T) {
	a := &App{started: config.Default(), store: &store{}}
	s := adminServer{ready: a.ready}
	ask := func() int {
		w := httptest.NewRecorder()
		s.readyz(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		return w.Code
	}
	if got := ask(); got != http.StatusOK {
		t.Errorf("before: %d", got)
	}
	a.draining.Store(true)
	if got := ask(); got != http.StatusServiceUnavailable {
		t.Errorf("while draining: %d", got)
	}
}
