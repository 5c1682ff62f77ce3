package descriptors

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/internal/racing"
	"github.com/weirgate/weir/internal/timed"
)

// said returns problems as operators read them.
func said(problems []config.Problem) (lines []string) {
	for _, p := range problems {
		lines = append(lines, p.String())
	}
	return lines
}

// Every mistake is named with its place and its cure; nothing else is said, and all of them at once.
func TestProblems(t *testing.T) {
	for _, c := range []struct {
		yaml string
		want []string
	}{
		{"", []string{"f:1:1: domain: missing: want the domain that the proxy asks with, as in domain: edge"}},
		{"# nothing", []string{"f:1:1: domain: missing: want the domain that the proxy asks with, as in domain: edge"}},
		{"domain:", []string{"f:1:8: domain: missing: want the domain that the proxy asks with, as in domain: edge"}},
		{"domain: [d]", []string{"f:1:9: domain: found a list: want a single value"}},
		{"domain: 1.5", []string{`f:1:9: domain: the number "1.5": put it in quotes`}},
		{"- a", []string{"f:1:1: found a list: want a mapping of domain and descriptors"}},
		{"domain: d\n\tx: 1", []string{"f:2:1: found a tab character that violates indentation: want YAML; check the indentation, and that brackets and quotes are closed"}},
		{"domain: d\ndomian: e", []string{"f:2:1: domian: unknown key 'domian': want one of domain and descriptors"}},
		{"domain: d\n\"a\\nb\\\"\": e", []string{`f:2:1: a\nb\": unknown key 'a\nb\"': want one of domain and descriptors`}},
		{"domain: d\n1: e", []string{"f:2:1: 1: unknown key '1': want one of domain and descriptors"}},
		{"domain: d\n? [a]\n: e", []string{"f:2:3: found no name before the colon: want a plain text as the key"}},
		{"domain: d\ndescriptors: {key: a}", []string{"f:2:14: descriptors: found a mapping: want a list, each item behind a dash"}},
		{"domain: d\ndescriptors:\n  - a\n  - {key: b}", []string{
			"f:3:5: descriptors[0]: found text: want a mapping of " + descriptorKeys}},
		{"domain: d\ndescriptors:\n  - {value: x}", []string{
			"f:3:5: descriptors[0].key: missing: want the key that the proxy asks with, as in key: remote_address"}},
		{"domain: d\ndescriptors:\n  - {key: {a: b}}", []string{"f:3:11: descriptors[0].key: found a mapping: want a single value"}},
		{"domain: d\ndescriptors:\n  - {key: a, value: 18446744073709551615}", []string{
			`f:3:21: descriptors[0].value: the number "18446744073709551615": put it in quotes`}},
		{"domain: d\ndescriptors:\n  - {key: a, value: b}\n  - {key: a_b}", []string{
			`f:4:5: descriptors[1]: "a_b" is given twice; a key and its value are one text, joined by _: keep one of the two`}},
		{"domain: d\ndescriptors:\n  - {key: a, shadow_mode: \"true\", rate_limit: {unit: day}}", []string{
			"f:3:27: descriptors[0].shadow_mode: found text: want true or false, without quotes"}},
		{"domain: d\ndescriptors:\n  - {key: a, share_threshold: true, value: b}", []string{
			`f:3:31: descriptors[0].share_threshold: there is no * whose values could share a count: want a *, as in value: "/files/*", or no share_threshold`}},
		{"domain: d\ndescriptors:\n  - {key: a, rate_limit: 5}", []string{
			"f:3:26: descriptors[0].rate_limit: found a number: want a mapping of " + limitKeys}},
		{"domain: d\ndescriptors:\n  - {key: a, rate_limit: {}}", []string{"f:3:26: descriptors[0].rate_limit.unit: missing: " + wantUnit}},
		{"domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: fortnight}}", []string{
			`f:3:33: descriptors[0].rate_limit.unit: "fortnight": ` + wantUnit}},
		{"domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: 10m}}", []string{
			`f:3:33: descriptors[0].rate_limit.unit: "10m" is Weir's own: ` + wantUnit + "; other times need compat: false"}},
		{"domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: day, algorithm: token_bucket, burst: 3}}", []string{
			"f:3:49: descriptors[0].rate_limit.algorithm: is Weir's own: remove it; it needs compat: false",
			"f:3:70: descriptors[0].rate_limit.burst: is Weir's own: remove it; it needs compat: false"}},
		{"domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: day, algorithm: }}", []string{
			"f:3:49: descriptors[0].rate_limit.algorithm: is Weir's own: remove it; it needs compat: false"}},
		{"domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: day, burst: 3}}", []string{
			"f:3:45: descriptors[0].rate_limit.burst: is Weir's own: remove it; it needs compat: false"}},
		{"domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: day, requests_per_unit: \"5\"}}", []string{
			"f:3:57: descriptors[0].rate_limit.requests_per_unit: found text: want a whole number, without quotes"}},
		{"domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: day, requests_per_unit: 4294967296}}", []string{
			"f:3:57: descriptors[0].rate_limit.requests_per_unit: 4294967296: want a whole number from 0 to 4294967295"}},
		{"domain: d\ndescriptors:\n  - {key: a, rate_limit: {unlimited: true, unit: Day}}", []string{
			`f:3:50: descriptors[0].rate_limit.unit: "Day" beside unlimited: keep one of the two`}},
		{"domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: day, name: n, replaces: [{name: n}, {name: \"\"}, {}, x]}}", []string{
			`f:3:65: descriptors[0].rate_limit.replaces[0].name: "n" is the name of this limit itself: want the name of another`,
			"f:3:76: descriptors[0].rate_limit.replaces[1].name: missing: want the name of the limit that is replaced",
			"f:3:81: descriptors[0].rate_limit.replaces[2].name: missing: want the name of the limit that is replaced",
			"f:3:85: descriptors[0].rate_limit.replaces[3]: found text: want a mapping of name"}},
		{"domain: d\ndescriptors:\n  - {key: a, metadata: x, rate_limit: {unit: day}}", []string{
			"f:3:24: descriptors[0].metadata: found no mapping: want a mapping, as in {tier: gold}"}},
		{"domain: d\ndescriptors:\n  - {key: a, metadata: {x: .nan}, rate_limit: {unit: day}}", []string{
			"f:3:28: descriptors[0].metadata: .nan: want a number that JSON can write"}},
		{"domain: d\ndescriptors:\n  - {key: a, <<: 5}", []string{
			"f:3:18: descriptors[0].<<: found a number: want an alias of a mapping, as in <<: *name"}},
		// What is an error is one even where it would have no effect.
		{"domain: d\nunit: {x: 1}\nreplaces: [1]\nname: 1.5", []string{
			"f:2:1: warning: unit: has no effect here: it belongs to a rate_limit",
			"f:2:8: unit.x: unknown key 'x': want one of the format's keys",
			"f:3:1: warning: replaces: has no effect here: it belongs to a rate_limit",
			"f:3:12: replaces[0]: found a number: want a mapping",
			"f:4:1: warning: name: has no effect here: it belongs to a rate_limit and an item of replaces",
			`f:4:7: name: the number "1.5": put it in quotes`}},
	} {
		set, problems := Parse([]Source{{"f", []byte(c.yaml)}}, Options{})
		if diff := cmp.Diff(c.want, said(problems)); diff != "" || set != nil {
			t.Errorf("%s\nset %v (-want +got):\n%s", c.yaml, set, diff)
		}
	}
}

