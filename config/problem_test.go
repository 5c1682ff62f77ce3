package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestProblemString(t *testing.T) {
	for want, p := range map[string]Problem{
		"weir.yaml:14:17: rules[3].limits[0].rate: 60/1: want a unit, as in 60/1s": {
			File: "weir.yaml", Line: 14, Col: 17, Field: "rules[3].limits[0].rate", What: "60/1", Cure: "want a unit, as in 60/1s"},
		"weir.yaml:1:1: warning: listen: missing: give it":  {File: "weir.yaml", Line: 1, Col: 1, Field: "listen", What: "missing", Cure: "give it", Warning: true},
		"environment: WEIR_ENABLED: 3: want true or false":  {File: environment, Field: "WEIR_ENABLED", What: "3", Cure: "want true or false"},
		"weir.yaml:2:1: a second document begins: want one": {File: "weir.yaml", Line: 2, Col: 1, What: "a second document begins", Cure: "want one"},
		"listen: missing": {Field: "listen", What: "missing"},
	} {
		if got := p.String(); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
}

// What policy has to say of a field stands at the field's place, or where the nearest part of it was
// given.
func TestProblemPlaces(t *testing.T) {
	file := "rules:\n  - name: a\n    path: /a\n    limits: [{rate: 1/1s, per: [ip, host]}]\nclient: {path: [nginx]}\n"
	c, _ := Parse("weir.yaml", []byte(file), []string{"WEIR_STORE_REPLICAS=2", "WEIR_CLIENT_TRUSTED_PROXIES=private"})
	got := map[string]string{}
	for _, field := range []string{
		"rules[0].limits[0].rate", "rules[0].limits[0].per[1]", "rules[0].limits[0].burst", "rules[0].host", "rules[7]",
		"client.path[0].name", "store.replicas", "client.trusted_proxies[0]", "upstream", "",
	} {
		got[field] = c.Problem(field, "what", "cure").String()
	}
	want := map[string]string{
		"rules[0].limits[0].rate":   "weir.yaml:4:21: rules[0].limits[0].rate: what: cure",
		"rules[0].limits[0].per[1]": "weir.yaml:4:37: rules[0].limits[0].per[1]: what: cure",
		"rules[0].limits[0].burst":  "weir.yaml:4:14: rules[0].limits[0].burst: what: cure",
		"rules[0].host":             "weir.yaml:2:5: rules[0].host: what: cure",
		"rules[7]":                  "weir.yaml:2:3: rules[7]: what: cure",
		"client.path[0].name":       "weir.yaml:5:17: client.path[0].name: what: cure",
		"store.replicas":            "environment: WEIR_STORE_REPLICAS: what: cure",
		"client.trusted_proxies[0]": "environment: WEIR_CLIENT_TRUSTED_PROXIES: what: cure",
		"upstream":                  "weir.yaml:1:1: upstream: what: cure",
		"":                          "weir.yaml:1:1: what: cure",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	if w := c.Warn("upstream", "what", "cure"); !w.Warning || HasErrors([]Problem{w}) || !HasErrors([]Problem{w, c.Problem("", "", "")}) {
		t.Error("a warning is no error, and an error is one")
	}
}

// A field is broken if it has an error, or one of its parts does; a warning breaks nothing.
func TestBroken(t *testing.T) {
	file := `upstream: "http://127.0.0.1:3000"
rules:
  - {name: a, path: /a, limits: [{rate: 5/1, per: ip}, {rate: 6/1m}]}
  - {name: b, paht: /b, limits: [{rate: 5/1m, per: [kee]}]}
  - {name: c, path: /c, methods: [GET, get], limits: []}
client: {trusted_proxies: private, ranges_file: testdata/token}
`
	c, _ := Parse("weir.yaml", []byte(file), []string{"WEIR_CLIENT_IPV4_PREFIX=33", "WEIR_ADMIN=9090", "WEIR_LISTNE=:80", "WEIR_ADMIN_TOKEN_FILE=testdata/nowhere"})
	for field, want := range map[string]bool{
		"rules": true, "rules[0]": true, "rules[0].path": false, "rules[0].limits": true, "rules[0].limits[0]": true,
		"rules[0].limits[0].rate": true, "rules[0].limits[0].per": false, "rules[0].limits[1]": false,
		"rules[1].path": false, "rules[1].paht": true, "rules[1].limits[0].per": true,
		"rules[2]": true, "rules[2].methods": true, "rules[2].methods[0]": false, "rules[2].methods[1]": true, "rule": false,
		"client": true, "client.path": false, "client.trusted_proxies": true, "client.ranges_file": true, "client.ipv4_prefix": true,
		"admin": true, "admin_token": true, "upstream": false, "listen": false, "": false,
	} {
		if got := c.Broken(field); got != want {
			t.Errorf("%s: %v, want %v", field, got, want)
		}
	}
}

func TestSortProblems(t *testing.T) {
	problems := []Problem{{File: environment, What: "a"}, {Line: 2, Col: 1, What: "b"}, {Line: 1, Col: 9, What: "c"}, {Line: 2, Col: 1, What: "d"}, {Line: 1, Col: 2, What: "e"}}
	SortProblems(problems)
	var got strings.Builder
	for _, p := range problems {
		got.WriteString(p.What)
	}
	if got.String() != "ecbda" {
		t.Errorf("got %s, want ecbda", &got)
	}
}

// check --print shows what is in force, the defaults of rules and limits among it, and no secret. It
// is a configuration that says the same. CFG-04, CNT-55: the burst is N where none is given.
func TestBlanked(t *testing.T) {
	for _, name := range glob(t, "testdata/good/*.yaml") {
		c, _ := Parse(name, read(t, name), nil)
		printed, err := c.Blanked()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(printed), "s3cret") {
			t.Errorf("%s: shows a secret\n%s", name, printed)
		}
		again, problems := Parse(name, printed, nil)
		if changed := Diff(c.filled(), again); !onlySecrets(changed) {
			t.Errorf("%s: printed and read again, %q changed\n%s\n%s", name, changed, lines(problems), printed)
		}
	}
}

func onlySecrets(changed []string) bool {
	for _, field := range changed {
		if field != "admin_token" && field != "admin_read_token" && field != "store.redis.url" && !strings.HasSuffix(field, ".tarpit.delay") && !strings.HasSuffix(field, ".tarpit.max_held") && !strings.HasSuffix(field, ".tarpit.max_held_per_client") {
			return false
		}
	}
	return true
}

func TestBlankedText(t *testing.T) {
	file := "admin_token: hush\nlimits: [{rate: 6/1m, algorithm: token_bucket}]\nrules: [{name: a, path: /a, action: tag, limits: [{quota: 5/day}]}]\n"
	c, _ := Parse("weir.yaml", []byte(file), nil)
	printed, err := c.Blanked()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"admin_token: (blanked)\n", "admin_read_token: \"\"\n", "drain: 30s\n", "max_header: 64KiB\n",
		"limits:\n  - rate: 6/1m\n    burst: 6\n    per:\n      - client\n    algorithm: token_bucket\n",
		"  - name: a\n    path: /a\n    mode: enforce\n    action: tag\n    tag_header: X-Weir-Tag\n    cost: 1\n    limits:\n      - per:\n          - client\n        quota: 5/day\n        timezone: UTC\n    on_failure: local\n    body: inspect\n",
	} {
		if !strings.Contains(string(printed), want) {
			t.Errorf("lacks\n%s\nin\n%s", want, printed)
		}
	}
	if c.AdminToken != "hush" || c.Limits[0].Burst != nil {
		t.Error("printing changed the configuration")
	}
}

