package replay

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// textOf is the report for a terminal.
func textOf(t *testing.T, r *Report) string {
	t.Helper()
	var text strings.Builder
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// What is tagged passes, and is told apart from what is refused and from what is over a shadow limit.
func TestTagged(t *testing.T) {
	verdicts, report := play(t, timed, "rules: [{name: slow, path: /, action: tag, tag_header: X-Over, limits: [{rate: 1/1h}]}]",
		strings.Repeat("10.0.0.1 1000 0 GET h / 200 -\n", 3), nil)
	s := report.Policy
	got := []any{verdicts, s.Requests, s.Admitted, s.Tagged, s.Refused, s.Shadow, s.Clients.Hurt, s.Limits[0].Refused}
	if diff := cmp.Diff([]any{"+++", int64(3), int64(3), int64(2), int64(0), int64(0), int64(0), int64(2)}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// How long a client is locked out, whatever it does meanwhile: from the first refusal until the next request
// that the same rule lets through, or until one would have been; under a limit of none, as long as it asked.
func TestLongestLockout(t *testing.T) {
	ask := func(seconds ...float64) string {
		var log strings.Builder
		for _, at := range seconds {
			fmt.Fprintf(&log, "10.0.0.1 %.3f 0 GET h / 200 -\n", at)
		}
		return log.String()
	}
	const window = "rate: 1/1m, algorithm: fixed_window" // one turns at 960, the next at 1020
	for name, tt := range map[string]struct {
		limit, log string
		refused    int64
		want       time.Duration
	}{
		"until one would be let in":      {window, ask(1000, 1001), 1, 19 * time.Second},
		"who knocks on waits no longer":  {window, ask(1000, 1001, 1010, 1019.999), 3, 19 * time.Second},
		"until one is let in":            {window, ask(1000, 1001, 1050), 1, 49 * time.Second},
		"the longest of two":             {window, ask(1000, 1010, 1020, 1021, 1080), 2, 59 * time.Second},
		"the last one goes on":           {window, ask(1000, 1019, 1020, 1030), 2, 50 * time.Second},
		"a bucket that is soon refilled": {"rate: 1/10s, burst: 1, algorithm: token_bucket", ask(1000, 1001), 1, 9 * time.Second},
		"a limit of none":                {"rate: 0/1m", ask(1000, 1030), 2, 30 * time.Second},
	} {
		_, report := play(t, timed, "default: {limits: [{"+tt.limit+"}]}", tt.log, nil)
		h := report.Policy.Clients.List[0]
		if got := time.Duration(h.Lockout * float64(time.Second)).Round(time.Millisecond); got != tt.want || h.Refused != tt.refused {
			t.Errorf("%s: %s of %d refusals, want %s of %d", name, got, h.Refused, tt.want, tt.refused)
		}
	}
}

// Counters that had to be forgotten are told, since counts are then too low; where there is room, nothing is.
func TestEvictionsAreTold(t *testing.T) {
	var log strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&log, "10.%d.%d.1 1000 0 GET h / 200 -\n", i/250, i%250)
	}
	for keys, want := range map[int]bool{1000: true, 0: false} {
		_, report := play(t, timed, "", log.String(), func(o *Options) { o.Policy.MaxKeys = keys })
		if told := strings.Contains(textOf(t, report), "counters were forgotten for want of room"); told != want || (report.Policy.Evictions > 0) != want {
			t.Errorf("of %d keys %d were forgotten, told: %v", keys, report.Policy.Evictions, told)
		}
	}
}

// Of broken lines all are counted and the first are shown, whichever log they stand in.
func TestBrokenLinesAreBounded(t *testing.T) {
	_, report := play(t, timed, "", strings.Repeat("10.0.0.1 1000 0 GET h / 200 -\nbroken\n", 50), nil)
	want := Lines{Read: 100, Decided: 50, Broken: 50}
	if diff := cmp.Diff(want, report.Lines); diff != "" || len(report.Broken) != mostBroken {
		t.Errorf("%d are shown (-want +got):\n%s", len(report.Broken), diff)
	}
	for i, b := range report.Broken {
		if b.Number != int64(2*(i+1)) || b.Text != "broken" || !strings.HasSuffix(b.Log, "access.log") {
			t.Errorf("%d: %+v", i, b)
		}
	}
}

// Refusals of more pairs of client and rule than are remembered are counted, and no sum is short.
func TestUnlistedRefusals(t *testing.T) {
	var log strings.Builder
	for i := range mostHurt + 7 {
		fmt.Fprintf(&log, "10.%d.%d.%d 1000 0 GET h / 200 -\n", i>>16, i>>8&255, i&255)
	}
	_, report := play(t, timed, "default: {limits: [{rate: 0/1h}]}", log.String(), nil)
	c := report.Policy.Clients
	got := []any{report.Policy.Refused, c.Seen, c.Hurt, c.HurtShare, c.Unlisted, len(c.List), len(c.Busiest)}
	if diff := cmp.Diff([]any{int64(mostHurt + 7), mostHurt + 7, int64(mostHurt + 7), 1.0, int64(7), listed, busiest}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A log of a CDN's addresses is told to be one, and how to mend it; with the proxy named it is none.
func TestProxiesAreTold(t *testing.T) {
	const log = `104.16.0.1 - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "-" "203.0.113.7"` + "\n"
	_, report := play(t, "main", "", log, nil)
	if text := textOf(t, report); !strings.Contains(text, "cloudflare") || !strings.Contains(text, "--peer") {
		t.Errorf("not told:\n%s", text)
	}
	_, report = play(t, "main", "client: {path: [cloudflare, nginx], peers: [127.0.0.1/32]}", log, func(o *Options) { o.Peer = netip.MustParseAddr("127.0.0.1") })
	if text := textOf(t, report); strings.Contains(text, "--peer") {
		t.Errorf("told:\n%s", text)
	}
}

// What was found and how is there for programs, too; lists that are empty are lists.
func TestReportForPrograms(t *testing.T) {
	_, report := play(t, timed, "default: {limits: []}", "10.0.0.1 1000 0 GET h / 200 -\n", nil)
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"version":1`, `"interrupted":false`, `"broken":[]`, `"not_replayable":[]`, `"limits":[]`, `"false_positives":[]`, `"proxies":[]`, `"list":[]`,
		`"from":"1970-01-01T00:16:40Z"`, `"requests":1,"refused":0,"shadow":0,"admitted":1`} {
		if !strings.Contains(string(text), part) {
			t.Errorf("no %s in %s", part, text)
		}
	}
}
