package soak_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// A sample is what the process takes at a moment.
type sample struct {
	rss, heap               float64 // MB; heap is what the collector found in use
	goroutines, descriptors float64
}

func (h *house) sample() sample {
	const mb = 1 << 20
	m := h.metrics()
	// The collector's next goal is twice what it found in use the last time: unlike what is allocated it does not go up and down.
	return sample{m["process_resident_memory_bytes"] / mb, m["go_memstats_next_gc_bytes"] / 2 / mb, m["go_goroutines"], float64(h.descriptors())}
}

func (s sample) String() string {
	return fmt.Sprintf("RSS %.0f MB, heap %.1f MB, %.0f goroutines, %.0f descriptors", s.rss, s.heap, s.goroutines, s.descriptors)
}

// A measure is one number of a sample, and by how much the last quarter of a run may be above the second: by a share and
// by a sum, for what is small anyway. Each who asks has up to two connections, and two goroutines to each: on a busy machine
// more of them are under way at once.
type measure struct {
	name  string
	of    func(sample) float64
	share float64
	plus  float64
}

var measures = []measure{
	{"RSS in MB", func(s sample) float64 { return s.rss }, 0.15, 32},
	{"heap in MB", func(s sample) float64 { return s.heap }, 0.15, 8},
	{"goroutines", func(s sample) float64 { return s.goroutines }, 0.15, 4 * crowders},
	{"descriptors", func(s sample) float64 { return s.descriptors }, 0.15, 2 * crowders},
}

// A trend is a measure's median over the second quarter of a run, whose first is for warming up, and over the last.
type trend struct {
	measure
	second, last float64
}

func trends(all []sample) (found []trend) {
	for _, m := range measures {
		n := len(all)
		found = append(found, trend{m, median(all[n/4:n/2], m.of), median(all[3*n/4:], m.of)})
	}
	return found
}

func (t trend) grows() bool { return t.last > t.most() }

// most is what the last quarter may come to.
func (t trend) most() float64 { return t.second*(1+t.share) + t.plus }

func (t trend) String() string {
	return fmt.Sprintf("%s: %.1f, then %.1f (at most %.1f)", t.name, t.second, t.last, t.most())
}

// median is that of a number of samples; 0 of none.
func median(all []sample, of func(sample) float64) float64 {
	var numbers []float64
	for _, s := range all {
		numbers = append(numbers, of(s))
	}
	slices.Sort(numbers)
	if len(numbers) == 0 {
		return 0
	}
	return numbers[len(numbers)/2]
}

// A run that goes up and down is flat, one whose warm-up is steep too; one that grows by a third is not.
func TestTrends(t *testing.T) {
	for _, c := range []struct {
		name  string
		at    func(i int) float64
		grows bool
	}{
		{"flat", func(i int) float64 { return 100 + float64(i%7) }, false},
		{"warms up", func(i int) float64 { return min(float64(i)*10, 200) }, false},
		{"within the tolerance", func(i int) float64 { return 200 + float64(i)*0.5 }, false},
		{"leaks", func(i int) float64 { return 200 + float64(i)*4 }, true},
		{"leaks at the end", func(i int) float64 { return 200 + max(0, float64(i)-70)*15 }, true},
	} {
		var all []sample
		for i := range 100 {
			all = append(all, sample{c.at(i), c.at(i), c.at(i), c.at(i)})
		}
		for _, trend := range trends(all) {
			if trend.grows() != c.grows {
				t.Errorf("%s: %s: grows %v", c.name, trend, !c.grows)
			}
		}
	}
}

