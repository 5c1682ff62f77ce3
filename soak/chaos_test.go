package soak_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	held  = 100 * time.Millisecond // by the service, of a request for /slots
	large = 1 << 20                // bytes of the answer to /large
)

// A service is what Weir stands before.
type service struct {
	*httptest.Server
	served      atomic.Int64
	inside      atomic.Int64 // requests for /slots of the client who never quits
	most        atomic.Int64 // of inside, ever
	largeAnswer []byte
}

func startService(t *testing.T) *service {
	s := &service{largeAnswer: bytes.Repeat([]byte("kettle, "), large/8)}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.served.Add(1)
	switch r.URL.Path {
	case "/large":
		w.Header().Set("Content-Length", fmt.Sprint(large))
		_, _ = w.Write(s.largeAnswer) // who quits does not take it all
		return
	case "/slots":
		s.hold(r)
	}
	_, _ = io.Copy(io.Discard, r.Body)
	_, _ = io.WriteString(w, "yes")
}

// hold keeps a request for a while.
func (s *service) hold(r *http.Request) {
	if r.Header.Get("X-Forwarded-For") == "10.8.0.1" {
		if n := s.inside.Add(1); n > s.most.Load() {
			s.most.Store(n)
		}
		defer s.inside.Add(-1)
	}
	pause(r.Context(), held)
}

// configuration is the n-th configuration, which differs from the one before it in rules that come and go, in numbers,
// and in what the firewall and the connections to the service are made anew for.
func (s *soak) configuration(n int) string {
	return fmt.Sprintf(`listen: "127.0.0.1:0"
admin: "127.0.0.1:0"
upstream: %q
data_dir: %q
client: {from_right: 1}
store: {redis: {url: %q, timeout: %s}}
upstream_timeouts: {idle: %s}
waf: {max_depth: %d, keep: %d}
metrics: {top_clients: %d}
keys: {}
plans: {soak: {quota: [%d/day]}}
penalties: [{after: 30 blocks in 1m, ban: 2s}]
rules:
  - {name: exact, path: /exact, on_failure: deny, limits: [{rate: %d/1h, per: client, algorithm: sliding_log}]}
  - {name: keyed, path: /keyed, on_failure: deny, require_key: true, limits: []}
  - {name: slots, path: /slots, on_failure: deny, limits: [{in_flight: %d, per: client}]}
  - {name: closed-%d, path: /closed/%d, limits: [{rate: 0/1m}]}
default: {limits: [{rate: %d/1m, per: client}]}
`, s.service.URL, s.data, s.redis.URL(), s.plan.timeout, s.plan.idle+time.Duration(n%2)*time.Second, 60+n%3, 500+n%7, n%5, granted, exactly, places, n%7, n%2, 60+n%11)
}

// reloads replaces the configuration again and again: by a rename, which Weir notices, by a signal, through the admin API, and
// every fifth time by one that is broken.
func (s *soak) reloads() {
	l := s.crowd.line()
	defer l.close()
	for n := 1; pause(s.life, s.plan.reload); n++ {
		if n%5 == 0 {
			s.breaks(n)
			continue
		}
		before := s.house.metrics()[succeeded]
		s.write(s.configuration(n))
		switch n % 5 {
		case 1:
			_ = s.house.cmd.Process.Signal(syscall.SIGHUP) // that it runs is found out below
		case 2:
			if status := s.house.api("POST", "/api/v1/reload", `{}`, nil); status != http.StatusOK {
				s.t.Errorf("a reload was answered %d", status)
			}
		}
		s.await("a reload", func() bool { return s.house.metrics()[succeeded] > before })
		for i, want := range [2]kind{passed, passed} {
			if i == n%2 {
				want = limited
			}
			if k := l.ask(question{who: "probe", client: s.crowd.fresh(), path: fmt.Sprintf("/closed/%d", i)}); k != want {
				s.t.Errorf("under configuration %d /closed/%d is answered %s, want %s", n, i, k, want)
			}
		}
		s.replaced.Add(1)
	}
}

const (
	succeeded = `weir_config_reload_total{result="success"}`
	failed    = `weir_config_reload_total{result="failure"}`
)

// breaks puts a broken file in place, and the one before it once Weir has refused it.
func (s *soak) breaks(n int) {
	before := s.house.metrics()
	s.write(s.configuration(n) + "limitz: []\n")
	s.await("a refused reload", func() bool { return s.house.metrics()[failed] > before[failed] })
	if now := s.house.metrics(); now["weir_config_hash"] != before["weir_config_hash"] {
		s.t.Error("a broken configuration is in force")
	}
	s.write(s.configuration(n - 1))
	s.refused.Add(1)
}

func (s *soak) write(yaml string) {
	if err := os.WriteFile(s.house.file+".new", []byte(yaml), 0o600); err != nil {
		s.t.Error(err)
	}
	if err := os.Rename(s.house.file+".new", s.house.file); err != nil {
		s.t.Error(err)
	}
}

// outages kills Redis or freezes it, at random moments and for a random while, and mends it once Weir leaves it alone.
func (s *soak) outages(dice *rand.Rand) {
	for n := 0; pause(s.life, between(dice, s.plan.calm/4, s.plan.calm)); n++ {
		lasts := between(dice, s.plan.outage/20, s.plan.outage)
		if n == 0 || n > 1 && dice.IntN(2) == 0 { // both happen, however short the test
			s.redis.Kill()
			s.last(lasts)
			s.redis.Run()
			s.killed.Add(1)
			continue
		}
		s.redis.Freeze()
		s.last(lasts)
		s.redis.Thaw()
		s.frozen.Add(1)
	}
}

// last lets an outage last.
func (s *soak) last(d time.Duration) {
	if pause(s.life, d) {
		s.await("Redis is left alone", func() bool { return s.life.Err() != nil || s.house.metrics()["weir_store_breaker_open"] == 1 })
	}
}

// looks asks everything of the admin API, as a dashboard that stands open does.
func (s *soak) looks() {
	paths := []string{"status", "top?by=client", "top?by=path&window=1h", "series", "decisions?limit=100", "rules", "shadow", "diagnosis", "config",
		"blocked", "audit", "bans", "keys"}
	for pause(s.life, s.plan.step*8) {
		for _, path := range paths {
			if status := s.house.api("GET", "/api/v1/"+path, "", nil); status != http.StatusOK {
				s.t.Errorf("the admin API answers %s with %d", path, status)
			}
		}
	}
}

// listens reads the stream of the dashboard, and opens it anew now and then.
func (s *soak) listens() {
	for s.life.Err() == nil {
		res, err := http.Get("http://" + s.house.admin + "/api/v1/events")
		if err != nil || res.StatusCode != http.StatusOK {
			s.t.Errorf("the stream of the dashboard: %v, %v", res, err)
			return
		}
		until := time.Now().Add(s.plan.reload)
		for lines := bufio.NewScanner(res.Body); time.Now().Before(until) && lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "data:") {
				s.events.Add(1)
			}
		}
		res.Body.Close()
	}
}
