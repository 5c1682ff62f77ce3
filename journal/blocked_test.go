package journal

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/waf/mask"
)

// attacked is a request that was blocked for what it says.
func attacked(path string, matches ...weir.Match) *weir.Decision {
	d := passed(search)
	d.Refuse(weir.AttackFound, 403)
	d.Request.Path = path
	d.Inspection = weir.Inspection{Verdict: weir.Blocked, Ruleset: "crs", Inspected: "url+headers", Score: 5, Matches: matches, Incident: "ABC"}
	return d
}

func match(rule string, score int) weir.Match {
	return weir.Match{Rule: rule, Class: "sqli", Location: "query", Name: "q", Fragment: "[email]", Score: score}
}

func TestBlockedList(t *testing.T) {
	j := New(Options{Rules: []string{"search"}, Keep: 3, Addresses: Masked})
	for i := range 10 {
		d := attacked(fmt.Sprint("/items/", i), match("942100", 5))
		d.Inspection.Incident = fmt.Sprint(i)
		j.Record(d, weir.Outcome{HTTP: 403})
	}
	var incidents []string
	for _, b := range j.Blocked(10) {
		incidents = append(incidents, b.Incident)
	}
	if diff := cmp.Diff([]string{"9", "8", "7"}, incidents); diff != "" {
		t.Errorf("the last three (-want +got)\n%s", diff)
	}
	d := attacked("/items/7", match("942100", 5))
	j.Record(d, weir.Outcome{HTTP: 403})
	want := Blocked{Time: d.At, Incident: "ABC", Verdict: "block", Front: "proxy", Client: j.masker.client(&d.Client), Method: d.Request.Method,
		Path: "/items/7", Rule: "search", Ruleset: "crs", Status: 403, Score: 5, Matches: []weir.Match{match("942100", 5)}}
	if diff := cmp.Diff([]Blocked{want}, j.Blocked(1)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	j.SetFirewall(nil, 1)
	if n := len(j.Blocked(10)); n != 1 {
		t.Errorf("%d are left of 1", n)
	}
}

// What passes is not in the list, nor what a limit refused, nor what found no slot.
func TestOnlyFindingsAreListed(t *testing.T) {
	j := New(Options{Rules: []string{"search"}})
	busy := attacked("/")
	busy.Inspection = weir.Inspection{Verdict: weir.Blocked, Fault: "saturated"}
	for _, d := range []*weir.Decision{passed(search), refused(search, weir.Reject), busy} {
		j.Record(d, ok)
	}
	if got := j.Blocked(10); len(got) != 0 {
		t.Errorf("listed: %+v", got)
	}
	if got := scrape(t, j)[`weir_waf_errors_total{reason="saturated"}`]; got != 1 {
		t.Errorf("%v saturated, want 1", got)
	}
}

func TestTemplates(t *testing.T) {
	m, err := mask.New(mask.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	s := new(secrets)
	s.masker.Store(m)
	for path, want := range map[string]string{
		"/": "/", "": "/", "/api/v1/scores": "/api/v1/scores", "/users/12345": "/users/*", "/a//b/": "/a//b/", "/oauth2/token": "/oauth2/token",
		"/v1/scores/0x52908400098527886E0F7030069857D2E4169EE7": "/v1/scores/*",
		"/u/kari%40example.org/x":                               "/u/*/x", "/../etc/passwd": "/*/etc/passwd", "/a'b": "/*", "/" + fmt.Sprint(time.Second): "/1s",
		"/abcdefghijklmnopqrstuvwxyzabcdefg": "/*",
	} {
		if got := s.template(path); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
}

// What the recent decisions show of paths and hosts holds no secret, not even half of one that was cut.
func TestRecentDecisionsAreMasked(t *testing.T) {
	m, err := mask.New(mask.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	j := New(Options{Rules: []string{"search"}, Mask: m})
	const wallet = "0x52908400098527886E0F7030069857D2E4169EE7"
	long := "/"
	for len(long) < maxPath-20 {
		long += "abcdefgh/"
	}
	for path, want := range map[string]string{"/scores/" + wallet: "/scores/[wallet 0x52…9EE7]", "/items/7%20a": "/items/7%20a", long + wallet: long + "…"} {
		d := passed(search)
		d.Request.Path = path
		j.Record(d, ok)
		if got := j.Recent(1)[0].Path; got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
}

// An asker that finds ever more rules of the firewall makes no more series.
func TestBlocksAreBounded(t *testing.T) {
	j := New(Options{Rules: []string{"search"}})
	for i := range 1000 {
		j.Record(attacked("/", match(fmt.Sprint("rule", i), 5), match("low", 2)), ok)
	}
	series := withPrefix(scrape(t, j), "weir_waf_blocks_total")
	if len(series) != maxWAFRules+1 || series[`weir_waf_blocks_total{namespace="search",rule="other"}`] != 1000-maxWAFRules {
		t.Errorf("%d series: %v", len(series), series)
	}
}
