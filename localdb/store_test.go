package localdb

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/limit"
	"github.com/weirgate/weir/store/memory"
	"github.com/weirgate/weir/store/storetest"
)

// A house is a store under test, with what stands behind it and below it.
type house struct {
	*Store
	t      *testing.T
	db     *DB
	behind *memory.Store
	log    bytes.Buffer
	lease  uint64
}

func open(t *testing.T, dir string, o Options) *house {
	t.Helper()
	h := &house{t: t, behind: memory.New(memory.Options{})}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(&h.log, nil))
	}
	var err error
	if h.db, err = Open(dir); err != nil {
		t.Fatal(err)
	}
	if h.Store, err = NewStore(h.db, h.behind, time.Now(), o); err != nil {
		t.Fatal(err)
	}
	return h
}

// close closes all, and fails the test if something was not saved.
func (h *house) close() {
	h.t.Helper()
	if err := h.Store.Close(); err != nil {
		h.t.Error(err)
	}
	h.behind.Close()
	if err := h.db.Close(); err != nil {
		h.t.Error(err)
	}
}

func (h *house) hit(l *weir.Limit, name string, n int64) weir.Hit {
	h.lease++
	return weir.Hit{Limit: l, Key: []byte("{x}:" + name), TagLen: 3, N: n, Lease: h.lease}
}

func (h *house) takeAt(now time.Time, hits ...weir.Hit) []weir.Status {
	h.t.Helper()
	out := make([]weir.Status, len(hits))
	if err := h.Take(context.Background(), now, hits, out); err != nil {
		h.t.Fatal(err)
	}
	return out
}

func (h *house) take(hits ...weir.Hit) []weir.Status {
	h.t.Helper()
	return h.takeAt(time.Now(), hits...)
}

// used is what is counted of a monthly quota of 1,000,000.
func (h *house) used(name string) int64 {
	h.t.Helper()
	l := monthly(1_000_000)
	return l.Max - h.take(h.hit(l, name, 0))[0].Remaining
}

func monthly(n int64) *weir.Limit {
	return &weir.Limit{Algorithm: weir.Quota, Max: n, Period: weir.Month}
}

func daily(n int64) *weir.Limit {
	return &weir.Limit{Algorithm: weir.Quota, Max: n, Period: weir.Day}
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Subject {
		h := open(t, t.TempDir(), Options{})
		t.Cleanup(h.close)
		now := time.Now().Add(365 * 24 * time.Hour)
		return storetest.Subject{
			Store: h, Window: time.Minute, Exact: true,
			Now: func() time.Time { return now }, Advance: func(d time.Duration) { now = now.Add(d) },
		}
	})
}

// Quotas and other limits of one request are charged all or none, and what a refusal says of the
// others is what a store that holds them all would say.
func TestTogetherWithTheStoreBehind(t *testing.T) {
	h, all := open(t, t.TempDir(), Options{}), memory.New(memory.Options{})
	defer h.close()
	defer all.Close()
	now := time.Now()
	day, month, minute := daily(5), monthly(7), &weir.Limit{Max: 4, Window: 24 * time.Hour}
	trial := &weir.Limit{Algorithm: weir.Quota, Mode: weir.Shadow, Max: 2, Period: weir.Day}
	for i, n := range []int64{1, 3, 1, 0, 2, 1, 9} {
		hits := []weir.Hit{h.hit(minute, "minute", n), h.hit(day, "day", n), h.hit(trial, "trial", 1), h.hit(month, "month", n), h.hit(day, "day", 1)}
		got, want := make([]weir.Status, len(hits)), make([]weir.Status, len(hits))
		for _, ask := range []struct {
			name      string
			got, want asking
		}{{"peek", h.Peek, all.Peek}, {"take", h.Take, all.Take}} {
			if err := ask.got(context.Background(), now, hits, got); err != nil {
				t.Fatal(err)
			}
			if err := ask.want(context.Background(), now, hits, want); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s %d, cost %d (-memory alone +with the database):\n%s", ask.name, i, n, d)
			}
		}
	}
}

// A restart keeps what was counted, to the hit, and nothing but quotas.
func TestRestartKeepsQuotas(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir, Options{})
	minute := &weir.Limit{Max: 1000, Window: time.Hour}
	for range 7 {
		h.take(h.hit(monthly(1_000_000), "a", 3), h.hit(minute, "m", 1))
	}
	h.close()

	h = open(t, dir, Options{})
	defer h.close()
	if got := h.used("a"); got != 21 {
		t.Errorf("%d counted, want 21", got)
	}
	if st := h.take(h.hit(minute, "m", 0))[0]; st.Remaining != 1000 {
		t.Errorf("%+v: a window was kept", st)
	}
	if n := h.Quotas(); n != 1 {
		t.Errorf("%d quotas, want 1", n)
	}
}

