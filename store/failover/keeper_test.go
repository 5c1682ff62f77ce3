package failover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
)

// FAL-12: when the breaker may close, one command reaches the store, and of 500 requests none waits.
func TestOneProbe(t *testing.T) {
	inBubble(t, Options{}, func(h *house) {
		h.breakDown()
		h.far.be(slow)
		h.far.asked.Store(0)
		time.Sleep(time.Second)
		var degraded atomic.Int64
		var wg sync.WaitGroup
		for range 500 {
			hit := h.hit(perMinute(1000), "a", 1)
			wg.Go(func() {
				out, wait, err := h.take(hit)
				if err == nil && wait == 0 && out[0].Degraded {
					degraded.Add(1)
				}
			})
		}
		wg.Wait()
		if a, d := h.far.asked.Load(), degraded.Load(); a != 1 || d != 500 {
			t.Errorf("%d commands and %d answers without a wait, want 1 and 500", a, d)
		}
	})
}

// The same with real goroutines that run at once, over many changes.
func TestManyAtOnce(t *testing.T) {
	h := build(t, Options{ProbeEvery: time.Millisecond, Timeout: 5 * time.Millisecond})
	defer h.close()
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	var wg sync.WaitGroup
	for i := range 500 {
		hits := []weir.Hit{h.hit(perMinute(1000), "a", 1), h.hit(&weir.Limit{Algorithm: weir.Concurrency, Max: 100}, "f", 1)}
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if i == 0 {
					h.far.be([]mood{well, broken, mad, mute}[n%4])
				}
				out := make([]weir.Status, len(hits))
				if err := h.Take(context.Background(), time.Now(), hits, out); err != nil {
					t.Error(err)
				}
				_ = h.Release(context.Background(), time.Now(), hits) // may fail for what is not held
				time.Sleep(time.Millisecond)
			}
		})
	}
	wg.Wait()
}

// A probe settles whatever becomes of it: the next one follows, and the store comes back.
func TestProbesSettle(t *testing.T) {
	for _, c := range []struct {
		name string
		mood mood
	}{{"broken", broken}, {"mute", mute}, {"deaf", deaf}, {"mad", mad}, {"slow", slow}} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, Options{}, func(h *house) {
				h.breakDown()
				h.far.be(c.mood)
				h.far.asked.Store(0)
				time.Sleep(9 * time.Second)
				if n := h.far.asked.Load(); n < 4 || n > 16 || !h.Open() {
					t.Errorf("%d probes in 9 s, open %v; want one or two in each or every other second, true", n, h.Open())
				}
				h.far.be(well)
				time.Sleep(3 * time.Second) // contract: within 5 s
				if h.Open() {
					t.Error("open 3 s after the store came back")
				}
			})
		})
	}
}

// A probe that is under way when the store is closed ends with it.
func TestCloseEndsProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, Options{Probe: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}})
		h.breakDown()
		time.Sleep(1500 * time.Millisecond)
		began := time.Now()
		h.close()
		if took := time.Since(began); took != 0 {
			t.Errorf("closed after %v", took)
		}
	})
}

// A call that heeds nothing does not hold up the end for more than a second.
func TestCloseLeavesTheDeaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, Options{})
		h.far.be(deaf)
		h.passes(perMinute(5), "a", 2)
		began := time.Now()
		h.Store.Close()
		if took := time.Since(began); took != leaveGrace {
			t.Errorf("closed after %v, want %v", took, leaveGrace)
		}
		close(h.far.end)
		h.far.Close()
		h.near.Close()
	})
}

// A first probe that had to connect is followed by one that must be as quick as a request.
func TestSecondProbe(t *testing.T) {
	for _, c := range []struct {
		name  string
		takes []time.Duration
		open  bool
	}{
		{"quick", []time.Duration{15 * time.Millisecond}, false},
		{"connects first", []time.Duration{900 * time.Millisecond, time.Millisecond}, false},
		{"slow twice", []time.Duration{16 * time.Millisecond, 16 * time.Millisecond}, true},
		{"too slow at all", []time.Duration{1001 * time.Millisecond}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var n atomic.Int64
			probe := func(context.Context) error {
				time.Sleep(c.takes[(n.Add(1)-1)%int64(len(c.takes))])
				return nil
			}
			inBubble(t, Options{Probe: probe}, func(h *house) {
				h.breakDown()
				time.Sleep(2*time.Second + 20*time.Millisecond)
				if h.Open() != c.open || n.Load() != int64(len(c.takes)) {
					t.Errorf("open %v after %d probes, want %v after %d", h.Open(), n.Load(), c.open, len(c.takes))
				}
				time.Sleep(2 * time.Second) // for the last one to end
			})
		})
	}
}

