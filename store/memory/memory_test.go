package memory

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// noon is in the middle of a day and at the turn of a minute.
var noon = time.Date(2027, 3, 5, 12, 0, 0, 0, time.UTC)

// take charges 1 to the counter of that name.
func take(s *Store, at time.Time, l *weir.Limit, name string) weir.Status {
	return takeN(s, at, l, name, 1)
}

func takeN(s *Store, at time.Time, l *weir.Limit, name string, n int64) weir.Status {
	var out [1]weir.Status
	_ = s.Take(context.Background(), at, []weir.Hit{{Limit: l, Key: []byte(name), N: n}}, out[:])
	return out[0]
}

// CNT-46: exactly 10 of 11 pass for each client.
func TestTenOfEleven(t *testing.T) {
	s := open(t, Options{})
	for client := range 20 {
		passed := 0
		for range 11 {
			if take(s, noon, perMinute(10), fmt.Sprint(client)).Allowed {
				passed++
			}
		}
		if passed != 10 {
			t.Errorf("client %d: %d passed, want 10", client, passed)
		}
	}
}

// CON-01: of 1,000 at once exactly 10 pass, each time.
func TestExactInParallel(t *testing.T) {
	s := open(t, Options{})
	for client := range 50 {
		var passed atomic.Int64
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				if take(s, noon, perMinute(10), fmt.Sprint(client)).Allowed {
					passed.Add(1)
				}
			})
		}
		wg.Wait()
		if got := passed.Load(); got != 10 {
			t.Fatalf("client %d: %d passed, want 10", client, got)
		}
	}
}

// CON-07: what one limit refuses is not charged to the other.
func TestOwnerAndKey(t *testing.T) {
	s := open(t, Options{})
	request := func(at time.Time, key string, most int64) bool {
		hits := []weir.Hit{{Limit: perMinute(10), Key: []byte("owner"), N: 1}, {Limit: perMinute(most), Key: []byte(key), N: 1}}
		out := make([]weir.Status, 2)
		_ = s.Take(context.Background(), at, hits, out)
		return out[0].Allowed && out[1].Allowed
	}
	var passed atomic.Int64
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if request(noon, "k1", 2) {
				passed.Add(1)
			}
		})
	}
	wg.Wait()
	for range 8 {
		if request(noon.Add(time.Second), "k2", 10) {
			passed.Add(10)
		}
	}
	if got := passed.Load(); got != 82 {
		t.Errorf("%d of k1 and %d of k2 passed, want 2 and 8", got%10, got/10)
	}
}

// CNT-20: a busy client's bucket isn't given back full, whatever is swept meanwhile.
func TestBusyBucketIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Options{})
		l := &weir.Limit{Algorithm: weir.TokenBucket, Max: 1, Burst: 20, Window: 10 * time.Second}
		passed := 0
		for range 601 {
			if take(s, time.Now(), l, "busy").Allowed {
				passed++
			}
			time.Sleep(time.Second)
		}
		if passed != 80 {
			t.Errorf("%d passed in 600 s, want 20 + 60", passed)
		}
	})
}

// CNT-63: a window has its own counter, since the key bears it; a limit that comes back finds what
// it left.
func TestOtherWindowOtherCounter(t *testing.T) {
	s := open(t, Options{})
	hour, short := &weir.Limit{Max: 5, Window: time.Hour}, &weir.Limit{Max: 5, Window: 10 * time.Second}
	takeN(s, noon, hour, "5/1h|a", 5)
	if st := take(s, noon.Add(21*time.Second), short, "5/10s|a"); !st.Allowed {
		t.Errorf("the new window: %+v", st)
	}
	if st := take(s, noon.Add(30*time.Second), hour, "5/1h|a"); st.Allowed {
		t.Errorf("the old one again: %+v", st)
	}
}

