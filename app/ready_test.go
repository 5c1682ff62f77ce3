package app

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestNotReadyWhileDraining(t *testing.T) {
	var s adminServer
	ask := func() int {
		w := httptest.NewRecorder()
		s.ready(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		return w.Code
	}
	if got := ask(); got != http.StatusOK {
		t.Errorf("before: %d", got)
	}
	s.draining.Store(true)
	if got := ask(); got != http.StatusServiceUnavailable {
		t.Errorf("while draining: %d", got)
	}
}
