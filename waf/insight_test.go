package waf_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/leaktest"
	"github.com/weirgate/weir/waf"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// looked is a firewall that looks again, and what it was told.
type looked struct {
	*waf.WAF
	insight *waf.Insight
	slots   *waf.Slots
	told    chan weir.Inspection
}

// looking returns one whose stricter rules are strict.
func looking(t *testing.T, strict func() (waf.Ruleset, error)) *looked {
	l := &looked{insight: waf.NewInsight(strict), slots: waf.NewSlots(2, time.Millisecond, waf.RejectSaturated), told: make(chan weir.Inspection, 100)}
	l.WAF = build(t, finds(), func(o *waf.Options) { o.Insight, o.Slots = l.insight, l.slots })
	return l
}

// pass has n requests pass, and returns how many of them are looked at again.
func (l *looked) pass(t *testing.T, n int, in waf.Input) (looks int) {
	for range n {
		in.Mode, in.Now = weir.Enforce, time.Now()
		if again := l.Again(&in, inspect(t, l.WAF, in).Verdict); again != nil {
			again(func(i weir.Inspection) { l.told <- i })
			looks++
		}
	}
	synctest.Wait()
	return looks
}

// warm has the rules loaded.
func (l *looked) warm(t *testing.T) {
	t.Helper()
	l.pass(t, 1, waf.Input{})
	time.Sleep(time.Minute)
	if looks := l.pass(t, 100, waf.Input{}); looks != 1 || len(l.told) != 0 {
		t.Fatalf("%d looks, %d told, want one that loads", looks, len(l.told))
	}
	time.Sleep(time.Second)
}

func loads(r waf.Ruleset) func() (waf.Ruleset, error) {
	return func() (waf.Ruleset, error) { return r, nil }
}

// One in a hundred requests that passed is looked at again, none in the first minute, and at most one a second.
func TestInsightIsSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := looking(t, loads(finds(hit)))
		for _, step := range []struct {
			wait   time.Duration
			passed int
			looks  int
		}{
			{0, 500, 0}, {time.Minute - 1, 200, 0}, {1, 1, 1}, {0, 1000, 0}, {time.Second - 1, 1000, 0}, {1, 1000, 1},
			{time.Hour, 99, 0}, {0, 1, 1}, {time.Hour, 99, 0}, {0, 1, 1},
		} {
			time.Sleep(step.wait)
			if got := l.pass(t, step.passed, waf.Input{}); got != step.looks {
				t.Errorf("%v later: %d of %d looked at, want %d", step.wait, got, step.passed, step.looks)
			}
		}
		if err := l.insight.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if got := l.pass(t, 1000, waf.Input{}); got != 0 {
			t.Errorf("%d looks after the end", got)
		}
	})
}

// What a look finds is told and changes nothing; what it is made of is its own.
func TestInsightOnlyTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		var saw waf.Input
		l := looking(t, loads(rules(func(c *waf.Case) {
			<-stop
			saw = *c.Input
			c.Report(hit)
		})))
		l.warm(t)
		body, header := []byte(`{"a":"b"}`), http.Header{"Content-Type": {"application/json"}}
		if looks := l.pass(t, 100, waf.Input{Path: "/x", Header: header, Body: body}); looks != 1 {
			t.Fatalf("%d looks", looks)
		}
		clear(body) // another request's by now
		clear(header)
		close(stop)
		want := weir.Inspection{Verdict: weir.Detected, Ruleset: "test", Inspected: "url+headers+body", Score: 5, Threshold: 5, Matches: []weir.Match{match}}
		if diff := cmp.Diff(want, <-l.told); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if string(saw.Body) != `{"a":"b"}` || saw.Header.Get("Content-Type") == "" {
			t.Errorf("looked at %q %v", saw.Body, saw.Header)
		}
	})
}

// A look takes no place that a request needs, and is not begun for a long body, for what was blocked, or while
// another is under way.
func TestInsightStandsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		l := looking(t, loads(rules(func(*waf.Case) { <-stop })))
		l.warm(t)
		in := waf.Input{Now: time.Now()}
		for range 1000 {
			if l.Again(&in, weir.Blocked) != nil || l.Again(&in, weir.Detected) != nil || l.Again(&in, weir.FailedOpen) != nil {
				t.Fatal("what did not pass is looked at")
			}
		}
		if looks := l.pass(t, 500, waf.Input{Body: make([]byte, 16<<10+1)}); looks != 0 {
			t.Errorf("%d looks at long bodies", looks)
		}
		if looks := l.pass(t, 100, waf.Input{Body: make([]byte, 16<<10)}); looks != 1 {
			t.Errorf("%d looks at a body that is not too long", looks)
		}
		time.Sleep(time.Hour)
		if looks := l.pass(t, 100, waf.Input{}); looks != 0 {
			t.Error("two looks at once")
		}
		close(stop)
		synctest.Wait()

		full := build(t, finds(), func(o *waf.Options) {
			o.Insight, o.Slots = l.insight, waf.NewSlots(0, time.Millisecond, waf.PassSaturated)
		})
		for range 200 {
			if full.Again(&in, weir.Clean) != nil {
				t.Fatal("a look without a place")
			}
		}
		if looks := l.pass(t, 100, waf.Input{}); looks != 1 {
			t.Errorf("%d looks afterwards", looks)
		}
	})
}

// Rules that cannot be loaded are told of once, and not loaded again. What panics is a look alone.
func TestInsightFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		loads := 0
		l := looking(t, func() (waf.Ruleset, error) { loads++; return nil, errors.New("no such file") })
		l.pass(t, 1, waf.Input{})
		for range 3 {
			time.Sleep(time.Minute)
			l.pass(t, 100, waf.Input{})
		}
		if got := <-l.told; loads != 1 || got.Verdict != weir.FailedOpen || got.Fault != "load" || got.Detail != "no such file" || len(l.told) != 0 {
			t.Errorf("loaded %d times, told %+v and %d more", loads, got, len(l.told))
		}
		if err := l.insight.Close(); err != nil {
			t.Error(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		l := looking(t, loads(rules(func(*waf.Case) { panic("bad table") })))
		l.warm(t)
		l.pass(t, 100, waf.Input{})
		time.Sleep(time.Second)
		l.pass(t, 100, waf.Input{})
		if got := <-l.told; got.Verdict != weir.FailedOpen || got.Fault != "panic" || len(l.told) != 1 {
			t.Errorf("%+v, and %d more", got, len(l.told))
		}
	})
}

// Close waits for the look under way.
func TestInsightIsClosedAfterTheLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := looking(t, loads(rules(func(*waf.Case) { time.Sleep(time.Second) })))
		l.warm(t)
		l.pass(t, 100, waf.Input{})
		if err := l.insight.Close(); err != nil || len(l.told) != 1 {
			t.Errorf("closed before what was under way was told: %v", err)
		}
	})
}
