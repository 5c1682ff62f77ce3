package app

import (
	"bufio"
	"io"
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

// Who follows the dashboard's events is not cut off in the middle of one, and does not hold up the end.
func TestEventsEndWithTheProcess(t *testing.T) {
	h := build(t, plan{yaml: basics})
	res, err := client(t, false).Get("http://" + h.admin.listener.Addr().String() + "/api/v1/events")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	heard := bufio.NewReader(res.Body)
	if line, err := heard.ReadString('\n'); err != nil || line != ": weir\n" {
		t.Fatalf("%q, %v", line, err)
	}
	h.stop()
	if _, err := io.Copy(io.Discard, heard); err != nil {
		t.Errorf("the events broke off: %v", err)
	}
	if err := h.end(); err != nil {
		t.Error(err)
	}
}
