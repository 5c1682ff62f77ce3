package envoyrls

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/internal/proctest"
	"github.com/weirgate/weir/internal/redistest"
	"github.com/weirgate/weir/internal/timed"
	"github.com/weirgate/weir/store/failover"
	"github.com/weirgate/weir/store/memory"
	"github.com/weirgate/weir/store/redis"
)

var errAway = errors.New("away")

// What becomes of a request that the store cannot count is what was chosen, never code Unknown.
func TestOnFailure(t *testing.T) {
	for _, counting := range []Counting{Compat, Own} {
		for _, c := range []struct {
			on   weir.OnFailure
			code codes.Code
			want string
			http int
		}{
			{weir.FailAllow, codes.OK, "OK | OK | OK 4294967295", http.StatusOK},
			{weir.FailDeny, codes.Unavailable, "", http.StatusServiceUnavailable},
			{weir.FailLocal, codes.Unavailable, "", http.StatusServiceUnavailable}, // the local store failed, too
		} {
			away := &scripted{do: func() error { return errAway }}
			h := build(t, plan{yaml: someLimits, store: awayStore{away}, options: Options{Counting: counting, Store: away, OnFailure: c.on}})
			a, err := h.ShouldRateLimit(context.Background(), request(descriptor("l10", "a"), descriptor("free", "a")))
			if status.Code(err) != c.code || err == nil && line(a) != c.want {
				t.Errorf("%v: %v, %v", c.on, a, err)
			}
			e := h.journal.Recent(1)[0]
			if !e.Degraded || e.Reason != string(weir.StoreFailed) || e.Status != c.http {
				t.Errorf("%v: recorded %+v", c.on, e)
			}
			if code, _ := h.postJSON(t, []byte(`{"domain":"d","descriptors":[{"entries":[{"key":"l3","value":"a"}]}]}`)); code != c.http {
				t.Errorf("%v: /json %d, want %d", c.on, code, c.http)
			}
		}
	}
}

// awayStore is a scripted as the engine wants it.
type awayStore struct{ weir.Store }

func (awayStore) Release(context.Context, time.Time, []weir.Hit) error             { return errAway }
func (awayStore) Peek(context.Context, time.Time, []weir.Hit, []weir.Status) error { return errAway }

// An asker that has gone is not the store's failure.
func TestAskerGone(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	h := build(t, plan{yaml: someLimits, options: Options{Store: &scripted{do: func() error { return ctx.Err() }}}})
	_, err := h.ShouldRateLimit(ctx, request(descriptor("l3", "a")))
	if status.Code(err) != codes.Unavailable {
		t.Errorf("got %v", err)
	}
	if h.journal.Recent(1)[0].Degraded {
		t.Error("recorded as degraded")
	}
}

// A backed is a house on Redis, with failover before it.
type backed struct {
	*house
	failover *failover.Store
}

// onRedis builds a house whose counters, of either kind, are on server.
func onRedis(tb testing.TB, server *redistest.Server, o Options, yaml string) *backed {
	tb.Helper()
	return far{server: server}.build(tb, o, yaml)
}

// A far is a server, and how long it is waited for; 0: as long as by default.
type far struct {
	server  *redistest.Server
	timeout time.Duration
}

func (d far) build(tb testing.TB, o Options, yaml string) *backed {
	tb.Helper()
	r, err := redis.New(redis.Options{URL: d.server.URL(), Timeout: d.timeout})
	if err != nil {
		tb.Fatal(err)
	}
	own := memory.New(memory.Options{MaxKeys: 10_000})
	var shared, local failover.Backend = redis.NewWindow(r, redis.WindowOptions{Jitter: 300 * time.Second}), NewMemory(MemoryOptions{})
	if o.Counting == Own {
		shared, local = r, own
	}
	f := failover.New(shared, local, failover.Options{Timeout: d.timeout, ProbeEvery: 100 * time.Millisecond})
	tb.Cleanup(func() {
		f.Close()
		own.Close()
		if err := r.Close(); err != nil {
			tb.Error(err)
		}
	})
	o.Store = f
	var store engine.Store = f
	return &backed{build(tb, plan{yaml: yaml, store: store, options: o}), f}
}

// With its store frozen the service answers in time from this replica's share: no error, p99.9 under 20 ms from
// the second request on, and when the store is back it counts there again.
func TestFrozenStore(t *testing.T) {
	for _, counting := range []Counting{Compat, Own} {
		server := redistest.Start(t)
		h := onRedis(t, server, Options{Counting: counting}, someLimits)
		client := h.dial(t)
		value := ""
		ask := func() (*pb.RateLimitResponse, time.Duration) {
			ctx, cancel := context.WithTimeout(context.Background(), timed.Bound(500*time.Millisecond))
			defer cancel()
			began := time.Now()
			a, err := client.ShouldRateLimit(ctx, request(descriptor("l10", value)))
			if err != nil {
				t.Error(err)
			}
			return a, time.Since(began)
		}
		proctest.Eventually(t, "four that the store counts", func() bool { // a busy machine may be later than the store is waited for
			value += "a"
			before := h.failover.Fallbacks()
			for range 4 {
				ask()
			}
			return h.failover.Fallbacks() == before
		})
		server.Freeze()
		late := lateness()
		passed, waits := 0, []time.Duration{}
		for i := range 1000 {
			a, wait := ask()
			if a.GetOverallCode() == pb.RateLimitResponse_OK {
				passed++
			}
			if i > 0 {
				waits = append(waits, wait)
			}
		}
		if passed > 6 {
			t.Errorf("counting %d: %d passed, want no more than the 6 that were left", counting, passed)
		}
		slices.Sort(waits)
		rank, noise := 999, late()
		if noise > 10*time.Millisecond {
			rank = 990 // the machine is too busy to be asked for more
		}
		if p := waits[len(waits)*rank/1000]; p > timed.Bound(20*time.Millisecond+noise) {
			t.Errorf("counting %d: p%.1f is %v, want at most 20ms and the %v that the machine is late", counting, float64(rank)/10, p, noise)
		}
		if !h.failover.Open() || h.failover.Fallbacks() == 0 || !h.journal.Recent(1)[0].Degraded {
			t.Errorf("counting %d: nobody can see it", counting)
		}
		server.Thaw()
		proctest.Eventually(t, "the store's return", func() bool { return !h.failover.Open() })
		proctest.Eventually(t, "an answer of the store", func() bool { ask(); return !h.journal.Recent(1)[0].Degraded })
	}
}

