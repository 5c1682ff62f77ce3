package failover

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/racing"
	"github.com/weirgate/weir/store/memory"
	"github.com/weirgate/weir/store/storetest"
)

// Before a store that answers, a store is that store.
func TestConformance(t *testing.T) {
	conform(t, func(h *house) storetest.Store { return h })
}

// A silent store is one whose answers in place of another's do not say so.
type silent struct{ *house }

func (s silent) Take(ctx context.Context, now time.Time, hits []weir.Hit, out []weir.Status) error {
	return hush(s.Store.Take(ctx, now, hits, out), out)
}

func (s silent) Peek(ctx context.Context, now time.Time, hits []weir.Hit, out []weir.Status) error {
	return hush(s.Store.Peek(ctx, now, hits, out), out)
}

func (s silent) Reset(ctx context.Context, hits []weir.Hit) error {
	if err := s.Store.Reset(ctx, hits); !errors.Is(err, errOpen) {
		return errors.New("a reset did not say that it failed")
	}
	return nil
}

func hush(err error, out []weir.Status) error {
	for i := range out {
		if !out[i].Degraded {
			return errors.New("an answer in place of another's does not say so")
		}
		out[i].Degraded = false
	}
	return err
}

// What answers in its place keeps the same promises, but for the mark and for a reset's error.
func TestConformanceInItsPlace(t *testing.T) {
	conform(t, func(h *house) storetest.Store {
		h.breakDown()
		return silent{h}
	})
}

func conform(t *testing.T, open func(h *house) storetest.Store) {
	storetest.Run(t, func(t *testing.T) storetest.Subject {
		h := build(t, Options{Timeout: time.Minute, ProbeEvery: time.Hour})
		t.Cleanup(h.close)
		now := time.Date(2027, 3, 5, 12, 0, 7, 123, time.UTC)
		return storetest.Subject{
			Store: open(h), Window: time.Minute, Exact: true,
			Now: func() time.Time { return now }, Advance: func(d time.Duration) { now = now.Add(d) },
		}
	})
}

// FAL-02: whatever the shared store does, no request waits longer than Timeout, and none at all once
// three have failed in a row; then nothing is sent.
func TestWaits(t *testing.T) {
	const timeout = 15 * time.Millisecond
	for _, c := range []struct {
		name string
		mood mood
		wait time.Duration
		kind Kind
	}{
		{"broken", broken, 0, Error},
		{"mute", mute, timeout, Timeout},
		{"deaf", deaf, timeout, Timeout},
		{"slow", slow, timeout, Timeout},
		{"mad", mad, 0, Panic},
	} {
		t.Run(c.name, func(t *testing.T) {
			var observed []time.Duration
			inBubble(t, Options{Observe: func(d time.Duration) { observed = append(observed, d) }}, func(h *house) {
				h.far.be(c.mood)
				want := []time.Duration{c.wait, c.wait, c.wait, 0, 0, 0}
				var waits []time.Duration
				for range want {
					out, wait, err := h.take(h.hit(perMinute(4), "a", 1))
					if err != nil || !out[0].Degraded {
						t.Fatalf("%+v, %v: want a degraded answer", out, err)
					}
					waits = append(waits, wait)
				}
				if d := cmp.Diff(want, waits); d != "" {
					t.Errorf("waits (-want +got):\n%s", d)
				}
				if d := cmp.Diff(want[:3], observed); d != "" {
					t.Errorf("observed (-want +got):\n%s", d)
				}
				if asked, failed := h.far.asked.Load(), h.Failures(c.kind); asked != 3 || failed != 3 || !h.Open() || h.Fallbacks() != 6 {
					t.Errorf("%d asked, %d failures, open %v, %d fallbacks; want 3, 3, true, 6", asked, failed, h.Open(), h.Fallbacks())
				}
			})
		})
	}
}

