package waf_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/waf"
	"github.com/weirgate/weir/waf/feed"
	"github.com/weirgate/weir/waf/mask"
)

// rules is a rule set of one function.
type rules func(c *waf.Case)

func (rules) Name() string        { return "test" }
func (rules) Thorough() bool      { return false }
func (r rules) Judge(c *waf.Case) { r(c) }
func (rules) Close() error        { return nil }
func finds(list ...waf.Finding) rules {
	return func(c *waf.Case) {
		for _, f := range list {
			c.Report(f)
		}
	}
}

var limits = feed.Limits{Depth: 64, Values: 2000, Bytes: 128 << 10, Inflated: 1 << 20}

func build(t *testing.T, r rules, change func(o *waf.Options)) *waf.WAF {
	t.Helper()
	m, err := mask.New(mask.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	o := waf.Options{Rules: r, Limits: limits, Mask: m}
	if change != nil {
		change(&o)
	}
	return waf.New(o)
}

func inspect(t *testing.T, w *waf.WAF, in waf.Input) waf.Result {
	t.Helper()
	var r waf.Result
	w.Inspect(t.Context(), &in, &r)
	return r
}

var (
	post  = http.Header{"Content-Type": {"application/json"}}
	hit   = waf.Finding{Rule: "1", Class: "sqli", Part: feed.Query, Name: "q", Value: "x' or 1=1", At: 1, Score: 5}
	match = waf.Match{Rule: "1", Class: "sqli", Location: "query", Name: "q", Fragment: "' or 1=1", Score: 5}
)

// What follows what was found, by mode.
func TestVerdict(t *testing.T) {
	weak := hit
	weak.Score = 2
	weakMatch := match
	weakMatch.Score = 2
	for _, test := range []struct {
		name  string
		rules rules
		in    waf.Input
		want  waf.Result
	}{
		{"off", finds(hit), waf.Input{}, waf.Result{}},
		{"nothing", finds(), waf.Input{Mode: waf.ModeBlock}, waf.Result{Verdict: waf.Pass}},
		{"block", finds(hit), waf.Input{Mode: waf.ModeBlock}, waf.Result{Verdict: waf.Block, HTTP: 403, Score: 5, Matches: []waf.Match{match}}},
		{"detect", finds(hit), waf.Input{Mode: waf.ModeDetect}, waf.Result{Verdict: waf.Detect, Score: 5, Matches: []waf.Match{match}}},
		{"below the threshold", finds(weak, weak), waf.Input{Mode: waf.ModeBlock}, waf.Result{Verdict: waf.Pass, Score: 4, Matches: []waf.Match{weakMatch, weakMatch}}},
		{"at the threshold", finds(weak, weak, weak), waf.Input{Mode: waf.ModeBlock},
			waf.Result{Verdict: waf.Block, HTTP: 403, Score: 6, Matches: []waf.Match{weakMatch, weakMatch, weakMatch}}},
		{"skipped", func(c *waf.Case) { c.Skipped = true }, waf.Input{Mode: waf.ModeBlock}, waf.Result{Verdict: waf.Skip}},
		{"malformed", finds(), waf.Input{Mode: waf.ModeBlock, Header: post, Body: []byte("{")},
			waf.Result{Verdict: waf.Block, HTTP: 400, Refused: "json", Detail: "the body is not JSON (RFC 8259)"}},
		{"malformed, detected", finds(), waf.Input{Mode: waf.ModeDetect, Header: post, Body: []byte("{")},
			waf.Result{Verdict: waf.Detect, Refused: "json", Detail: "the body is not JSON (RFC 8259)"}},
		{"no body at hand", finds(), waf.Input{Mode: waf.ModeBlock, Header: post, Body: []byte("{"), NoBody: true},
			waf.Result{Verdict: waf.Pass, Inspected: "url+headers"}},
		{"bytes", finds(), waf.Input{Mode: waf.ModeBlock, Header: http.Header{"Content-Type": {"image/png"}}, Body: []byte("{")},
			waf.Result{Verdict: waf.Pass, Inspected: "url+headers"}},
	} {
		if test.want.Inspected == "" {
			test.want.Inspected = "url+headers+body"
		}
		test.want.Ruleset = "test"
		got := inspect(t, build(t, test.rules, nil), test.in)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// A fault of ours lets that one request pass and says so, without a piece of the request; the next one is
// inspected as ever.
func TestFailOpen(t *testing.T) {
	const secret = "hunter2hunter2"
	w := build(t, func(c *waf.Case) {
		if c.Input.Query != "" {
			panic("cannot match " + c.Input.Query)
		}
		c.Report(hit)
	}, nil)
	got := inspect(t, w, waf.Input{Mode: waf.ModeBlock, Query: secret})
	if got.Verdict != waf.FailOpen || got.Fault != "panic" || strings.Contains(fmt.Sprint(got), secret) || !strings.Contains(got.Trace, "TestFailOpen") {
		t.Errorf("%+v", got)
	}
	if got := inspect(t, w, waf.Input{Mode: waf.ModeBlock}); got.Verdict != waf.Block {
		t.Errorf("afterwards: %+v", got)
	}
}

// No malformed body makes us fail open.
func TestMalformedIsRefused(t *testing.T) {
	w := build(t, finds(), nil)
	for media, bodies := range map[string][]string{
		"application/json":                {"{", "[1", `"`, "nul", "\x00", "{}{}", strings.Repeat("[", 100)},
		"text/xml":                        {"<", "<a", "<a></b", "<!DOCTYPE a>", "&x;", strings.Repeat("<a>", 100)},
		"multipart/form-data; boundary=":  {"x"},
		"multipart/form-data; boundary=b": {"x", "--b", "--b\r\n", "--b\r\nx\r\n\r\n", "--b\r\n: x\r\n\r\n\r\n--b--"},
		"application/json; charset=\"":    {"{}"},
	} {
		for _, body := range bodies {
			got := inspect(t, w, waf.Input{Mode: waf.ModeBlock, Header: http.Header{"Content-Type": {media}}, Body: []byte(body)})
			if got.Verdict != waf.Block || got.HTTP < 400 || got.HTTP > 499 || got.Refused == "" {
				t.Errorf("%s: %q: %+v", media, body, got)
			}
		}
	}
}

func TestExclusions(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		name string
		e    waf.Exclusion
		want waf.Verdict
	}{
		{"the rule", waf.Exclusion{Rule: "1"}, waf.Pass},
		{"another rule", waf.Exclusion{Rule: "11"}, waf.Block},
		{"the path", waf.Exclusion{Rule: "1", Path: "/v1/search"}, waf.Pass},
		{"above the path", waf.Exclusion{Rule: "1", Path: "/v1"}, waf.Pass},
		{"beside the path", waf.Exclusion{Rule: "1", Path: "/v1/sea"}, waf.Block},
		{"any segment", waf.Exclusion{Rule: "1", Path: "/*/search"}, waf.Pass},
		{"the exact path", waf.Exclusion{Rule: "1", Path: "=/v1/search"}, waf.Pass},
		{"the exact path above", waf.Exclusion{Rule: "1", Path: "=/v1"}, waf.Block},
		{"the parameter", waf.Exclusion{Rule: "1", Parameter: "Q"}, waf.Pass},
		{"another parameter", waf.Exclusion{Rule: "1", Parameter: "qq"}, waf.Block},
		{"the last moment", waf.Exclusion{Rule: "1", Until: now.Add(1)}, waf.Pass},
		{"over", waf.Exclusion{Rule: "1", Until: now}, waf.Block},
		{"on trial", waf.Exclusion{Rule: "1", Shadow: true}, waf.Block},
	} {
		w := build(t, finds(hit), func(o *waf.Options) { o.Exclude = []waf.Exclusion{test.e} })
		got := inspect(t, w, waf.Input{Mode: waf.ModeBlock, Now: now, Path: "/v1/search"})
		if got.Verdict != test.want {
			t.Errorf("%s: %v, want %v", test.name, got.Verdict, test.want)
		}
		if got.Verdict == waf.Block && got.Matches[0].Shadow != test.e.Shadow {
			t.Errorf("%s: on trial %v", test.name, got.Matches[0].Shadow)
		}
	}
}

// The narrowest exclusion is proposed first that helps most: one rule, one path, one parameter.
func TestPropose(t *testing.T) {
	until := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	text := func(rule string) waf.Match { return waf.Match{Rule: rule, Location: "json", Name: "text", Score: 5} }
	got := waf.Propose([]waf.Blocked{
		{Path: "/v1/notes", Matches: []waf.Match{text("1")}},
		{Path: "/v1/notes", Matches: []waf.Match{text("1"), text("2")}}, // one alone does not help this one
		{Path: "/v1/notes", Matches: []waf.Match{text("1")}},
		{Path: "/v1/mails", Matches: []waf.Match{text("2")}},
	}, 5, until)
	p := func(rule, path string, released int) waf.Proposal {
		return waf.Proposal{Exclusion: waf.Exclusion{Rule: rule, Path: path, Parameter: "text", Until: until, Shadow: true}, Released: released}
	}
	want := []waf.Proposal{p("1", "=/v1/notes", 2), p("2", "=/v1/mails", 1), p("2", "=/v1/notes", 0)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := waf.Propose(nil, 5, until); got != nil {
		t.Errorf("of nothing: %v", got)
	}
}

// Half of the slots are one client's at most; who waits too long is answered, or passes where that was chosen.
func TestSlots(t *testing.T) {
	for _, test := range []struct {
		name   string
		on     waf.OnSaturation
		mode   waf.Mode
		held   []string
		asker  string
		want   waf.Verdict
		status int
	}{
		{"free", waf.RejectSaturated, waf.ModeBlock, []string{"a"}, "a", waf.Pass, 0},
		{"a share", waf.RejectSaturated, waf.ModeBlock, []string{"a", "a"}, "a", waf.Block, 503},
		{"another's share", waf.RejectSaturated, waf.ModeBlock, []string{"a", "a"}, "b", waf.Pass, 0},
		{"full", waf.RejectSaturated, waf.ModeBlock, []string{"a", "a", "b", "c"}, "d", waf.Block, 503},
		{"full, passing", waf.PassSaturated, waf.ModeBlock, []string{"a", "a", "b", "c"}, "d", waf.FailOpen, 0},
		{"full, detecting", waf.RejectSaturated, waf.ModeDetect, []string{"a", "a", "b", "c"}, "d", waf.FailOpen, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leave := make(chan struct{})
				slots := waf.NewSlots(4, 50*time.Millisecond, test.on)
				w := build(t, func(c *waf.Case) {
					if c.Input.Method == "HOLD" {
						<-leave
					}
				}, func(o *waf.Options) { o.Slots = slots })
				var holding sync.WaitGroup
				for _, client := range test.held {
					holding.Go(func() { _ = inspect(t, w, waf.Input{Mode: test.mode, Method: "HOLD", Client: client}) })
				}
				synctest.Wait()
				began := time.Now()
				got := inspect(t, w, waf.Input{Mode: test.mode, Client: test.asker})
				if got.Verdict != test.want || got.HTTP != test.status || (got.Verdict != waf.Pass) != (got.Fault == "saturated") {
					t.Errorf("%+v", got)
				}
				if waited := time.Since(began); waited > 50*time.Millisecond {
					t.Errorf("waited for %v", waited)
				}
				close(leave)
				holding.Wait()
				if got := inspect(t, w, waf.Input{Mode: test.mode, Client: test.asker}); got.Verdict != waf.Pass {
					t.Errorf("afterwards: %+v", got)
				}
			})
		})
	}
}

