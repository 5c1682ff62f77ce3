package replicas_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/redistest"
	"github.com/weirgate/weir/internal/timed"
	"github.com/weirgate/weir/store/failover"
	"github.com/weirgate/weir/store/memory"
	"github.com/weirgate/weir/store/redis"
)

const (
	timeout = 15 * time.Millisecond // the default of store.redis.timeout

	waitRounds = 9  // of which the middle one counts
	waitAskers = 32 // at once
	waitEach   = 40 // questions of each in a round
)

// What the contract bounds, at p99.9: the wait for a Redis that is frozen is the timeout and at most 2 ms,
// and with an open breaker less than 1 ms. A machine with other things to do makes a bare timer late, too:
// beside every question such a timer runs, and what it is late is taken off. A round in which the machine
// stood still is one of nine.
func TestAddedWait(t *testing.T) {
	timed.Only(t)
	server := redistest.Start(t)
	for _, c := range []struct {
		name        string
		failures    int
		bare, bound time.Duration // what the timer waits for, and how much longer a question may take
	}{{"frozen, asked each time", 1 << 40, timeout, 2 * time.Millisecond}, {"open", 1, 0, time.Millisecond}} {
		t.Run(c.name, func(t *testing.T) {
			store := openFailover(t, server.URL(), failover.Options{Timeout: timeout, Failures: c.failures, ProbeEvery: time.Hour})
			askOnce(store)
			server.Freeze()
			defer server.Thaw()
			askOnce(store)
			var excess []time.Duration
			for range waitRounds {
				ours, bare := waitRound(func() { askOnce(store) }, func() { time.Sleep(c.bare) })
				excess = append(excess, ours-bare)
				if len(excess) == 1 && ours < c.bare {
					t.Errorf("p99.9 %v: nobody waited for Redis", ours)
				}
				t.Logf("p99.9 %v, of a bare timer %v", ours.Round(time.Microsecond), bare.Round(time.Microsecond))
			}
			slices.Sort(excess)
			if got := excess[waitRounds/2]; got > c.bound {
				t.Errorf("p99.9 is %v over that of a bare timer of %v, want at most %v", got, c.bare, c.bound)
			}
		})
	}
}

// openFailover opens what `weir run` counts in.
func openFailover(t *testing.T, url string, o failover.Options) *failover.Store {
	t.Helper()
	shared, err := redis.New(redis.Options{URL: url, Timeout: o.Timeout})
	if err != nil {
		t.Fatal(err)
	}
	local := memory.New(memory.Options{})
	s := failover.New(shared, local, o)
	t.Cleanup(func() {
		s.Close()
		if err := shared.Close(); err != nil {
			t.Error(err)
		}
		local.Close()
	})
	return s
}

func askOnce(s *failover.Store) {
	l := &weir.Limit{Max: 1 << 40, Window: time.Hour}
	hits := []weir.Hit{{Limit: l, Key: []byte("{a}:wait"), TagLen: len("{a}"), N: 1}}
	_ = s.Take(context.Background(), time.Now(), hits, make([]weir.Status, 1)) // it is answered in any case
}

// waitRound returns the p99.9 of how long ask and bare take while all askers do both at once.
func waitRound(ask, bare func()) (ours, timers time.Duration) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	var all, control []time.Duration
	note := func(to *[]time.Duration, f func()) {
		began := time.Now()
		f()
		took := time.Since(began)
		mu.Lock()
		defer mu.Unlock()
		*to = append(*to, took)
	}
	for range waitAskers {
		wg.Go(func() {
			for range waitEach {
				var both sync.WaitGroup
				both.Go(func() { note(&all, ask) })
				both.Go(func() { note(&control, bare) })
				both.Wait()
				time.Sleep(time.Millisecond) // an asker has other things to do
			}
		})
	}
	wg.Wait()
	return permille(all), permille(control)
}

// permille is the p99.9 of took.
func permille(took []time.Duration) time.Duration {
	slices.Sort(took)
	return took[len(took)*999/1000]
}

// FAL-17: a process that has one processor and more to do than it can is not taken for a Redis that does
// not answer.
func TestBusyIsNotAway(t *testing.T) {
	timed.Only(t)
	t.Setenv("GOMAXPROCS", "1")
	redis, s, c := redistest.Start(t), startService(t), newCrowd(t)
	yaml := basics(s) + fmt.Sprintf("store: {redis: {url: %q, timeout: 50ms}}\n", redis.URL()) +
		"rules: [{name: steady, path: /steady, limits: [{rate: 1000000/1h, per: client}]}]\n"
	all, urls := startReplicas(t, 1, yaml)
	clients := make([]string, 2*callers)
	for i := range clients {
		clients[i] = c.fresh()
	}
	silence := longestSilence(t, redis)
	began := time.Now()
	asked := 0
	for time.Since(began) < 3*time.Second {
		for client, got := range c.hammerAll(urls, "/steady", clients, 30) {
			asked += got[200]
			if len(got) != 1 || got[200] == 0 {
				t.Errorf("%s: %v", client, got)
			}
		}
	}
	fallbacks, silent := all[0].metric("weir_store_fallback_total"), silence()
	t.Logf("%d requests in %v, %v counted elsewhere; Redis was silent for %v", asked, time.Since(began).Round(time.Millisecond), fallbacks, silent)
	if silent > 25*time.Millisecond {
		t.Skip("the machine keeps Redis itself from answering")
	}
	if strings.Contains(all[0].log(), "left alone") || fallbacks > float64(asked)/100 {
		t.Errorf("of %d requests %v were counted elsewhere:\n%s", asked, fallbacks, all[0].log())
	}
}

// longestSilence asks Redis again and again until it is called, and then returns how long the slowest
// answer took.
func longestSilence(t *testing.T, redis *redistest.Server) func() time.Duration {
	t.Helper()
	conn, err := net.Dial("tcp", redis.Addr)
	if err != nil {
		t.Fatal(err)
	}
	worst := make(chan time.Duration, 1)
	go func() {
		longest := time.Duration(0)
		for answers := bufio.NewReader(conn); ; {
			began := time.Now()
			fmt.Fprint(conn, "PING\r\n") // if that fails, so does reading
			if _, err := answers.ReadString('\n'); err != nil {
				worst <- longest
				return
			}
			longest = max(longest, time.Since(began))
			time.Sleep(2 * time.Millisecond)
		}
	}()
	return func() time.Duration { conn.Close(); return <-worst }
}