// What envoyproxy/ratelimit ignores without a word is accepted with one, and fails a check.
func TestWhatHasNoEffectIsSaid(t *testing.T) {
	for _, c := range []struct{ yaml, want string }{
		{"domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: day, shadow_mode: true}}",
			"f:3:38: warning: descriptors[0].rate_limit.shadow_mode: has no effect here: it belongs to a descriptor"},
		{"domain: d\ndescriptors:\n  - {key: a, unit: day}",
			"f:3:14: warning: descriptors[0].unit: has no effect here: it belongs to a rate_limit"},
		{"domain: d\nkey: a", "f:2:1: warning: key: has no effect here: it belongs to a descriptor"},
		{"domain: d\nmetadata: [1.5, {what: ever}]", "f:2:1: warning: metadata: has no effect here: it belongs to a descriptor"},
		{"domain: d\ndescriptors:\n  - {key: a, shadow_mode: true}",
			"f:3:14: warning: descriptors[0].shadow_mode: has no effect without a rate_limit: remove it, or give the descriptor a rate_limit"},
		{"domain: c\ndomain: d", "f:1:1: warning: domain: has no effect: it is given again on line 2: keep one of the two"},
		{"domain: d\n---\ndomain: e", "f:2:1: warning: a second document begins, and has no effect: move it to a file of its own"},
		{"domain: d\n---\n]", "f:1:1: warning: a second document begins, and has no effect: move it to a file of its own"},
		{"domain: d\ndescriptors:\n  - {key: a, rate_limit: {unlimited: true, unit: parsec}}",
			`f:3:50: warning: descriptors[0].rate_limit.unit: "parsec" has no effect beside unlimited: remove it`},
		{"domain: d\ndescriptors:\n  - {key: a, rate_limit: {unlimited: true, requests_per_unit: 5}}",
			"f:3:63: warning: descriptors[0].rate_limit.requests_per_unit: has no effect beside unlimited: remove one of the two"},
	} {
		set, problems := Parse([]Source{{"f", []byte(c.yaml)}}, Options{})
		if diff := cmp.Diff([]string{c.want}, said(problems)); diff != "" || set == nil || len(set.Domains()) != 1 {
			t.Errorf("%s\nset %v (-want +got):\n%s", c.yaml, set, diff)
		}
		if set != nil {
			var m Match
			if set.Find("d", nil, &m); !m.Domain {
				t.Errorf("%s: the domain is not known", c.yaml)
			}
		}
	}
}

