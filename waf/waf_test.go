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

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/waf"
	"github.com/weirgate/weir/waf/feed"
	"github.com/weirgate/weir/waf/mask"
)

// rules is a rule set of one function.
type rules func(c *waf.Case)

func (rules) Name() string          { return "test" }
func (rules) Thorough() bool        { return false }
func (rules) Quick(*waf.Input) bool { return false }
func (r rules) Judge(c *waf.Case)   { r(c) }
func (rules) Close() error          { return nil }
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

func inspect(t *testing.T, w *waf.WAF, in waf.Input) weir.Inspection {
	t.Helper()
	var r weir.Inspection
	w.Inspect(t.Context(), &in, &r)
	return r
}

var (
	post  = http.Header{"Content-Type": {"application/json"}}
	hit   = waf.Finding{Rule: "1", Class: "sqli", Part: feed.Query, Name: "q", Value: "x' or 1=1", At: 1, Score: 5}
	match = weir.Match{Rule: "1", Class: "sqli", Location: "query", Name: "q", Fragment: "' or 1=1", Score: 5}
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
		want  weir.Inspection
	}{
		{"off", finds(hit), waf.Input{Mode: weir.Off}, weir.Inspection{}},
		{"nothing", finds(), waf.Input{Mode: weir.Enforce}, weir.Inspection{Verdict: weir.Clean}},
		{"block", finds(hit), waf.Input{Mode: weir.Enforce}, weir.Inspection{Verdict: weir.Blocked, HTTP: 403, Score: 5, Threshold: 5, Matches: []weir.Match{match}}},
		{"detect", finds(hit), waf.Input{Mode: weir.Shadow}, weir.Inspection{Verdict: weir.Detected, Score: 5, Threshold: 5, Matches: []weir.Match{match}}},
		{"below the threshold", finds(weak, weak), waf.Input{Mode: weir.Enforce}, weir.Inspection{Verdict: weir.Clean, Score: 4, Matches: []weir.Match{weakMatch, weakMatch}}},
		{"at the threshold", finds(weak, weak, weak), waf.Input{Mode: weir.Enforce},
			weir.Inspection{Verdict: weir.Blocked, HTTP: 403, Score: 6, Threshold: 5, Matches: []weir.Match{weakMatch, weakMatch, weakMatch}}},
		{"skipped", func(c *waf.Case) { c.Skipped = true }, waf.Input{Mode: weir.Enforce}, weir.Inspection{Verdict: weir.Plain}},
		{"malformed", finds(), waf.Input{Mode: weir.Enforce, Header: post, Body: []byte("{")},
			weir.Inspection{Verdict: weir.Blocked, HTTP: 400, Refused: "json", Detail: "the body is not JSON (RFC 8259)"}},
		{"malformed, detected", finds(), waf.Input{Mode: weir.Shadow, Header: post, Body: []byte("{")},
			weir.Inspection{Verdict: weir.Detected, Refused: "json", Detail: "the body is not JSON (RFC 8259)"}},
		{"no body at hand", finds(), waf.Input{Mode: weir.Enforce, Header: post, Body: []byte("{"), NoBody: true},
			weir.Inspection{Verdict: weir.Clean, Inspected: "url+headers"}},
		{"bytes", finds(), waf.Input{Mode: weir.Enforce, Header: http.Header{"Content-Type": {"image/png"}}, Body: []byte("{")},
			weir.Inspection{Verdict: weir.Clean, Inspected: "url+headers"}},
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
	got := inspect(t, w, waf.Input{Mode: weir.Enforce, Query: secret})
	if got.Verdict != weir.FailedOpen || got.Fault != "panic" || strings.Contains(fmt.Sprint(got), secret) || !strings.Contains(got.Trace, "TestFailOpen") {
		t.Errorf("%+v", got)
	}
	if got := inspect(t, w, waf.Input{Mode: weir.Enforce}); got.Verdict != weir.Blocked {
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
			got := inspect(t, w, waf.Input{Mode: weir.Enforce, Header: http.Header{"Content-Type": {media}}, Body: []byte(body)})
			if got.Verdict != weir.Blocked || got.HTTP < 400 || got.HTTP > 499 || got.Refused == "" {
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
		want weir.Verdict
	}{
		{"the rule", waf.Exclusion{Rule: "1"}, weir.Clean},
		{"another rule", waf.Exclusion{Rule: "11"}, weir.Blocked},
		{"the path", waf.Exclusion{Rule: "1", Path: "/v1/search"}, weir.Clean},
		{"above the path", waf.Exclusion{Rule: "1", Path: "/v1"}, weir.Clean},
		{"beside the path", waf.Exclusion{Rule: "1", Path: "/v1/sea"}, weir.Blocked},
		{"any segment", waf.Exclusion{Rule: "1", Path: "/*/search"}, weir.Clean},
		{"the exact path", waf.Exclusion{Rule: "1", Path: "=/v1/search"}, weir.Clean},
		{"the exact path above", waf.Exclusion{Rule: "1", Path: "=/v1"}, weir.Blocked},
		{"the parameter", waf.Exclusion{Rule: "1", Parameter: "Q"}, weir.Clean},
		{"another parameter", waf.Exclusion{Rule: "1", Parameter: "qq"}, weir.Blocked},
		{"the last moment", waf.Exclusion{Rule: "1", Until: now.Add(1)}, weir.Clean},
		{"over", waf.Exclusion{Rule: "1", Until: now}, weir.Blocked},
		{"on trial", waf.Exclusion{Rule: "1", Shadow: true}, weir.Blocked},
	} {
		w := build(t, finds(hit), func(o *waf.Options) { o.Exclude = []waf.Exclusion{test.e} })
		got := inspect(t, w, waf.Input{Mode: weir.Enforce, Now: now, Path: "/v1/search"})
		if got.Verdict != test.want {
			t.Errorf("%s: %v, want %v", test.name, got.Verdict, test.want)
		}
		if got.Verdict == weir.Blocked && got.Matches[0].Shadow != test.e.Shadow {
			t.Errorf("%s: on trial %v", test.name, got.Matches[0].Shadow)
		}
	}
}

// The narrowest exclusion is proposed first that helps most: one rule, one path, one parameter.
func TestPropose(t *testing.T) {
	until := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	blocked := func(client, path string, rules ...string) waf.Blocked {
		b := waf.Blocked{Path: path, Client: client, Most: 5}
		for _, rule := range rules {
			b.Matches = append(b.Matches, weir.Match{Rule: rule, Location: "json", Name: "text", Score: 5})
			b.Score += 5
		}
		return b
	}
	got := waf.Propose([]waf.Blocked{
		blocked("a", "/v1/notes", "1"),
		blocked("a", "/v1/notes", "1", "2"), // one alone does not help this one
		blocked("b", "/v1/notes", "1", "1"),
		blocked("c", "/v1/mails", "2"),
		blocked("c", "", "2"),
	}, until)
	p := func(path string, matched, released, clients int, rules ...string) waf.Proposal {
		p := waf.Proposal{Matched: matched, Released: released, Clients: clients}
		for _, rule := range rules {
			p.Exclusions = append(p.Exclusions, waf.Exclusion{Rule: rule, Path: path, Parameter: "text", Until: until, Shadow: true})
		}
		return p
	}
	want := []waf.Proposal{p("=/v1/notes", 3, 3, 2, "1", "2"), p("=/v1/notes", 3, 2, 2, "1"), p("=/v1/mails", 1, 1, 1, "2")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := waf.Propose(nil, until); got != nil {
		t.Errorf("of nothing: %v", got)
	}
}

// What is proposed for one request is as little as lets it pass.
func TestNarrowest(t *testing.T) {
	match := func(rule, name string, score int) weir.Match { return weir.Match{Rule: rule, Name: name, Score: score} }
	for _, test := range []struct {
		name    string
		score   int
		matches []weir.Match
		want    string
	}{
		{"one", 5, []weir.Match{match("1", "a", 5)}, "1 a"},
		{"the heavier", 8, []weir.Match{match("1", "a", 3), match("2", "a", 5)}, "2 a"},
		{"one is enough", 7, []weir.Match{match("1", "a", 3), match("2", "a", 4)}, "2 a"},
		{"both", 10, []weir.Match{match("2", "a", 5), match("1", "b", 5)}, "1 b, 2 a"},
		{"one in two places", 10, []weir.Match{match("1", "a", 5), match("1", "b", 5)}, "1 a, 1 b"},
		{"again and again", 20, []weir.Match{match("1", "a", 5), match("1", "a", 5), match("1", "a", 10)}, "1 a"},
		{"more than was told", 200, []weir.Match{match("1", "a", 5)}, ""},
	} {
		b := waf.Blocked{Path: "/x", Score: test.score, Most: 5, Matches: test.matches}
		var got []string
		for _, e := range b.Narrowest(time.Time{}) {
			got = append(got, e.Rule+" "+e.Parameter)
		}
		if got := strings.Join(got, ", "); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// Nothing is proposed for a request of which too little was told; asking what to exclude costs little, whatever
// is in the list.
func TestProposalsAreBounded(t *testing.T) {
	many := waf.Blocked{Path: "/x", Score: 2000, Most: 5, Matches: []weir.Match{{Rule: "1", Name: "a", Score: 5}}}
	if got := waf.Propose([]waf.Blocked{many}, time.Time{}); got != nil {
		t.Errorf("%+v", got)
	}
	var group []waf.Blocked
	for i := range 1000 {
		b := waf.Blocked{Path: fmt.Sprint("/", i), Score: 5, Most: 5}
		for n := range 32 {
			b.Matches = append(b.Matches, weir.Match{Rule: fmt.Sprint(n), Name: fmt.Sprint(i), Score: 5})
		}
		group = append(group, b)
	}
	if got := waf.Propose(group, time.Time{}); len(got) != waf.MostProposals {
		t.Errorf("%d proposals", len(got))
	}
}

// An exclusion covers what a narrower one releases, for as long as it holds.
func TestCovers(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	narrow := waf.Exclusion{Rule: "1", Path: "=/notes/*", Parameter: "text"}
	for _, test := range []struct {
		name string
		e    waf.Exclusion
		want bool
	}{
		{"itself", narrow, true},
		{"above", waf.Exclusion{Rule: "1", Path: "/notes"}, true},
		{"beside", waf.Exclusion{Rule: "1", Path: "/note"}, false},
		{"another parameter", waf.Exclusion{Rule: "1", Parameter: "title"}, false},
		{"another rule", waf.Exclusion{Rule: "2"}, false},
		{"over", waf.Exclusion{Rule: "1", Until: now}, false},
	} {
		if got := test.e.Covers(&narrow, now); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

// Half of the slots are one client's at most; who waits too long is answered, or passes where that was chosen.
func TestSlots(t *testing.T) {
	for _, test := range []struct {
		name   string
		on     waf.OnSaturation
		mode   weir.Mode
		held   []string
		asker  string
		want   weir.Verdict
		status int
	}{
		{"free", waf.RejectSaturated, weir.Enforce, []string{"a"}, "a", weir.Clean, 0},
		{"a share", waf.RejectSaturated, weir.Enforce, []string{"a", "a"}, "a", weir.Blocked, 503},
		{"another's share", waf.RejectSaturated, weir.Enforce, []string{"a", "a"}, "b", weir.Clean, 0},
		{"full", waf.RejectSaturated, weir.Enforce, []string{"a", "a", "b", "c"}, "d", weir.Blocked, 503},
		{"full, passing", waf.PassSaturated, weir.Enforce, []string{"a", "a", "b", "c"}, "d", weir.FailedOpen, 0},
		{"full, detecting", waf.RejectSaturated, weir.Shadow, []string{"a", "a", "b", "c"}, "d", weir.FailedOpen, 0},
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
				if got.Verdict != test.want || got.HTTP != test.status || (got.Verdict != weir.Clean) != (got.Fault == "saturated") {
					t.Errorf("%+v", got)
				}
				if waited := time.Since(began); waited > 50*time.Millisecond {
					t.Errorf("waited for %v", waited)
				}
				close(leave)
				holding.Wait()
				if got := inspect(t, w, waf.Input{Mode: test.mode, Client: test.asker}); got.Verdict != weir.Clean {
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
		holding.Go(func() { _ = inspect(t, w, waf.Input{Mode: weir.Enforce}) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var r weir.Inspection
		if w.Inspect(ctx, &waf.Input{Mode: weir.Enforce}, &r); r.Verdict != weir.Blocked || r.HTTP != 503 {
			t.Errorf("%+v", r)
		}
		close(leave)
		holding.Wait()
	})
}

// A secret is hidden in both readings of a query: what & alone separates is one value, with a pair behind each ; in it.
func TestSecretBehindSemicolon(t *testing.T) {
	for value, want := range map[string]string{
		"x' or 1=1;pin=2580": "[masked]", "x' or 1=1;b;my_password=h": "[masked]", "x' or 1=1;b=pin": "' or 1=1;b=pin", "x' or password=1;pin": "' or password=1;pin",
	} {
		for part, want := range map[feed.Part]string{feed.Query: want, feed.Form: want, feed.JSON: value[1:]} {
			f := hit
			f.Part, f.Value = part, value
			if got := inspect(t, build(t, finds(f), nil), waf.Input{Mode: weir.Enforce}).Matches[0].Fragment; got != want {
				t.Errorf("%v %s: %s, want %s", part, value, got, want)
			}
		}
	}
}

// However much matches, a result stays small, and the score is of all.
func TestMatchesAreBounded(t *testing.T) {
	list := make([]waf.Finding, 100)
	for i := range list {
		list[i] = hit
	}
	got := inspect(t, build(t, finds(list...), nil), waf.Input{Mode: weir.Enforce})
	if len(got.Matches) != 32 || got.Score != 500 || got.Verdict != weir.Blocked {
		t.Errorf("%d matches, score %d, %v", len(got.Matches), got.Score, got.Verdict)
	}
}

// A result is used again without what was in it.
func TestResultIsReused(t *testing.T) {
	w := build(t, func(c *waf.Case) {
		if c.Input.Path == "/attack" {
			c.Report(hit)
		}
	}, nil)
	var r weir.Inspection
	w.Inspect(t.Context(), &waf.Input{Mode: weir.Enforce, Path: "/attack"}, &r)
	w.Inspect(t.Context(), &waf.Input{Mode: weir.Enforce, Path: "/"}, &r)
	if r.Verdict != weir.Clean || len(r.Matches) != 0 || r.Score != 0 || r.HTTP != 0 {
		t.Errorf("%+v", r)
	}
}
