package replicas_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/internal/redistest"
)

// window is about an hour: one that does not turn while the test runs.
func window() string {
	for w := time.Hour; ; w -= time.Minute {
		if begun := time.Duration(time.Now().UnixNano()) % w; begun < w-5*time.Minute {
			return fmt.Sprintf("%dm", w/time.Minute)
		}
	}
}

// patient is a store that is waited for: what is counted in its place is no count of all replicas.
func patient(url string) string {
	return fmt.Sprintf("store: {redis: {url: %q, timeout: 5s}}\n", url)
}

// rules are one per algorithm that counts, each with a limit that regains nothing worth a hit while the
// test runs.
func rules(n int) string {
	text := "rules:\n"
	for _, algorithm := range []string{"fixed_window", "sliding_window", "sliding_log", "token_bucket"} {
		w := window()
		if algorithm == "token_bucket" {
			w = "365d"
		}
		text += fmt.Sprintf("  - {name: %s, path: /%[1]s, limits: [{rate: %d/%s, per: client, algorithm: %[1]s}]}\n", algorithm, n, w)
	}
	return text
}

// A fleet is ten processes and a library user before one service and one Redis.
type fleet struct {
	*crowd
	replicas []*replica
	urls     []string
	degraded func() float64 // hits that were not counted by Redis
}

func startFleet(t *testing.T, redis, rules string) *fleet {
	t.Helper()
	s := startService(t)
	yaml := basics(s) + patient(redis) + rules
	f := &fleet{crowd: newCrowd(t)}
	f.replicas, f.urls = startReplicas(t, 10, yaml)
	l := startLibrary(t, s, yaml)
	f.urls = append(f.urls, l.url)
	f.degraded = func() float64 {
		return sum(f.replicas, "weir_store_fallback_total") + l.metric("weir_store_fallback_total")
	}
	return f
}

// exactly hammers as a fresh client, of whose requests most must pass.
func (f *fleet) exactly(t *testing.T, path string, n, most int) {
	t.Helper()
	want := tally{http.StatusOK: most, http.StatusTooManyRequests: n - most}
	if diff := cmp.Diff(want, f.hammer(f.urls, path, f.fresh(), n)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func (f *fleet) neverDegraded(t *testing.T) {
	t.Helper()
	if n := f.degraded(); n != 0 {
		t.Errorf("%v hits were counted elsewhere", n)
	}
}

// CON-01: one limit is one limit, whoever is asked and however many at once: ten times in a row.
func TestTenProcessesOneCount(t *testing.T) {
	const most = 1000
	f := startFleet(t, redistest.Start(t).URL(), rules(most))
	for range 10 {
		f.exactly(t, "/fixed_window", most+100, most)
	}
	for _, path := range []string{"/sliding_window", "/sliding_log", "/token_bucket"} {
		f.exactly(t, path, most+100, most)
	}
	f.neverDegraded(t)
}

// CON-01: small limits, hit by all at once.
func TestSmallLimits(t *testing.T) {
	const most = 10
	f := startFleet(t, redistest.Start(t).URL(), rules(most))
	for range 10 {
		for _, path := range []string{"/fixed_window", "/sliding_window", "/sliding_log", "/token_bucket"} {
			f.exactly(t, path, 60, most)
		}
	}
	f.neverDegraded(t)
}

// CON-01: the same through a Cluster.
func TestTenProcessesOneCluster(t *testing.T) {
	const most = 1000
	f := startFleet(t, redistest.StartCluster(t, 3).URL(), rules(most))
	f.exactly(t, "/fixed_window", most+200, most)
	for _, path := range []string{"/fixed_window", "/sliding_window", "/sliding_log", "/token_bucket"} {
		f.exactly(t, path, most+50, most)
	}
	f.neverDegraded(t)
}

// A request on two limits, of which one is global, passes only where both let it. On one server all
// are charged or none; on a Cluster it may be one too few.
func TestGlobalLimit(t *testing.T) {
	const site, each, clients, asked = 300, 40, 12, 45
	rules := fmt.Sprintf("default: {limits: [{name: site, rate: %d/%s, per: global, algorithm: fixed_window}, "+
		"{name: each, rate: %d/%[2]s, per: client, algorithm: fixed_window}]}\n", site, window(), each)
	for _, c := range []struct {
		name  string
		least int
		url   func() string
	}{
		{"one server", site, func() string { return redistest.Start(t).URL() }},
		{"cluster", site - callers, func() string { return redistest.StartCluster(t, 3).URL() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := startFleet(t, c.url(), rules)
			var who []string
			for range clients {
				who = append(who, f.fresh())
			}
			total := 0
			for client, got := range f.hammerAll(f.urls, "/", who, asked) {
				total += got[http.StatusOK]
				if got[http.StatusOK] > each || got[http.StatusOK]+got[http.StatusTooManyRequests] != asked {
					t.Errorf("%s: %v, want at most %d passed and the others refused", client, got, each)
				}
			}
			if total > site || total < c.least {
				t.Errorf("%d passed, want %d to %d", total, c.least, site)
			}
			t.Logf("%d of %d passed", total, site)
			f.neverDegraded(t)
		})
	}
}

// CNT-27: the first request of each process counts.
func TestFirstRequestCounts(t *testing.T) {
	yaml := basics(startService(t)) + patient(redistest.Start(t).URL()) + rules(1)
	_, urls := startReplicas(t, 4, yaml)
	c := newCrowd(t)
	if diff := cmp.Diff(tally{200: 1, 429: 3}, c.hammer(urls, "/fixed_window", c.fresh(), 4)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// CNT-57: a limit holds per store: two that count in two places grant it twice.
func TestLimitsArePerStore(t *testing.T) {
	s, c := startService(t), newCrowd(t)
	var urls []string
	for range 2 {
		urls = append(urls, startReplica(t, basics(s)+patient(redistest.Start(t).URL())+rules(4)).url)
	}
	if diff := cmp.Diff(tally{200: 8, 429: 4}, c.hammer(urls, "/fixed_window", c.fresh(), 12)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// FAL-13: a refused client costs Redis at most a look a second and process, and a refusal is no failure.
func TestRefusedClientCostsNothing(t *testing.T) {
	redis := redistest.Start(t)
	all, urls := startReplicas(t, 2, basics(startService(t))+patient(redis.URL())+rules(5))
	c := newCrowd(t)
	client := c.fresh()
	c.hammer(urls, "/sliding_window", client, 20)
	began, scripts, commands := time.Now(), redis.Calls("evalsha"), redis.Commands()
	if diff := cmp.Diff(tally{429: 2000}, c.hammer(urls, "/sliding_window", client, 2000)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	took := time.Since(began)
	scripts, commands = redis.Calls("evalsha")-scripts, redis.Commands()-commands
	t.Logf("2000 refusals in %v: %d scripts, %d commands", took, scripts, commands)
	// More than one caller may look in the moment in which a refusal ends to be believed.
	looks := (int(took/time.Second) + 1) * len(urls)
	if scripts > looks*callers/2 || commands > 20+looks*callers*4 {
		t.Errorf("%d scripts and %d commands in %v", scripts, commands, took)
	}
	if n, open := sum(all, "weir_store_fallback_total"), sum(all, "weir_store_breaker_open"); n != 0 || open != 0 {
		t.Errorf("%v hits counted elsewhere, %v breakers open", n, open)
	}
}
