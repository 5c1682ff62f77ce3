package policy

import (
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/config"
)

// problemsOf returns what Compile says of a configuration, in short.
func problemsOf(t *testing.T, yaml string) []string {
	t.Helper()
	p, problems := Compile(parse(t, yaml))
	if (p == nil) != config.HasErrors(problems) {
		t.Errorf("a policy: %v, with %v", p != nil, problems)
	}
	return brief(t, problems)
}

// brief returns problems in short: ! before errors, then the field and what is wrong.
func brief(t *testing.T, problems []config.Problem) []string {
	t.Helper()
	var all []string
	for _, problem := range problems {
		text := problem.Field + ": " + problem.What
		if !problem.Warning {
			text = "! " + text
		}
		if problem.Cure == "" || problem.Line == 0 {
			t.Errorf("%s: no cure or no place: %+v", text, problem)
		}
		all = append(all, text)
	}
	return all
}

func TestCompileReportsEveryProblem(t *testing.T) {
	got := problemsOf(t, `
client: {path: [ngnix]}
limits: [{name: site, rate: 5/1m}]
rules:
  - {name: a, path: /a, limits: [{rate: 5/1m}]}
  - {name: b, path: /a/, limits: [{rate: 5/1m}]}
  - {name: default, path: /c, limits: [{rate: 5/1m}]}
  - {name: d, path: /x%00, limits: [{rate: 5/1m, per: [client, global]}]}
  - {name: site, path: /e, limits: [{rate: 5/1m}]}
routes:
  - {path: /r, upstream: "http://127.0.0.1:1"}
  - {path: /r/, upstream: "http://127.0.0.1:2"}
`)
	want := []string{
		"! rules[2].name: default is the name of the rule for everything else",
		"! rules[3].path: the segment x%00 occurs in no valid path",
		"! rules[3].limits[0].per: global is one count for all and joins no list",
		"! rules[4].limits[0].name: site is what the limit at limits[0].name is called, too",
		"! default.limits[0].name: default is what the limit at rules[2].limits[0].name is called, too",
		"! rules[1]: b and a (rules[0]) take the same requests",
		"! routes[1]: it takes the same requests as routes[0]",
	}
	if len(got) == 0 || !strings.HasPrefix(got[0], "! client.path[0]: ") {
		t.Fatalf("the unknown proxy is not the first of %v", got)
	}
	if diff := cmp.Diff(want, got[1:]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// What Parse could not make sense of is passed over, and the rest is judged all the same: nothing is
// said twice, nothing that may not be so, and nothing is kept for the second try.
func TestCompileOfABrokenConfiguration(t *testing.T) {
	for name, c := range map[string]struct {
		yaml string
		want []string
	}{
		"a broken limit does not hide a tie": {`
rules:
  - {name: a, path: /a, limits: [{rate: 5/1}]}
  - {name: b, path: /a/, limits: [{rate: 5/1m}]}
`, []string{"! rules[1]: b and a (rules[0]) take the same requests"}},
		"nor the other limits": {`
limits: [{rate: 5/1, per: ip}, {rate: 5/1, per: ip}, {rate: 6/1m, per: [global, ip]}, {per: ip}, 5, {rate: 5/month}, {quota: 5/1h}, {in_flight: x}]
`, []string{"! limits[2].per: global is one count for all and joins no list"}},
		"a broken limit keeps its name": {`
limits: [{name: a, rate: 5/1}, {name: b, rate: 5/1}]
rules:
  - {name: a, path: /a, limits: [{rate: 5/1m}]}
  - {name: default, path: /b, limits: [{rate: 5/1}]}
  - {name: c, path: /c, limits: [{name: b, rate: 5/1m}]}
`, []string{
			"! rules[0].limits[0].name: a is what the limit at limits[0].name is called, too",
			"! rules[1].name: default is the name of the rule for everything else",
			"! default.limits[0].name: default is what the limit at rules[1].limits[0].name is called, too",
		}},
		"a name given twice is told once": {`
rules:
  - {name: a, path: /a, limits: [{rate: 5/1m}]}
  - {name: a, path: /b, limits: [{rate: 5/1m}]}
  - {path: /c, limits: [{rate: 5/1m}]}
  - {path: /d, limits: [{rate: 5/1m}, {rate: 5/1m}]}
`, nil},
		"an unknown key may be the path": {`
rules:
  - {name: a, pth: /a, limits: [{rate: 5/1m}]}
  - {name: b, pth: /b, limits: [{rate: 5/1m}]}
  - 7
routes: [{pth: /a, upstream: "http://127.0.0.1:1"}, {upstream: "http://127.0.0.1:2"}]
`, nil},
		"a broken pattern is none": {`
rules:
  - {name: a, path: /a?b, limits: [{rate: 5/1m}]}
  - {name: b, host: "http://a", limits: [{rate: 5/1m}]}
  - {name: c, methods: get, limits: [{rate: 5/1m}]}
  - {name: d, methods: [get], limits: [{rate: 5/1m}]}
  - {name: e, path: 7, limits: [{rate: 5/1m}]}
`, nil},
		"a proxy that is not known": {`
client: {path: [ngnix], ipv4_prefix: 33, ipv6_prefix: 129}
headers: drafts
`, []string{"! client.path[0]: no preset is called ngnix"}},
		"proxies that could not be read": {"client: {path: 7, forwarded: true, peers: [private]}", nil},
		"a hop without a name":           {"client: {path: [{cidrs: [10.0.0.0/8]}, {name: ours, cidrs: 7}]}", nil},
		"peers that could not be read":   {"client: {header: X-Real-IP, peers: private}", nil},
		"a header that is none":          {"client: {header: 'X Real', peers: [private]}", nil},
		"no networks":                    {"exempt_addresses: [office, 10.0.0.0/99, 10.0.0.1/8]\nproxy_protocol: {from: [office]}", nil},
		"tiers that are none":            {"client: {ipv6_tiers: {200: 2x, 48: x, y: 3x}}", nil},
		"ranges that are not there":      {"client: {path: [akamai], ranges_file: testdata/nowhere}", nil},
		"no YAML":                        {"rules: [", nil},
	} {
		cfg, problems := config.Parse("weir.yaml", []byte(c.yaml), nil)
		if !config.HasErrors(problems) {
			t.Errorf("%s: sound", name)
		}
		_, problems = Compile(cfg)
		if diff := cmp.Diff(c.want, brief(t, problems)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

// FuzzCompile: whatever Parse returns is compiled or refused, and no field has a second error.
func FuzzCompile(f *testing.F) {
	for _, pattern := range []string{"bad", "good"} {
		names, err := filepath.Glob("../config/testdata/" + pattern + "/*.yaml")
		if err != nil || len(names) == 0 {
			f.Fatalf("no files: %v", err)
		}
		for _, name := range names {
			if text, err := os.ReadFile(name); err == nil {
				f.Add(string(text))
			}
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		cfg, known := config.Parse("weir.yaml", []byte(text), nil)
		p, problems := Compile(cfg)
		if (p == nil) != config.HasErrors(problems) {
			t.Errorf("a policy: %v, with %v", p != nil, problems)
		}
		wrong := map[string]bool{}
		for _, problem := range known {
			wrong[problem.Field] = wrong[problem.Field] || !problem.Warning
		}
		for _, problem := range problems {
			if !problem.Warning && wrong[problem.Field] && !strings.HasSuffix(problem.What, "take the same requests") {
				t.Errorf("known: %v\nagain: %v", known, problem)
			}
		}
	})
}

func TestTies(t *testing.T) {
	const one = "  - {name: one, host: a.test, path: /a, methods: [GET, POST], limits: []}\n"
	for rule, tie := range map[string]bool{
		"{name: two, host: A.test, path: /a/, methods: [POST], limits: []}":       true,
		"{name: two, host: a.test, path: /%61, methods: [GET], limits: []}":       true,
		"{name: two, host: a.test, path: /a, methods: [PUT], limits: []}":         false,
		"{name: two, host: a.test, path: /a, limits: []}":                         false,
		"{name: two, host: a.test, path: =/a, methods: [GET], limits: []}":        false,
		"{name: two, host: '*.a.test', path: /a, methods: [GET], limits: []}":     false,
		"{name: two, path: /a, methods: [GET], limits: []}":                       false,
		"{name: two, host: a.test, path: /A, methods: [GET, POST], limits: []}":   false,
		"{name: two, host: a.test, path: '/*', methods: [GET], limits: []}":       false,
		"{name: two, host: a.test, path: /%2A, methods: [GET], limits: []}":       false,
		"{name: two, host: b.test, path: /a, methods: [GET, POST], limits: []}":   false,
		"{name: two, host: a.test, path: /a/b, methods: [GET, POST], limits: []}": false,
	} {
		cfg, _ := config.Parse("weir.yaml", []byte("rules:\n"+one+"  - "+rule+"\n"), nil)
		_, problems := Compile(cfg)
		if got := config.HasErrors(problems); got != tie {
			t.Errorf("%s ties: %v, want %v: %v", rule, got, tie, problems)
		}
	}
}

// What config would have refused does not get through either when a configuration is made by hand.
func TestConfigurationMadeByHand(t *testing.T) {
	for name, spoil := range map[string]func(*config.Config){
		"limit without an amount": func(c *config.Config) { c.Limits = []config.Limit{{Name: "x"}} },
		"unknown part":            func(c *config.Config) { c.Default.Limits[0].Per = config.List{"clinet"} },
		"header Host":             func(c *config.Config) { c.Default.Limits[0].Per = config.List{"header:host"} },
		"unknown time zone": func(c *config.Config) {
			c.Limits = []config.Limit{{Name: "x", Quota: &config.Rate{N: 1, Unit: "day"}, Timezone: "Europe/Berlln"}}
		},
		"no network":           func(c *config.Config) { c.ExemptAddresses = []string{"10.0.0.0/99"} },
		"address and zone":     func(c *config.Config) { c.ExemptAddresses = []string{"fe80::1%eth0"} },
		"route without a path": func(c *config.Config) { c.Routes = []config.Route{{Path: "shop", Upstream: "http://127.0.0.1:1"}} },
	} {
		cfg := config.Default()
		spoil(cfg)
		if p, problems := Compile(cfg); p != nil || len(problems) != 1 {
			t.Errorf("%s: a policy: %v, with %v", name, p != nil, problems)
		}
	}
}

func TestRangesFileReplacesThePresets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ranges.yaml")
	if err := os.WriteFile(file, []byte("cloudflare: [192.0.2.0/24]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := policyOf(t, "client: {path: [cloudflare], ranges_file: "+file+"}\n")
	d := &weir.Decision{Request: weir.Request{
		Peer:   netip.MustParseAddr("192.0.2.1"),
		Header: http.Header{"X-Forwarded-For": {"203.0.113.7"}, "Cf-Connecting-Ip": {"203.0.113.7"}},
	}}
	p.Identify(d)
	if got := d.Client.Key(); got != "203.0.113.7/32" {
		t.Errorf("a client behind a listed edge is %s", got)
	}
}

func TestTieFoldsCaseIfPathsDo(t *testing.T) {
	got := problemsOf(t, "matching: {case_insensitive: true}\nrules: [{name: a, path: /A, limits: []}, {name: b, path: /a, limits: []}]\n")
	if diff := cmp.Diff([]string{"! rules[1]: b and a (rules[0]) take the same requests"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestPathPatternsThatNoRequestMatches(t *testing.T) {
	for path, fine := range map[string]bool{
		"/": true, "/a": true, "=/a/": true, "/a b": true, "/a%20b": true, "/100%25": true, "/*/a": true, "/%2A": true, "/é": true, "*": true, "": true,
		"a": false, "=a": false, "/a*": false, "/**": false, "/a//b": false, "/./a": false, "/a/..": false, "/%2e": false, "/a;b": false, "/a%3Bb": false,
		"/a%2Fb": false, `/a\b`: false, "/a%5cb": false, "/a?b": false, "/a#b": false, "/a%00": false, "/a%": false, "/%ff": false, "/a%2541": false,
	} {
		var p pattern
		if wrong := p.parsePath(matching{}, path); wrong.found() == fine {
			t.Errorf("%q: %+v, want fine: %v", path, wrong, fine)
		}
	}
}

func TestRuleIsCompiled(t *testing.T) {
	p := policyOf(t, `
rules:
  - {name: plain, path: /plain, limits: []}
  - {name: full, host: "*.Example.com", path: =/full, methods: [POST, PUT], mode: shadow, action: tarpit, max_body: 1MiB, limits: [{rate: 5/1m}],
     tarpit: {delay: 2s, max_held: 7, max_held_per_client: 1}}
  - {name: tag, path: /tag, action: tag, tag_header: X-Tag, limits: []}
default: {action: drop, mode: off}
`)
	bounds := weir.TarpitBounds{Delay: 5 * time.Second, MaxHeld: 100, MaxHeldPerClient: 2}
	want := []weir.Rule{
		{Name: "plain", Host: "*", Path: "/plain", Method: "*", Action: weir.Reject, TagHeader: "X-Weir-Tag", Tarpit: bounds},
		{Name: "full", Host: "*.Example.com", Path: "=/full", Method: "POST,PUT", Mode: weir.Shadow, Action: weir.Tarpit, TagHeader: "X-Weir-Tag", MaxBody: 1 << 20,
			Tarpit: weir.TarpitBounds{Delay: 2 * time.Second, MaxHeld: 7, MaxHeldPerClient: 1}},
		{Name: "tag", Host: "*", Path: "/tag", Method: "*", Action: weir.Tag, TagHeader: "X-Tag", Tarpit: bounds},
		{Name: "default", Host: "*", Path: "*", Method: "*", Action: weir.Drop, Mode: weir.Off, TagHeader: "X-Weir-Tag", Tarpit: bounds},
	}
	var got []weir.Rule
	for i, r := range p.Rules() {
		got = append(got, r.Rule)
		want[i].Pace = weir.Pace{Timeout: 10 * time.Second, MinRate: 500}
		want[i].Firewall = weir.Firewall{Mode: weir.Enforce, MaxBody: 1 << 20}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestEmptyFileIsTheDefaultPolicy(t *testing.T) {
	p, problems := Compile(parse(t, ""))
	if len(problems) != 0 {
		t.Errorf("problems %v", problems)
	}
	if diff := cmp.Diff([]charge{{"default", 1}}, charges(hitsOf(t, p, request("/")).Hits)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
