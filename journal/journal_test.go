package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
)

var (
	noon   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	search = &weir.Rule{Name: "search", Action: weir.Reject}
	static = &weir.Rule{Name: "static", Exempt: true}
	limit  = &weir.Limit{Name: "search", Rate: "10/1s", Max: 10, Window: time.Second}
	trial  = &weir.Limit{Name: "trial", Rate: "5/1s", Max: 5, Window: time.Second, Mode: weir.Shadow}
)

// passed returns a decision that lets a request to rule through.
func passed(rule *weir.Rule) *weir.Decision {
	addr := netip.MustParseAddr("203.0.113.7")
	return &weir.Decision{
		Request: weir.Request{
			Front: "proxy", Peer: addr, Method: "GET", Host: "example.com", Path: "/api/search",
			Header: http.Header{"User-Agent": {"test"}},
		},
		At:       noon,
		Client:   weir.Client{Addr: addr, Prefix: netip.PrefixFrom(addr, 32)},
		Rule:     rule,
		Hits:     []weir.Hit{{Limit: limit, Key: []byte("key"), N: 1}},
		Statuses: []weir.Status{{Limit: limit, Allowed: true, Remaining: 9}},
		Action:   weir.Pass,
		Reason:   weir.WithinLimits,
		HTTP:     200,
	}
}

// refused returns a decision that refuses a request to rule by action.
func refused(rule *weir.Rule, action weir.Action) *weir.Decision {
	d := passed(rule)
	d.Statuses[0] = weir.Status{Limit: limit, RetryAfter: 1500 * time.Millisecond}
	d.Action, d.Reason, d.HTTP = action, weir.OverLimit, 429
	return d
}

// from sets who d's request is from.
func from(d *weir.Decision, addr string) *weir.Decision {
	d.Client.Addr = netip.MustParseAddr(addr)
	d.Client.Prefix = netip.PrefixFrom(d.Client.Addr, d.Client.Addr.BitLen())
	return d
}

var ok = weir.Outcome{HTTP: 200, Duration: 20 * time.Millisecond, Upstream: 15 * time.Millisecond}

// A logbook is a logger's output, one JSON object a line.
type logbook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// logger writes to the book without times.
func (l *logbook) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(l, &slog.HandlerOptions{
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey && len(groups) == 0 {
				return slog.Attr{}
			}
			return a
		},
	}))
}

// lines returns what was written since the last call.
func (l *logbook) lines(t *testing.T) []map[string]any {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []map[string]any
	for text := range strings.Lines(l.buf.String()) {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("log line %q: %v", text, err)
		}
		lines = append(lines, line)
	}
	l.buf.Reset()
	return lines
}

func TestReloadsAreLogged(t *testing.T) {
	var book logbook
	j := New(Options{Log: book.logger()})
	j.Reloaded("0123456789abcdef0123456789abcdef")
	j.ReloadFailed(errors.New("weir.yaml:3:5: rules[0].pth: unknown key"))
	want := []map[string]any{
		{"level": "INFO", "msg": "configuration reloaded", "config_hash": "0123456789ab"},
		{"level": "ERROR", "msg": "configuration not reloaded, the old one stays in force", "err": "weir.yaml:3:5: rules[0].pth: unknown key"},
	}
	if diff := cmp.Diff(want, book.lines(t)); diff != "" {
		t.Errorf("log lines (-want +got):\n%s", diff)
	}
}

// The engine uses a decision again as soon as Record returned.
func TestNothingOfADecisionIsKept(t *testing.T) {
	j := New(Options{})
	d := refused(search, weir.Reject)
	d.Client.Hops = []weir.Hop{{Address: "203.0.113.7"}}
	j.Record(d, weir.Outcome{HTTP: 429})
	before := j.Recent(1)

	d.Statuses[0] = weir.Status{Limit: trial}
	d.Hits[0] = weir.Hit{}
	clear(d.Request.Header)
	d.Reset()
	if diff := cmp.Diff(before, j.Recent(1)); diff != "" {
		t.Errorf("the entry changed with the decision (-before +after):\n%s", diff)
	}
}

// 64 goroutines record while others read, reload and change the log; the race detector looks on.
func TestConcurrentUse(t *testing.T) {
	const goroutines, each = 64, 200
	var book logbook
	j := New(Options{Recent: 16, Rules: []string{"search", "static"}, Log: book.logger(), RefusalsPerSecond: 10})
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range each {
				j.Record(passed(static), ok)
				j.Record(refused(search, weir.Reject), weir.Outcome{HTTP: 429})
			}
		})
	}
	wg.Go(func() {
		for range each {
			j.SetRules([]string{"static", "search"})
			j.SetLog(Hashed, 5)
			j.Recent(10)
			j.Totals()
		}
	})
	wg.Wait()

	want := Totals{Requests: 2 * goroutines * each, Refused: goroutines * each, Rules: []RuleTotal{
		{Rule: "static", Requests: goroutines * each},
		{Rule: "search", Requests: goroutines * each, Refused: goroutines * each},
	}}
	if diff := cmp.Diff(want, j.Totals()); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
	if got := len(j.Recent(100)); got != 16 {
		t.Errorf("the ring holds %d decisions, want 16", got)
	}
}

func TestRecordAllocatesNothing(t *testing.T) {
	j := New(Options{Rules: []string{"search"}, RefusalsPerSecond: 0})
	pass, refuse := passed(search), refused(search, weir.Reject)
	pass.Request.Path = "/" + strings.Repeat("x", 60_000)
	for _, c := range []struct {
		name string
		d    *weir.Decision
	}{{"pass", pass}, {"refusal without a line", refuse}} {
		if n := testing.AllocsPerRun(2000, func() { j.Record(c.d, ok) }); n != 0 {
			t.Errorf("%s: %v allocations, want 0", c.name, n)
		}
	}
}

func BenchmarkRecord(b *testing.B) {
	for _, c := range []struct {
		name string
		d    *weir.Decision
	}{{"pass", passed(search)}, {"refusal", refused(search, weir.Reject)}} {
		b.Run(c.name, func(b *testing.B) {
			j := New(Options{Rules: []string{"search"}, RefusalsPerSecond: 10})
			b.ReportAllocs()
			for b.Loop() {
				j.Record(c.d, ok)
			}
		})
		b.Run(c.name+"/parallel", func(b *testing.B) {
			j := New(Options{Rules: []string{"search"}, RefusalsPerSecond: 10})
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					j.Record(c.d, ok)
				}
			})
		})
	}
}
