package engine_test

import (
	"context"
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
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/policy"
	"github.com/weirgate/weir/respond"
	"github.com/weirgate/weir/store/memory"
	"github.com/weirgate/weir/waf"
	"github.com/weirgate/weir/waf/feed"
)

// judge is a rule set that does as it is told.
type judge func(c *waf.Case)

func (judge) Name() string          { return "fast" }
func (judge) Thorough() bool        { return false }
func (judge) Quick(*waf.Input) bool { return false }
func (judge) Close() error          { return nil }
func (j judge) Judge(c *waf.Case)   { j(c) }

// inspecting returns an engine whose firewall judges so, with the slots given.
func inspecting(t *testing.T, yaml string, j judge, slots *waf.Slots) (*engine.Engine, *journal.Journal, *logged) {
	t.Helper()
	cfg, problems := config.Parse("weir.yaml", []byte(yaml), nil)
	if config.HasErrors(problems) {
		t.Fatal(problems)
	}
	p, _ := policy.Compile(cfg)
	store := memory.New(memory.Options{MaxKeys: 100})
	t.Cleanup(store.Close)
	log := new(logged)
	book := journal.New(journal.Options{Rules: p.Names(), Log: log.logger(), RefusalsPerSecond: 100, Mask: p.Mask()})
	w := waf.New(waf.Options{Rules: j, Slots: slots, Limits: feed.Limits{Depth: 5, Values: 100, Bytes: 1000, Inflated: 1000}})
	s := &engine.Snapshot{Policy: p, Store: store, Respond: respond.New(respond.Options{}), Firewalls: []*waf.WAF{w}}
	return engine.New(s, book, time.Now), book, log
}

func finds(c *waf.Case) {
	c.Report(waf.Finding{Rule: "942100", Class: "sqli", Name: "q", Value: "x", Score: 5})
}
func panics(*waf.Case) { var none []int; _ = none[len(none)] }

func asks(path string) weir.Request {
	return weir.Request{Front: "proxy", Peer: netip.MustParseAddr("203.0.113.9"), Method: "POST", Host: "a", Path: path, Query: "q=x", Header: http.Header{"Content-Type": {"application/json"}}}
}

func TestInspect(t *testing.T) {
	const quick = "default: {limits: []}\n"
	full := func(pass waf.OnSaturation) *waf.Slots { return waf.NewSlots(0, time.Millisecond, pass) }
	tests := []struct {
		name    string
		yaml    string
		judge   judge
		slots   *waf.Slots
		content engine.Content
		want    weir.Inspection // but for the matches and the trace
		action  weir.Action
		reason  weir.Reason
		status  int
	}{
		{"clean", quick, func(*waf.Case) {}, nil, engine.Content{Body: []byte("{}")},
			weir.Inspection{Verdict: weir.Clean, Ruleset: "fast", Inspected: "url+headers+body"}, weir.Pass, weir.WithinLimits, 200},
		{"blocked", quick, finds, nil, engine.Content{},
			weir.Inspection{Verdict: weir.Blocked, Ruleset: "fast", Inspected: "url+headers+body", Score: 5}, weir.Reject, weir.AttackFound, 403},
		{"without the body", quick, finds, nil, engine.Content{Absent: true},
			weir.Inspection{Verdict: weir.Blocked, Ruleset: "fast", Inspected: "url+headers", Score: 5}, weir.Reject, weir.AttackFound, 403},
		{"reported", quick + "waf: {mode: detect}", finds, nil, engine.Content{},
			weir.Inspection{Verdict: weir.Detected, Ruleset: "fast", Inspected: "url+headers+body", Score: 5}, weir.Pass, weir.WithinLimits, 200},
		{"too deep", quick, finds, nil, engine.Content{Body: []byte("[[[[[[[[1]]]]]]]]")},
			weir.Inspection{Verdict: weir.Blocked, Ruleset: "fast", Inspected: "url+headers+body", Refused: "max_depth", Detail: "nested too deep"}, weir.Reject, weir.Uninspectable, 400},
		{"longer than is inspected, reported", quick + "waf: {mode: detect}", func(*waf.Case) {}, nil, engine.Content{Absent: true, TooLong: true},
			weir.Inspection{Verdict: weir.Detected, Ruleset: "fast", Inspected: "url+headers", Refused: "max_body", Detail: "the body is longer than what is inspected"}, weir.Pass, weir.WithinLimits, 200},
		{"off", quick + "waf: {mode: off}", finds, nil, engine.Content{}, weir.Inspection{}, weir.Pass, weir.WithinLimits, 200},
		{"not enabled", quick + "waf: {enabled: false}", finds, nil, engine.Content{}, weir.Inspection{}, weir.Pass, weir.WithinLimits, 200},
		{"weir is off", "enabled: false", finds, nil, engine.Content{}, weir.Inspection{}, weir.Pass, weir.Disabled, 200},
		{"refused before", "default: {limits: [{rate: 0/1h}]}", finds, nil, engine.Content{}, weir.Inspection{}, weir.Reject, weir.OverLimit, 429},
		{"exempt from limits", "rules: [{name: a, path: /, exempt: true}]", finds, nil, engine.Content{},
			weir.Inspection{Verdict: weir.Blocked, Ruleset: "fast", Inspected: "url+headers+body", Score: 5}, weir.Reject, weir.AttackFound, 403},
		{"a panic", quick, panics, nil, engine.Content{},
			weir.Inspection{Verdict: weir.FailedOpen, Ruleset: "fast", Inspected: "url+headers+body", Fault: "panic"}, weir.Pass, weir.WithinLimits, 200},
		{"no slot", quick, finds, full(waf.RejectSaturated), engine.Content{},
			weir.Inspection{Verdict: weir.Blocked, Ruleset: "fast", Inspected: "url+headers+body", Fault: "saturated"}, weir.Reject, weir.NoInspector, 503},
		{"no slot, and pass", quick, finds, full(waf.PassSaturated), engine.Content{},
			weir.Inspection{Verdict: weir.FailedOpen, Ruleset: "fast", Inspected: "url+headers+body", Fault: "saturated"}, weir.Pass, weir.WithinLimits, 200},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e, book, log := inspecting(t, test.yaml, test.judge, test.slots)
			for range 2 { // with memory that was used before
				s := e.Current()
				d := e.Decide(context.Background(), s, asks("/"))
				e.Inspect(context.Background(), s, d, test.content)
				got := d.Inspection
				if got.Found() != (got.Incident != "") || (got.Fault == "panic") != strings.Contains(got.Trace, "panics") {
					t.Errorf("%+v", got)
				}
				got.Matches, got.Incident, got.Trace, got.HTTP, got.Took, got.Threshold = nil, "", "", 0, 0, 0
				if diff := cmp.Diff(test.want, got); diff != "" || d.Action != test.action || d.Reason != test.reason || d.HTTP != test.status {
					t.Errorf("%v, %s, %d, want %v, %s, %d (-want +got)\n%s", d.Action, d.Reason, d.HTTP, test.action, test.reason, test.status, diff)
				}
				e.Record(s, d, weir.Outcome{HTTP: d.HTTP})
			}
			blocked := book.Blocked(9)
			if listed := len(blocked) == 2; listed != test.want.Found() {
				t.Errorf("%d in the list", len(blocked))
			}
			if test.want.Fault == "panic" && strings.Count(log.text(), "passed uninspected") != 2 {
				t.Errorf("log: %s", log.text())
			}
		})
	}
}

