package spoe

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/front/spoe/spop"
)

const twoPerMinute = `
client: {path: [haproxy]}
default: {limits: [{rate: 2/1m, per: client, algorithm: token_bucket}]}
`

func TestVariables(t *testing.T) {
	a := open(t, twoPerMinute, Options{}).dial(t)
	pass := func(left, reset int) map[string]any {
		return map[string]any{
			"action": "allow", "status": 200, "degraded": false, "rule": "default",
			"ratelimit":        fmt.Sprintf(`"default";r=%d;t=%d`, left, reset),
			"ratelimit_policy": `"default";q=2;w=60`,
		}
	}
	want := []map[string]any{pass(1, 30), pass(0, 60), {
		"action": "deny", "status": 429, "degraded": false, "rule": "default", "retry_after": "30",
		"ratelimit":        `"default";r=0;t=30`,
		"ratelimit_policy": `"default";q=2;w=60`,
		"body": `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
			`"title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,` +
			`"detail":"The limit default (2/1m) is used up. Retry after 30 s.","violated-policies":["default"],` +
			`"limit":2,"rule":"default","retry_after":30}`,
	}}
	for i := range want {
		if diff := cmp.Diff(want[i], a.check(arguments())); diff != "" {
			t.Errorf("request %d (-want +got):\n%s", i+1, diff)
		}
	}
}

func TestLegacyFields(t *testing.T) {
	a := open(t, "headers: legacy\nclient: {path: [haproxy]}\ndefault: {limits: [{rate: 2/1m, per: client, algorithm: token_bucket}]}", Options{}).dial(t)
	want := map[string]any{"action": "allow", "status": 200, "degraded": false, "rule": "default", "limit": "2", "remaining": "1", "reset": "30"}
	if diff := cmp.Diff(want, a.check(arguments())); diff != "" {
		t.Error(diff)
	}
}

// What does not fit into the frame that HAProxy takes is left out, from the end, and the decision never.
func TestAnswerInASmallFrame(t *testing.T) {
	h := open(t, twoPerMinute, Options{})
	a := h.connect(t)
	list := slices.Clone(helloArguments)
	list[1].value = spop.Number(spop.MinMaxFrame)
	if got := a.hello(list)["max-frame-size"].Number; got != spop.MinMaxFrame {
		t.Fatalf("max-frame-size %d, want %d", got, spop.MinMaxFrame)
	}
	for range 2 {
		a.check(arguments())
	}
	got := a.check(arguments())
	if got["action"] != "deny" || got["status"] != 429 || got["retry_after"] != "30" || got["body"] != nil {
		t.Errorf("%v: want the decision without its body", got)
	}
}

// decided asks about a request and returns the answer's action and HTTP status, and whom it was counted as.
func decided(t *testing.T, h *house, a *asker, list []argument) string {
	got := a.check(list)
	eventually(t, "record", func() bool { return h.requests() == 1 && len(h.journal.Recent(1)) == 1 })
	d := h.journal.Recent(1)[0]
	return fmt.Sprintf("%v %v %s %s", got["action"], got["status"], d.Client, d.Source)
}

