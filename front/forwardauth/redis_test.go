package forwardauth

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/internal/redistest"
	"github.com/weirgate/weir/internal/timed"
	"github.com/weirgate/weir/store/failover"
	"github.com/weirgate/weir/store/memory"
	"github.com/weirgate/weir/store/redis"
)

// timeout is the default of store.redis.timeout.
const timeout = 15 * time.Millisecond

// replica returns a house that counts in the Redis at url, as `weir run` does.
func replica(t *testing.T, url, yaml string, o failover.Options) *house {
	t.Helper()
	if testing.Short() {
		t.Skip("no real servers in short mode")
	}
	shared, err := redis.New(redis.Options{URL: url, Timeout: o.Timeout})
	if err != nil {
		t.Fatal(err)
	}
	local := memory.New(memory.Options{})
	store := failover.New(shared, local, o)
	t.Cleanup(func() {
		store.Close()
		if err := shared.Close(); err != nil {
			t.Error(err)
		}
		local.Close()
	})
	return buildOver(t, yaml, store)
}

// patientOptions let no busy machine make a test wrong.
var patientOptions = failover.Options{Timeout: 5 * time.Second}

// named is what nginx asks about the n-th request of all, of a client.
func named(n int, client string) http.Header {
	return with(with(nginxAsks("/a"), "X-Weir-Request-Id", fmt.Sprintf("%032x", n)), "X-Forwarded-For", client)
}

// meant is the HTTP status that the client shall have.
func meant(w *httptest.ResponseRecorder) string { return w.Header().Get("X-Weir-Status") }

// chargedOnce asks the replicas in turn, twice about each of five requests, from the n-th, of a client who
// has three.
func chargedOnce(t *testing.T, replicas []*house, n int, client string) {
	t.Helper()
	var got, left []string
	for i := range 5 {
		for again := range 2 {
			w := replicas[(i+again)%len(replicas)].ask("/auth/nginx", named(n+i, client))
			got = append(got, meant(w))
			if r, _, _ := strings.Cut(w.Header().Get("RateLimit"), ","); meant(w) == "200" {
				left = append(left, strings.Split(r, ";")[1])
			}
		}
	}
	want := []string{"200", "200", "200", "200", "200", "200", "429", "429", "429", "429"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", client, diff)
	}
	if diff := cmp.Diff([]string{"r=2", "r=2", "r=1", "r=1", "r=0", "r=0"}, left); diff != "" {
		t.Errorf("%s: left (-want +got):\n%s", client, diff)
	}
}

// Replicas that share a Redis charge a request once among them, with any limits, tiers and slots.
func TestReplicasChargeOnce(t *testing.T) {
	const limits = "default: {limits: [{name: few, rate: 3/1h, algorithm: sliding_log}]}\n" + behind
	const global = "limits: [{name: all, rate: 1000/1h, per: global}, {name: site, rate: 500/1h, per: host}]\n" + limits
	single, cluster := redistest.Start(t), redistest.StartCluster(t, 3)
	for name, c := range map[string]struct{ url, yaml string }{
		"single":             {single.URL(), limits},
		"Cluster":            {cluster.URL(), limits},
		"Cluster, and slots": {cluster.URL(), global},
	} {
		t.Run(name, func(t *testing.T) {
			replicas := []*house{replica(t, c.url, c.yaml, patientOptions), replica(t, c.url, c.yaml, patientOptions)}
			for i := range 4 {
				chargedOnce(t, replicas, 10*i, fmt.Sprintf("203.0.%d.%d", len(name), i+1))
				chargedOnce(t, replicas, 10*i, fmt.Sprintf("2001:db8:%d:%x::1", len(name), i+1))
			}
		})
	}
}

// A limit that lies in another slot refuses, and the request is not taken for one that was paid.
func TestRefusedInAnotherSlot(t *testing.T) {
	h := replica(t, redistest.StartCluster(t, 3).URL(), "limits: [{name: all, rate: 1/1h, per: global, algorithm: sliding_log}]\n"+
		"default: {limits: [{name: few, rate: 9/1h, algorithm: sliding_log}]}\n"+behind, patientOptions)
	for i := range 8 {
		want := "429"
		if i == 0 {
			want = "200"
		}
		for again := range 2 {
			w := h.ask("/auth/nginx", named(i, fmt.Sprintf("203.0.113.%d", i+1)))
			if meant(w) != want {
				t.Errorf("request %d, ask %d: %s, want %s", i, again, meant(w), want)
			}
		}
	}
}