// A ledger is at fault if more passed than the limit, or if it refused too soon by what it may have counted.
func TestLedger(t *testing.T) {
	for _, c := range []struct {
		g     ledger
		fault bool
	}{
		{ledger{passed: 20, limited: 5}, false},
		{ledger{passed: 21, limited: 4}, true},
		{ledger{passed: 19, limited: 6}, true},
		{ledger{passed: 19, limited: 5, uncounted: 1}, false},
		{ledger{passed: 20, limited: 1, uncounted: 4}, false},
		{ledger{passed: 17, limited: 6, uncounted: 2}, true},
		{ledger{passed: 10, uncounted: 15}, false},
		{ledger{passed: 3}, false}, // it was not asked for more
	} {
		if fault := c.g.fault(exactly); (fault != "") != c.fault {
			t.Errorf("%+v: %q", c.g, fault)
		}
	}
}

// observe takes samples, and logs a line of what went on every so often.
func (s *soak) observe() {
	began, told, asked := time.Now(), time.Now(), s.crowd.total()
	s.say("   time   req/s  passed   429  403  503    p50     p99   RSS MB  heap MB  gorout.  files  clients  Redis keys  fallbacks  outages  reloads")
	for pause(s.life, s.plan.sample) {
		now := s.house.sample()
		s.samples = append(s.samples, now)
		if time.Since(told) < s.plan.tell {
			continue
		}
		c := s.crowd
		rate := float64(c.total()-asked) / time.Since(told).Seconds()
		asked, told = c.total(), time.Now()
		p50, p99 := c.spread()
		keys, _ := s.redis.Try("DBSIZE") // it may be away
		s.say("%7s %7.0f %7d %5d %4d %4d %6s %7s %8.0f %8.1f %8.0f %6.0f %8d %11v %10.0f %8d %5d+%d",
			time.Since(began).Round(time.Second), rate, c.begins("200"), c.begins("429"), c.begins("403"), c.begins("503"),
			p50.Round(10*time.Microsecond), p99.Round(10*time.Microsecond), now.rss, now.heap, now.goroutines, now.descriptors, c.clients.Load(), keys,
			s.house.metrics()["weir_store_fallback_total"], s.killed.Load()+s.frozen.Load(), s.replaced.Load(), s.refused.Load())
	}
}

// report is what can be pasted into a document.
func (s *soak) report(asked time.Duration, rest [2]sample) {
	m := s.house.metrics()
	s.say("soak of %s with seed %d: %d requests (%.0f a second) of %d clients", asked.Round(time.Second), s.plan.seed, s.crowd.total(),
		float64(s.crowd.total())/asked.Seconds(), s.crowd.clients.Load())
	s.say("Redis killed %d times and frozen %d times; %d reloads, %d refused; %d events of the dashboard", s.killed.Load(), s.frozen.Load(), s.replaced.Load(), s.refused.Load(), s.events.Load())
	s.say("%v hits counted in Redis's place; %d clients and keys counted exactly, %d more in part; at most %d of %d places taken",
		m["weir_store_fallback_total"], s.judged.exact.Load(), s.judged.partly.Load(), s.service.most.Load(), places)
	s.say("the breaker opened %d times; questions that Redis did not answer:%s", s.house.log.count(leftAlone), m.labelled("weir_store_failures_total"))
	for _, t := range trends(s.samples) {
		s.say("second and last quarter, %s", t)
	}
	s.say("at rest before: %s", rest[0])
	s.say("at rest after:  %s", rest[1])
	s.say("in data_dir: %s", s.files())
	s.say("what became of the requests:\n%s", s.crowd.table())
	var lines strings.Builder
	s.house.log.mu.Lock()
	for says, n := range s.house.log.says {
		fmt.Fprintf(&lines, " %q: %d;", says, n)
	}
	s.house.log.mu.Unlock()
	s.say("log lines by what they say:%s", &lines)
}

// files are those that Weir keeps, with their sizes.
func (s *soak) files() string {
	var b strings.Builder
	all, err := os.ReadDir(s.data)
	if err != nil {
		s.t.Error(err)
	}
	for _, f := range all {
		if about, err := f.Info(); err == nil { // one may have gone meanwhile
			fmt.Fprintf(&b, "%s %d KB; ", f.Name(), about.Size()>>10)
		}
	}
	return b.String()
}
