package middleware

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/respond"
)

// who asks h who he is, through the proxy at 10.0.0.1.
func (h *house) who(method, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.RemoteAddr = "10.0.0.1:1234"
	r.Header.Set("X-Forwarded-For", "1.2.3.4, 203.0.113.7")
	w := httptest.NewRecorder()
	h.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })).ServeHTTP(w, r)
	return w
}

// An asker is told what was resolved for that very request, hop by hop; it counts like any other.
func TestWhoami(t *testing.T) {
	h := build(t, "whoami: true\nclient: {path: [nginx]}\ndefault: {limits: [{rate: 2/1m}]}")
	w := h.who("GET", WhoamiPath)
	var got struct {
		Client respond.Client `json:"client"`
		Front  string         `json:"front"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 || w.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("HTTP status %d, %v: %s", w.Code, err, w.Body)
	}
	hops := []weir.Hop{{Address: "10.0.0.1", Trusted: true, By: "nginx"}, {Address: "203.0.113.7", By: "x-forwarded-for[1]"}}
	if diff := cmp.Diff(hops, got.Client.Hops); diff != "" || got.Client.Key != "203.0.113.7/32" || got.Client.Source != "forwarded" || got.Front != "middleware" {
		t.Errorf("%+v, -want +got:\n%s", got, diff)
	}
	h.who("HEAD", WhoamiPath)
	if w := h.who("GET", WhoamiPath); w.Code != http.StatusTooManyRequests {
		t.Errorf("over the limit: HTTP status %d, want 429", w.Code)
	}
	h.records(t, 3)
}

// Nobody is told who was not to be, and nothing else is answered in a service's place.
func TestWhoamiIsForThatPathAlone(t *testing.T) {
	for yaml, asks := range map[string][][2]string{
		"whoami: false": {{"GET", WhoamiPath}},
		"whoami: true":  {{"POST", WhoamiPath}, {"GET", WhoamiPath + "/"}, {"GET", "/a/.." + WhoamiPath}, {"GET", "/.well-known/weir/WHOAMI"}},
	} {
		h := build(t, yaml)
		for _, ask := range asks {
			if w := h.who(ask[0], ask[1]); w.Code != http.StatusTeapot {
				t.Errorf("%s: %s %s: HTTP status %d, want the service's", yaml, ask[0], ask[1], w.Code)
			}
		}
	}
}
