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

// problemsOf returns what Compile says of a configuration, in short: ! before errors, then the field
// and what is wrong.
func problemsOf(t *testing.T, yaml string) []string {
	t.Helper()
	p, problems := Compile(parse(t, yaml))
	if (p == nil) != config.HasErrors(problems) {
		t.Errorf("a policy: %v, with %v", p != nil, problems)
	}
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

func TestTies(t *testing.T) {
	const one = "  - {name: one, host: a.test, path: /a, methods: [GET, POST], limits: []}\n"
	for rule, tie := range map[string]bool{
		"{name: two, host: A.test, path: /a/, methods: [POST], limits: []}":       true,
		"{name: two, host: a.test., path: /%61, methods: [GET], limits: []}":      true,
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
	for _, r := range p.Rules() {
		got = append(got, r.Rule)
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