// Who goes away does not wait on.
func TestSlotsFollowTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := waf.NewSlots(1, time.Hour, waf.RejectSaturated)
		leave := make(chan struct{})
		w := build(t, func(*waf.Case) { <-leave }, func(o *waf.Options) { o.Slots = slots })
		var holding sync.WaitGroup
		holding.Go(func() { _ = inspect(t, w, waf.Input{Mode: waf.ModeBlock}) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var r waf.Result
		if w.Inspect(ctx, &waf.Input{Mode: waf.ModeBlock}, &r); r.Verdict != waf.Block || r.HTTP != 503 {
			t.Errorf("%+v", r)
		}
		close(leave)
		holding.Wait()
	})
}

// Every class that a rule set may use is on the list for metrics.
func TestClasses(t *testing.T) {
	if got := waf.Classes(); len(got) != 16 {
		t.Errorf("%d classes", len(got))
	}
}

// A result is used again without what was in it.
func TestResultIsReused(t *testing.T) {
	w := build(t, func(c *waf.Case) {
		if c.Input.Path == "/attack" {
			c.Report(hit)
		}
	}, nil)
	var r waf.Result
	w.Inspect(t.Context(), &waf.Input{Mode: waf.ModeBlock, Path: "/attack"}, &r)
	w.Inspect(t.Context(), &waf.Input{Mode: waf.ModeBlock, Path: "/"}, &r)
	if r.Verdict != waf.Pass || len(r.Matches) != 0 || r.Score != 0 || r.HTTP != 0 {
		t.Errorf("%+v", r)
	}
}