// FAL-01: absent from the start, wrong in any way: 5 pass, 15 are refused, and each change is one line.
func TestAbsentAtStart(t *testing.T) {
	inBubble(t, Options{}, func(h *house) {
		h.far.be(broken)
		if in := h.passes(perMinute(5), "a", 20); in != 5 {
			t.Errorf("%d passed, want 5", in)
		}
		if w, i := h.logged("WARN"), h.logged("INFO"); w != 1 || i != 0 {
			t.Errorf("%d warnings and %d others, want 1 and 0:\n%s", w, i, h.log)
		}
		h.recover()
		if w, i := h.logged("WARN"), h.logged("INFO"); w != 1 || i != 1 {
			t.Errorf("%d warnings and %d others, want 1 and 1:\n%s", w, i, h.log)
		}
		if st := h.one(h.hit(perMinute(5), "a", 1)); st.Degraded || st.Remaining != 4 {
			t.Errorf("after its return: %+v, want the shared count, without the hits of the outage", st)
		}
	})
}

// What opened the breaker by its silence is told of once more, when a probe knows why.
func TestSilenceIsExplained(t *testing.T) {
	for _, c := range []struct {
		first, then mood
		warnings    int
	}{{mute, broken, 2}, {hasty, broken, 2}, {cut, broken, 2}, {cut, cut, 1}, {broken, broken, 1}, {deaf, deaf, 1}} {
		inBubble(t, Options{}, func(h *house) {
			h.far.be(c.first)
			h.passes(perMinute(5), "a", 3)
			if n := h.logged("WARN"); n != 1 {
				t.Errorf("%d warnings at once, want 1:\n%s", n, h.log)
			}
			h.far.be(c.then)
			time.Sleep(4500 * time.Millisecond) // four probes
			synctest.Wait()
			if n := h.logged("WARN"); n != c.warnings {
				t.Errorf("%d warnings, want %d:\n%s", n, c.warnings, h.log)
			}
			if told := strings.Contains(h.log.String(), errBroken.Error()); told != (c.then == broken) {
				t.Errorf("the cause is told: %v\n%s", told, h.log)
			}
		})
	}
}

// CNT-36, FAL-04: what was counted in an outage is not sent afterwards.
func TestNothingIsReplayed(t *testing.T) {
	inBubble(t, Options{}, func(h *house) {
		l := &weir.Limit{Max: 5, Window: 10 * time.Second}
		h.breakDown()
		for range 14 {
			h.passes(l, "a", 1)
			time.Sleep(2500 * time.Millisecond)
		}
		h.recover()
		time.Sleep(time.Second)
		before := h.far.asked.Load()
		if in := h.passes(l, "a", 5); in != 5 {
			t.Errorf("%d of 5 passed", in)
		}
		if n := h.far.asked.Load() - before; n != 5 {
			t.Errorf("5 requests sent %d commands", n)
		}
	})
}

// FAL-13: a refusal is an answer, however often it comes.
func TestRefusalsAreAnswers(t *testing.T) {
	inBubble(t, Options{Replicas: 1}, func(h *house) {
		if in := h.passes(perMinute(2), "a", 20); in != 2 || h.Fallbacks() != 0 || h.Open() {
			t.Errorf("%d passed with %d fallbacks, open %v; want 2, 0, false", in, h.Fallbacks(), h.Open())
		}
	})
}

// Only failures in a row open the breaker.
func TestFailuresInARow(t *testing.T) {
	inBubble(t, Options{}, func(h *house) {
		for i, m := range []mood{broken, broken, well, broken, broken, well, broken, broken} {
			h.far.be(m)
			h.passes(perMinute(100), "a", 1)
			if h.Open() {
				t.Fatalf("open after %d", i)
			}
		}
		h.passes(perMinute(100), "a", 1)
		if !h.Open() {
			t.Error("closed after three in a row")
		}
	})
}

