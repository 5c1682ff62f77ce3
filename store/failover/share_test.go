package failover

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/store/memory"
)

func TestShare(t *testing.T) {
	for _, c := range []struct{ n, replicas, want int64 }{
		{0, 1, 0}, {0, 10, 0}, {1, 1, 1}, {1, 10, 1}, {10, 10, 1}, {11, 10, 2}, {100, 3, 34},
		{1<<63 - 1, 1, 1<<63 - 1}, {1<<63 - 1, 2, 1 << 62}, {5, 1<<63 - 1, 1},
	} {
		if got := share(c.n, c.replicas); got != c.want {
			t.Errorf("share(%d, %d) = %d, want %d", c.n, c.replicas, got, c.want)
		}
	}
}

// kinds are a limit of most for each algorithm, in windows that do not turn while a test runs.
func kinds(most int64) []*weir.Limit {
	return []*weir.Limit{
		{Algorithm: weir.SlidingWindow, Max: most, Window: 24 * time.Hour},
		{Algorithm: weir.SlidingLog, Max: most, Window: 24 * time.Hour},
		{Algorithm: weir.FixedWindow, Max: most, Window: 24 * time.Hour},
		{Algorithm: weir.TokenBucket, Max: most, Burst: most, Window: 1000 * time.Hour},
		{Algorithm: weir.Quota, Max: most, Period: weir.Month},
		{Algorithm: weir.Concurrency, Max: most},
	}
}

// A fleet is some replicas before one shared store.
type fleet struct {
	far      *scripted
	nears    []*memory.Store
	replicas []*Store
	lease    uint64
}

func newFleet(n int) *fleet {
	f := &fleet{far: &scripted{Store: memory.New(memory.Options{}), end: make(chan struct{})}}
	for range n {
		near := memory.New(memory.Options{MaxKeys: 1000})
		f.nears = append(f.nears, near)
		f.replicas = append(f.replicas, New(f.far, near, Options{Replicas: n, Failures: 1}))
	}
	return f
}

func (f *fleet) close() {
	for i := range f.replicas {
		f.replicas[i].Close()
		f.nears[i].Close()
	}
	f.far.Close()
}

// ask charges n in one replica, and returns the answer.
func (f *fleet) ask(t *testing.T, replica int, l *weir.Limit, n int64) weir.Status {
	t.Helper()
	f.lease++
	out := make([]weir.Status, 1)
	hits := []weir.Hit{{Limit: l, Key: []byte("{x}:" + l.Algorithm.String()), TagLen: 3, N: n, Lease: f.lease}}
	if err := f.replicas[replica].Take(context.Background(), time.Now(), hits, out); err != nil {
		t.Fatal(err)
	}
	if st := out[0]; st.Limit != l || st.Remaining < 0 || st.Remaining > l.Max {
		t.Fatalf("%+v is no status of %+v", st, l)
	}
	return out[0]
}

// In an outage all replicas together grant at most replicas × share, and each no more than its part
// of what was left when it last knew, whatever was asked where, and for how much.
func TestSharesBoundTheSum(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	for range 60 {
		synctest.Test(t, func(t *testing.T) {
			n := 1 + rng.IntN(5)
			f := newFleet(n)
			defer f.close()
			for _, l := range kinds(rng.Int64N(40)) {
				f.check(t, rng, l)
			}
		})
	}
}

func (f *fleet) check(t *testing.T, rng *rand.Rand, l *weir.Limit) {
	t.Helper()
	n := int64(len(f.replicas))
	part := share(l.Max, n)
	start := make([]int64, n)
	for i := range start {
		start[i] = part
	}
	for range rng.IntN(2 * int(l.Max+1)) {
		i := rng.IntN(int(n))
		st := f.ask(t, i, l, rng.Int64N(3))
		start[i] = min(part, share(st.Remaining, n))
	}
	f.far.be(broken)
	granted := make([]int64, n)
	for range 200 {
		i, cost := rng.IntN(int(n)), rng.Int64N(3)
		if f.ask(t, i, l, cost).Allowed {
			granted[i] += cost
		}
	}
	for i := range granted {
		if granted[i] > start[i] {
			t.Fatalf("%v %d over %d replicas: replica %d granted %d, want at most %d", l.Algorithm, l.Max, n, i, granted[i], start[i])
		}
		if rest := f.ask(t, i, l, 0).Remaining; granted[i]+rest != start[i] {
			t.Fatalf("%v: replica %d granted %d and has %d left, want %d together", l.Algorithm, i, granted[i], rest, start[i])
		}
	}
	f.far.be(well)
	time.Sleep(2 * time.Second)
	synctest.Wait()
}

