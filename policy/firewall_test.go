package policy

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
)

// What a rule does not say is as the top-level section has it; rules that inspect alike share a firewall.
func TestFirewallsAreCompiled(t *testing.T) {
	p := policyOf(t, `
waf: {ruleset: fast, max_body: 2MiB, max_inflated: 1MiB, languages: [node, php], body_timeout: 20s, min_rate: 1KiB/s}
rules:
  - {name: plain, path: /plain, limits: []}
  - {name: "off", path: /off, waf: {mode: off}}
  - {name: core, path: /core, waf: {ruleset: crs, mode: detect}}
  - {name: same, path: /same, waf: {ruleset: crs}, body: skip}
  - {name: own, path: /own, max_body: 3MiB, waf: {ruleset: crs, paranoia: 2, anomaly_threshold: 9, languages: [java], inspect_bytes: 1MiB, body_timeout: 1m, min_rate: 1B/s}}
  - {name: bytes, path: /bytes, waf: {inspect_bytes: 4KiB}}
`)
	pace := weir.Pace{Timeout: 20 * time.Second, MinRate: 1024}
	type rule struct {
		Name     string
		Firewall weir.Firewall
		Pace     weir.Pace
	}
	var got []rule
	for _, r := range p.Rules() {
		got = append(got, rule{r.Name, r.Firewall, r.Pace})
	}
	want := []rule{
		{"plain", weir.Firewall{MaxBody: 2 << 20}, pace},
		{"off", weir.Firewall{Mode: weir.Off, MaxBody: 2 << 20}, pace},
		{"core", weir.Firewall{Mode: weir.Shadow, Set: 1, MaxBody: 2 << 20}, pace},
		{"same", weir.Firewall{Set: 1, MaxBody: 2 << 20, Streams: true}, pace},
		{"own", weir.Firewall{Set: 2, MaxBody: 3 << 20}, weir.Pace{Timeout: time.Minute, MinRate: 1}},
		{"bytes", weir.Firewall{Set: 3, MaxBody: 2 << 20}, pace},
		{"default", weir.Firewall{MaxBody: 2 << 20}, pace},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rules (-want +got)\n%s", diff)
	}
	all := func(f Firewall) Firewall {
		f.Depth, f.Values, f.Inflated = 64, 2000, 1<<20
		return f
	}
	sets := []Firewall{
		all(Firewall{Ruleset: "fast", Threshold: 5, Bytes: 2 << 20}),
		all(Firewall{Ruleset: "crs", Paranoia: 1, Threshold: 5, Languages: "node php", Bytes: 128 << 10}),
		all(Firewall{Ruleset: "crs", Paranoia: 2, Threshold: 9, Languages: "java", Bytes: 1 << 20}),
		all(Firewall{Ruleset: "fast", Threshold: 5, Bytes: 4 << 10}),
	}
	if diff := cmp.Diff(sets, p.Firewalls()); diff != "" {
		t.Errorf("firewalls (-want +got)\n%s", diff)
	}
}

// How much text fast takes: what is said is obeyed, also where it is what crs takes by default; without a
// word, as much as a body may have.
func TestInspectBytes(t *testing.T) {
	for text, want := range map[string]int64{
		"waf: {max_body: 2MiB}":                                                                2 << 20,
		"waf: {max_body: 2MiB, inspect_bytes: 128KiB}":                                         128 << 10,
		"waf: {max_body: 2MiB, inspect_bytes: 64KiB}":                                          64 << 10,
		"rules: [{name: r, path: /r, waf: {inspect_bytes: 128KiB}}]":                           128 << 10,
		"waf: {ruleset: crs, max_body: 2MiB}":                                                  128 << 10,
		"waf: {ruleset: crs, max_body: 2MiB, inspect_bytes: 1MiB}":                             1 << 20,
		"waf: {inspect_bytes: 1KiB}\nrules: [{name: r, path: /r, waf: {inspect_bytes: 2KiB}}]": 2 << 10,
	} {
		p := policyOf(t, text)
		if got := p.Firewalls()[p.Rules()[0].Firewall.Set].Bytes; got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}

// A path with two readings is inspected as the strictest rule that it may fall under says.
func TestNoReadingGoesRoundTheFirewall(t *testing.T) {
	p := policyOf(t, `
rules:
  - {name: files, path: /files, waf: {mode: off}, limits: [{rate: 5/1m}]}
  - {name: trial, path: /trial, waf: {mode: detect}, limits: [{rate: 5/1m}]}
  - {name: streams, path: /streams, body: skip, limits: [{rate: 5/1m}]}
`)
	for path, want := range map[string]weir.Firewall{
		"/files/a":            {Mode: weir.Off, MaxBody: 1 << 20},
		"/trial/a":            {Mode: weir.Shadow, MaxBody: 1 << 20},
		"/streams/a":          {Streams: true, MaxBody: 1 << 20},
		"/files/%2e%2e/api":   {MaxBody: 1 << 20},
		"/api/%2e%2e/files/a": {MaxBody: 1 << 20},
		"/files%2fa":          {MaxBody: 1 << 20},
		"/trial/..%2fa":       {MaxBody: 1 << 20},
		"/streams/../x":       {MaxBody: 1 << 20},
	} {
		req, d := request(path), new(weir.Decision)
		decide(p, d, &req)
		if diff := cmp.Diff(&want, d.Firewall); diff != "" {
			t.Errorf("%s (-want +got)\n%s", path, diff)
		}
	}
}

func TestMasksAreUnderstood(t *testing.T) {
	got := problemsOf(t, "waf: {mask: [email, purse, \"regex:[\", \"regex:ref-[0-9]+\"]}")
	if len(got) != 2 {
		t.Errorf("got %q", got)
	}
}
