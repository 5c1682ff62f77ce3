package journal

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
)

// now returns a refusal that is decided and over at this moment.
func refusedNow() *weir.Decision {
	d := refused(search, weir.Reject)
	d.At = time.Now()
	return d
}

func TestRefusalLine(t *testing.T) {
	var book logbook
	j := New(Options{Log: book.logger(), RefusalsPerSecond: 1})
	d := refused(search, weir.Reject)
	d.Request.Path = "/a b\x1b[31m\u202e\"" + strings.Repeat("x", 500)
	j.Record(d, weir.Outcome{HTTP: 429})
	want := []map[string]any{{
		"level": "INFO", "msg": "refused", "client": "203.0.113.0/24", "source": "direct", "front": "proxy",
		"method": "GET", "host": "example.com", "path": "/a%20b%1B[31m%E2%80%AE\"" + strings.Repeat("x", 128-13),
		"action": "reject", "reason": "over limit", "status": 429., "rule": "search", "limit": "search", "retry_after": 1.5,
	}}
	if diff := cmp.Diff(want, book.lines(t)); diff != "" {
		t.Errorf("log lines (-want +got):\n%s", diff)
	}
}

// A refusal before a rule was looked for has no rule, limit or wait to tell.
func TestRefusalLineWithoutRule(t *testing.T) {
	var book logbook
	j := New(Options{Log: book.logger(), RefusalsPerSecond: 1})
	d := refused(nil, weir.Reject)
	d.Hits, d.Statuses, d.Reason = nil, nil, weir.BadRequest
	j.Record(d, weir.Outcome{HTTP: 400})
	want := []map[string]any{{
		"level": "INFO", "msg": "refused", "client": "203.0.113.0/24", "source": "direct", "front": "proxy",
		"method": "GET", "host": "example.com", "path": "/api/search", "action": "reject", "reason": "bad request", "status": 400.,
	}}
	if diff := cmp.Diff(want, book.lines(t)); diff != "" {
		t.Errorf("log lines (-want +got):\n%s", diff)
	}
}

func TestOnlyRefusalsAreLogged(t *testing.T) {
	for action, want := range map[weir.Action]int{weir.Pass: 0, weir.Tag: 0, weir.Reject: 1, weir.Drop: 1, weir.Tarpit: 1} {
		var book logbook
		j := New(Options{Log: book.logger(), RefusalsPerSecond: 10})
		j.Record(refused(search, action), weir.Outcome{})
		if got := len(book.lines(t)); got != want {
			t.Errorf("%v: %d lines, want %d", action, got, want)
		}
	}
}

// Of 1,000 refusals a second for ten seconds, 10 a second have a line, and every other one is told
// by number in the next.
func TestRefusalsAreLoggedAtABoundedRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var book logbook
		j := New(Options{Log: book.logger(), RefusalsPerSecond: 10})
		for second := range 10 {
			for range 1000 {
				j.Record(refusedNow(), weir.Outcome{HTTP: 429})
				time.Sleep(time.Millisecond)
			}
			lines := book.lines(t)
			if len(lines) != 10 {
				t.Fatalf("second %d: %d lines, want 10", second, len(lines))
			}
			var want any // nothing was suppressed before the first second
			if second > 0 {
				want = 990.
			}
			if got := lines[0]["suppressed"]; got != want {
				t.Errorf("second %d: the first line tells of %v suppressed, want %v", second, got, want)
			}
			for _, line := range lines[1:] {
				if got := line["suppressed"]; got != nil {
					t.Errorf("second %d: a later line tells of %v suppressed, want none", second, got)
				}
			}
		}
	})
}

func TestSecondTurnsToTheNanosecond(t *testing.T) {
	l := newLineLimit(1)
	for i, step := range []struct {
		at         time.Duration
		ok         bool
		suppressed uint64
	}{
		{0, true, 0},
		{time.Second - 1, false, 0},
		{time.Second, true, 1},
		{time.Second - 1, false, 0}, // a request that ends late in the order belongs to the newest second
		{2 * time.Second, true, 1},
		{9 * time.Second, true, 0},
	} {
		suppressed, ok := l.take(noon.Add(step.at))
		if ok != step.ok || suppressed != step.suppressed {
			t.Errorf("step %d: line %v after %d suppressed, want %v after %d", i, ok, suppressed, step.ok, step.suppressed)
		}
	}
}

func TestNoRefusalIsLoggedAtRateZero(t *testing.T) {
	for _, perSecond := range []int{0, -1} {
		l := newLineLimit(perSecond)
		if _, ok := l.take(noon); ok {
			t.Errorf("rate %d: a line was let through", perSecond)
		}
	}
}

// A rate beyond what a second can hold is no rate of 0.
func TestRateIsBounded(t *testing.T) {
	l := newLineLimit(1 << 40)
	if _, ok := l.take(noon); !ok {
		t.Error("no line was let through")
	}
}

func TestSetLogTakesEffectAtOnce(t *testing.T) {
	var book logbook
	j := New(Options{Log: book.logger(), RefusalsPerSecond: 0})
	j.Record(refused(search, weir.Reject), weir.Outcome{HTTP: 429})
	j.SetLog(Full, 2)
	for range 3 {
		j.Record(refused(search, weir.Reject), weir.Outcome{HTTP: 429})
	}
	var got []any
	for _, line := range book.lines(t) {
		got = append(got, line["client"], line["suppressed"])
	}
	if diff := cmp.Diff([]any{"203.0.113.7/32", 1., "203.0.113.7/32", nil}, got); diff != "" {
		t.Errorf("clients and suppressed counts (-want +got):\n%s", diff)
	}
}

// The last suppressed refusals are told when the program ends.
func TestSuppressedRefusalsAreToldAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var book logbook
		j := New(Options{Log: book.logger(), RefusalsPerSecond: 1})
		ctx, stop := context.WithCancel(t.Context())
		go j.Run(ctx)
		for range 3 {
			j.Record(refusedNow(), weir.Outcome{HTTP: 429})
		}
		book.lines(t)
		stop()
		synctest.Wait()
		want := []map[string]any{{"level": "INFO", "msg": "refusals not logged", "suppressed": 2.}}
		if diff := cmp.Diff(want, book.lines(t)); diff != "" {
			t.Errorf("log lines (-want +got):\n%s", diff)
		}
	})
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"":                       "",
		"/api?x=1&y=<b>":         "/api?x=1&y=<b>",
		"/a b":                   "/a%20b",
		"\x00\r\n\x1b\x7f":       "%00%0D%0A%1B%7F",
		"é\u202e":                "%C3%A9%E2%80%AE",
		"\xff":                   "%FF",
		strings.Repeat("a", 200): strings.Repeat("a", 128),
	} {
		if got := printable(in, 128); got != want {
			t.Errorf("%q is written %q, want %q", in, got, want)
		}
	}
}