// Asked about at once by both replicas, a request is charged once, and passes.
func TestAskedAboutAtOnce(t *testing.T) {
	url := redistest.Start(t).URL()
	const yaml = "default: {limits: [{name: few, rate: 10/1h, algorithm: sliding_log}]}\n" + behind
	replicas := []*house{replica(t, url, yaml, patientOptions), replica(t, url, yaml, patientOptions)}
	var passed [20]atomic.Int64
	var wg sync.WaitGroup
	for n := range passed {
		for i := range 6 {
			wg.Go(func() {
				if meant(replicas[i%2].ask("/auth/nginx", named(n, "203.0.113.9"))) == "200" {
					passed[n].Add(1)
				}
			})
		}
	}
	wg.Wait()
	requests := 0
	for n := range passed {
		switch passed[n].Load() {
		case 0:
		case 6:
			requests++
		default:
			t.Errorf("request %d: %d of 6 asks pass", n, passed[n].Load())
		}
	}
	if requests != 10 {
		t.Errorf("%d requests passed a limit of 10", requests)
	}
}

// What a request has for itself is forgotten with its 5 seconds.
func TestNothingStays(t *testing.T) {
	server := redistest.Start(t)
	h := replica(t, server.URL(), "default: {limits: [{name: few, rate: 100/1h}]}\n"+behind, patientOptions)
	h.ask("/auth/nginx", named(1, "203.0.113.9"))
	keys, _ := server.Do("KEYS", "*").([]any)
	if len(keys) != 2 {
		t.Fatalf("keys %v, want one for the limit and one for the request", keys)
	}
	var stays []int
	for _, key := range keys {
		ms, _ := strconv.Atoi(fmt.Sprint(server.Do("PTTL", key.(string))))
		stays = append(stays, ms)
	}
	if short := slices.Min(stays); short <= 0 || short > 6000 || slices.Max(stays) < 60_000 {
		t.Errorf("they stay for %v ms", stays)
	}
}

const (
	rounds      = 9  // of which the middle one counts
	askers      = 32 // at once
	each        = 40 // asks of each in a round
	frozenBound = 5 * time.Millisecond
)

// With a Redis that is frozen, an answer takes the store's timeout and at most 5 ms at p99.9. A machine with
// other things to do makes a bare timer late, too: beside every ask such a timer runs, and what it is late
// is taken off. A round in which the machine stood still is one of nine.
func TestFrozenStore(t *testing.T) {
	server := redistest.Start(t)
	h := replica(t, server.URL(), "default: {limits: [{rate: 1000000/1h}]}\n"+behind, failover.Options{Timeout: timeout, Failures: 1 << 40, ProbeEvery: time.Hour})
	h.ask("/auth/caddy", caddyAsks("/a"))
	server.Freeze()
	defer server.Thaw()
	var excess []time.Duration
	waited := 0 // in so many rounds
	for range rounds {
		ours := make([]time.Duration, askers*each)
		bare := make([]time.Duration, askers*each)
		round(func(i int) { h.ask("/auth/caddy", caddyAsks("/a")) }, ours, func(int) { time.Sleep(timeout) }, bare)
		if permille(ours) >= timeout {
			waited++
		}
		excess = append(excess, permille(ours)-permille(bare))
	}
	slices.Sort(excess)
	t.Logf("p99.9 above that of a bare timer of %v: %v", timeout, excess)
	if got := excess[rounds/2]; got > timed.Bound(frozenBound) || waited <= rounds/2 {
		t.Errorf("p99.9 is %v over the store's timeout, want at most %v; in %d rounds Redis was waited for", got, frozenBound, waited)
	}
}

// round has all askers do both things at once, again and again, and notes how long each took, in order.
func round(ask func(int), ours []time.Duration, wait func(int), bare []time.Duration) {
	var wg sync.WaitGroup
	timed := func(f func(int), took []time.Duration, i int) {
		began := time.Now()
		f(i)
		took[i] = time.Since(began)
	}
	for asker := range askers {
		wg.Go(func() {
			for n := range each {
				i := asker*each + n
				var both sync.WaitGroup
				both.Go(func() { timed(ask, ours, i) })
				both.Go(func() { timed(wait, bare, i) })
				both.Wait()
				time.Sleep(time.Millisecond) // a proxy has other things to do
			}
		})
	}
	wg.Wait()
	slices.Sort(ours)
	slices.Sort(bare)
}

// permille is the p99.9 of took, which is in order.
func permille(took []time.Duration) time.Duration { return took[len(took)*999/1000] }
