package redis

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/redistest"
	"github.com/weirgate/weir/internal/timed"
)

// windowNow is the now of these tests, 20 s after a minute's window began.
var windowNow = time.Unix(1_772_625_620, 0)

func perMinute(most int64) *weir.Limit {
	return &weir.Limit{Name: "m", Algorithm: weir.FixedWindow, Max: most, Window: time.Minute}
}

func windowHit(key string, most, n int64) weir.Hit {
	return weir.Hit{Limit: perMinute(most), Key: []byte(key), N: n}
}

// countWindow is one call. It shows how much is left of each, below 0 if it is refused.
func countWindow(t *testing.T, w *Window, hits ...weir.Hit) (left []int64) {
	t.Helper()
	out := make([]weir.Status, len(hits))
	if err := w.Take(context.Background(), windowNow, hits, out); err != nil {
		t.Fatal(err)
	}
	for i := range out {
		if out[i].Allowed != (out[i].Remaining >= 0) {
			t.Errorf("hit %d: allowed %v with %d left", i, out[i].Allowed, out[i].Remaining)
		}
		left = append(left, out[i].Remaining)
	}
	return left
}

func wantLeft(t *testing.T, what string, got []int64, want ...int64) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s: left (-want +got):\n%s", what, d)
	}
}

// Every hit is counted, also one that is refused, and the same counter twice in one request counts twice.
func TestWindowCountsWhatIsRefused(t *testing.T) {
	server := redistest.Start(t)
	w := NewWindow(open(t, server.URL()), WindowOptions{})
	wantLeft(t, "the first", countWindow(t, w, windowHit("a", 2, 1)), 1)
	wantLeft(t, "the same twice", countWindow(t, w, windowHit("a", 2, 1), windowHit("a", 2, 1)), 0, -1)
	wantLeft(t, "a look at what is over", countWindow(t, w, windowHit("a", 2, 0)), -1)
	wantLeft(t, "one refused, one counted", countWindow(t, w, windowHit("a", 2, 1), windowHit("b", 2, 1)), -2, 1)
	wantLeft(t, "a look at what is full", countWindow(t, w, windowHit("b", 2, 1), windowHit("b", 2, 0)), 0, 0)
	if got := server.Do("GET", "a"); got != "4" {
		t.Errorf("counter %v, want 4", got)
	}
}

// The status of a refusal says when the window ends, and that no waiting helps a hit above the limit.
func TestWindowStatus(t *testing.T) {
	w := NewWindow(open(t, redistest.Start(t).URL()), WindowOptions{})
	l := perMinute(3)
	hits := []weir.Hit{{Limit: l, Key: []byte("a"), N: 3}, {Limit: l, Key: []byte("a"), N: 1}, {Limit: l, Key: []byte("b"), N: 4}}
	out := make([]weir.Status, 3)
	if err := w.Take(context.Background(), windowNow, hits, out); err != nil {
		t.Fatal(err)
	}
	left := time.Minute - time.Duration(windowNow.Unix()%60)*time.Second
	want := []weir.Status{
		{Limit: l, Allowed: true, ResetAfter: left},
		{Limit: l, Remaining: -1, ResetAfter: left, RetryAfter: left},
		{Limit: l, Remaining: -1, ResetAfter: left, RetryAfter: weir.Never},
	}
	if d := cmp.Diff(want, out, cmp.Comparer(func(a, b *weir.Limit) bool { return a == b })); d != "" {
		t.Errorf("statuses (-want +got):\n%s", d)
	}
}

// A counter expires after its window and a part of the jitter, also one that was found without an expiry.
func TestWindowExpires(t *testing.T) {
	server := redistest.Start(t)
	w := NewWindow(open(t, server.URL()), WindowOptions{Jitter: 10 * time.Second})
	server.Do("SET", "planted", "999")
	seen := map[int]bool{}
	for i := range 40 {
		key := fmt.Sprintf("k%d", i)
		if i == 0 {
			key = "planted"
		}
		countWindow(t, w, windowHit(key, 2, 1))
		ttl := server.Do("TTL", key).(int)
		if ttl < 59 || ttl > 69 {
			t.Errorf("%s expires in %d s, want 60 to 69", key, ttl)
		}
		seen[ttl] = true
	}
	if len(seen) < 3 {
		t.Errorf("times to live %v, want several", seen)
	}
}