// A reset outlives a restart, too.
func TestResetIsKept(t *testing.T) {
	dir := t.TempDir()
	for _, reset := range []bool{true, false} {
		h := open(t, dir, Options{})
		h.take(h.hit(monthly(10), "a", 4))
		if reset {
			h.flush()
			if err := h.Reset(context.Background(), []weir.Hit{h.hit(monthly(10), "a", 1), h.hit(monthly(10), "never used", 1)}); err != nil {
				t.Fatal(err)
			}
			if got := h.used("a"); got != 0 {
				t.Errorf("%d counted after the reset", got)
			}
		}
		h.close()
	}
	h := open(t, dir, Options{})
	defer h.close()
	if got := h.used("a"); got != 4 {
		t.Errorf("%d counted, want the 4 since the reset", got)
	}
}

// What was counted is written within a second, without being asked for.
func TestSavedWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, t.TempDir(), Options{})
		defer h.close()
		for i := range 20 {
			h.take(h.hit(monthly(1000), "a", 1))
			time.Sleep(time.Duration(i) * 37 * time.Millisecond)
			saved := int64(0)
			if err := h.db.LoadQuotas(0, func(q Quota) bool { saved += int64(q.Used); return true }); err != nil {
				t.Fatal(err)
			}
			if unsaved := int64(i+1) - saved; i*37 >= 500 && unsaved > 0 {
				t.Errorf("%d hits are unsaved after %d ms", unsaved, i*37)
			}
		}
	})
}

// A period that is over is forgotten here and in the file.
func TestPeriodsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, t.TempDir(), Options{})
		defer h.close()
		for client := range 10 {
			h.take(h.hit(daily(5), fmt.Sprint(client), 1), h.hit(daily(50), "same", 1))
		}
		time.Sleep(24 * time.Hour)
		h.take(h.hit(daily(5), "same", 1))
		time.Sleep(time.Second)
		var left []string
		if err := h.db.LoadQuotas(0, func(q Quota) bool { left = append(left, string(q.Key)); return true }); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]string{"{x}:same"}, left); d != "" || h.Quotas() != 1 {
			t.Errorf("%d kept; in the file (-want +got):\n%s", h.Quotas(), d)
		}
	})
}

// Where the clock goes back into another period the file holds one count of a key, the latest.
func TestClockGoesBack(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir, Options{})
	now := time.Now()
	later := now.Add(72 * time.Hour)
	h.takeAt(later, h.hit(daily(100), "a", 9))
	h.flush()
	h.takeAt(now, h.hit(daily(100), "a", 2))
	h.close()
	h = open(t, dir, Options{})
	defer h.close()
	if got := 100 - h.takeAt(now, h.hit(daily(100), "a", 0))[0].Remaining; got != 2 {
		t.Errorf("%d counted, want 2", got)
	}
}

// The bound: what has expired goes first, then what was used least, and an exhausted quota stays.
func TestBound(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir, Options{MaxQuotas: 8})
	h.take(h.hit(daily(5), "exhausted", 5))
	for i := range 500 {
		h.take(h.hit(daily(5), fmt.Sprint(i), 1))
	}
	if n := h.Quotas(); n != 8 {
		t.Errorf("%d kept, want 8", n)
	}
	if st := h.take(h.hit(daily(5), "exhausted", 1))[0]; st.Allowed {
		t.Errorf("%+v: washed out", st)
	}
	h.close()
	h = open(t, dir, Options{MaxQuotas: 8})
	defer h.close()
	if n := h.Quotas(); n != 8 {
		t.Errorf("%d loaded, want 8", n)
	}
}

func TestExpiredGoesFirst(t *testing.T) {
	s := &Store{counts: map[string]*count{}}
	for i := range int64(8) {
		s.counts[fmt.Sprint(i)] = &count{key: fmt.Sprint(i), until: 10 + i, state: limit.State{Used: uint64(9 - i)}}
	}
	s.evict(10) // the first has expired, although it was used most
	if s.counts["0"] != nil || len(s.counts) != 7 {
		t.Errorf("left are %d, the expired one among them: %v", len(s.counts), s.counts["0"] != nil)
	}
	s.evict(10)
	if s.counts["7"] != nil {
		t.Error("the one that was used least is still there")
	}
}

