package middleware

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fili#288: a slot of an in-flight limit was never given back when the request died without an answer,
// so that the user was limited for ever. Whatever end a request takes, both slots are free again.
func TestASlotIsGivenBackOnEveryEnd(t *testing.T) {
	answers := func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") }
	ends := map[string]struct {
		handler http.HandlerFunc
		only    protocol // empty: all
		leaves  bool     // the client goes away while the handler runs
	}{
		"an answer": {handler: answers},
		"no word":   {handler: func(http.ResponseWriter, *http.Request) {}},
		"a panic":   {handler: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		"a panic on the way": {handler: func(w http.ResponseWriter, r *http.Request) {
			answers(w, r)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}},
		"the client leaves": {handler: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, leaves: true},
		"a body is cut": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			io.WriteString(w, "short")
		}},
		"a take-over": {only: http1, handler: func(w http.ResponseWriter, _ *http.Request) {
			if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
				conn.Close()
			}
		}},
	}
	for name, end := range ends {
		for _, p := range protocols {
			if end.only != "" && end.only != p {
				continue
			}
			t.Run(name+"/"+string(p), func(t *testing.T) {
				h := build(t, `default: {limits: [{in_flight: 2, per: client}]}`)
				inside := make(chan struct{}, 2)
				client, server := serve(t, p, h.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					inside <- struct{}{}
					end.handler(w, r)
				})))
				for range 2 {
					dieOnce(t, client, server.URL, inside, end.leaves)
				}
				h.records(t, 2)
				if got := h.bothPass(); !cmp.Equal(got, []int{200, 200, 429}) {
					t.Errorf("three at once afterwards: got %v, want two to pass", got)
				}
			})
		}
	}
}

// dieOnce sends a request whose end is of no interest.
func dieOnce(t *testing.T, client *http.Client, url string, inside <-chan struct{}, leaves bool) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	if leaves {
		go func() { <-inside; leave() }()
	} else {
		defer func() { <-inside }()
	}
	r, err := http.NewRequestWithContext(ctx, "POST", url, nil) // POST is not repeated
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := client.Do(r); err == nil {
		_, _ = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
	}
}

// bothPass returns the statuses of three requests that are in flight at once, each within the other.
func (h *house) bothPass() []int {
	var got []int
	var nested func(left int) int
	nested = func(left int) int {
		w := httptest.NewRecorder()
		h.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			if left > 0 {
				nested(left - 1)
			}
		})).ServeHTTP(w, local("GET", "/", "127.0.0.1"))
		got = append([]int{w.Code}, got...)
		return w.Code
	}
	nested(2)
	return got
}

// A WebSocket is in flight for as long as its handler runs, not only until the connection changed hands.
func TestATakenOverConnectionIsInFlight(t *testing.T) {
	h := build(t, `default: {limits: [{in_flight: 1, per: client}]}`)
	end := make(chan struct{})
	_, server := serve(t, http1, h.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("RateLimit", "the handler's")
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		buffered.WriteString("HTTP/1.1 101 Switching Protocols\r\nRateLimit: " + w.Header().Get("RateLimit") + "\r\n\r\n")
		buffered.Flush()
		<-end
	})))
	conn := dial(t, server)
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: y\r\n\r\n")
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := answer.Header.Get("RateLimit"); answer.StatusCode != 101 || !strings.HasPrefix(got, `"default";r=0`) {
		t.Errorf("got %d and RateLimit %s, want 101 and ours", answer.StatusCode, got)
	}
	w := httptest.NewRecorder()
	h.Wrap(http.HandlerFunc(ok)).ServeHTTP(w, local("GET", "/", "127.0.0.1"))
	if w.Code != 429 || w.Header().Get("Retry-After") != "1" {
		t.Errorf("beside it: got %d, Retry-After %q, want 429 and 1", w.Code, w.Header().Get("Retry-After"))
	}
	close(end)
	if got := h.records(t, 2)[0].Status; got != 101 {
		t.Errorf("recorded %d, want 101", got)
	}
}