func TestWhoIsAsking(t *testing.T) {
	edge := argument{"src", spop.Value{Kind: spop.IPv4, Text: string(netip.MustParseAddr("10.0.0.9").AsSlice())}}
	xff := func(entry string) argument { return argument{"xff", spop.Text(entry)} }
	client := func(yaml string) string {
		return "client: " + yaml + "\ndefault: {limits: [{rate: 100/1m, per: client}]}"
	}
	path := `{path: [{name: nginx, cidrs: [10.0.0.0/8]}, haproxy]}`
	tests := []struct {
		name, client string
		others       []argument
		want         string
	}{
		{"who is connected", `{path: [haproxy]}`, nil, "allow 200 203.0.113.7/32 forwarded"},
		{"what he claims", `{path: [haproxy]}`, []argument{xff("6.6.6.6")}, "allow 200 203.0.113.7/32 forwarded"},
		{"HAProxy is unknown", `{path: []}`, []argument{xff("6.6.6.6")}, "allow 200 203.0.113.7/32 direct"},
		{"behind another", path, []argument{edge, xff("198.51.100.1")}, "allow 200 198.51.100.1/32 forwarded"},
		{"the nearer was passed by", path, []argument{xff("198.51.100.1")}, "allow 200 203.0.113.7/32 forwarded"},
		{"behind another that is silent", path, []argument{edge}, "allow 200 unresolved:10.0.0.9 unresolved"},
		{"an entry that HAProxy cut", path, []argument{edge, text("xff", 128, "6.6.6.6, ")}, "allow 200 unresolved:10.0.0.9 unresolved"},
		{"a line that HAProxy cut where an entry ends", path,
			[]argument{edge, {"xff", spop.Text(strings.Repeat("6.6.6.6,", 127) + "66.6.6.6")}}, "allow 200 unresolved:10.0.0.9 unresolved"},
		{"the edge's own header", `{header: CF-Connecting-IP, peers: [loopback], via: [10.0.0.0/8]}`,
			[]argument{edge, {"hdr.cf-connecting-ip", spop.Text("198.51.100.1")}}, "allow 200 198.51.100.1/32 header"},
		{"IPv6", `{path: [haproxy]}`,
			[]argument{{"src", spop.Value{Kind: spop.IPv6, Text: string(netip.MustParseAddr("2001:db8:1:2::3").AsSlice())}}},
			"allow 200 2001:db8:1:2::/64 forwarded"},
		{"IPv4 in IPv6", `{path: [haproxy]}`,
			[]argument{{"src", spop.Value{Kind: spop.IPv6, Text: string(netip.MustParseAddr("::ffff:203.0.113.7").AsSlice())}}},
			"allow 200 203.0.113.7/32 forwarded"},
		{"no source", `{path: [haproxy]}`, []argument{{"src", spop.Value{}}}, "allow 200 127.0.0.1/32 peer_only"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := open(t, client(tt.client), Options{})
			if got := decided(t, h, h.dial(t), arguments(tt.others...)); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

const rules = `
client: {path: [haproxy]}
rules:
  - {name: login, path: "=/login", methods: [POST], limits: [{rate: 9/1m}]}
  - {name: api, host: api.example.com, path: /v1, limits: [{rate: 9/1m, per: "header:X-API-Key"}]}
default: {limits: [{rate: 9/1m, per: "header:X-Plan"}]}
`

func TestWhatIsAsked(t *testing.T) {
	h := open(t, rules, Options{})
	a := h.dial(t)
	str := func(name, s string) argument { return argument{name, spop.Text(s)} }
	null := func(name string) argument { return argument{name, spop.Value{}} }
	tests := []struct {
		name   string
		others []argument
		want   string
	}{
		{"method and path", []argument{str("method", "POST"), str("path", "/login")}, "allow 200 login"},
		{"another method", []argument{str("path", "/login")}, "allow 200 default"},
		{"binary", []argument{{"method", spop.Value{Kind: spop.Binary, Text: "POST"}}, str("path", "/login")}, "allow 200 login"},
		{"host", []argument{str("host", "api.example.com:80"), str("path", "/v1/x")}, "allow 200 api"},
		{"authority form", []argument{null("path"), str("method", "CONNECT")}, "allow 200 default"},
		{"asterisk form", []argument{null("path"), str("method", "OPTIONS")}, "allow 200 default"},
		{"no method", []argument{null("method")}, "deny 400 "},
		{"unknown arguments", []argument{str("color", "red"), str("uid", "4711")}, "allow 200 default"},
		{"longest path", []argument{text("path", 2047, "/")}, "allow 200 default"},
		{"cut path", []argument{text("path", 2048, "/")}, "deny 400 "},
		{"cut method", []argument{text("method", 32, "POST")}, "deny 400 "},
		{"cut host", []argument{text("host", 256, "api.example.com")}, "deny 400 "},
		{"cut query", []argument{text("query", 2048, "a=")}, "allow 200 default"},
	}
	for _, tt := range tests {
		got := a.check(arguments(tt.others...))
		rule, _ := got["rule"].(string)
		if s := fmt.Sprintf("%v %v %s", got["action"], got["status"], rule); s != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, s, tt.want)
		}
	}
}

// HAProxy finds no path in the targets of OPTIONS * and of CONNECT.
func TestTargetsWithoutAPath(t *testing.T) {
	h := open(t, rules, Options{})
	a := h.dial(t)
	for i, tt := range []struct{ method, want string }{{"OPTIONS", "*"}, {"CONNECT", "/"}, {"GET", "/"}} {
		a.check(arguments(argument{"method", spop.Text(tt.method)}, argument{"path", spop.Value{}}))
		eventually(t, "record", func() bool { return len(h.journal.Recent(i+2)) == i+1 })
		if got := h.journal.Recent(1)[0]; got.Method != tt.method || got.Path != tt.want {
			t.Errorf("%s: recorded as %s %s, want the path %s", tt.method, got.Method, got.Path, tt.want)
		}
	}
}

// A key that was cut is nobody's: it never counts as the one that it begins with.
func TestACutKeyIsAnotherOne(t *testing.T) {
	h := open(t, strings.Replace(rules, "9/1m, per: \"header:X-API-Key\"", "2/1m, per: \"header:X-API-Key\"", 1), Options{})
	a := h.dial(t)
	api := []argument{{"host", spop.Text("api.example.com")}, {"path", spop.Text("/v1")}}
	with := func(n int) map[string]any { return a.check(arguments(append(api, text("key", n, "k"))...)) }
	for i, want := range []any{"allow", "allow", "deny"} {
		if got := with(255)["action"]; got != want {
			t.Errorf("request %d with the longest key: %v, want %v", i+1, got, want)
		}
	}
	if got := with(256); got["action"] != "allow" {
		t.Errorf("a longer key: %v, want a count of its own", got)
	}
}

// What is counted per a header sees the header where HAProxy's configuration sends it.
func TestHeadersThatAreSent(t *testing.T) {
	h := open(t, "client: {path: [haproxy]}\ndefault: {limits: [{rate: 1/1m, per: \"header:X-Plan\"}]}", Options{})
	a := h.dial(t)
	for _, step := range []struct{ plan, want string }{{"gold", "allow"}, {"gold", "deny"}, {"silver", "allow"}} {
		if got := a.check(arguments(argument{"hdr.x-plan", spop.Text(step.plan)}))["action"]; got != step.want {
			t.Errorf("plan %s: %v, want %s", step.plan, got, step.want)
		}
	}
}

func TestDisabledPassesEverything(t *testing.T) {
	h := open(t, "enabled: false\ndefault: {limits: [{rate: 0/1m}]}", Options{})
	want := map[string]any{"action": "allow", "status": 200, "degraded": false}
	if diff := cmp.Diff(want, h.dial(t).check(arguments(text("path", 2048, "/")))); diff != "" {
		t.Error(diff)
	}
}

// The service is told of what passed although a limit was over.
func TestMarks(t *testing.T) {
	a := open(t, `
client: {path: [haproxy]}
rules: [{name: tagged, path: /tagged, action: tag, tag_header: X-Over, limits: [{rate: 0/1m}]}]
default: {limits: [{name: trial, rate: 0/1m, mode: shadow}]}
`, Options{}).dial(t)
	for path, want := range map[string]map[string]any{
		"/":       {"action": "allow", "status": 200, "degraded": false, "rule": "default", "shadow": "trial"},
		"/tagged": {"action": "allow", "status": 200, "degraded": false, "rule": "tagged", "tag": "tagged"},
	} {
		got := a.check(arguments(argument{"path", spop.Text(path)}))
		delete(got, "ratelimit")
		delete(got, "ratelimit_policy")
		delete(got, "retry_after")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

// drop and tarpit are rejections here: HAProxy holds the request, not we.
func TestDropAndTarpitReject(t *testing.T) {
	for _, action := range []string{"action: drop", "action: tarpit, tarpit: {delay: 5s}"} {
		h := open(t, "client: {path: [haproxy]}\nrules: [{name: no, path: /, "+action+", limits: [{rate: 0/1m}]}]", Options{})
		if got := h.dial(t).check(arguments()); got["action"] != "deny" || got["status"] != 429 {
			t.Errorf("%s: %v, want deny 429", action, got)
		}
	}
}

// What is in flight is given back with the answer, since nobody tells us when the request has ended.
func TestNothingStaysInFlight(t *testing.T) {
	h := open(t, "client: {path: [haproxy]}\nrules: [{name: one, path: /, limits: [{in_flight: 1}]}]", Options{})
	a := h.dial(t)
	for i := range 3 {
		if got := a.check(arguments()); got["action"] != "allow" {
			t.Errorf("request %d: %v, want allow", i+1, got)
		}
		eventually(t, "release", func() bool { return h.store.releases.Load() == int64(i+1) })
	}
}