// Where one hit of a request is over, Spare charges those that are over and no others.
func TestWindowSpares(t *testing.T) {
	server := redistest.Start(t)
	for _, remember := range []int{0, 1 << 16} {
		server.Do("FLUSHALL")
		w := NewWindow(open(t, server.URL()), WindowOptions{Spare: true, Remember: remember})
		wantLeft(t, "both pass", countWindow(t, w, windowHit("a", 1, 1), windowHit("b", 9, 1)), 0, 8)
		wantLeft(t, "a is over", countWindow(t, w, windowHit("a", 1, 1), windowHit("b", 9, 1)), -1, 8)
		wantLeft(t, "alone", countWindow(t, w, windowHit("b", 9, 1)), 7)
		got := countWindow(t, w, windowHit("a", 1, 1), windowHit("b", 9, 1))
		if got[0] >= 0 || got[1] != 7 {
			t.Errorf("remember %d: left %v, want a refused and 7 of b", remember, got)
		}
	}
}

// What is known to be above its limit is refused without asking Redis until the window ends, and the
// other counters of the request are asked for.
func TestWindowRemembers(t *testing.T) {
	server := redistest.Start(t)
	w := NewWindow(open(t, server.URL()), WindowOptions{Remember: 1 << 16})
	a, b := windowHit("a", 1, 1), windowHit("b", 9, 1)
	countWindow(t, w, a)
	out := make([]weir.Status, 1)
	if w.Recall(windowNow, []weir.Hit{a}, out) {
		t.Error("a full counter is not an over-full one: a look would pass")
	}
	countWindow(t, w, a)
	before := server.Calls("incrby")
	for range 10 {
		if !w.Recall(windowNow, []weir.Hit{a}, out) || out[0].Allowed || out[0].RetryAfter <= 0 {
			t.Fatalf("not recalled: %+v", out[0])
		}
		countWindow(t, w, a)
		countWindow(t, w, windowHit("a", 1, 0))
	}
	if asked := server.Calls("incrby") - before; asked != 0 {
		t.Errorf("Redis was asked %d times", asked)
	}
	wantLeft(t, "the other counter", countWindow(t, w, a, b), -1, 8)
	if w.Recall(windowNow, []weir.Hit{a, b}, make([]weir.Status, 2)) {
		t.Error("recalled, though one is not known")
	}
	if w.Recall(windowNow, []weir.Hit{windowHit("a", 100, 1)}, make([]weir.Status, 1)) {
		t.Error("what is above a limit of 1 is not above one of 100")
	}
	end := windowNow.Add(out[0].RetryAfter)
	if !w.Recall(end.Add(-1), []weir.Hit{a}, out) || w.Recall(end, []weir.Hit{a}, out) {
		t.Error("want it remembered to the end of the window, and no longer")
	}
	if err := w.Reset(context.Background(), []weir.Hit{a}); err != nil {
		t.Fatal(err)
	}
	wantLeft(t, "after a reset", countWindow(t, w, a), 0)
}

// What is remembered is bounded: what ends first makes room.
func TestOversAreBounded(t *testing.T) {
	o := newOvers(1 << 14)
	known := 0
	for i := range 10_000 {
		h := windowHit(fmt.Sprintf("k%d", i), 1, 1)
		o.add(&h, windowNow, time.Minute)
	}
	for i := range 10_000 {
		if h := windowHit(fmt.Sprintf("k%d", i), 1, 1); o.knows(&h, windowNow) {
			known++
		}
	}
	if most := (1 << 14) / overSetBytes * overWays; known > most || known < most/2 {
		t.Errorf("%d known, want at most %d and more than half of it", known, most)
	}
}

// A look changes nothing.
func TestWindowPeek(t *testing.T) {
	server := redistest.Start(t)
	w := NewWindow(open(t, server.URL()), WindowOptions{Remember: 1 << 12})
	countWindow(t, w, windowHit("a", 2, 2))
	for range 3 {
		out := make([]weir.Status, 2)
		if err := w.Peek(context.Background(), windowNow, []weir.Hit{windowHit("a", 2, 1), windowHit("new", 2, 1)}, out); err != nil {
			t.Fatal(err)
		}
		wantLeft(t, "peek", []int64{out[0].Remaining, out[1].Remaining}, -1, 1)
	}
	if got := fmt.Sprintf("%v %v", server.Do("GET", "a"), server.Do("EXISTS", "new")); got != "2 0" {
		t.Errorf("counters %s, want 2 and none", got)
	}
	if err := w.Release(context.Background(), windowNow, nil); err != nil {
		t.Error(err)
	}
}