// Where the file cannot be written, requests are answered and counted all the same; it is said once,
// and made good when it can be.
func TestUnwritableFile(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir, Options{})
	h.take(h.hit(daily(5), "a", 1))
	h.saving.Lock()
	err := h.db.sql.Close() // what a failing disk does, as seen from here
	h.saving.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		h.flush()
		h.take(h.hit(daily(5), "a", 1))
	}
	if st := h.take(h.hit(daily(5), "a", 2))[0]; st.Allowed || st.Remaining != 1 {
		t.Errorf("%+v, want a refusal with 1 left", st)
	}
	if got := strings.Count(h.log.String(), "level=WARN"); got != 1 || h.Err() == nil {
		t.Errorf("%d warnings, want 1:\n%s", got, h.log.String())
	}
	db, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	h.saving.Lock()
	h.db.sql = db.sql
	h.saving.Unlock()
	h.flush()
	if got := strings.Count(h.log.String(), "level=INFO"); got != 1 {
		t.Errorf("%d lines that it is well again, want 1:\n%s", got, h.log.String())
	}
	h.close()
	h = open(t, dir, Options{})
	defer h.close()
	if got := 5 - h.take(h.hit(daily(5), "a", 0))[0].Remaining; got != 4 {
		t.Errorf("%d counted, want 4", got)
	}
}

// Requests, resets and flushes at once lose nothing.
func TestAtOnce(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir, Options{})
	stop := make(chan struct{})
	var flusher, askers sync.WaitGroup
	flusher.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = h.Reset(context.Background(), []weir.Hit{{Limit: daily(1), Key: []byte("reset")}})
				h.Quotas()
				time.Sleep(time.Millisecond)
			}
		}
	})
	for range 20 {
		hits := []weir.Hit{h.hit(monthly(1_000_000), "a", 1), h.hit(daily(1_000_000), "reset", 1), h.hit(&weir.Limit{Max: 1_000_000, Window: time.Hour}, "m", 1)}
		askers.Go(func() {
			out := make([]weir.Status, len(hits))
			for range 500 {
				if err := h.Take(context.Background(), time.Now(), hits, out); err != nil {
					t.Error(err)
				}
			}
		})
	}
	askers.Wait()
	close(stop)
	flusher.Wait()
	h.close()
	h = open(t, dir, Options{})
	defer h.close()
	if got := h.used("a"); got != 10_000 {
		t.Errorf("%d counted, want 10000", got)
	}
}

// A request without a quota pays a look at its limits; one with a quota allocates nothing.
func TestAllocations(t *testing.T) {
	h := open(t, t.TempDir(), Options{})
	defer h.close()
	hits := []weir.Hit{h.hit(monthly(1<<40), "a", 1), h.hit(&weir.Limit{Max: 1 << 40, Window: time.Hour}, "m", 1)}
	out, now := make([]weir.Status, 2), time.Now()
	if n := testing.AllocsPerRun(200, func() { _ = h.Take(context.Background(), now, hits, out) }); n > 1 {
		t.Errorf("%v allocations, want none but for the list of changes", n)
	}
}

func BenchmarkTake(b *testing.B) {
	db, err := Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	behind := memory.New(memory.Options{})
	s, err := NewStore(db, behind, time.Now(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { s.Close(); behind.Close(); db.Close() }()
	window, quota := &weir.Limit{Max: 1 << 40, Window: time.Hour}, monthly(1<<40)
	for name, hits := range map[string][]weir.Hit{
		"window":        {{Limit: window, Key: []byte("{192.0.2.1/32}:w:"), N: 1}},
		"window, quota": {{Limit: window, Key: []byte("{192.0.2.1/32}:w:"), N: 1}, {Limit: quota, Key: []byte("{192.0.2.1/32}:q:"), N: 1}},
	} {
		b.Run(name, func(b *testing.B) {
			out := make([]weir.Status, len(hits))
			b.ReportAllocs()
			for b.Loop() {
				_ = s.Take(context.Background(), time.Now(), hits, out)
			}
		})
	}
}

// BenchmarkSave is the write of 10,000 changed counters.
func BenchmarkSave(b *testing.B) {
	db, err := Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	quotas := make([]Quota, 10_000)
	for i := range quotas {
		quotas[i] = Quota{Key: fmt.Appendf(nil, "{203.0.113.%d/32}:api:quota:day@UTC:", i), Until: 1 << 62, Last: 1, Used: 1}
	}
	for b.Loop() {
		if err := db.SaveQuotas(0, quotas); err != nil {
			b.Fatal(err)
		}
	}
}
