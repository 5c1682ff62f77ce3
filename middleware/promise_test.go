package middleware

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// flask-limiter#62: after exactly the announced wait the client was refused again, with "retry after 0".
// Under every algorithm and from any moment of a window, waiting as told passes.
func TestWaitingAsToldPasses(t *testing.T) {
	for _, algorithm := range []string{"sliding_window", "sliding_log", "fixed_window", "token_bucket"} {
		t.Run(algorithm, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := build(t, `default: {limits: [{rate: 5/10s, per: client, algorithm: `+algorithm+`}]}`)
				defer synctest.Wait()
				handler := h.Wrap(http.HandlerFunc(ok))
				for range 50 {
					time.Sleep(rand.N(15 * time.Second))
					wait := exceed(t, handler)
					time.Sleep(time.Duration(wait) * time.Second)
					w := httptest.NewRecorder()
					if handler.ServeHTTP(w, local("GET", "/", "192.0.2.1")); w.Code != 200 {
						t.Fatalf("after %d s: %d, Retry-After %q", wait, w.Code, w.Header().Get("Retry-After"))
					}
				}
			})
		})
	}
}

// exceed asks until it is refused, and returns the wait in seconds that it was told.
func exceed(t *testing.T, handler http.Handler) int {
	t.Helper()
	for range 10 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, local("GET", "/", "192.0.2.1"))
		if w.Code == 200 {
			continue
		}
		wait, err := strconv.Atoi(w.Header().Get("Retry-After"))
		if err != nil || wait < 1 {
			t.Fatalf("Retry-After: %q", w.Header().Get("Retry-After"))
		}
		return wait
	}
	t.Fatal("10 requests passed a limit of 5")
	return 0
}

// Hammering never lengthens a lockout: the announced moment stays where it is, so the wait only counts
// down.
func TestTheWaitOnlyCountsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, `default: {limits: [{rate: 5/20s, per: client}]}`)
		handler := h.Wrap(http.HandlerFunc(ok))
		first := exceed(t, handler)
		until := time.Now().Add(time.Duration(first) * time.Second)
		for last := first; time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, local("GET", "/", "192.0.2.1"))
			if w.Code == 200 {
				return
			}
			wait, _ := strconv.Atoi(w.Header().Get("Retry-After"))
			if wait > last || w.Header().Get("RateLimit") != fmt.Sprintf(`"default";r=0;t=%d`, wait) {
				t.Fatalf("Retry-After %d after %d, RateLimit %s", wait, last, w.Header().Get("RateLimit"))
			}
			last = wait
		}
	})
}
