package journal

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
)

func TestEntry(t *testing.T) {
	d := refused(search, weir.Reject)
	d.Statuses = append(d.Statuses, weir.Status{Limit: trial})
	j := New(Options{})
	j.Record(d, weir.Outcome{HTTP: 429, Duration: 250 * time.Microsecond})
	got, err := json.Marshal(j.Recent(1))
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"time":"2026-03-01T12:00:00Z","front":"proxy","client":"203.0.113.7/32","source":"direct",` +
		`"method":"GET","host":"example.com","path":"/api/search","rule":"search","action":"reject","reason":"over limit",` +
		`"status":429,"limit":"search","remaining":0,"retry_after":1.5,"shadow":["trial"],"degraded":false,"duration":0.00025}]`
	if string(got) != want {
		t.Errorf("entry\n got %s\nwant %s", got, want)
	}
}

func TestEntryOfADecisionWithoutRule(t *testing.T) {
	j := New(Options{})
	j.Record(&weir.Decision{
		At: noon, Action: weir.Reject, Reason: weir.ClientUnresolved, HTTP: 400,
		Request: weir.Request{Front: "made up"},
		Client:  weir.Client{Source: weir.Unresolved, Via: netip.MustParseAddr("10.0.0.1")},
	}, weir.Outcome{HTTP: 400})
	want := []Entry{{
		Time: noon, Front: "other", Client: "unresolved:10.0.0.1", Source: "unresolved",
		Action: "reject", Reason: "client unresolved", Status: 400, Shadow: []string{},
	}}
	if diff := cmp.Diff(want, j.Recent(1)); diff != "" {
		t.Errorf("entry (-want +got):\n%s", diff)
	}
}

func TestRecentIsNewestFirstAndBounded(t *testing.T) {
	const kept = 5
	for _, c := range []struct{ recorded, asked, want int }{
		{0, 3, 0}, {2, 3, 2}, {3, 3, 3}, {4, 3, 3}, {5, 100, 5}, {6, 100, 5}, {1000, 100, 5}, {6, 0, 0}, {6, -1, 0},
	} {
		j := New(Options{Recent: kept})
		var want []string
		for i := range c.recorded {
			d := passed(search)
			d.Request.Path = fmt.Sprint("/", i)
			j.Record(d, ok)
			if i >= c.recorded-c.want {
				want = append([]string{d.Request.Path}, want...)
			}
		}
		var got []string
		for _, e := range j.Recent(c.asked) {
			got = append(got, e.Path)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d recorded, %d asked for (-want +got):\n%s", c.recorded, c.asked, diff)
		}
	}
}

func TestDefaultRingLength(t *testing.T) {
	j := New(Options{})
	for range DefaultRecent + 1 {
		j.Record(passed(search), ok)
	}
	if got := len(j.Recent(2 * DefaultRecent)); got != DefaultRecent {
		t.Errorf("kept %d decisions, want %d", got, DefaultRecent)
	}
}

// statuses are those of the decisions that r keeps, newest first.
func statuses(r *ring) (all []int) {
	r.recent(func(n *note) bool { all = append(all, n.status); return false })
	return all
}

// Only what is wanted is selected, newest first, and told whole; who chooses sees nothing of what was asked for.
func TestSelect(t *testing.T) {
	j := New(Options{Recent: 8})
	for i := range 12 {
		j.Record(stranger(i), weir.Outcome{HTTP: 200 + i})
	}
	seen := 0
	got := j.Select(3, func(e *Entry) bool {
		if seen++; e.Method+e.Host+e.Path != "" {
			t.Errorf("%q %q %q is seen", e.Method, e.Host, e.Path)
		}
		return e.Status%2 == 0
	})
	whole := j.Recent(8)
	if diff := cmp.Diff([]Entry{whole[1], whole[3], whole[5]}, got); diff != "" || seen != 6 {
		t.Errorf("%d seen (-want +got):\n%s", seen, diff)
	}
	if n := len(j.Select(0, func(*Entry) bool { return true })); n != 0 {
		t.Errorf("%d of none", n)
	}
	outcomes := j.Outcomes()
	for i := range whole {
		whole[i].Method, whole[i].Host, whole[i].Path = "", "", ""
	}
	if diff := cmp.Diff(whole, outcomes); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

// A note that is told after the ring went once around is dropped; the newer one stays.
func TestLateNoteIsDropped(t *testing.T) {
	r := newRing(2)
	notes := newNotes(3)
	for i, number := range []uint64{4, 2, 3} {
		notes[i].number, notes[i].status = number, int(number)
	}
	r.last.Store(4)
	r.take(notes)
	if got := statuses(r); !slices.Equal(got, []int{4, 3}) {
		t.Errorf("recent are %v, want numbers 4 and 3", got)
	}
	if notes[1].number != 2 {
		t.Error("the late note is not given back")
	}
}

// A decision that is numbered but not yet told is left out, not mixed up.
func TestUnwrittenNoteIsLeftOut(t *testing.T) {
	r := newRing(2)
	notes := newNotes(1)
	notes[0].number, notes[0].status = 1, 200
	r.take(notes)
	r.last.Store(2) // another request has its number and is written just now
	if got := statuses(r); !slices.Equal(got, []int{200}) {
		t.Errorf("recent are %v, want the one written decision", got)
	}
}

// Public case MET-06: what a stranger sends is kept as data and cut, whatever its size.
func TestStrangersTextIsCut(t *testing.T) {
	for _, c := range []struct{ name, sent, kept string }{
		{"markup", "/<img src=x onerror=alert(1)>", "/<img src=x onerror=alert(1)>"},
		{"control characters", "/\x1b[31m\r\n\x00", "/\x1b[31m\r\n\x00"},
		{"right-to-left mark", "/\u202egnp.exe", "/\u202egnp.exe"},
		{"at the bound", strings.Repeat("a", 128), strings.Repeat("a", 128)},
		{"one over", strings.Repeat("a", 129), strings.Repeat("a", 128)},
		{"100 KB", strings.Repeat("a", 100_000), strings.Repeat("a", 128)},
		{"character across the bound", strings.Repeat("a", 126) + "€", strings.Repeat("a", 126)},
		{"character up to the bound", strings.Repeat("a", 125) + "€€", strings.Repeat("a", 125) + "€"},
		{"no characters at all", strings.Repeat("\x80", 200), strings.Repeat("\x80", 128)},
	} {
		j := New(Options{})
		d := passed(search)
		d.Request.Path, d.Request.Host, d.Request.Method = c.sent, c.sent, c.sent
		j.Record(d, ok)
		e := j.Recent(1)[0]
		if e.Path != c.kept || e.Host != c.kept || e.Method != cut(c.sent, 16) {
			t.Errorf("%s: kept path %q, host %q, method %q; want path %q", c.name, e.Path, e.Host, e.Method, c.kept)
		}
	}
}

// The admin API's JSON has no markup in it, whatever a stranger sent.
func TestEntryAsJSONHasNoMarkup(t *testing.T) {
	j := New(Options{})
	d := passed(search)
	d.Request.Path = "/<script>&\u2028"
	j.Record(d, ok)
	got, err := json.Marshal(j.Recent(1))
	if err != nil || strings.ContainsAny(string(got), "<>&\u2028") {
		t.Errorf("%s, %v: want <, >, & and U+2028 escaped", got, err)
	}
}

func TestShadowNamesAreBounded(t *testing.T) {
	j := New(Options{})
	d := passed(search)
	for range 3 * maxShadow {
		d.Statuses = append(d.Statuses, weir.Status{Limit: trial})
	}
	j.Record(d, ok)
	if got := len(j.Recent(1)[0].Shadow); got != maxShadow {
		t.Errorf("%d names kept, want %d", got, maxShadow)
	}
}

func TestTightest(t *testing.T) {
	wide := &weir.Limit{Name: "wide", Max: 1000}
	allowed := func(l *weir.Limit, remaining int64) weir.Status {
		return weir.Status{Limit: l, Allowed: true, Remaining: remaining}
	}
	over := func(l *weir.Limit, retry time.Duration) weir.Status {
		return weir.Status{Limit: l, RetryAfter: retry}
	}
	for _, c := range []struct {
		name string
		in   []weir.Status
		want *weir.Status
	}{
		{"none", nil, nil},
		{"shadow only", []weir.Status{over(trial, 1)}, nil},
		{"least remaining", []weir.Status{allowed(wide, 5), allowed(limit, 4)}, &weir.Status{Limit: limit, Allowed: true, Remaining: 4}},
		{"first of equals", []weir.Status{allowed(wide, 4), allowed(limit, 4)}, &weir.Status{Limit: wide, Allowed: true, Remaining: 4}},
		{"refusal before allowance", []weir.Status{allowed(wide, 0), over(limit, 1)}, &weir.Status{Limit: limit, RetryAfter: 1}},
		{"longest wait", []weir.Status{over(limit, 1), over(wide, 2), over(limit, 1)}, &weir.Status{Limit: wide, RetryAfter: 2}},
		{"never is longest", []weir.Status{over(limit, 9), over(wide, weir.Never), over(limit, 9)}, &weir.Status{Limit: wide, RetryAfter: weir.Never}},
		{"shadow does not count", []weir.Status{over(trial, 9), allowed(limit, 1)}, &weir.Status{Limit: limit, Allowed: true, Remaining: 1}},
	} {
		if diff := cmp.Diff(c.want, tightest(&weir.Decision{Statuses: c.in})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// A client that no waiting helps is told of no wait.
func TestNeverIsNoWait(t *testing.T) {
	j := New(Options{})
	d := refused(search, weir.Reject)
	d.Statuses[0].RetryAfter = weir.Never
	j.Record(d, weir.Outcome{HTTP: 429})
	if got := j.Recent(1)[0].RetryAfter; got != nil {
		t.Errorf("retry after %v, want none", *got)
	}
}