// limitOf returns the only limit below key a of domain d.
func limitOf(t *testing.T, yaml string, o Options) *Limit {
	t.Helper()
	set, problems := Parse([]Source{{"f", []byte(yaml)}}, o)
	if set == nil {
		t.Fatalf("%s: %v", yaml, problems)
	}
	var m Match
	set.Find("d", []Entry{{"a", "1"}}, &m)
	if m.Limit == nil {
		t.Fatalf("%s: no limit", yaml)
	}
	return m.Limit
}

// A limit has all that is said of it; numbers and booleans are texts where a text is wanted, and texts
// are what YAML 1.1 takes for true and false where that is wanted.
func TestLimitIsAsWritten(t *testing.T) {
	got := limitOf(t, `
domain: d
descriptors:
  - key: a
    value: 1
    shadow_mode: yes
    quota_mode: On
    detailed_metric: true
    metadata: {tier: gold, n: {a: 1, 2: 1.5, c: [true, null, 18446744073709551615]}, at: 2026-01-02}
    rate_limit: {unit: WEEK, requests_per_unit: 0x1_0, name: 7, replaces: [{name: other}, {name: true}]}
`, Options{})
	want := &Limit{
		Name: "7", Unit: Week, PerUnit: 16, Replaces: []string{"other", "true"}, Shadow: true, Quota: true, Detailed: true,
		Metadata: map[string]any{"tier": "gold", "at": "2026-01-02", "n": map[string]any{
			"a": int64(1), "2": 1.5, "c": []any{true, nil, float64(1 << 64)}}},
		Window: 7 * 24 * time.Hour, Metric: "d.a_1", Place: "f:10",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Anchors and merge keys work: what stands in the mapping itself beats what is merged in, and the first
// of a list beats the second.
func TestMergeKeys(t *testing.T) {
	got := limitOf(t, `
domain: d
descriptors:
  - key: x
    rate_limit: &one {unit: day, requests_per_unit: 1, name: one}
  - key: y
    rate_limit: &two {unit: hour, requests_per_unit: 2, replaces: [{name: z}]}
  - &limited
    key: a
    rate_limit: {<<: [*one, *two], name: three}
`, Options{})
	want := &Limit{Name: "three", Unit: Day, PerUnit: 1, Replaces: []string{"z"}, Window: 24 * time.Hour, Metric: "d.a", Place: "f:10"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Units are known in any case, and no limit stands for 0, which lets nothing pass.
func TestUnits(t *testing.T) {
	for name, window := range map[string]time.Duration{
		"second": time.Second, "MINUTE": time.Minute, "Hour": time.Hour, "dAy": 24 * time.Hour,
		"week": 168 * time.Hour, "Month": 720 * time.Hour, "YEAR": 8760 * time.Hour,
	} {
		l := limitOf(t, "domain: d\ndescriptors: [{key: a, rate_limit: {unit: "+name+"}}]", Options{})
		if l.Window != window || l.Unit.Window() != window || !strings.EqualFold(l.Unit.String(), name) || l.PerUnit != 0 {
			t.Errorf("%s: %+v, want a window of %v and 0 requests", name, l, window)
		}
	}
}

// With Extensions a window may be any, and the algorithm chosen; the unit is then the longest that is
// not longer, for answers that have room for nothing else.
func TestExtensions(t *testing.T) {
	for _, c := range []struct {
		limit string
		want  Limit
	}{
		{"unit: 10m", Limit{Unit: Minute, Window: 10 * time.Minute}},
		{"unit: 59s", Limit{Unit: Second, Window: 59 * time.Second}},
		{"unit: 1m30s", Limit{Unit: Minute, Window: 90 * time.Second}},
		{"unit: 500ms", Limit{Unit: Second, Window: 500 * time.Millisecond}},
		{"unit: 366d", Limit{Unit: Year, Window: 366 * 24 * time.Hour}},
		{"unit: day, algorithm: sliding_window", Limit{Unit: Day, Window: 24 * time.Hour}},
		{"unit: day, algorithm: fixed_window", Limit{Unit: Day, Window: 24 * time.Hour, Algorithm: weir.FixedWindow}},
		{"unit: day, algorithm: sliding_log", Limit{Unit: Day, Window: 24 * time.Hour, Algorithm: weir.SlidingLog}},
		{"unit: 2d, algorithm: token_bucket, burst: 9", Limit{Unit: Day, Window: 48 * time.Hour, Algorithm: weir.TokenBucket, Burst: 9}},
	} {
		got := limitOf(t, "domain: d\ndescriptors: [{key: a, rate_limit: {requests_per_unit: 3, "+c.limit+"}}]", Options{Extensions: true})
		c.want.PerUnit, c.want.Metric, c.want.Place = 3, "d.a", "f:2"
		if diff := cmp.Diff(&c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.limit, diff)
		}
	}
	for limit, want := range map[string]string{
		"unit: 10":                          `unit: "10": ` + wantUnit + ", or a time, as in 10m",
		"unit: 0s":                          `unit: "0s": ` + wantUnit + ", or a time, as in 10m",
		"unit: 367d":                        `unit: "367d": ` + wantUnit + ", or a time, as in 10m",
		"unit: day, algorithm: concurrency": `algorithm: "concurrency": want sliding_window, sliding_log, fixed_window or token_bucket`,
		"unit: day, burst: 5":               "burst: without algorithm: token_bucket: keep both or none",
		"unit: day, algorithm: sliding_log, requests_per_unit: 10001": "requests_per_unit: too many for a sliding_log: want at most 10000, or another algorithm",
	} {
		_, problems := Parse([]Source{{"f", []byte("domain: d\ndescriptors: [{key: a, rate_limit: {" + limit + "}}]")}}, Options{Extensions: true})
		if lines := said(problems); len(lines) != 1 || !strings.HasSuffix(lines[0], want) {
			t.Errorf("%s: %q, want %q", limit, lines, want)
		}
	}
}

// One bad file refuses all of them, and a domain in two files is one unless domains are merged (CFG-10, and
// CFG-08 of an editor's copies, which the format has count as any file).
func TestSeveralFiles(t *testing.T) {
	a := Source{"a", []byte("domain: d\ndescriptors: [{key: k, value: \"x*\", rate_limit: {unit: day, name: first}}]")}
	b := Source{"..data/b", []byte("domain: d\ndescriptors: [{key: k, value: \"*\", rate_limit: {unit: day, name: second}}]")}
	bad := Source{"bad", []byte("domain: e\nx: y")}
	for _, c := range []struct {
		files []Source
		merge bool
		want  []string
	}{
		{[]Source{a, bad}, false, []string{"bad:2:1: x: unknown key 'x': want one of domain and descriptors"}},
		{[]Source{a, b}, false, []string{`..data/b:1:9: domain: "d" is in a:1, too: leave out what begins with a dot (RUNTIME_IGNOREDOTFILES=true), where a ConfigMap keeps every file again`}},
		{[]Source{a, a}, false, []string{`a:1:9: domain: "d" is in a:1, too: keep one, or have them joined (MERGE_DOMAIN_CONFIG=true)`}},
		{[]Source{a, {"dir/a~", a.Content}}, false, []string{`dir/a~:1:9: domain: "d" is in a:1, too: remove dir/a~, which is an editor's copy: every file counts`}},
		{[]Source{a, a}, true, []string{`a:2:15: descriptors[0]: "k_x*" is given twice; a key and its value are one text, joined by _: keep one of the two`}},
		{[]Source{a, b}, true, nil},
	} {
		set, problems := Parse(c.files, Options{MergeDomains: c.merge})
		if diff := cmp.Diff(c.want, said(problems)); diff != "" || (set == nil) != (c.want != nil) {
			t.Errorf("set %v (-want +got):\n%s", set, diff)
		}
		if set == nil {
			continue
		}
		var m Match
		set.Find("d", []Entry{{"k", "xy"}}, &m)
		if m.Limit == nil || m.Limit.Name != "first" || set.Limits() != 2 {
			t.Errorf("merged: %+v of %d limits, want the first file's pattern to come first", m.Limit, set.Limits())
		}
	}
}

// Nothing that a file holds takes more than a moment or stops the process.
func TestReadingIsBounded(t *testing.T) {
	racing.Skip(t)
	deep := func(open, close string, n int) string { return strings.Repeat(open, n) + close }
	var bomb, merges strings.Builder
	for i := range 12 {
		fmt.Fprintf(&bomb, "metadata: &m%d [%s]\n", i, strings.Repeat(fmt.Sprintf("*m%d,", max(0, i-1)), 10*min(i, 1)))
		fmt.Fprintf(&merges, "descriptors: &n%d {<<: [%s]}\n", i, strings.Repeat(fmt.Sprintf("*n%d,", max(0, i-1)), 10*min(i, 1)))
	}
	long := strings.Repeat("k", maxFile/8)
	for name, c := range map[string]struct{ yaml, want string }{
		"large":           {strings.Repeat("#", maxFile+1), "the file is too large"},
		"flow":            {"domain: d\ndescriptors: " + deep("[", "", 20_000), "max depth"},
		"descriptors":     {"domain: d\ndescriptors: " + deep("[{key: a, descriptors: ", "[]", 110) + deep("}]", "", 110), "nested too deeply"},
		"metadata":        {"domain: d\nmetadata: " + deep("[", "]", 9000) + deep("]", "", 8999) + "\nx: y", "unknown key 'x'"},
		"free":            {"domain: d\ndescriptors: [{key: a, metadata: {a: " + deep("[", "]", 9000) + deep("]", "", 8999) + "}}]", "nested too deeply"},
		"misplaced":       {"domain: d\nname: " + deep("{name: ", "x", 5000) + deep("}", "", 5000), "nested too deeply"},
		"within itself":   {"domain: d\ndescriptors: &a [{key: b, descriptors: *a}]", "nested too deeply"},
		"round and round": {"domain: d\ndescriptors: &a [{key: b, descriptors: *a, metadata: {<<: *a}}]", "nested too deeply"},
		"alias bomb":      {"domain: d\n" + bomb.String() + "descriptors: [{key: a, metadata: {x: *m11}}]", "too large in sum"},
		"merge bomb":      {"domain: d\n" + merges.String() + "unit: {<<: *n11}", "too large in sum"},
		"long names": {"domain: d\ndescriptors: [{key: &k " + long + ", descriptors: [" + deep("{key: a, descriptors: [", "", 95) +
			deep("]}", "", 95) + "]}" + strings.Repeat(", {key: *k, descriptors: [{key: x}]}", 100) + "]", "too long in sum"},
		"long aliases": {"domain: d\ndescriptors: [{key: &k " + long + "}" + strings.Repeat(",{key: *k,value: *k}", 10_000) + "]", "in sum"},
		"long keys":    {"domain: d\nmetadata: &k " + long + "\ndescriptors: [{key: a, metadata: {" + strings.Repeat("*k : 1,", 10_000) + "}}]", "too large in sum"},
		"long numbers": {"domain: d\nmetadata: &k 1" + strings.Repeat("_", maxFile/8) + "\ndescriptors: [" + strings.Repeat("{key: *k},", 10_000) + "]", "put it in quotes"},
	} {
		began := time.Now()
		set, problems := Parse([]Source{{"f", []byte(c.yaml)}}, Options{})
		if took := time.Since(began); took > timed.Bound(30*time.Second) {
			t.Errorf("%s took %v", name, took)
		}
		if text := strings.Join(said(problems), "\n"); set != nil || !strings.Contains(text, c.want) || len(text) > 1<<20 {
			t.Errorf("%s: set %v, %d bytes of problems, want %q among them: %.300s", name, set, len(text), c.want, text)
		}
	}
}

// However many problems there are, some are said, and no number of warnings hides an error.
func TestProblemsAreBounded(t *testing.T) {
	idle := strings.Repeat("  - {key: a, unit: day}\n", 1000)
	set, problems := Parse([]Source{{"f", []byte("domain: d\ndescriptors:\n" + idle + "x: y")}}, Options{})
	if set != nil || !config.HasErrors(problems) || len(problems) != 2*maxProblems {
		t.Errorf("set %v, %d problems, want none and %d", set, len(problems), 2*maxProblems)
	}
}
