package middleware

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// A limit that is charged by the answer cannot know of those that are still on their way: of failed logins at most
// as many pass as the limit has left, and those in flight at that moment. The service is a real one behind a
// real proxy.
func TestFailedLoginsPassUpToTheLimitAndThoseInFlight(t *testing.T) {
	const limit, inFlight = 5, 20
	var seen atomic.Int64
	var together sync.WaitGroup // the service answers none before it has seen all of a burst
	together.Add(inFlight)
	_, service := serve(t, http1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := seen.Add(1); n <= inFlight {
			together.Done()
		}
		together.Wait()
		w.WriteHeader(http.StatusUnauthorized)
	}))
	target, err := url.Parse(service.URL)
	if err != nil {
		t.Fatal(err)
	}
	h := build(t, "rules: [{name: login, path: /login, count: {only_statuses: [401]}, limits: [{rate: 5/1h, algorithm: fixed_window}]}]")
	client, front := serve(t, http1, h.Wrap(httputil.NewSingleHostReverseProxy(target)))
	login := func() int { return statusOf(t, client, front) }
	var burst sync.WaitGroup
	for range inFlight {
		burst.Go(func() {
			if status := login(); status != http.StatusUnauthorized {
				t.Errorf("of the burst: HTTP status %d", status)
			}
		})
	}
	burst.Wait()
	h.records(t, inFlight)
	for range 10 {
		if status := login(); status != http.StatusTooManyRequests {
			t.Errorf("after the burst: HTTP status %d", status)
		}
	}
	if n := seen.Load(); n != inFlight || n > limit+inFlight {
		t.Errorf("the service saw %d logins, want the %d in flight", n, inFlight)
	}
}

// One after the other, exactly the limit passes; right passwords cost nothing.
func TestFailedLoginsOneByOne(t *testing.T) {
	var status atomic.Int64
	_, service := serve(t, http1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(int(status.Load())) }))
	target, err := url.Parse(service.URL)
	if err != nil {
		t.Fatal(err)
	}
	h := build(t, "rules: [{name: login, path: /login, count: {only_statuses: [401, 403]}, limits: [{rate: 5/1h, algorithm: fixed_window}]}]")
	client, front := serve(t, http1, h.Wrap(httputil.NewSingleHostReverseProxy(target)))
	asked := 0
	for _, step := range []struct {
		answers, times, want int
	}{{200, 20, 200}, {401, 3, 401}, {500, 5, 500}, {403, 2, 403}, {401, 5, 429}, {200, 2, 429}} {
		status.Store(int64(step.answers))
		for range step.times {
			if got := statusOf(t, client, front); got != step.want {
				t.Errorf("the service answers %d: HTTP status %d, want %d", step.answers, got, step.want)
			}
			asked++
			h.records(t, asked) // what an answer costs is charged when it has ended
		}
	}
}

// statusOf logs in.
func statusOf(t *testing.T, client *http.Client, front *httptest.Server) int {
	t.Helper()
	res, err := client.Post(front.URL+"/login", "text/plain", nil)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer res.Body.Close()
	io.Copy(io.Discard, res.Body)
	return res.StatusCode
}