// CNT-40: who is at the limit is evicted last, so that a crowd does not give him a new one.
func TestWhoIsAtTheLimitIsKept(t *testing.T) {
	s := open(t, Options{MaxKeys: 10_000})
	takeN(s, noon, perMinute(5), "a", 5)
	for i := range 20_000 {
		take(s, noon.Add(time.Duration(i)*500*time.Microsecond), perMinute(5), fmt.Sprint(i))
	}
	if st := take(s, noon.Add(11*time.Second), perMinute(5), "a"); st.Allowed {
		t.Errorf("the client at its limit has a new one: %+v", st)
	}
	if n, gone := s.Keys(), s.Evictions(); n > 10_000 || n+int(gone) != 20_001 {
		t.Errorf("%d counters kept and %d evicted of 20001, at most 10000 may be kept", n, gone)
	}
}

// CON-09: a full store stays full while many add to it at once.
func TestFullStoreStaysFull(t *testing.T) {
	const most = 10_000
	s := open(t, Options{MaxKeys: most})
	for i := range 3 * most {
		take(s, noon, perMinute(5), fmt.Sprint("first", i))
	}
	before := s.Evictions()
	least := atomic.Int64{}
	least.Store(most)
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			for i := range 100_000 / 64 {
				take(s, noon, perMinute(5), fmt.Sprint(g, "/", i))
				if n := int64(s.Keys()); i%100 == 0 && n < least.Load() {
					least.Store(n)
				}
			}
		})
	}
	wg.Wait()
	if n := least.Load(); n < most*95/100 {
		t.Errorf("the store fell to %d of %d", n, most)
	}
	if n := s.Keys(); n != most {
		t.Errorf("%d counters, want %d", n, most)
	}
	if got, want := s.Evictions()-before, uint64(100_000/64*64); got != want {
		t.Errorf("%d evictions for %d new counters", got, want)
	}
}

// What has expired goes before what has not.
func TestExpiredGoFirst(t *testing.T) {
	s := open(t, Options{MaxKeys: 1000})
	for i := range 1000 {
		takeN(s, noon, perMinute(2), fmt.Sprint("old", i), 2)
	}
	later := noon.Add(2 * time.Minute)
	for i := range 1000 {
		take(s, later, perMinute(1000), fmt.Sprint("new", i))
	}
	if n := s.Evictions(); n > 0 {
		t.Errorf("%d evictions where 1000 had expired", n)
	}
}

// What is in flight is never evicted, and passes the bound if it must.
func TestInFlightIsKept(t *testing.T) {
	s := open(t, Options{MaxKeys: 100})
	l := &weir.Limit{Algorithm: weir.Concurrency, Max: 1}
	hold := func(i int) []weir.Hit {
		return []weir.Hit{{Limit: l, Key: fmt.Append(nil, "held", i), N: 1, Lease: uint64(i)}}
	}
	var out [1]weir.Status
	for i := range 200 {
		_ = s.Take(context.Background(), noon, hold(i), out[:])
	}
	for i := range 1000 {
		take(s, noon.Add(time.Duration(i)*time.Second), perMinute(9), fmt.Sprint("crowd", i))
	}
	for i := range 200 {
		if _ = s.Take(context.Background(), noon.AddDate(1, 0, 0), hold(i), out[:]); out[0].Allowed {
			t.Fatalf("holder %d was forgotten", i)
		}
		_ = s.Release(context.Background(), noon, hold(i))
	}
	if n := s.Keys(); n > 101 {
		t.Errorf("%d counters when nobody holds, want at most about 100", n)
	}
}

