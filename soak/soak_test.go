// Package soak_test runs the program for long: a real process before a real service and a real Redis, at half of what they can
// do together, while the configuration is replaced, Redis is killed and frozen, and clients come, go, linger and attack. It judges what
// time brings to light: memory, goroutines and descriptors that are not given back, answers that nothing explains,
// counts that drift.
//
// The short form is part of `make test` and judges by conditions. `make soak` runs the long one.
package soak_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirgate/weir/internal/redistest"
)

const (
	lengthEnv = "SOAK"      // how long the long form lasts, as in 30m; empty: the short form
	seedEnv   = "SOAK_SEED" // of the moments of the outages; empty: another one each time

	// What the log says of a refusal, and of an open breaker.
	refusalLine = "refused"
	leftAlone   = "the shared store does not answer: it is left alone"
)

// A plan is how long and how hard.
type plan struct {
	seed    uint64
	length  time.Duration
	measure time.Duration // of what can be done; 0: rate is given
	rate    float64       // requests a second of the crowd

	timeout      time.Duration // of Redis, as Weir is told
	idle         time.Duration // of connections to the service
	reload       time.Duration // between two
	calm, outage time.Duration // of Redis, at most
	step         time.Duration // between two requests of somebody who is not the crowd, at most
	sample, tell time.Duration
}

func planned(t *testing.T) plan {
	p := plan{seed: uint64(time.Now().UnixNano()), length: 20 * time.Second, rate: 30, timeout: 200 * time.Millisecond, idle: time.Second, reload: 2 * time.Second,
		calm: 4 * time.Second, outage: 2 * time.Second, step: 120 * time.Millisecond, sample: 500 * time.Millisecond, tell: 10 * time.Second}
	if text := os.Getenv(lengthEnv); text != "" {
		length, err := time.ParseDuration(text)
		if err != nil || length < time.Minute {
			t.Fatalf("%s=%s: want a duration of a minute or more, as in 30m", lengthEnv, text)
		}
		p = plan{seed: p.seed, length: length, measure: 15 * time.Second, timeout: 15 * time.Millisecond, idle: 20 * time.Second, reload: 10 * time.Second,
			calm: 40 * time.Second, outage: 10 * time.Second, step: 250 * time.Millisecond, sample: 2 * time.Second, tell: time.Minute}
	}
	if text := os.Getenv(seedEnv); text != "" {
		if _, err := fmt.Sscan(text, &p.seed); err != nil {
			t.Fatalf("%s=%s: %v", seedEnv, text, err)
		}
	}
	return p
}

// A soak is one run, and what it has seen so far.
type soak struct {
	t       *testing.T
	plan    plan
	life    context.Context
	house   *house
	redis   *redistest.Server
	service *service
	crowd   *crowd
	data    string // Weir's

	samples []sample
	judged  judged

	killed, frozen, replaced, refused, events atomic.Int64
}

// Redis keeps what it has answered, through a kill too: it writes down without waiting for the disk before it answers.
var keeping = []string{"--appendonly", "yes", "--appendfsync", "no"}

// TestSoak holds Weir to what it promises over time.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs the program")
	}
	s := &soak{t: t, plan: planned(t), redis: redistest.Start(t, keeping...), service: startService(t), data: filepath.Join(t.TempDir(), "data")}
	s.house = startHouse(t, s.configuration(0))
	s.crowd = newCrowd(s.house.front)
	s.say("seed %d; %s=%d repeats the moments of the outages", s.plan.seed, seedEnv, s.plan.seed)
	s.warm()
	calm := s.rest()
	began := time.Now()
	s.play()
	asked := time.Since(began)
	rest := s.rest()
	s.await("as little as before, at rest", func() bool { rest = s.house.sample(); return !rest.above(calm) })
	s.report(asked, [2]sample{calm, rest})
	s.judgeTrends()
	s.judgeAnswers()
	s.judgeCounts()
	s.judgeLog(asked)
	if err := s.house.stop(); err != nil {
		t.Errorf("weir ended with %v\n%s", err, s.house.log.String())
	}
}

// say writes a line at once, so that a long run can be watched.
func (s *soak) say(format string, args ...any) {
	fmt.Fprintf(os.Stdout, format+"\n", args...)
}

// await waits until is, for as long as anybody can be patient.
func (s *soak) await(what string, is func() bool) {
	for began := time.Now(); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > patience {
			s.t.Errorf("after %v not yet: %s", patience, what)
			return
		}
	}
}

const crowders = 32 // lines that the crowd asks on

// warm asks as fast as can be for a while, and from then on the crowd is to ask half as fast.
func (s *soak) warm() {
	l := s.crowd.line()
	for i := range regulars {
		l.ask(s.crowd.common(i))
	}
	l.close()
	if s.plan.measure == 0 {
		return
	}
	life, end := context.WithTimeout(s.t.Context(), s.plan.measure)
	defer end()
	before := s.crowd.total()
	var all sync.WaitGroup
	for range crowders {
		all.Go(func() { s.crowd.tread(life, 0) })
	}
	all.Wait()
	can := float64(s.crowd.total()-before) / s.plan.measure.Seconds()
	s.plan.rate = can / 2
	s.say("they can do %.0f requests a second: the crowd asks %.0f", can, s.plan.rate)
}