// However great the costs, a counter is refused and never a failure.
func TestWindowDoesNotOverflow(t *testing.T) {
	server := redistest.Start(t)
	w := NewWindow(open(t, server.URL()), WindowOptions{Spare: true})
	server.Do("SET", "a", fmt.Sprint(int64(math.MaxInt64-1)))
	for range 3 {
		got := countWindow(t, w, windowHit("a", 2, math.MaxInt64), windowHit("b", 2, math.MaxInt64))
		if got[0] >= 0 || got[1] >= 0 {
			t.Errorf("left %v, want both refused", got)
		}
	}
	out := make([]weir.Status, 1)
	if err := w.Peek(context.Background(), windowNow, []weir.Hit{windowHit("a", 2, math.MaxInt64)}, out); err != nil || out[0].Allowed {
		t.Errorf("peek: %+v, %v", out[0], err)
	}
	wantLeft(t, "a cost below 0 is a look", countWindow(t, w, windowHit("c", 2, -5)), 2)
}

// A counter that is no number is an error, which says what and where.
func TestWindowError(t *testing.T) {
	server := redistest.Start(t)
	w := NewWindow(open(t, server.URL()), WindowOptions{})
	server.Do("RPUSH", "a", "x")
	err := w.Take(context.Background(), windowNow, []weir.Hit{windowHit("b", 2, 1), windowHit("a", 2, 1)}, make([]weir.Status, 2))
	if err == nil || !strings.Contains(err.Error(), server.Addr) || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("got %v", err)
	}
}