// A key that is used for several algorithms, which no policy does, harms nobody but its counter.
func TestKeyOfSeveralAlgorithms(t *testing.T) {
	s := open(t, Options{MaxKeys: 10})
	hits := []weir.Hit{{Limit: &weir.Limit{Algorithm: weir.Concurrency, Max: 5}, Key: []byte("a"), N: 3, Lease: 1}}
	var out [1]weir.Status
	_ = s.Take(context.Background(), noon, hits, out[:])
	take(s, noon, &weir.Limit{Algorithm: weir.SlidingLog, Max: 5, Window: time.Minute}, "a")
	for i := range 100 {
		take(s, noon, perMinute(9), fmt.Sprint(i))
	}
	if err := s.Release(context.Background(), noon, hits); err != nil {
		t.Error(err)
	}
	if st := take(s, noon.Add(time.Hour), perMinute(1), "a"); !st.Allowed {
		t.Errorf("later: %+v", st)
	}
}

// A log's stamps go with its counter.
func TestLogsGo(t *testing.T) {
	s := open(t, Options{MaxKeys: 100})
	l := &weir.Limit{Algorithm: weir.SlidingLog, Max: 50, Window: time.Minute}
	for i := range 1000 {
		take(s, noon, l, fmt.Sprint(i))
	}
	if logs, keys := len(s.shards[0].logs), s.Keys(); logs != keys || keys > 100 {
		t.Errorf("%d logs for %d counters, want as many, at most 100", logs, keys)
	}
}

// An idle store forgets what has expired, and not before, and gives back its memory. Its callers'
// clock may be any.
func TestIdleStoreForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Options{})
		log := &weir.Limit{Algorithm: weir.SlidingLog, Max: 5, Window: time.Minute}
		for i := range 20_000 {
			take(s, noon, perMinute(5), fmt.Sprint(i))
			take(s, noon, log, fmt.Sprint("log", i%100))
		}
		time.Sleep(55 * time.Second)
		if n := s.Keys(); n != 20_100 {
			t.Errorf("%d counters before they expire, want 20100", n)
		}
		time.Sleep(75 * time.Second)
		slots := 0
		s.each(func(sh *shard) { slots += cap(sh.table.slots) + len(sh.logs) })
		if n := s.Keys(); n != 0 || slots != 0 {
			t.Errorf("%d counters and %d slots when all have expired, want none", n, slots)
		}
	})
}

// A sweep does not forget what is in use where the callers' clock was set back by hours.
func TestSweepFollowsAClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Options{MaxKeys: 1000}) // one shard
		start, passed := time.Now(), 0
		take(s, noon, perMinute(5), "a")
		for range 40 {
			now := noon.Add(-2*time.Hour + time.Since(start))
			take(s, now, perMinute(1), "a")
			if take(s, now, &weir.Limit{Max: 1, Window: time.Hour}, "hour").Allowed {
				passed++
			}
			time.Sleep(time.Second)
		}
		if passed != 1 {
			t.Errorf("%d passed, want 1: a counter in use was swept away", passed)
		}
	})
}

// New counters pay for forgetting old ones: a stream of them that each live a second needs room for
// a few seconds, without any sweep.
func TestNewCountersPayForOld(t *testing.T) {
	s := open(t, Options{})
	l := &weir.Limit{Max: 5, Window: time.Second}
	for i := range 300_000 {
		take(s, noon.Add(time.Duration(i)*time.Millisecond), l, fmt.Sprint(i))
	}
	if n := s.Keys(); n > 15_000 {
		t.Errorf("%d counters at 1000 new ones a second, want no more than 15 seconds' worth", n)
	}
}

// A clock that goes back a little finds what has just expired.
func TestClockBackOverAnExpiry(t *testing.T) {
	s := open(t, Options{MaxKeys: 100})
	l := &weir.Limit{Algorithm: weir.FixedWindow, Max: 1, Window: time.Second}
	take(s, noon.Add(999*time.Millisecond), l, "a")
	for i := range 200 { // the next second, with the hand going round
		takeN(s, noon.Add(1001*time.Millisecond), perMinute(9), fmt.Sprint(i), 1)
	}
	if st := take(s, noon.Add(998*time.Millisecond), l, "a"); st.Allowed {
		t.Errorf("3 ms back: %+v, want the second one refused", st)
	}
}