// FAL-15: each rule fails in its own way, and the limits for every request fail as the rule does.
func TestOnFailureIsTheRules(t *testing.T) {
	inBubble(t, Options{}, func(h *house) {
		h.breakDown()
		for _, c := range []struct {
			mode    weir.OnFailure
			answers bool
		}{{weir.FailLocal, true}, {weir.FailAllow, false}, {weir.FailDeny, false}} {
			site, own := h.hit(perMinute(100), "site", 1), h.hit(perMinute(5), "own", 1)
			site.OnFailure, own.OnFailure = c.mode, c.mode
			before := h.Fallbacks()
			out, wait, err := h.take(site, own)
			if (err == nil) != c.answers || wait != 0 || h.Fallbacks() != before+2 {
				t.Errorf("%v: %+v, %v after %v, %d fallbacks", c.mode, out, err, wait, h.Fallbacks()-before)
			}
			if !c.answers && !errors.Is(err, errOpen) {
				t.Errorf("%v: %v does not say why", c.mode, err)
			}
		}
		if st := h.one(h.hit(perMinute(5), "own", 0)); st.Remaining != 4 {
			t.Errorf("%+v: allow and deny were counted", st)
		}
	})
}

// An asker who goes is not the store's failure, and is not counted for.
func TestAskerGoes(t *testing.T) {
	inBubble(t, Options{Timeout: time.Second}, func(h *house) {
		h.far.be(mute)
		why := errors.New("tab closed")
		for range 10 {
			ctx, cancel := context.WithCancelCause(context.Background())
			time.AfterFunc(time.Millisecond, func() { cancel(why) })
			began := time.Now()
			err := h.Take(ctx, began, []weir.Hit{h.hit(perMinute(5), "a", 1)}, make([]weir.Status, 1))
			if !errors.Is(err, why) || time.Since(began) != time.Millisecond {
				t.Fatalf("%v after %v", err, time.Since(began))
			}
			if err := h.Take(ctx, began, []weir.Hit{h.hit(perMinute(5), "a", 1)}, make([]weir.Status, 1)); !errors.Is(err, why) {
				t.Fatalf("asked after it had gone: %v", err)
			}
		}
		if h.Open() || h.Fallbacks() != 0 || h.far.asked.Load() != 10 {
			t.Errorf("open %v, %d fallbacks, %d asked; want false, 0, 10", h.Open(), h.Fallbacks(), h.far.asked.Load())
		}
	})
}

// FAL-20: an asker in a hurry is answered before the own deadline, and that is told apart.
func TestAskersDeadline(t *testing.T) {
	inBubble(t, Options{}, func(h *house) {
		h.one(h.hit(perMinute(100), "a", 1)) // the store was well a moment ago
		h.far.be(slow)
		ask := func(deadline time.Duration) (time.Duration, bool) {
			ctx, cancel := context.WithTimeout(context.Background(), deadline)
			defer cancel()
			out, began := make([]weir.Status, 1), time.Now()
			err := h.Take(ctx, began, []weir.Hit{h.hit(perMinute(100), "a", 1)}, out)
			return time.Since(began), err == nil && out[0].Degraded && out[0].Allowed
		}
		for _, c := range []struct{ deadline, wait time.Duration }{
			{10 * time.Millisecond, 8 * time.Millisecond},
			{3 * time.Millisecond, time.Millisecond},
			{2 * time.Millisecond, 0},
			{time.Millisecond, 0},
		} {
			if wait, ok := ask(c.deadline); wait != c.wait || !ok {
				t.Errorf("with %v to go: answered %v after %v, want %v", c.deadline, ok, wait, c.wait)
			}
		}
		if n := h.Failures(Short); n != 4 || h.Open() {
			t.Errorf("%d short of time, open %v; want 4, false", n, h.Open())
		}
		time.Sleep(2 * time.Second) // a store that is silent for so long is not well
		for range 3 {
			ask(10 * time.Millisecond)
		}
		if !h.Open() {
			t.Error("a store that answered nobody for seconds is still asked")
		}
	})
}