// An answer, or a failure, from before the breaker opened says nothing afterwards.
func TestErasAreApart(t *testing.T) {
	b := breaker{most: 1, log: slog.New(slog.DiscardHandler), since: time.Now(), changed: func(Change) {}}
	at := time.Now()
	why := Change{Error, errBroken}
	if !b.failed(0, at, why) || b.failed(0, at, why) || b.failed(1, at, why) {
		t.Error("it must open once, by the first failure")
	}
	b.mend(at)
	if b.failed(0, at, why) || b.open() {
		t.Error("a failure from before the outage opened it again")
	}
	b.row.Store(1)
	if b.answered(0, at); b.row.Load() != 1 {
		t.Error("an answer from before the outage counted")
	}
	if b.answered(2, at); b.row.Load() != 0 {
		t.Error("an answer did not end the row")
	}
}

// FAL-17: what this process has no time for is not the store's failure.
func TestStarvation(t *testing.T) {
	const timeout, ms = 15 * time.Millisecond, time.Millisecond
	type result struct {
		Timeouts, Starved, Short uint64
		Open                     bool
	}
	for _, c := range []struct {
		name  string
		heard time.Duration // when the store last answered; the call begins after 10 s
		ends  time.Duration // after it began
		wait  time.Duration
		err   error
		want  result
	}{
		{"silent", 0, timeout, timeout, errTimeout, result{Timeouts: 1, Open: true}},
		{"it answered just before", 10 * time.Second, timeout, timeout, errTimeout, result{Timeouts: 1, Open: true}},
		{"it answered somebody meanwhile", 10*time.Second + ms, timeout, timeout, errTimeout, result{Timeouts: 1}},
		{"it says so itself", 0, timeout, timeout, context.DeadlineExceeded, result{Timeouts: 1, Open: true}},
		{"its connection says so", 0, timeout, timeout, fmt.Errorf("redis: %w", os.ErrDeadlineExceeded), result{Timeouts: 1, Open: true}},
		{"its connection says so, while others are answered", 10*time.Second + ms, timeout, timeout, os.ErrDeadlineExceeded, result{Timeouts: 1}},
		{"looked up in time", 0, timeout + lateness, timeout, errTimeout, result{Timeouts: 1, Open: true}},
		{"looked up late", 9500 * ms, timeout + lateness + 1, timeout, errTimeout, result{Starved: 1}},
		{"looked up late, silent for long", 0, timeout + lateness + 1, timeout, errTimeout, result{Starved: 1, Open: true}},
		{"nobody came to ask", 9500 * ms, timeout, timeout, errStarved, result{Starved: 1}},
		{"nobody came to ask, silent for long", 0, timeout, timeout, errStarved, result{Starved: 1, Open: true}},
		{"in a hurry", 9500 * ms, ms, ms, errTimeout, result{Short: 1}},
		{"in a hurry, silent for long", 0, ms, ms, errTimeout, result{Short: 1, Open: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, Options{Failures: 1}, func(h *house) {
				start := h.breaker.since
				h.breaker.answered(0, start.Add(c.heard))
				begun := start.Add(10 * time.Second)
				if err := h.judge(turn{begun: begun, wait: c.wait}, begun.Add(c.ends), c.err); err == nil {
					t.Error("it was judged an answer")
				}
				got := result{h.Failures(Timeout), h.Failures(Starved), h.Failures(Short), h.Open()}
				if d := cmp.Diff(c.want, got); d != "" {
					t.Errorf("(-want +got):\n%s", d)
				}
			})
		})
	}
}

// As many calls as may be under way are; what comes then is answered at once.
func TestBusy(t *testing.T) {
	inBubble(t, Options{Failures: 1}, func(h *house) {
		h.crew.workers.Store(mostCalls)
		st, wait, err := h.take(h.hit(perMinute(5), "a", 1))
		if err != nil || wait != 0 || !st[0].Degraded || h.Failures(Busy) != 1 || !h.Open() || h.far.asked.Load() != 0 {
			t.Errorf("%+v, %v after %v, %d busy, open %v", st, err, wait, h.Failures(Busy), h.Open())
		}
		h.crew.workers.Store(0)
	})
}

func TestKinds(t *testing.T) {
	var names []string
	for _, k := range Kinds() {
		names = append(names, k.String())
	}
	if d := cmp.Diff([]string{"timeout", "error", "panic", "busy", "short_deadline", "starved"}, names); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// The shared store's own words reach the log, once.
func TestTheCauseIsLogged(t *testing.T) {
	inBubble(t, Options{}, func(h *house) {
		h.breakDown()
		if got := h.log.String(); !strings.Contains(got, errBroken.Error()) || h.logged("WARN") != 1 {
			t.Errorf("logged %q", got)
		}
	})
}

// A patience is a context like others.
func TestPatience(t *testing.T) {
	p := &patience{deadline: time.Unix(1, 0)}
	if at, ok := p.Deadline(); p.Err() != nil || !ok || at != p.deadline || p.Value("x") != nil {
		t.Errorf("at its begin: %v, %v, %v", p.Err(), at, ok)
	}
	before := p.Done()
	p.end()
	p.end()
	late := &patience{}
	late.end()
	for _, done := range []<-chan struct{}{before, p.Done(), late.Done()} {
		select {
		case <-done:
		default:
			t.Error("ended, and not done")
		}
	}
	if !errors.Is(p.Err(), context.DeadlineExceeded) {
		t.Errorf("ended: %v", p.Err())
	}
}