func TestMaxKeysIsShared(t *testing.T) {
	for _, most := range []int{1, 7, 2048, 10_000, 1_000_000, 1_234_567} {
		s := open(t, Options{MaxKeys: most})
		sum := 0
		s.each(func(sh *shard) { sum += sh.max })
		if sum != most {
			t.Errorf("the shards of %d keep %d", most, sum)
		}
	}
}

// CON-03: everything at once, for the race detector.
func TestAllAtOnce(t *testing.T) {
	s := open(t, Options{MaxKeys: 3000})
	limits := []*weir.Limit{
		perMinute(50),
		{Algorithm: weir.SlidingLog, Max: 50, Window: time.Second},
		{Algorithm: weir.TokenBucket, Max: 5, Burst: 5, Window: time.Second},
		{Algorithm: weir.Concurrency, Max: 5},
		{Algorithm: weir.Quota, Max: 500},
	}
	ctx := context.Background()
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			out := make([]weir.Status, len(limits))
			for i := range 2000 {
				at := noon.Add(time.Duration(i) * 3 * time.Millisecond)
				var hits []weir.Hit
				for j, l := range limits {
					hits = append(hits, weir.Hit{Limit: l, Key: fmt.Append(nil, j, "/", i%(7+g*100)), N: int64(i % 3), Lease: uint64(g*10_000 + i)})
				}
				_ = s.Take(ctx, at, hits, out)
				_ = s.Peek(ctx, at, hits, out)
				_ = s.Release(ctx, at, hits)
				switch i % 100 {
				case 0:
					_, _ = s.Keys(), s.Evictions()
				case 50:
					_ = s.Reset(ctx, hits[:1])
				case 70:
					s.shards[0].sweep(time.Now())
				}
			}
		})
	}
	wg.Wait()
	s.each(func(sh *shard) {
		check(t, &sh.table)
		if len(sh.leases) > 0 {
			t.Errorf("%d leases are left", len(sh.leases))
		}
	})
	if n := s.Keys(); n > 3000 {
		t.Errorf("%d counters, want at most 3000", n)
	}
}

func TestTakeDoesNotAllocate(t *testing.T) {
	s := open(t, Options{})
	ctx := context.Background()
	var hits []weir.Hit
	for i, l := range []*weir.Limit{
		perMinute(1 << 40),
		{Algorithm: weir.FixedWindow, Max: 1 << 40, Window: time.Minute},
		{Algorithm: weir.TokenBucket, Max: 1 << 40, Burst: 1 << 40, Window: time.Minute},
		{Algorithm: weir.Quota, Max: 1 << 40, Period: weir.Month},
		{Algorithm: weir.SlidingLog, Max: 10, Window: time.Minute},
		{Algorithm: weir.Concurrency, Max: 1 << 40},
		perMinute(1),
	} {
		hits = append(hits, weir.Hit{Limit: l, Key: key(nil, uint64(i)), N: 1, Lease: 1})
	}
	out := make([]weir.Status, len(hits))
	for i := range hits {
		name := fmt.Sprintf("%v of %d", hits[i].Limit.Algorithm, hits[i].Limit.Max)
		free(t, name, func() { _ = s.Take(ctx, noon, hits[i:i+1], out[:1]) })
		free(t, name+": peek", func() { _ = s.Peek(ctx, noon, hits[i:i+1], out[:1]) })
		free(t, name+": release", func() {
			_ = s.Take(ctx, noon, hits[i:i+1], out[:1])
			_ = s.Release(ctx, noon, hits[i:i+1])
		})
	}
	free(t, "several", func() { _ = s.Take(ctx, noon, slices.Clip(hits[:4]), out[:4]) })
}

// free fails if f allocates once it has run a few times.
func free(t *testing.T, name string, f func()) {
	t.Helper()
	for range 20 {
		f()
	}
	if n := testing.AllocsPerRun(100, f); n != 0 {
		t.Errorf("%s: %v allocations", name, n)
	}
}