// A replica that knows nothing starts from its share; one that knows starts from what it knows; and
// what would have been reset since is not known any more.
func TestStart(t *testing.T) {
	for _, c := range []struct {
		name  string
		used  int
		after time.Duration // between the last answer and the outage
		want  int
	}{
		{"nothing is known", 0, 0, 25},
		{"as much is left as its share", 1, 0, 25},
		{"99 - 75 are left", 76, 0, 6},
		{"one is left", 99, 0, 1},
		{"nothing is left", 100, 0, 0},
		{"nothing was left, just before the window turned", 100, 59 * time.Second, 0},
		{"nothing was left, in the window before", 100, time.Minute, 25},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, Options{Replicas: 4}, func(h *house) {
				time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
				h.passes(perMinute(100), "a", c.used)
				time.Sleep(c.after)
				h.far.be(broken)
				if in := h.passes(perMinute(100), "a", 200); in != c.want {
					t.Errorf("%d passed, want %d", in, c.want)
				}
			})
		})
	}
}

// A second outage in the same window does not grant a second share.
func TestSecondOutage(t *testing.T) {
	inBubble(t, Options{Replicas: 2}, func(h *house) {
		l := &weir.Limit{Algorithm: weir.FixedWindow, Max: 100, Window: 24 * time.Hour}
		h.breakDown()
		in := h.passes(l, "a", 30)
		h.recover()
		h.passes(l, "a", 40)
		h.breakDown()
		if in += h.passes(l, "a", 200); in != 50 {
			t.Errorf("%d passed locally in two outages, want a share of 50", in)
		}
	})
}

// What the last answers of a refused request told is known, too.
func TestRefusalsTeach(t *testing.T) {
	inBubble(t, Options{Replicas: 1}, func(h *house) {
		h.passes(perMinute(10), "a", 7)
		if st := h.one(h.hit(perMinute(10), "a", 5)); st.Allowed {
			t.Fatalf("%+v", st)
		}
		h.breakDown()
		if in := h.passes(perMinute(10), "a", 10); in != 3 {
			t.Errorf("%d passed, want the 3 that were left", in)
		}
	})
}

// All or none holds over shares, and statuses speak of the limit that was asked about.
func TestSeveralInItsPlace(t *testing.T) {
	inBubble(t, Options{Replicas: 10}, func(h *house) {
		h.breakDown()
		wide, narrow := perMinute(1000), perMinute(20)
		trial := &weir.Limit{Mode: weir.Shadow, Max: 10, Window: time.Minute}
		var got [][]int64
		for range 3 {
			out, _, err := h.take(h.hit(wide, "w", 1), h.hit(narrow, "n", 1), h.hit(trial, "t", 1))
			if err != nil || out[0].Limit != wide || out[1].Limit != narrow || out[2].Limit != trial {
				t.Fatalf("%+v, %v", out, err)
			}
			got = append(got, []int64{out[0].Remaining, out[1].Remaining, out[2].Remaining})
		}
		if d := cmp.Diff([][]int64{{99, 1, 0}, {98, 0, 0}, {98, 0, 0}}, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
}

// The bound of the memory: what expired goes first, then what has most left; nobody washes out the
// own exhausted counter.
func TestKnownIsBounded(t *testing.T) {
	k := newKnown(4)
	if len(k.sets) != 1 {
		t.Fatalf("%d places for 4 facts", len(k.sets))
	}
	for i := range int64(100) {
		k.set(fact{hash: uint64(i + 1), start: i % 50, until: 1000}, 0)
	}
	var left []int64
	for i := range int64(100) {
		if f, ok := k.get(uint64(i+1), 0); ok {
			left = append(left, f.start)
		}
	}
	if len(left) != 4 || left[0] != 0 {
		t.Errorf("left are those with %v, want four, the exhausted one among them", left)
	}
}

// What has expired has no claim on a place, however little it had left.
func TestExpiredGoesFirst(t *testing.T) {
	k := newKnown(4)
	for i := range uint64(4) {
		k.set(fact{hash: i, start: 0, until: 10}, 0)
	}
	for i := range uint64(4) {
		k.set(fact{hash: 10 + i, start: 5, until: 1000}, 10)
	}
	for i := range uint64(4) {
		if _, ok := k.get(10+i, 10); !ok {
			t.Errorf("%d gave way to what has expired", 10+i)
		}
	}
}

func TestKnown(t *testing.T) {
	k := newKnown(100)
	k.set(fact{hash: 7, start: 3, until: 10}, 0)
	k.set(fact{hash: 7, start: 2, until: 20}, 0)
	if f, ok := k.get(7, 19); !ok || f.start != 2 {
		t.Errorf("%+v, %v; want the later word", f, ok)
	}
	if _, ok := k.get(7, 20); ok {
		t.Error("it holds when its time is over")
	}
	if f, ok := k.claim(7, 19); !ok || f.start != 2 {
		t.Errorf("claimed %+v, %v", f, ok)
	}
	if _, ok := k.claim(7, 19); ok {
		t.Error("claimed twice")
	}
	k.set(fact{hash: 0, start: 1, until: 10}, 0) // 0 is a hash like others
	k.forget(0)
	if _, ok := k.get(0, 0); ok {
		t.Error("known although forgotten")
	}
}
