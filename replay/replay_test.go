package replay

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/internal/leaktest"
	"github.com/weirgate/weir/policy"
	"github.com/weirgate/weir/replay/accesslog"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func compile(t testing.TB, text string) *policy.Policy {
	t.Helper()
	c, problems := config.Parse("test.yaml", []byte(text), nil)
	if config.HasErrors(problems) {
		t.Fatal(problems)
	}
	p, problems := policy.Compile(c)
	if config.HasErrors(problems) {
		t.Fatal(problems)
	}
	return p
}

// play replays a log of that format and returns the verdicts, in the order of time, and the report.
// seen is changed by change, if that is there.
func play(t testing.TB, format, yaml, log string, change func(*Options)) (string, *Report) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(name, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	logs, err := accesslog.OpenAll([]string{name}, accesslog.OpenOptions{Format: format})
	if err != nil {
		t.Fatal(err)
	}
	defer accesslog.CloseAll(logs)
	var verdicts strings.Builder
	o := Options{Policy: Policy{Name: "new.yaml", Policy: compile(t, yaml)}, Has: accesslog.Common(logs), Decided: func(_ *accesslog.Line, v Verdict) {
		verdicts.WriteByte("+sR"[v])
	}}
	if change != nil {
		change(&o)
	}
	r := New(o)
	defer r.Close()
	if err := r.Read(context.Background(), logs...); err != nil {
		t.Fatal(err)
	}
	report := r.Report(false) // decides what was held
	return verdicts.String(), report
}

// timed is a format that has all that a limit may count by.
const timed = `{client} {start} {duration} {method} {host} {path} {status} {header:X-Tenant}`

