package replicas_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/internal/redistest"
)

// Promises of an outage, with room for a machine that is busy.
const (
	noticed   = 2 * time.Second // until gauge and counter tell of it
	recovered = 5 * time.Second // until the replicas count together again

	brief = 500 * time.Millisecond // an outage that shows nothing more when it lasts
)

const (
	shared = 11 // of a limit that two replicas share
	share  = (shared + pair - 1) / pair
	pair   = 2 // of a stage
)

// outageRules are a rule for every way to answer without Redis.
func outageRules(redis string) string {
	return fmt.Sprintf("store: {redis: {url: %q}, on_failure: local, replicas: %d}\n", redis, pair) +
		fmt.Sprintf(`rules:
  - {name: steady, path: /steady, limits: [{rate: 1000000/%[1]s, per: client}]}
  - {name: allow, path: /allow, on_failure: allow, limits: [{rate: 1000000/%[1]s, per: client}]}
  - {name: freely, path: /freely, on_failure: allow, limits: [{rate: 1/%[1]s, per: client}]}
  - {name: deny, path: /deny, on_failure: deny, limits: [{rate: 1000000/%[1]s, per: client}]}
  - {name: shared, path: /shared, limits: [{rate: %[2]d/%[1]s, per: client, algorithm: fixed_window}]}
`, window(), shared)
}

// A stage is where an outage takes place: two replicas, one Redis and the network between them.
type stage struct {
	*crowd
	redis    *redistest.Server
	relay    *relay
	console  net.Conn // to Redis, opened before anything happened
	service  *service
	replicas []*replica
	urls     []string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{crowd: newCrowd(t), redis: redistest.Start(t, slowToLoad...), service: startService(t)}
	s.relay = startRelay(t, s.redis.Addr)
	s.replicas, s.urls = startReplicas(t, pair, basics(s.service)+outageRules(s.relay.url()))
	var err error
	if s.console, err = net.Dial("tcp", s.redis.Addr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.console.Close() })
	return s
}

// say executes a line on the console.
func (s *stage) say(line string) {
	fmt.Fprintf(s.console, "%s\r\n", line)
	s.console.SetReadDeadline(time.Now().Add(patience))
	if answer, err := bufio.NewReader(s.console).ReadString('\n'); err != nil || strings.HasPrefix(answer, "-") {
		s.t.Errorf("%s: %q, %v", line, answer, err)
	}
}

// allOpen reports whether every replica leaves Redis alone and says that it counts elsewhere.
func (s *stage) allOpen(before []float64) bool {
	for i, r := range s.replicas {
		if r.metric("weir_store_breaker_open") != 1 || r.metric("weir_store_fallback_total") <= before[i] {
			return false
		}
	}
	return true
}

func (s *stage) fallbacks() (all []float64) {
	for _, r := range s.replicas {
		all = append(all, r.metric("weir_store_fallback_total"))
	}
	return all
}

// countsTogether reports whether a fresh client has one limit in all replicas.
func (s *stage) countsTogether() bool {
	if sum(s.replicas, "weir_store_breaker_open") != 0 {
		return false
	}
	return cmp.Equal(tally{200: shared, 429: 9}, s.hammer(s.urls, "/shared", s.fresh(), shared+9))
}

// slowToLoad are arguments under which a server answers LOADING for a while: 10 ms per key.
var slowToLoad = []string{"--key-load-delay", "10000", "--loading-process-events-interval-bytes", "1024"}

// load gives Redis something to load when it starts again.
func (s *stage) load() {
	for i := range 300 {
		s.redis.Do("SET", fmt.Sprint("load", i), strings.Repeat("x", 1024))
	}
	s.redis.Do("SAVE")
}

// loaded waits until Redis has loaded. It was loading before, or the test is none.
func (s *stage) loaded() {
	if s.redis.Info("persistence", "loading") != "1" {
		s.t.Error("Redis is not loading")
	}
	eventually(s.t, patience, "Redis has loaded", func() bool { return s.redis.Info("persistence", "loading") == "0" })
}

// An outage is a trouble of Redis or of the way there.
type outage struct {
	name         string
	strike, mend func(*stage)
	lasts        time.Duration // beyond the moment in which all have noticed
}

func outages() []outage {
	return []outage{
		{"killed, restarted empty", func(s *stage) { s.redis.Kill() }, func(s *stage) { s.redis.Run() }, brief},
		{"frozen", func(s *stage) { s.redis.Freeze() }, func(s *stage) { s.redis.Thaw() }, 3 * time.Second},
		{"swallowed", func(s *stage) { s.relay.swallow.Store(true) }, func(s *stage) { s.relay.swallow.Store(false) }, 2 * time.Second},
		{"slow by a second", func(s *stage) { s.relay.delay.Store(int64(time.Second)) }, func(s *stage) { s.relay.delay.Store(0) }, brief},
		// FAL-06: the old master answers still, and no longer counts.
		{"read-only", func(s *stage) { s.redis.Do("REPLICAOF", "127.0.0.1", "1") }, func(s *stage) { s.redis.Do("REPLICAOF", "NO", "ONE") }, brief},
		// FAL-19: reads are answered, writes are not.
		{"out of memory", func(s *stage) {
			s.redis.Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
			s.redis.Do("CONFIG", "SET", "maxmemory", "1")
		}, func(s *stage) { s.redis.Do("CONFIG", "SET", "maxmemory", "0") }, brief},
		{"password changed", func(s *stage) {
			s.say("CONFIG SET requirepass another")
			s.say("CLIENT KILL TYPE normal SKIPME yes")
		}, func(s *stage) { s.say("CONFIG SET requirepass \"\"") }, brief},
		{"loading", func(s *stage) { s.load(); s.redis.Kill(); s.redis.Run() }, func(s *stage) { s.loaded() }, 0},
	}
}

