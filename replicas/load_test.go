package replicas_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// A moment is one request of a load: when it was sent and what became of it.
type moment struct {
	at time.Time
	answer
}

// A load is a steady stream of requests, sent when they are due whatever became of those before.
type load struct {
	stop chan struct{}
	done sync.WaitGroup

	mu  sync.Mutex
	all []moment
}

const (
	pace      = 4 * time.Millisecond // between two requests of a load
	loadFolk  = 16                   // clients that a load is of
	mostLoose = 256                  // requests of a load that are under way at once
)

// startLoad asks every url in turn, until end. None of its requests is over a limit.
func (c *crowd) startLoad(urls []string, paths ...string) *load {
	l := &load{stop: make(chan struct{})}
	var folk []string
	for range loadFolk {
		folk = append(folk, c.fresh())
	}
	loose := make(chan struct{}, mostLoose)
	l.done.Go(func() {
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-l.stop:
				return
			case <-tick.C:
			}
			loose <- struct{}{}
			l.done.Go(func() {
				l.ask(c, urls[i%len(urls)]+paths[i/len(urls)%len(paths)], folk[i%len(folk)])
				<-loose
			})
		}
	})
	return l
}

func (l *load) ask(c *crowd, url, client string) {
	m := moment{at: time.Now(), answer: c.ask(url, client)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, m)
}

// end stops the load and waits for its last answers.
func (l *load) end() []moment {
	close(l.stop)
	l.done.Wait()
	return l.all
}

// allPassed reports every request that did not pass.
func allPassed(t *testing.T, all []moment) {
	t.Helper()
	failed := map[string]int{}
	for _, m := range all {
		if m.status != http.StatusOK {
			failed[fmt.Sprint(m.status)]++
		}
	}
	if len(failed) > 0 {
		t.Errorf("of %d requests failed, by HTTP status: %v", len(all), failed)
	}
}

// waits are the quantiles of what requests took.
type waits struct {
	n                     int
	p50, p99, p999, worst time.Duration
}

// between returns the waits of the requests that were sent in a stretch of time.
func between(all []moment, from, to time.Time) waits {
	var took []time.Duration
	for _, m := range all {
		if !m.at.Before(from) && m.at.Before(to) {
			took = append(took, m.took)
		}
	}
	if len(took) == 0 {
		return waits{}
	}
	slices.Sort(took)
	at := func(q float64) time.Duration { return took[int(q*float64(len(took)-1))].Round(10 * time.Microsecond) }
	return waits{len(took), at(.5), at(.99), at(.999), at(1)}
}

func (w waits) String() string {
	return fmt.Sprintf("%d requests: p50 %v, p99 %v, p99.9 %v, worst %v", w.n, w.p50, w.p99, w.p999, w.worst)
}