// Every way to count works by the log's clock, what was refused charges nothing, and what lasts is
// charged or given back when it ends.
func TestVerdicts(t *testing.T) {
	tests := []struct {
		name, yaml, log, want string
	}{
		{"a window turns by the log's clock", "default: {limits: [{rate: 2/10s, algorithm: fixed_window}]}",
			"10.0.0.1 1000 0 GET h / 200 -\n10.0.0.1 1001 0 GET h / 200 -\n10.0.0.1 1009.999 0 GET h / 200 -\n10.0.0.1 1010 0 GET h / 200 -\n", "++R+"},
		{"each client has his own", "default: {limits: [{rate: 1/1m}]}",
			"10.0.0.1 1000 0 GET h / 200 -\n10.0.0.2 1000 0 GET h / 200 -\n10.0.0.1 1000 0 GET h / 200 -\n", "++R"},
		{"an IPv6 network is one client", "default: {limits: [{rate: 1/1m}]}",
			"2001:db8::1 1000 0 GET h / 200 -\n2001:db8::2 1000 0 GET h / 200 -\n2001:db8:0:1::1 1000 0 GET h / 200 -\n", "+R+"},
		{"in flight, given back at the end, before what begins then", "default: {limits: [{in_flight: 1}]}",
			"10.0.0.1 1000 2 GET h / 200 -\n10.0.0.1 1001.999 1 GET h / 200 -\n10.0.0.1 1002 1 GET h / 200 -\n10.0.0.1 1002.5 1 GET h / 200 -\n", "+R+R"},
		{"failures count when they are answered", "rules: [{name: login, path: /login, count: {only_statuses: [401]}, limits: [{rate: 1/1h}]}]",
			"10.0.0.1 1000 5 POST h /login 401 -\n10.0.0.1 1001 1 POST h /login 200 -\n10.0.0.1 1004.999 0 POST h /login 200 -\n10.0.0.1 1005 0 POST h /login 200 -\n", "+++R"},
		{"a shadow limit refuses nothing", "default: {mode: shadow, limits: [{rate: 1/1h}]}",
			"10.0.0.1 1000 0 GET h / 200 -\n10.0.0.1 1001 0 GET h / 200 -\n", "+s"},
		{"by the method", "rules: [{name: post, path: /, methods: [POST], limits: [{rate: 0/1m}]}]",
			"10.0.0.1 1000 0 GET h / 200 -\n10.0.0.1 1001 0 POST h / 200 -\n", "+R"},
		{"by the host", "rules: [{name: shop, host: shop.example, limits: [{rate: 0/1m}]}]",
			"10.0.0.1 1000 0 GET h / 200 -\n10.0.0.1 1001 0 GET shop.example:80 / 200 -\n", "+R"},
		{"by a header that the log has", "default: {limits: [{rate: 1/1m, per: \"header:X-Tenant\"}]}",
			"10.0.0.1 1000 0 GET h / 200 a\n10.0.0.2 1001 0 GET h / 200 a\n10.0.0.2 1002 0 GET h / 200 b\n", "+R+"},
		{"in the order of time", "default: {limits: [{rate: 1/1h}]}",
			"10.0.0.1 1001 0 GET h /second 200 -\n10.0.0.1 1000 0 GET h /first 200 -\n", "+R"},
	}
	for _, tt := range tests {
		if got, _ := play(t, timed, tt.yaml, tt.log, nil); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// What the log lacks is told by name, and refuses nothing.
func TestNotReplayable(t *testing.T) {
	const yaml = `
limits: [{name: all, in_flight: 5}]
rules:
  - {name: shop, host: "*.example.com", path: /shop, limits: [{rate: 0/1m}]}
  - {name: tenant, path: /t, limits: [{name: tenants, rate: 0/1m, per: [client, "header:X-Tenant"]}, {name: sessions, rate: 0/1m, per: "cookie:sid"}]}
  - {name: hosts, path: /h, limits: [{rate: 0/1m, per: host}]}
default: {limits: [{rate: 9/1m}]}
`
	line := func(method, path string) string {
		return `10.0.0.1 - - [10/Oct/2000:13:55:36 +0000] "` + method + " " + path + ` HTTP/1.1" 200 1 "-" "-"` + "\n"
	}
	log := line("GET", "/t") + line("GET", "/h") + line("GET", "/") + line("GET", "/shop/1") + line("GET", "http://a.example.com/shop/1") +
		line("OPTIONS", "/") + `- - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "-"` + "\n"
	verdicts, report := play(t, "combined", yaml, log, nil)
	if verdicts != "+++R" {
		t.Errorf("%s", verdicts)
	}
	want := []Lack{
		{"", "all", "it counts what is in flight, and the log has no durations"},
		{"tenant", "tenants", "it counts per header:X-Tenant, which the log does not have"},
		{"tenant", "sessions", "it counts per cookie:sid, which the log does not have"},
		{"hosts", "hosts", "it counts per host, which the log does not have"},
	}
	want = append([]Lack{{Rule: "shop", Why: "it takes requests by host, which the log does not have"}}, want...)
	if diff := cmp.Diff(want, report.Policy.NotReplayable); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	lines := Lines{Read: 7, Decided: 4, LacksHost: 1, LacksHeaders: 1, NoClient: 1}
	if diff := cmp.Diff(lines, report.Lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// A log does not tell who had a key: all are taken to have had one, and nothing is counted by plan.
func TestKeysAreNotReplayable(t *testing.T) {
	verdicts, report := play(t, `{client} {start} {method} {path}`, `
rules: [{name: api, path: /api, require_key: true, scopes: [read], limits: [{rate: 1/1h}, {name: keys, rate: 0/1h, per: key}]}]
plans: {free: {quota: [1/day], limits: [{rule: api, rate: 2/1h}]}}
default: {limits: []}
`, "10.0.0.1 1000 GET /api\n10.0.0.1 1000 GET /api\n10.0.0.1 1001 GET /\n", nil)
	want := []Lack{
		{"api", "", "it asks for a key, which the log does not have: every request is taken to bear one that is good"},
		{"api", "keys", "it counts per key, which the log does not have"},
		{"api", "free/api", "it counts the keys of plan free, which the log does not have"},
		{"", "free/day", "it counts the keys of plan free, which the log does not have"},
	}
	if diff := cmp.Diff(want, report.Policy.NotReplayable); diff != "" || verdicts != "+R+" {
		t.Errorf("%s (-want +got):\n%s", verdicts, diff)
	}
}

// A format without a status cannot tell what counts by it.
func TestNoStatus(t *testing.T) {
	verdicts, report := play(t, `{client} {start} {method} {path}`, "rules: [{name: login, path: /, count: {only_statuses: [401]}, limits: [{rate: 0/1h}]}]",
		"10.0.0.1 1000 GET /\n", nil)
	if want := []Lack{{"login", "login", "it counts by HTTP status, which the log does not have"}}; verdicts != "+" || !cmp.Equal(want, report.Policy.NotReplayable) {
		t.Errorf("%s %v", verdicts, report.Policy.NotReplayable)
	}
}

// With the proxy's address the client is found by the policy, in what the proxy passes on.
func TestPeer(t *testing.T) {
	const yaml = "client: {path: [{name: cdn, cidrs: [192.0.2.0/24]}, nginx]}\ndefault: {limits: [{rate: 1/1h}]}"
	const log = `192.0.2.1 - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "-" "6.6.6.6, 203.0.113.7"
192.0.2.2 - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "-" "203.0.113.7"
192.0.2.2 - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "-" "203.0.113.8"
203.0.113.8 - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "-" "203.0.113.9"
`
	verdicts, report := play(t, "auto", yaml, log, func(o *Options) { o.Peer = netip.MustParseAddr("127.0.0.1") })
	if verdicts != "+R+R" || report.Policy.Clients.Seen != 2 {
		t.Errorf("%s, %d clients", verdicts, report.Policy.Clients.Seen)
	}
}

// hurtLog is a client who is well served, then too fast, locked out twice, and one who is always wrong.
const hurtLog = `10.0.0.1 1000 0 GET h /a 200 -
10.0.0.1 1010 0 GET h /a 304 -
10.0.0.1 1020 0 GET h /a 200 -
10.0.0.1 1030 0 GET h /a 200 -
10.0.0.1 1040 0 GET h /a/77 404 -
10.0.0.1 1050 0 GET h /a 200 -
10.0.0.1 1055 0 GET h /a 200 -
10.0.0.1 1060 0 GET h /a 200 -
10.0.0.1 7200 0 GET h /a 200 -
10.0.0.2 7200 0 GET h /b 404 -
10.0.0.2 7201 0 GET h /b 404 -
10.0.0.2 7202 0 GET h /b 404 -
10.0.0.2 7203 0 GET h /b 404 -
10.0.0.2 7204 0 GET h /b 404 -
10.0.0.2 7205 0 GET h /b 404 -
`

// Who is hurt is told with the first refusal and the longest lockout: to the next request that passed,
// or to when one would have.
func TestHurt(t *testing.T) {
	verdicts, report := play(t, timed, "default: {limits: [{rate: 5/1h, algorithm: fixed_window}]}", hurtLog, nil)
	if verdicts != "+++++RRR++++++R" {
		t.Fatalf("%s", verdicts)
	}
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() }
	first := Hurt{Client: "10.0.0.1/32", Rule: "default", Refused: 3, First: at(1050), Lockout: 6150, Before: 5, Good: 4}
	want := []Hurt{first, {Client: "10.0.0.2/32", Rule: "default", Refused: 1, First: at(7205), Lockout: 3595, Before: 5, Good: 0}}
	side := report.Policy
	if diff := cmp.Diff(want, side.Clients.List); diff != "" {
		t.Errorf("refused clients (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Hurt{first}, side.FalsePositives); diff != "" {
		t.Errorf("false positives (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Group{{"/a", Counts{8, 3, 0}}, {"/b", Counts{6, 1, 0}}, {"/a/*", Counts{1, 0, 0}}}, side.Paths); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Hour{{at(0), Counts{8, 3, 0}}, {at(7200), Counts{7, 1, 0}}}, side.Hours); diff != "" {
		t.Errorf("hours (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Group{{"10.0.0.1/32", Counts{9, 3, 0}}, {"10.0.0.2/32", Counts{6, 1, 0}}}, side.Clients.Busiest); diff != "" {
		t.Errorf("busiest (-want +got):\n%s", diff)
	}
	limit := side.Limits[0]
	limit.Curve = nil
	wantLimit := LimitReport{Name: "default", Rule: "default", Rate: "5/1h", Algorithm: "fixed_window", Mode: "enforce", Per: []string{"client"}, Limit: 5, Max: 5,
		Asked: 15, Refused: 4, Peak: 5, Demand: &Demand{Windows: 3, P50: 6, P95: 8, P99: 8, P999: 8, Max: 8}}
	if diff := cmp.Diff(wantLimit, limit); diff != "" {
		t.Errorf("limit (-want +got):\n%s", diff)
	}
	for _, p := range side.Limits[0].Curve {
		if p.Limit == 5 && p != (Point{Limit: 5, Refused: 4, Share: 4.0 / 15, Windows: 2}) {
			t.Errorf("at the limit in force the curve is %+v", p)
		}
	}
}

// Two policies side by side: who suffers newly, and who is freed.
func TestAgainst(t *testing.T) {
	_, report := play(t, timed, "rules: [{name: b, path: /b, limits: [{rate: 1/1h}]}]\ndefault: {limits: []}", hurtLog, func(o *Options) {
		o.Against = &Policy{Name: "old.yaml", Policy: compile(t, "rules: [{name: a, path: /a, limits: [{rate: 5/1h}]}]\ndefault: {limits: []}")}
	})
	c := report.Comparison
	got := []any{c.Both, c.NewlyRefused, c.NewlyPassed, c.SufferAll, c.FreedAll, c.Suffer[0].Client, c.Freed[0].Client, report.Against.Refused, report.Policy.Refused}
	want := []any{int64(0), int64(5), int64(3), 1, 1, "10.0.0.2/32", "10.0.0.1/32", int64(3), int64(5)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A late line is decided and counted; a broken one is counted with its number, and stops a strict replay.
func TestDisorder(t *testing.T) {
	log := "10.0.0.1 1000 0 GET h / 200 -\n10.0.0.1 1100 0 GET h / 200 -\n10.0.0.1 1200 0 GET h / 200 -\n10.0.0.1 1 0 GET h / 200 -\nbroken\n"
	verdicts, report := play(t, timed, "default: {limits: [{rate: 1/1m}]}", log, nil)
	if verdicts != "++R+" || report.Lines.Late != 1 || report.Lines.Broken != 1 || report.Broken[0].Number != 5 {
		t.Errorf("%s %+v %v", verdicts, report.Lines, report.Broken)
	}
	name := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(name, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := accesslog.Open(name, accesslog.OpenOptions{Format: timed})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := New(Options{Policy: Policy{Policy: compile(t, "")}, Strict: true})
	defer r.Close()
	if err := r.Read(t.Context(), l); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), ":5: ") {
		t.Errorf("strict: %v", err)
	}
}

func wholeReport(t *testing.T) *Report {
	t.Helper()
	log := hurtLog + "broken <script>\n" + "10.0.0.3 7300 0 GET h /<script>alert(1)</script> 200 -\n"
	_, report := play(t, timed, "limits: [{name: all, rate: 100/1m, per: global, mode: shadow}]\ndefault: {limits: [{rate: 5/1h}, {rate: 9/1d, per: \"cookie:a\"}]}", log, func(o *Options) {
		o.Against = &Policy{Name: "old.yaml", Policy: compile(t, "default: {limits: [{rate: 2/1h}]}")}
	})
	return report
}

// The schema that is documented is true, of a full report, of an empty one, and of those of what real servers
// wrote.
func TestReportSchema(t *testing.T) {
	var doc any
	if err := json.Unmarshal(Schema(), &doc); err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("report.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("report.json")
	if err != nil {
		t.Fatal(err)
	}
	_, empty := play(t, timed, "", "", nil)
	reports := map[string]*Report{"full": wholeReport(t), "empty": empty}
	real, err := filepath.Glob("accesslog/testdata/real/*.log")
	if err != nil || len(real) == 0 {
		t.Fatalf("%v, %v", real, err)
	}
	for _, name := range real {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, reports[name] = play(t, "auto", "default: {limits: [{rate: 3/1m}, {in_flight: 2}]}", string(text), nil)
	}
	for name, r := range reports {
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(value); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

// The page asks nobody for anything, and what a log says is never markup.
func TestHTML(t *testing.T) {
	var page strings.Builder
	if err := wholeReport(t).WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	for _, outside := range []string{`(?i)\bsrc\s*=`, `(?i)\bhref\s*=`, `(?i)url\(`, `(?i)@import`, `(?i)<script`, `(?i)https?://`, `(?i)<link`, `(?i)<iframe`} {
		if m := regexp.MustCompile(outside).FindString(text); m != "" {
			t.Errorf("the page has %q", m)
		}
	}
	for _, part := range []string{"default-src 'none'", "<polyline", `class="refuse"`, "10.0.0.1/32", "Perhaps false positives", "Against old.yaml", "suffer newly", "broken &lt;script&gt;"} {
		if !strings.Contains(text, part) {
			t.Errorf("the page lacks %q", part)
		}
	}
	var empty strings.Builder
	if err := (&Report{}).WriteHTML(&empty); err != nil || !strings.HasSuffix(strings.TrimSpace(empty.String()), "</html>") {
		t.Errorf("an empty report: %v", err)
	}
}

// No value of a page is markup, whatever its type, and none leaves the double quotes that it stands in.
func TestPageEscapes(t *testing.T) {
	type path string
	var text strings.Builder
	out := bufio.NewWriter(&text)
	p := &page{out}
	p.put(`<b title="%s">%s %s %d %g%% %s</b>`, `"><i>`, path("<i>"), errors.New("a'&b"), 7, 0.5, time.Unix(0, 0).UTC())
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	want := `<b title="&#34;&gt;&lt;i&gt;">&lt;i&gt; a&#39;&amp;b 7 0.5% 1970-01-01 00:00:00</b>`
	if text.String() != want {
		t.Errorf("got %s, want %s", text.String(), want)
	}
}

// The text has all parts, and no byte of the log reaches the terminal as a command.
func TestText(t *testing.T) {
	_, report := play(t, timed, "default: {limits: [{rate: 1/1h}]}", hurtLog+"10.0.0.3 7300 0 GET h /\x1b[2J 200 -\n", nil)
	var text strings.Builder
	if err := report.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text.String(), "\x1b") {
		t.Error("an escape sequence of the log is printed")
	}
	for _, part := range []string{"16 read", "RULE ", "LIMIT ", "A LIMIT OF, FOR default", "REFUSED CLIENT", "BUSIEST CLIENT", "PATH GROUP", "HOUR (UTC)", "1970-01-01 02:00"} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("the text lacks %q:\n%s", part, text.String())
		}
	}
}

// A report of many limits, windows and clients holds what its lists promise.
func TestCurveFalls(t *testing.T) {
	var log strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&log, "10.0.%d.%d %d 0 GET h / 200 -\n", i%7, i%(1+i%50), 1000+i/20)
	}
	_, report := play(t, timed, "default: {limits: [{rate: 20/1m}]}", log.String(), nil)
	curve := report.Policy.Limits[0].Curve
	for i := 1; i < len(curve); i++ {
		if curve[i].Limit <= curve[i-1].Limit || curve[i].Refused > curve[i-1].Refused {
			t.Errorf("%+v follows %+v", curve[i], curve[i-1])
		}
	}
	if last := curve[len(curve)-1]; last.Refused != 0 && last.Limit >= report.Policy.Limits[0].Demand.Max {
		t.Errorf("the maximum refuses: %+v", last)
	}
}