// FAL-02, FAL-15: whatever happens to Redis, no request fails and each rule is answered as it says; it
// is to be seen; the shares hold; and it passes without a restart.
func TestOutages(t *testing.T) {
	for _, o := range outages() {
		t.Run(o.name, func(t *testing.T) { o.play(t, newStage(t)) })
	}
}

func (o outage) play(t *testing.T, s *stage) {
	eventually(t, patience, "a shared count", s.countsTogether)
	s.rest()
	calm := s.goroutines()
	for range 10 { // connections take a moment to end
		time.Sleep(20 * time.Millisecond)
		calm = min(calm, s.goroutines())
	}
	load := s.startLoad(s.urls, "/steady", "/allow")
	began := time.Now()
	known := s.knownClients(t)
	time.Sleep(700 * time.Millisecond) // of the load to compare with

	before := s.fallbacks()
	struck := time.Now()
	o.strike(s)
	seen := eventually(t, noticed, "open breakers and fallbacks counted", func() bool { return s.allOpen(before) })
	opened := time.Now()
	s.answersAlone(t)
	s.goesOnFrom(t, known)
	time.Sleep(o.lasts)

	mended := time.Now()
	o.mend(s)
	back := eventually(t, recovered, "a shared count", s.countsTogether)
	all := load.end()
	allPassed(t, all)
	s.rest()
	eventually(t, recovered, "as few goroutines as before", func() bool { return s.goroutines() <= calm+slack })
	t.Logf("seen after %v, over after %v; %v goroutines before, %v after", seen.Round(time.Millisecond), back.Round(time.Millisecond), calm, s.goroutines())
	t.Logf("before:  %v", between(all, began, struck))
	t.Logf("struck:  %v", between(all, struck, opened))
	t.Logf("open:    %v", between(all, opened, mended))
	asked, late := s.waited()
	t.Logf("waited for Redis more than 20 ms: %v of %v", late, asked)
}

// answersAlone checks how each rule is answered while the breakers are open.
func (s *stage) answersAlone(t *testing.T) {
	t.Helper()
	const asked = 20
	client := s.fresh()
	for _, url := range s.urls {
		if diff := cmp.Diff(tally{200: share, 429: asked - share}, s.hammer([]string{url}, "/shared", client, asked)); diff != "" {
			t.Errorf("local: a replica's share (-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff(tally{200: asked}, s.hammer(s.urls, "/freely", client, asked)); diff != "" {
		t.Errorf("allow (-want +got):\n%s", diff)
	}
	for _, url := range s.urls {
		a := s.ask(url+"/deny", client)
		if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
			t.Errorf("deny: %d, Retry-After %q; want 503 with one", a.status, a.header.Get("Retry-After"))
		}
	}
}

// knownClients returns a client who has one hit left, and one who has none, as both replicas know.
func (s *stage) knownClients(t *testing.T) (known [2]string) {
	t.Helper()
	for i, n := range []int{shared - 1, shared + pair} {
		known[i] = s.fresh()
		for j := range n {
			if a := s.ask(s.urls[j%pair]+"/shared", known[i]); (a.status == http.StatusOK) != (j < shared) {
				t.Errorf("request %d of a calm client: %d", j, a.status)
			}
		}
	}
	return known
}

// goesOnFrom checks that a replica by itself grants its part of what was left when it last knew: of
// one hit and of two that is one.
func (s *stage) goesOnFrom(t *testing.T, known [2]string) {
	t.Helper()
	for i, most := range []int{pair, 0} {
		if got := s.hammer(s.urls, "/shared", known[i], 10); got[http.StatusOK] > most || got[http.StatusOK]+got[http.StatusTooManyRequests] != 10 {
			t.Errorf("a client with %d hits left: %v, want at most %d passed", 1-i, got, most)
		}
	}
}

// slack is by how many goroutines two quiet moments may differ, of both replicas together: there are
// some workers, who are used again.
const slack = 16

// rest ends all connections of requests, which have goroutines of their own.
func (s *stage) rest() {
	s.http.CloseIdleConnections()
	s.service.CloseClientConnections()
	http.DefaultClient.CloseIdleConnections()
}

func (s *stage) goroutines() float64 { return sum(s.replicas, "go_goroutines") }

// waited is how many requests waited for Redis, and how many of them more than 20 ms.
func (s *stage) waited() (all, late float64) {
	for _, r := range s.replicas {
		m := r.metrics()
		n := m["weir_store_duration_seconds_count"]
		all, late = all+n, late+n-m[`weir_store_duration_seconds_bucket{le="0.02"}`]
	}
	return all, late
}
