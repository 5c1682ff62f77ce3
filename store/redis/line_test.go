package redis

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/redistest"
)

// All hits of a request are one round trip, and the first of all one more.
func TestOneRoundTrip(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	l, m := &weir.Limit{Max: 100, Window: time.Hour}, &weir.Limit{Algorithm: weir.TokenBucket, Max: 100, Burst: 100, Window: time.Hour}
	for range 10 {
		mustTake(t, s, hitOn(l, "a", 1), hitOn(m, "a", 1), hitOn(l, "global", 1))
	}
	if n := server.Calls("evalsha") + server.Calls("eval"); n != 11 {
		t.Errorf("%d calls for 10 requests, want 11: the script was not known at first", n)
	}
}

// Callers that wait go together: far fewer calls than callers.
func TestCoalescing(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	l := &weir.Limit{Max: 1 << 30, Window: time.Hour}
	mustTake(t, s, hitOn(l, "a", 1))
	server.Freeze()
	done := make(chan int)
	go func() {
		n, _ := passes(1000, func(int) ([]weir.Status, error) { return take(s, hitOn(l, "a", 1)) })
		done <- n
	}()
	line := s.link.Load().single
	eventually(t, "all wait", func() error {
		line.mu.Lock()
		defer line.mu.Unlock()
		if n := len(line.pending); n < 900 {
			return net.ErrClosed // any error: not yet
		}
		return nil
	})
	before := 0
	server.Thaw()
	if n := <-done; n != 1000 {
		t.Errorf("%d passed, want 1000", n)
	}
	if n := server.Calls("evalsha") - before; n > 2+200 {
		t.Errorf("%d calls for 1000 callers", n)
	}
	if left := mustTake(t, s, hitOn(l, "a", 0))[0].Remaining; left != 1<<30-1001 {
		t.Errorf("%d left, want each to be charged once", left)
	}
}

// A context that is over asks nothing.
func TestContextOver(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	h := hitOn(&weir.Limit{Max: 10, Window: time.Hour}, "a", 1)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Take(ctx, time.Now(), []weir.Hit{h}, make([]weir.Status, 1)); err == nil {
		t.Error("passes")
	}
	if left := mustTake(t, s, h)[0].Remaining; left != 9 {
		t.Errorf("%d left, want 9", left)
	}
}

// The store keeps no bytes of the caller's: it may use them again at once, also where it gave up.
func TestKeysAreTheCallers(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	l := &weir.Limit{Max: 10, Window: time.Hour}
	mustTake(t, s, hitOn(l, "a", 1))
	server.Freeze()
	h := hitOn(l, "a", 1)
	ctx, cancel := context.WithTimeout(context.Background(), short)
	defer cancel()
	if err := s.Take(ctx, time.Now(), []weir.Hit{h}, make([]weir.Status, 1)); err == nil {
		t.Fatal("a frozen server answers")
	}
	copy(h.Key, bytes.Repeat([]byte("x"), len(h.Key)))
	server.Thaw()
	eventually(t, "after the thaw", func() error {
		if n := server.Do("DBSIZE"); n != 1 {
			return net.ErrClosed
		}
		return nil
	})
}

// Nothing stays behind a closed store, whatever its server does.
func TestNothingStays(t *testing.T) {
	server := redistest.Start(t)
	cluster := redistest.StartCluster(t, 3)
	before := goleak.IgnoreCurrent()
	for _, url := range []string{server.URL(), cluster.Nodes[0].URL(), cluster.URL(), "redis://127.0.0.1:1"} {
		s, err := New(Options{URL: url, Timeout: patience})
		if err != nil {
			t.Fatal(err)
		}
		l := &weir.Limit{Max: 1000, Window: time.Hour}
		_, failed := passes(100, func(i int) ([]weir.Status, error) {
			return take(s, hitOn(l, "a", 1), hitOn(l, "b", 1))
		})
		if away := strings.HasSuffix(url, ":1"); (failed != nil) != away {
			t.Errorf("%s: %v", url, failed)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	// The client library looks for a server that is away once a second, and sees then that it is closed.
	eventually(t, "all end", func() error { return goleak.Find(before) })
}

// The Sentinels name another master when theirs is away.
func TestSentinel(t *testing.T) {
	master := redistest.Start(t)
	redistest.Start(t, "--replicaof", "127.0.0.1 "+master.Port())
	sentinel := redistest.StartSentinel(t, "weir", master, 1)
	s := openWith(t, Options{URL: sentinel.URL(), SentinelMaster: "weir", Timeout: time.Second})
	h := hitOn(&weir.Limit{Max: 100, Window: time.Hour}, "a", 1)
	eventually(t, "at first", func() error { _, err := take(s, h); return err })
	master.Kill()
	began := time.Now()
	for {
		if _, err := take(s, h); err == nil {
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatal("no other master after a minute")
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Logf("counts again after %v", time.Since(began))
}

// An answer leaves out what follows from it, and one that ends too soon is none.
func TestReadAnswer(t *testing.T) {
	const window, now = 60, 1_700_000_000
	for _, test := range []struct {
		name    string
		numbers []int64
		want    answer
		rest    int // numbers that are left; -1 for an error
	}{
		{"passes, reset by the window", []int64{2*7 + 1, now}, answer{left: 7, reset: window}, 1},
		{"passes", []int64{2 * 7, 5, now}, answer{left: 7, reset: 5}, 1},
		{"refused, reset by the window", []int64{-1 - (2*0 + 1), 9, now}, answer{reset: window, retry: 9}, 1},
		{"refused", []int64{-1 - 2*3, 5, -1, now}, answer{left: 3, reset: 5, retry: -1}, 1},
		{"nothing", nil, answer{}, -1},
		{"no reset", []int64{2 * 7}, answer{}, -1},
		{"no retry", []int64{-1 - (2*7 + 1)}, answer{}, -1},
	} {
		got, rest, err := readAnswer(test.numbers, window)
		if test.rest < 0 {
			if err == nil {
				t.Errorf("%s: %+v, want an error", test.name, got)
			}
			continue
		}
		if err != nil || got != test.want || len(rest) != test.rest {
			t.Errorf("%s: %+v, %d left, %v; want %+v, %d left", test.name, got, len(rest), err, test.want, test.rest)
		}
	}
	j := newJob(1)
	j.calls = append(j.calls, call{limit: &weir.Limit{Window: time.Minute}})
	if j.finish(&Store{}, []int64{15}, nil); j.err == nil {
		t.Error("an answer without the time is none")
	}
}