func TestPeek(t *testing.T) {
	inBubble(t, Options{Replicas: 2}, func(h *house) {
		peek := func() weir.Status {
			out := make([]weir.Status, 1)
			if err := h.Peek(context.Background(), time.Now(), []weir.Hit{h.hit(perMinute(10), "a", 1)}, out); err != nil {
				t.Fatal(err)
			}
			return out[0]
		}
		if st := peek(); st.Degraded || st.Remaining != 9 {
			t.Errorf("%+v, want 9 of 10 left", st)
		}
		h.breakDown()
		before := h.Fallbacks()
		for range 3 {
			if st := peek(); !st.Degraded || st.Remaining != 4 {
				t.Errorf("%+v, want 4 of a share of 5 left", st)
			}
		}
		if h.Fallbacks() != before {
			t.Error("a look was counted as a hit")
		}
	})
}

// A Recall is an answer that says nothing about the store: refusals from memory keep no breaker closed.
type recalling struct {
	*scripted
	refuses bool
}

func (r *recalling) Recall(_ time.Time, hits []weir.Hit, out []weir.Status) bool {
	for i := range hits {
		out[i] = weir.Status{Limit: hits[i].Limit, RetryAfter: time.Second}
	}
	return r.refuses
}

func TestRecalledAnswersProveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := &recalling{scripted: &scripted{Store: memory.New(memory.Options{}), end: make(chan struct{})}}
		near := memory.New(memory.Options{})
		s := New(far, near, Options{})
		defer func() { s.Close(); far.Close(); near.Close() }()
		far.be(broken)
		ask := func(refused bool) weir.Status {
			far.refuses = refused
			out := make([]weir.Status, 1)
			if err := s.Take(context.Background(), time.Now(), []weir.Hit{{Limit: perMinute(9), Key: []byte("a"), N: 1}}, out); err != nil {
				t.Fatal(err)
			}
			return out[0]
		}
		for range 3 {
			if s.Open() {
				t.Fatal("open too early")
			}
			if st := ask(true); st.Allowed || st.Degraded {
				t.Errorf("%+v, want the refusal that is remembered", st)
			}
			ask(false)
		}
		if n := far.asked.Load(); !s.Open() || n != 3 {
			t.Errorf("open %v after %d calls, want true after 3", s.Open(), n)
		}
		if st := ask(true); !st.Degraded {
			t.Errorf("%+v: while it is open answers are this replica's own", st)
		}
	})
}

func TestResetForgetsHereAndThere(t *testing.T) {
	inBubble(t, Options{Replicas: 2}, func(h *house) {
		h.passes(perMinute(10), "a", 10)
		reset := func() error { return h.Reset(context.Background(), []weir.Hit{h.hit(perMinute(10), "a", 1)}) }
		if err := reset(); err != nil {
			t.Fatal(err)
		}
		h.breakDown()
		if in := h.passes(perMinute(10), "a", 10); in != 5 {
			t.Errorf("%d passed, want a share of 5: the reset forgot what was left of the count", in)
		}
		if err := reset(); !errors.Is(err, errOpen) {
			t.Errorf("%v, want the reset to say that it reached only this replica", err)
		}
		if in := h.passes(perMinute(10), "a", 10); in != 5 {
			t.Errorf("%d passed after the second reset, want 5", in)
		}
	})
}

// The road costs one allocation, and none in the shared store's place.
func TestAllocations(t *testing.T) {
	if racing.On {
		t.Skip("the race detector empties pools")
	}
	h := build(t, Options{ProbeEvery: time.Hour, Timeout: time.Minute})
	defer h.close()
	hits, out := []weir.Hit{h.hit(&weir.Limit{Max: 1 << 40, Window: time.Hour}, "a", 1)}, make([]weir.Status, 1)
	ask := func() { _ = h.Take(context.Background(), time.Now(), hits, out) }
	ask()
	if n := testing.AllocsPerRun(500, ask); n > 1 {
		t.Errorf("%v allocations, want 1", n)
	}
	h.breakDown()
	ask()
	if n := testing.AllocsPerRun(500, ask); n > 0 {
		t.Errorf("%v allocations while open, want 0", n)
	}
}