// CFG-14: what a reload changes is named.
func TestDiff(t *testing.T) {
	old, _ := Parse("a", []byte("rules: [{name: a, path: /a, limits: [{rate: 1/1s}]}, {name: b, path: /b, limits: []}]\n"), nil)
	next, _ := Parse("b", []byte(`listen: ":80"
upstream: http://a.example
rules: [{name: a, path: /a, limits: [{rate: 2/1s, per: ip}]}, {name: b, path: /b, limits: [{rate: 1/1s}]}]
client: {ipv6_tiers: {}}
store: {memory: {max_keys: 5}}
`), nil)
	want := []string{"listen", "upstream", "client.ipv6_tiers", "rules[0].limits[0].rate", "rules[0].limits[0].per", "rules[1].limits", "store.memory.max_keys"}
	if d := cmp.Diff(want, Diff(old, next)); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	if d := Diff(next, next); d != nil {
		t.Errorf("nothing changed, but %q", d)
	}
	empty, nothing := Default(), Default()
	empty.Rules, empty.Client.Peers = []Rule{}, []string{}
	if d := Diff(empty, nothing); d != nil {
		t.Errorf("an empty list is as none, but %q", d)
	}
}

// CNT-55: 6 per minute needs no burst to let six pass at once; the file leaves it to the default.
func TestBurstDefaultsToN(t *testing.T) {
	full := filledLimits([]Limit{{Rate: &Rate{N: 6, Window: time.Minute, Text: "6/1m"}, Algorithm: "token_bucket"}})
	if full[0].Burst == nil || *full[0].Burst != 6 {
		t.Errorf("burst %v, want 6", full[0].Burst)
	}
}