// At any parallelism, from two clients, exactly the limit passes, and all are counted.
func TestWindowIsExact(t *testing.T) {
	const most, asked = 100, 1000
	for name, url := range map[string]string{"one server": redistest.Start(t).URL(), "cluster": redistest.StartCluster(t, 3).URL()} {
		windows := []*Window{NewWindow(open(t, url), WindowOptions{}), NewWindow(open(t, url), WindowOptions{})}
		var passed atomic.Int64
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				for range asked / 50 {
					out := make([]weir.Status, 2)
					other := windowHit(fmt.Sprintf("other%d", i), 1000, 1)
					if err := windows[i%2].Take(context.Background(), windowNow, []weir.Hit{windowHit("hot", most, 1), other}, out); err != nil {
						t.Error(err)
					}
					if out[0].Allowed {
						passed.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if passed.Load() != most {
			t.Errorf("%s: %d passed, want %d", name, passed.Load(), most)
		}
		wantLeft(t, name, countWindow(t, windows[0], windowHit("hot", most, 0)), most-asked)
	}
}

// Redis answers as a plain model does, hit by hit, whatever the order.
func TestWindowEqualsTheModel(t *testing.T) {
	server := redistest.Start(t)
	for _, spare := range []bool{false, true} {
		server.Do("FLUSHALL")
		w, model := NewWindow(open(t, server.URL()), WindowOptions{Spare: spare}), map[string]int64{}
		r := rand.New(rand.NewPCG(1, 2))
		for step := range 2000 {
			var hits []weir.Hit
			for range 1 + r.IntN(4) {
				hits = append(hits, windowHit(fmt.Sprintf("k%d", r.IntN(30)), int64(r.IntN(20)), int64(r.IntN(3))))
			}
			want := modelWindow(model, hits, spare)
			if got := countWindow(t, w, hits...); !cmp.Equal(want, got) {
				t.Fatalf("spare %v, step %d: %v, want %v", spare, step, got, want)
			}
		}
	}
}

// modelWindow is what envoyproxy/ratelimit does.
func modelWindow(counters map[string]int64, hits []weir.Hit, spare bool) (left []int64) {
	over := make([]bool, len(hits))
	any := false
	for i, h := range hits {
		over[i] = counters[string(h.Key)]+h.N > h.Limit.Max
		any = any || over[i]
	}
	for i, h := range hits {
		if !spare || len(hits) == 1 || !any || over[i] {
			counters[string(h.Key)] += h.N
		}
		left = append(left, h.Limit.Max-counters[string(h.Key)])
	}
	return left
}

// A slot that moves to another node is followed, and one node is enough to find a Cluster.
func TestWindowFollowsSlots(t *testing.T) {
	cluster := redistest.StartCluster(t, 3)
	w := NewWindow(open(t, cluster.Nodes[1].URL()), WindowOptions{})
	hits := func() (h []weir.Hit) {
		for i := range 20 {
			h = append(h, windowHit(fmt.Sprintf("k%d", i), 1000, 1))
		}
		return h
	}
	for i, left := range countWindow(t, w, hits()...) {
		if left != 999 {
			t.Fatalf("k%d: %d left, want 999", i, left)
		}
	}
	s := slot("k0")
	from := cluster.Holder(s)
	to := cluster.Nodes[0]
	if to == from {
		to = cluster.Nodes[2]
	}
	cluster.BeginMove(s, from, to)
	fresh := "" // a new counter of that slot, which the old node does not hold
	for i := 0; fresh == ""; i++ {
		if key := fmt.Sprintf("n%d", i); slot(key) == s {
			fresh = key
		}
	}
	wantLeft(t, "while the slot moves", countWindow(t, w, windowHit(fresh, 9, 1)), 8)
	cluster.EndMove(s, from, to)
	for i, left := range countWindow(t, w, hits()...) {
		if left != 998 {
			t.Errorf("k%d: %d left, want 998", i, left)
		}
	}
}

// A frozen server costs a caller its own patience, and no more than the store's.
func TestWindowFrozen(t *testing.T) {
	server := redistest.Start(t)
	w := NewWindow(openWith(t, Options{URL: server.URL(), Timeout: short}), WindowOptions{})
	answer := func() error {
		return w.Take(context.Background(), windowNow, []weir.Hit{windowHit("b", 9, 1)}, make([]weir.Status, 1))
	}
	eventually(t, "at first", answer)
	server.Freeze()
	for _, patience := range []time.Duration{short / 2, time.Second} {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		began := time.Now()
		err := w.Take(ctx, windowNow, []weir.Hit{windowHit("a", 9, 1)}, make([]weir.Status, 1))
		cancel()
		if took := time.Since(began); err == nil || took > timed.Bound(min(patience, short)+slack) {
			t.Errorf("patience %v: %v after %v", patience, err, took)
		}
	}
	server.Thaw()
	eventually(t, "an answer", answer)
}

// What may have been executed is never sent again.
func TestWindowIsNeverSentAgain(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var counted atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go answerPings(c, &counted)
		}
	}()
	w := NewWindow(openWith(t, Options{URL: "redis://" + l.Addr().String(), Timeout: patience}), WindowOptions{})
	err = w.Take(context.Background(), windowNow, []weir.Hit{windowHit("a", 9, 1)}, make([]weir.Status, 1))
	if err == nil {
		t.Error("no error")
	}
	if n := counted.Load(); n != 1 {
		t.Errorf("sent %d times, want once", n)
	}
}

// answerPings is a server that closes the connection on which it is told to count.
func answerPings(c net.Conn, counted *atomic.Int64) {
	defer c.Close()
	for r := bufio.NewReader(c); ; {
		line, err := r.ReadBytes('\n')
		switch line = bytes.ToLower(bytes.TrimSpace(line)); {
		case err != nil:
			return
		case bytes.Equal(line, []byte("ping")):
			_, _ = c.Write([]byte("+PONG\r\n")) // the client finds out, here and below
		case bytes.Equal(line, []byte("hello")):
			_, _ = c.Write([]byte("-ERR unknown command\r\n"))
		case bytes.Equal(line, []byte("incrby")):
			counted.Add(1)
			return
		}
	}
}

func BenchmarkWindow(b *testing.B) {
	w := NewWindow(open(b, redistest.Start(b).URL()), WindowOptions{})
	b.SetParallelism(32)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		hits, out := []weir.Hit{windowHit(fmt.Sprint("k", rand.Uint32()), 1<<40, 1)}, make([]weir.Status, 1)
		for pb.Next() {
			if err := w.Take(context.Background(), windowNow, hits, out); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