// lateness begins to look how late the machine wakes a sleeper. What it returns ends that, and says by how much
// at worst.
func lateness() func() time.Duration {
	stop, worst := make(chan bool), make(chan time.Duration)
	go func() {
		late := time.Duration(0)
		for {
			began := time.Now()
			select {
			case <-stop:
				worst <- late
				return
			case <-time.After(time.Millisecond):
				late = max(late, time.Since(began)-time.Millisecond)
			}
		}
	}()
	return func() time.Duration {
		close(stop)
		return <-worst
	}
}

// FAL-20: the caller's deadline is read, and there is an answer before it.
func TestShortDeadline(t *testing.T) {
	server := redistest.Start(t)
	h := far{server, time.Minute}.build(t, Options{}, someLimits)
	h.passes(t, 1, request(descriptor("l10", "a")))
	server.Freeze()
	defer server.Thaw()
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	if _, err := h.ShouldRateLimit(ctx, request(descriptor("l10", "a"))); err != nil {
		t.Errorf("%v, want an answer from this replica's share", err)
	}
	if n := h.failover.Failures(failover.Short); n == 0 {
		t.Error("the short deadline is not counted")
	}
}

// Of parallel calls to two services on one Redis exactly the limit passes, with either counting.
func TestExactOnOneRedis(t *testing.T) {
	const most, asked = 100, 1000
	for _, counting := range []Counting{Compat, Own} {
		server := redistest.Start(t)
		limits := fmt.Sprintf("domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: day, requests_per_unit: %d}}\n", most)
		var clients []pb.RateLimitServiceClient
		var houses []*backed
		for range 2 {
			h := onRedisPatient(t, server, Options{Counting: counting}, limits)
			houses, clients = append(houses, h), append(clients, h.dial(t))
		}
		var mu sync.Mutex
		passed := 0
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				for range asked / 20 {
					a, err := clients[i%2].ShouldRateLimit(context.Background(), request(descriptor("k", "v")))
					if err != nil {
						t.Error(err)
						return
					}
					if a.OverallCode == pb.RateLimitResponse_OK {
						mu.Lock()
						passed++
						mu.Unlock()
					}
				}
			})
		}
		wg.Wait()
		if passed != most {
			t.Errorf("counting %d: %d passed, want %d", counting, passed, most)
		}
		if n := houses[0].journal.Totals().Requests + houses[1].journal.Totals().Requests; n != asked {
			t.Errorf("counting %d: %d recorded, want %d", counting, n, asked)
		}
	}
}

// onRedisPatient is onRedis without failover, for who counts exactly on a busy machine.
func onRedisPatient(tb testing.TB, server *redistest.Server, o Options, yaml string) *backed {
	tb.Helper()
	r, err := redis.New(redis.Options{URL: server.URL(), Timeout: 10 * time.Second})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := r.Close(); err != nil {
			tb.Error(err)
		}
	})
	o.Store = redis.NewWindow(r, redis.WindowOptions{Jitter: 300 * time.Second})
	return &backed{house: build(tb, plan{yaml: yaml, store: r, options: o})}
}

// A theirs is envoyproxy/ratelimit's way to count, word for word on the wire.
type theirs struct{ server *redistest.Server }

func (o theirs) passes(key string, limit int) bool {
	start := noon.Unix() - noon.Unix()%86400
	name := fmt.Sprintf("d_k_%s_%d", key, start)
	after := o.server.Do("INCRBY", name, "1").(int)
	o.server.Do("EXPIRE", name, "86500")
	return after <= limit
}

// A mixed fleet: one of theirs and one of ours ask one Redis at once, and exactly the limit passes in sum.
func TestMixedFleet(t *testing.T) {
	const most = 50
	server := redistest.Start(t)
	h := onRedisPatient(t, server, Options{}, fmt.Sprintf("domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: day, requests_per_unit: %d}}\n", most))
	for round := range 3 {
		value := fmt.Sprint("v", round)
		var wg sync.WaitGroup
		counts := make([]int, 4)
		for i := range counts {
			wg.Go(func() {
				for range 40 {
					if i%2 == 0 && (theirs{server}).passes(value, most) || i%2 == 1 && h.passes(t, 1, request(descriptor("k", value))) == 1 {
						counts[i]++
					}
				}
			})
		}
		wg.Wait()
		if sum := counts[0] + counts[1] + counts[2] + counts[3]; sum != most || counts[0]+counts[2] == 0 || counts[1]+counts[3] == 0 {
			t.Errorf("round %d: %v passed, want %d in sum, of both", round, counts, most)
		}
	}
}