// play runs until time is up, and everything that is to happen has happened.
func (s *soak) play() {
	life, end := context.WithCancel(s.t.Context())
	s.life = life
	var all sync.WaitGroup
	for range crowders {
		all.Go(func() { s.crowd.tread(life, s.plan.rate/crowders) })
	}
	for i, actor := range []func(*rand.Rand){
		s.exact, s.exact, s.exact, s.keyed, s.keyed, s.slots, s.slots, s.slots, s.slots, s.slots, s.slots, s.attack, s.outcast, s.slow, s.slow, s.quit, s.quit, s.outages,
	} {
		dice := rand.New(rand.NewPCG(s.plan.seed, uint64(i)))
		all.Go(func() { actor(dice) })
	}
	for _, other := range []func(){s.reloads, s.looks, s.listens, s.observe} {
		all.Go(other)
	}
	pause(life, s.plan.length)
	s.await("everything has happened", func() bool {
		return s.killed.Load() > 0 && s.frozen.Load() > 0 && s.replaced.Load() > 3 && s.refused.Load() > 0 && s.events.Load() > 0 && s.judged.exact.Load() > 0
	})
	end()
	all.Wait()
}

// rest waits until nothing is under way and connections to the service that nobody uses have ended, and returns what the process
// takes then.
func (s *soak) rest() sample {
	s.await("nothing in flight", func() bool {
		m := s.house.metrics()
		return m["weir_upstream_in_flight"] == 0 && m["weir_tarpit_held"] == 0 && m["weir_store_breaker_open"] == 0 && s.recorded() == s.crowd.total()
	})
	s.house.client.CloseIdleConnections()
	time.Sleep(s.plan.idle + 3*time.Second)
	return s.house.sample()
}

// recorded is how many requests Weir has recorded.
func (s *soak) recorded() int {
	var status struct{ Requests int }
	s.house.api("GET", "/api/v1/status", "", &status)
	return status.Requests
}

// By how much a process at rest may be above what it was before: the store's workers wait for more work, as many as ever
// asked at once.
const (
	workers = 2 * crowders
	fewMore = 32
)

// above reports whether a process at rest has goroutines or descriptors that it did not have before.
func (s sample) above(before sample) bool {
	return s.goroutines > before.goroutines+workers+fewMore || s.descriptors > before.descriptors+fewMore
}

// judgeTrends judges what the process took while it was busy.
func (s *soak) judgeTrends() {
	for _, t := range trends(s.samples) {
		if t.grows() {
			s.t.Errorf("second and last quarter: %s", t)
		}
	}
}

// judgeAnswers judges what the crowd was answered.
func (s *soak) judgeAnswers() {
	for _, fault := range s.crowd.unexplained() {
		s.t.Error(fault)
	}
	if n := s.service.most.Load(); n > places {
		s.t.Errorf("a client had %d of %d places", n, places)
	}
	// What a replica could not give back in an outage ends with its lease.
	for _, client := range []string{"10.8.0.1", "10.8.0.2"} {
		s.await("all places of "+client+" are free", func() bool { return s.free(client) == places })
	}
}

// free is how many places a client may take.
func (s *soak) free(client string) int {
	var view struct {
		Limits []struct {
			Rule      string
			Remaining int
		}
	}
	s.house.api("GET", "/api/v1/clients/"+client+"%2F32", "", &view)
	for _, l := range view.Limits {
		if l.Rule == "slots" {
			return l.Remaining
		}
	}
	return -1
}

// judgeCounts compares what Weir counted with what the crowd saw. Of those who went away nobody saw the answer.
func (s *soak) judgeCounts() {
	c, m := s.crowd, s.house.metrics()
	gone := c.count("", leftAsk, leftTold)
	compare := func(what string, got, want, more int) {
		s.t.Helper()
		if got < want || got > want+more {
			s.t.Errorf("%s: %d counted, the crowd saw %d (and perhaps %d more)", what, got, want, more)
		}
	}
	compare("requests", s.recorded(), c.total(), 0)
	compare("answers", int(m["weir_responses_total"]), c.total(), 0)
	for _, class := range []string{"2", "4", "5"} {
		compare("answers of class "+class, int(m[`weir_responses_total{class="`+class+`xx"}`]), c.begins(class), gone)
	}
	compare("blocks", int(m["weir_waf_blocks_total"]), c.count("", attacked), 0)
	compare("uninspected", int(m[`weir_waf_errors_total{reason="saturated"}`]), c.count("", saturated), gone)
	compare("passed /exact", m.decisions("exact", "pass"), c.count("exact", passed), 0)
	compare("refused /exact", m.decisions("exact", "reject"), c.count("exact", limited, uncounted), 0)
	compare("passed /keyed", m.decisions("keyed", "pass"), c.count("keyed", passed)+c.count("revoked", passed), 0)
	compare("passed /slots", m.decisions("slots", "pass"), c.count("slots", passed), gone)
	compare("clients found", int(m[`weir_client_resolution_total{outcome="forwarded"}`]), c.total(), 0)
	compare("reached the service", int(s.service.served.Load()), c.count("", passed), gone)
	compare("reloads refused", int(m[failed]), int(s.refused.Load()), 0)
}

// judgeLog judges what the process wrote: refusals at a bounded rate, a few lines for each event, and no fault of its own.
func (s *soak) judgeLog(asked time.Duration) {
	const perSecond, perEvent = 10, 12 // refusals are logged at most so often; an outage or reload is told in a few lines
	log := &s.house.log
	events := int(s.killed.Load()+s.frozen.Load()+s.replaced.Load()+2*s.refused.Load()) + log.count("banned by a penalty")
	log.mu.Lock()
	defer log.mu.Unlock()
	if most := perSecond*int(time.Since(log.began).Seconds()+2) + perEvent*(events+10); log.lines > most {
		s.t.Errorf("%d lines in %v and %d events, want at most %d: %v", log.lines, asked, events, most, log.says)
	}
	for _, line := range log.kept {
		expected := strings.Contains(line, "configuration not reloaded")
		if strings.Contains(line, "DATA RACE") || strings.Contains(line, "panic") || strings.Contains(line, `"ERROR"`) && !expected {
			s.t.Errorf("a line of the log: %s", line)
		}
	}
}
