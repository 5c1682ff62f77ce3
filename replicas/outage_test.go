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
	"github.com/weirgate/weir/internal/timed"
)

// Promises of an outage, with room for a machine that is busy.
const (
	noticed   = 3 * time.Second // until gauge and counter tell of it: a second, or one more if it is not quiet here
	recovered = 5 * time.Second // until the replicas count together again

	brief = 500 * time.Millisecond // an outage that shows nothing more when it lasts
)

const (
	pool   = 4  // connections of a replica to a server at most
	shared = 11 // of a limit that two replicas share
	share  = (shared + pair - 1) / pair
	pair   = 2 // of a stage
)

// outageRules are a rule for every way to answer without Redis. It is waited for longer than by default, so that a
// machine that is busy with other tests is no outage; what the default costs a request is measured in waits_test.go.
func outageRules(redis string) string {
	return fmt.Sprintf("store: {redis: {url: %q, timeout: 200ms}, on_failure: local, replicas: %d}\n", redis, pair) +
		fmt.Sprintf(`rules:
  - {name: steady, path: /steady, limits: [{rate: 1000000/%[1]s, per: client}]}
  - {name: allow, path: /allow, on_failure: allow, limits: [{rate: 1000000/%[1]s, per: client}]}
  - {name: freely, path: /freely, on_failure: allow, limits: [{rate: 1/%[1]s, per: client}]}
  - {name: deny, path: /deny, on_failure: deny, limits: [{rate: 1000000/%[1]s, per: client}]}
  - {name: shared, path: /shared, limits: [{rate: %[2]d/%[1]s, per: client, algorithm: fixed_window}]}
  - {name: turning, path: /turning, limits: [{rate: 5/4s, per: client}]}
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

// load gives Redis half a minute's to load when it starts again: longer than anybody takes to notice.
func (s *stage) load() {
	s.redis.Do("EVAL", "for i = 1, 3000 do redis.call('SET', 'load' .. i, string.rep('x', 1024)) end", "0")
	s.redis.Do("SAVE")
}

// loaded has Redis load the rest at once, and waits until it has. It was loading before, or the test is none.
func (s *stage) loaded() {
	if s.redis.Info("persistence", "loading") != "1" {
		s.t.Error("Redis is not loading")
	}
	s.redis.Do("CONFIG", "SET", "key-load-delay", "0")
	eventually(s.t, patience, "Redis has loaded", func() bool { return s.redis.Info("persistence", "loading") == "0" })
}

// An outage is a trouble of Redis or of the way there.
type outage struct {
	name         string
	strike, mend func(*stage)
	lasts        time.Duration // beyond the moment in which all have noticed
	answers      bool          // Redis answers, if only errors, so that what reaches it can be counted
}

func outages() []outage {
	return []outage{
		// FAL-02, CNT-36: it lasts for more than two windows of a limit.
		{name: "frozen", lasts: 10 * time.Second, strike: func(s *stage) { s.redis.Freeze() }, mend: func(s *stage) { s.redis.Thaw() }},
		{name: "killed, restarted empty", lasts: brief, strike: func(s *stage) { s.redis.Kill() }, mend: func(s *stage) { s.redis.Run() }},
		{name: "swallowed", lasts: 2 * time.Second,
			strike: func(s *stage) { s.relay.swallow.Store(true) }, mend: func(s *stage) { s.relay.swallow.Store(false) }},
		{name: "slow by a second", lasts: brief,
			strike: func(s *stage) { s.relay.delay.Store(int64(time.Second)) }, mend: func(s *stage) { s.relay.delay.Store(0) }},
		// FAL-06: the old master answers still, and no longer counts.
		{name: "read-only", lasts: 2 * time.Second, answers: true,
			strike: func(s *stage) { s.redis.Do("REPLICAOF", "127.0.0.1", "1") }, mend: func(s *stage) { s.redis.Do("REPLICAOF", "NO", "ONE") }},
		// FAL-19: reads are answered, writes are not.
		{name: "out of memory", lasts: brief, answers: true, strike: func(s *stage) {
			s.redis.Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
			s.redis.Do("CONFIG", "SET", "maxmemory", "1")
		}, mend: func(s *stage) { s.redis.Do("CONFIG", "SET", "maxmemory", "0") }},
		{name: "no permission", lasts: brief, answers: true,
			strike: func(s *stage) { s.redis.Do("ACL", "SETUSER", "default", "-eval", "-evalsha") },
			mend:   func(s *stage) { s.redis.Do("ACL", "SETUSER", "default", "+@all") }},
		{name: "password changed", lasts: brief, strike: func(s *stage) {
			s.say("CONFIG SET requirepass another")
			s.say("CLIENT KILL TYPE normal SKIPME yes")
		}, mend: func(s *stage) { s.say("CONFIG SET requirepass \"\"") }},
		{name: "loading", strike: func(s *stage) { s.load(); s.redis.Kill(); s.redis.Run() }, mend: func(s *stage) { s.loaded() }},
	}
}

// FAL-02, FAL-15: whatever happens to Redis, no request fails and each rule is answered as it says; it
// is to be seen; the shares hold; and it passes without a restart.
func TestOutages(t *testing.T) {
	for _, o := range outages() {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			o.play(t, newStage(t))
		})
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

	before, dialled, unanswered := s.fallbacks(), s.relay.accepted.Load(), s.unanswered()
	struck := time.Now()
	o.strike(s)
	seen := eventually(t, timed.Bound(noticed), "open breakers and fallbacks counted", func() bool { return s.allOpen(before) })
	opened := time.Now()
	s.answersAlone(t)
	s.goesOnFrom(t, known)
	absent := s.fresh()
	o.last(t, s, absent)

	mended := time.Now()
	o.mend(s)
	back := eventually(t, timed.Bound(recovered), "closed breakers", func() bool { return sum(s.replicas, "weir_store_breaker_open") == 0 })
	s.startsAnew(t, absent)
	eventually(t, patience, "a shared count", s.countsTogether)
	s.fewDials(t, int(s.relay.accepted.Load()-dialled), s.unanswered()-unanswered, time.Since(struck))
	all := load.end()
	allPassed(t, all)
	s.rest()
	eventually(t, timed.Bound(recovered), "as few goroutines as before", func() bool { return s.goroutines() <= calm+slack })
	t.Logf("seen after %v, over after %v; %v goroutines before, %v after", seen.Round(time.Millisecond), back.Round(time.Millisecond), calm, s.goroutines())
	t.Logf("before:  %v", between(all, began, struck))
	t.Logf("struck:  %v", between(all, struck, opened))
	t.Logf("open:    %v", between(all, opened, mended))
	asked, late := s.waited()
	t.Logf("waited for Redis more than 20 ms: %v of %v", late, asked)
}

// last lets the outage last, while a client stays within a limit whose window turns. Only probes reach
// Redis meanwhile (FAL-12): one per second and replica, which may have to bring the script along.
func (o outage) last(t *testing.T, s *stage, client string) {
	t.Helper()
	began, scripts := time.Now(), 0
	if o.answers {
		scripts = s.redis.Calls("evalsha") + s.redis.Calls("eval")
	}
	for i := 0; time.Since(began) < o.lasts; i++ {
		if a := s.ask(s.urls[i%pair]+"/turning", client); a.status != http.StatusOK {
			t.Errorf("request %d of a client within the limit: %d", i, a.status)
		}
		time.Sleep(min(time.Second, o.lasts-time.Since(began)))
	}
	if o.answers {
		scripts = s.redis.Calls("evalsha") + s.redis.Calls("eval") - scripts
		if most := 2 * pair * int(1+time.Since(began)/time.Second); scripts > most {
			t.Errorf("%d scripts reached Redis in %v, want at most %d", scripts, time.Since(began), most)
		}
	}
}

// startsAnew checks that nothing of the outage is counted against a client afterwards (CNT-36, FAL-04).
func (s *stage) startsAnew(t *testing.T, client string) {
	t.Helper()
	before, refused := sum(s.replicas, "weir_store_fallback_total"), 0
	for i := range 5 {
		if a := s.ask(s.urls[i%pair]+"/turning", client); a.status != http.StatusOK {
			refused++
		}
	}
	if elsewhere := sum(s.replicas, "weir_store_fallback_total") - before; refused > 0 && elsewhere == 0 {
		t.Errorf("%d of 5 requests were refused after the outage", refused)
	}
}

// fewDials checks that replicas dialled no more often than their pools are large, than they probe, and than
// questions were not answered in time, which cost a connection each (FAL-10): all before the outage, all in its midst,
// all after it, and up to two a probe.
func (s *stage) fewDials(t *testing.T, dialled, unanswered int, in time.Duration) {
	t.Helper()
	most := pair*(3*pool+2*int(1+in/time.Second)) + unanswered
	t.Logf("%d connections in %v, %d questions not answered", dialled, in.Round(time.Millisecond), unanswered)
	if dialled > most {
		t.Errorf("%d connections in %v, want at most %d", dialled, in, most)
	}
}

// unanswered is how many questions Redis did not answer.
func (s *stage) unanswered() (n int) {
	for _, r := range s.replicas {
		for series, value := range r.metrics() {
			if strings.HasPrefix(series, "weir_store_failures_total{") {
				n += int(value)
			}
		}
	}
	return n
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

// calmly does something until it was done without a hit that was counted elsewhere: a busy machine may
// keep Redis, or whoever waits for it, from being in time.
func (s *stage) calmly(t *testing.T, do func()) {
	t.Helper()
	eventually(t, patience, "calm", func() bool {
		before := sum(s.replicas, "weir_store_fallback_total")
		do()
		return sum(s.replicas, "weir_store_fallback_total") == before
	})
}

// exactly hammers as a client, and checks what passes if all hits were counted by Redis.
func (s *stage) exactly(t *testing.T, urls []string, client string, want tally) {
	t.Helper()
	before := sum(s.replicas, "weir_store_fallback_total")
	got := s.hammer(urls, "/shared", client, want[200]+want[429])
	if n := sum(s.replicas, "weir_store_fallback_total") - before; n > 0 {
		t.Logf("%v hits were counted elsewhere: %v", n, got)
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// knownClients returns a client who has one hit left, and one who has none, as both replicas know.
func (s *stage) knownClients(t *testing.T) (known [2]string) {
	t.Helper()
	exact := false
	s.calmly(t, func() { known, exact = s.calmClients() })
	if !exact {
		t.Error("two replicas of a Redis that is well count wrongly")
	}
	return known
}

// calmClients has two clients use up their limit, the first one but for a hit, and reports whether that
// is what was granted.
func (s *stage) calmClients() (known [2]string, exact bool) {
	exact = true
	for i, n := range []int{shared - 1, shared + pair} {
		known[i] = s.fresh()
		for j := range n {
			a := s.ask(s.urls[j%pair]+"/shared", known[i])
			exact = exact && (a.status == http.StatusOK) == (j < shared)
		}
	}
	return known, exact
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
// workers, as many as were ever at work at once, who are used again. A goroutine that each request of an
// outage left behind would be more.
const slack = 64

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
