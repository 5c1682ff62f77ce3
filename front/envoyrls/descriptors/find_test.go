package descriptors

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/internal/timed"
)

// set returns what yaml says.
func set(t testing.TB, yaml string) *Set {
	t.Helper()
	s, problems := Parse([]Source{{"f", []byte(yaml)}}, Options{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return s
}

// of reads a descriptor written as key=value/key=value.
func of(text string) (entries []Entry) {
	for part := range strings.SplitSeq(text, "/") {
		if key, value, ok := strings.Cut(part, "="); ok {
			entries = append(entries, Entry{key, value})
		}
	}
	return entries
}

const edges = `
domain: d
descriptors:
  - {key: w, value: "p*", rate_limit: {unit: day, name: prefix}}
  - {key: w, value: "*", rate_limit: {unit: day, name: any}}
  - {key: w, rate_limit: {unit: day, name: alone}}
  - {key: w, value: x, rate_limit: {unit: day, name: exact}}
  - {key: "h*", value: v, rate_limit: {unit: day, name: in the key}}
  - {key: two, value: "ab*ab", rate_limit: {unit: day, name: two}}
  - key: s
    value: "x*"
    share_threshold: true
    descriptors:
      - {key: t, value: "y*", share_threshold: true, detailed_metric: true, rate_limit: {unit: day, name: shared}}
      - {key: u, detailed_metric: true, rate_limit: {unit: day, name: shared above}}
  - {key: e_, rate_limit: {unit: day, name: underscore}}
  - {key: det, detailed_metric: true, rate_limit: {unit: day, name: detailed}}
  - {key: vtm, value: "x*", value_to_metric: true, rate_limit: {unit: day, name: asked}}
`

// The edges of the rules, each with the entries that are counted and the metric.
func TestFindEdges(t *testing.T) {
	s := set(t, edges)
	for _, c := range []struct{ ask, name, counted, metric string }{
		{"w=x", "exact", "w=x", "d.w_x"}, // although a pattern comes first in the file
		{"w=p", "prefix", "w=p", "d.w_p*"},
		{"w=", "any", "w=", "d.w_*"}, // * stands for nothing, too
		{"w=y", "any", "w=y", "d.w_*"},
		{"w_x=y", "any", "w_x=y", "d.w_x_w_*"}, // the text is the same
		{"w_x=", "any", "w_x=", "d.w_x_w_*"},
		{"hello=v", "in the key", "hello=v", "d.hello_h*_v"},
		{"hello=w", "", "hello=w", ""},
		{"two=abab", "two", "two=abab", "d.two_ab*ab"},
		{"two=ab", "", "two=ab", ""}, // the first and the last part may not overlap
		{"two=aba", "", "two=aba", ""},
		{"s=x1", "", "s=x1", ""}, // no limit here: as asked
		{"s=x1/t=y1", "shared", "s=x*/t=y*", "d.s_x*.t_y*"},
		{"s=x1/u=1", "shared above", "s=x*/u=1", "d.s_x*.u_1"},
		{"s=x1/u=", "shared above", "s=x*/u=", "d.s_x*.u"},
		{"s=x1/t=z", "", "s=x1/t=z", ""},
		{"s=x1/t=y1/q=1", "", "s=x1/t=y1/q=1", ""}, // deeper than the configuration
		{"e=", "underscore", "e=", "d.e"},          // the same text once more
		{"e_=", "underscore", "e_=", "d.e_"},
		{"det=", "detailed", "det=", "d.det_"},
		{"det=1.2", "detailed", "det=1.2", "d.det_1.2"},
		{"vtm=x1", "asked", "vtm=x1", "d.vtm_x1"},
		{"", "", "", ""},
	} {
		var m Match
		s.Find("d", of(c.ask), &m)
		want := Match{Domain: true, Entries: of(c.counted), Metric: c.metric}
		name := ""
		if m.Limit != nil {
			name = m.Limit.Name
		}
		m.Limit = nil
		if diff := cmp.Diff(want, m, cmp.Comparer(func(a, b []Entry) bool { return fmt.Sprint(a) == fmt.Sprint(b) })); diff != "" || name != c.name {
			t.Errorf("%s: %q, want %q (-want +got):\n%s", c.ask, name, c.name, diff)
		}
	}
}

// An unknown domain is told from one without a limit, and nothing of the last answer stays.
func TestUnknownDomain(t *testing.T) {
	var m Match
	set(t, edges).Find("d", of("w=x"), &m)
	for _, s := range []*Set{set(t, edges), {}} {
		s.Find("nope", of("w=x"), &m)
		if diff := cmp.Diff(Match{Entries: of("w=x")}, m); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// The asker's own entries are never written to.
func TestFindLeavesTheEntries(t *testing.T) {
	asked := of("s=x1/t=y1")
	var m Match
	set(t, edges).Find("d", asked, &m)
	if diff := cmp.Diff(of("s=x1/t=y1"), asked); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Looking a descriptor up allocates nothing, by whatever way it is found.
func TestFindAllocatesNothing(t *testing.T) {
	s := set(t, edges)
	var m Match
	for _, ask := range []string{"w=x", "w=path", "w=other", "two=ab12ab", "s=x1/t=z", "none=1", "w=" + strings.Repeat("y", 250)} {
		entries := of(ask)
		if n := testing.AllocsPerRun(100, func() { s.Find("d", entries, &m) }); n != 0 {
			t.Errorf("%s: %v allocations", ask, n)
		}
	}
}

// A set is read by many at once.
func TestFindIsConcurrent(t *testing.T) {
	s := set(t, edges)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			var m Match
			for range 1000 {
				s.Find("d", of("s=x1/t=y1"), &m)
			}
		})
	}
	all.Wait()
}

// However long a value and however many * a pattern has, the cost grows with their lengths only.
func TestPatternsAreLinear(t *testing.T) {
	s := set(t, `{domain: d, descriptors: [{key: k, value: "`+strings.Repeat("*a", 200)+`*b", rate_limit: {unit: day}}]}`)
	began := time.Now()
	var m Match
	s.Find("d", []Entry{{"k", strings.Repeat("a", 4<<20)}}, &m) // the largest message that gRPC takes
	if took := time.Since(began); m.Limit != nil || took > timed.Bound(2*time.Second) {
		t.Errorf("limit %v after %v", m.Limit, took)
	}
}

// Colons, bars and the dots of addresses do not reach a statistics server as they are.
func TestStatName(t *testing.T) {
	for metric, want := range map[string]string{
		"d.ip_10.1.2.3":           "d.ip_10_1_2_3",
		"d.ip_10.1.2.3.path_/":    "d.ip_10_1_2_3.path_/",
		"d.ip_v1.2":               "d.ip_v1.2",
		"d.a_b:c|d":               "d.a_b_c_d",
		"d.net_10.0.0.0/8.x_::1|": "d.net_10_0_0_0/8.x___1_",
	} {
		if got := StatName(metric); got != want {
			t.Errorf("%s: %s, want %s", metric, got, want)
		}
	}
}

func BenchmarkFind(b *testing.B) {
	s := set(b, edges)
	for _, ask := range []string{"w=x", "w=other", "s=x1/t=z", "s=x1/t=y1"} {
		b.Run(ask, func(b *testing.B) {
			entries := of(ask)
			var m Match
			b.ReportAllocs()
			for b.Loop() {
				s.Find("d", entries, &m)
			}
		})
	}
}

// Whatever is asked, the answer is the model's, and nothing panics.
func FuzzFind(f *testing.F) {
	var files [][]Source
	var models []model
	for seed := range uint64(8) {
		places := 0
		r := dice{newRand(seed)}
		m := model{{Name: "d", Descriptors: r.level(3, &places)}}
		models = append(models, m)
		files = append(files, []Source{{"f", []byte("domain: d\ndescriptors:\n" + yamlOf(m[0].Descriptors, "  "))}})
	}
	f.Add(uint8(0), "d", "a=x/b=y")
	f.Add(uint8(3), "d", "a_b=/*=*")
	f.Add(uint8(7), "", "_=_")
	f.Fuzz(func(t *testing.T, which uint8, domain, text string) {
		if len(text) > 60 {
			return // the model tries everything
		}
		i := int(which) % len(models)
		s, problems := Parse(files[i], Options{})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		var m Match
		if want, got := models[i].find(domain, of(text)), answerOf(s, domain, of(text), &m); !got.equal(want) {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	})
}

// Whatever a file holds, it is a set or has an error, the same every time, and every problem has a
// place and a cure.
func FuzzParse(f *testing.F) {
	for _, c := range readCases(f).Config {
		f.Add([]byte(c.YAML), true)
	}
	f.Add([]byte(edges), false)
	f.Add([]byte("domain: d\ndescriptors: &a [{key: b, descriptors: *a, metadata: {x: !!binary aa, <<: {y: 1}}}]"), false)
	f.Fuzz(func(t *testing.T, data []byte, extensions bool) {
		files := []Source{{"f", data}, {"g", data}}
		set, problems := Parse(files, Options{Extensions: extensions, MergeDomains: true})
		_, again := Parse(files, Options{Extensions: extensions, MergeDomains: true})
		if diff := cmp.Diff(problems, again); diff != "" {
			t.Error(diff)
		}
		failed := false
		for _, p := range problems {
			failed = failed || !p.Warning
			if p.Line < 1 || p.Col < 1 || p.What == "" || p.Cure == "" || strings.Contains(p.String(), "\n") {
				t.Errorf("%#v", p)
			}
		}
		if (set == nil) != failed {
			t.Errorf("set %v, problems %v", set, problems)
		}
	})
}