// A panic lets the one request pass that it is in, and no other.
func TestAPanicIsOneRequestsOwn(t *testing.T) {
	e, _, _ := inspecting(t, "default: {limits: []}", func(c *waf.Case) {
		if c.Path == "/bad" {
			panic(errors.New("bad table"))
		}
		finds(c)
	}, nil)
	for path, want := range map[string]weir.Verdict{"/bad": weir.FailedOpen, "/": weir.Blocked} {
		s := e.Current()
		d := e.Decide(context.Background(), s, asks(path))
		if e.Inspect(context.Background(), s, d, engine.Content{}); d.Inspection.Verdict != want {
			t.Errorf("%s: %v, want %v", path, d.Inspection.Verdict, want)
		}
		e.Record(s, d, weir.Outcome{})
	}
}

// What passed and is looked at again comes into the journal later, apart from what was blocked, and changes nothing.
// How long inspections took is told by the engine's clock.
func TestInsightsAreTold(t *testing.T) {
	_, book, _ := inspecting(t, "default: {limits: []}", func(*waf.Case) {}, nil)
	insight := waf.NewInsight(func() (waf.Ruleset, error) { return judge(finds), nil })
	w := waf.New(waf.Options{Rules: judge(func(*waf.Case) {}), Insight: insight, Limits: feed.Limits{Depth: 5, Values: 100, Bytes: 1000, Inflated: 1000}})
	now := time.Now()
	p, _ := policy.Compile(config.Default())
	store := memory.New(memory.Options{MaxKeys: 100})
	t.Cleanup(store.Close)
	s := &engine.Snapshot{Policy: p, Store: store, Respond: respond.New(respond.Options{}), Firewalls: []*waf.WAF{w}}
	e := engine.New(s, book, func() time.Time {
		now = now.Add(time.Second)
		return now
	})
	for range 100_000 { // the first look loads, those after it find
		d := e.Decide(context.Background(), s, asks("/items/77"))
		e.Inspect(context.Background(), s, d, engine.Content{Body: []byte("{}")})
		if d.Inspection.Verdict != weir.Clean || d.Inspection.Took != time.Second {
			t.Fatalf("%+v", d.Inspection)
		}
		e.Record(s, d, weir.Outcome{HTTP: 200})
		if e := book.Insights(1); len(e) > 0 {
			break
		}
	}
	if err := insight.Close(); err != nil { // waits for the look
		t.Fatal(err)
	}
	list := book.Insights(10)
	if len(list) == 0 || len(book.Blocked(10)) != 0 {
		t.Fatalf("insights %+v, blocked %+v", list, book.Blocked(10))
	}
	got := list[0]
	if got.Incident == "" || got.Time.IsZero() || len(got.Matches) != 1 {
		t.Errorf("%+v", got)
	}
	got.Incident, got.Time, got.Matches = "", time.Time{}, nil
	want := journal.Blocked{Verdict: "insight", Front: "proxy", Client: "203.0.113.0/24", Method: "POST", Path: "/items/77", Rule: "default", Ruleset: "fast", Score: 5, Most: 5}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// logged is a log that can be read.
type logged struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *logged) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
