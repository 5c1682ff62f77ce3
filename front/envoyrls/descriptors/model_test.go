package descriptors

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirgate/weir/internal/racing"
)

// model says what a configuration means, from the rules as they are written down: over lists, without
// an index, one level at a time. It is slow, and shares no code with Set.
type model []Domain

// An answer is what is compared.
type answer struct {
	Domain   bool
	Unit     string // of the limit; empty: none
	Name     string
	Replaces []string
	PerUnit  uint32
	Entries  []Entry
	Metric   string
}

// A taken is a descriptor and how an entry led to it.
type taken struct {
	d    *Descriptor
	how  string // exact, wild or alone
	text string
}

func (a answer) equal(b answer) bool {
	return slices.Equal(a.Entries, b.Entries) && slices.Equal(a.Replaces, b.Replaces) && a.Domain == b.Domain &&
		a.Unit == b.Unit && a.Name == b.Name && a.PerUnit == b.PerUnit && a.Metric == b.Metric
}

func (m model) find(domain string, entries []Entry) answer {
	a := answer{Entries: entries}
	var level []*Descriptor
	for i := range m {
		if m[i].Name == domain {
			a.Domain = true
			level = append(level, pointers(m[i].Descriptors)...)
		}
	}
	var path []taken
	for _, e := range entries {
		t, ok := take(level, e)
		if !ok {
			return a
		}
		path = append(path, t)
		level = pointers(t.d.Descriptors)
	}
	if len(path) == 0 || path[len(path)-1].d.RateLimit == nil {
		return a
	}
	last := path[len(path)-1].d
	l := last.RateLimit
	a.Unit, a.Name, a.Replaces, a.PerUnit = l.Unit, l.Name, l.Replaces, l.RequestsPerUnit
	a.Entries = counted(entries, path)
	a.Metric = modelMetric(domain, entries, path)
	return a
}

func pointers(all []Descriptor) (p []*Descriptor) {
	for i := range all {
		p = append(p, &all[i])
	}
	return p
}

func joined(d *Descriptor) string {
	if d.Value == "" {
		return d.Key
	}
	return d.Key + "_" + d.Value
}

// take returns the one that e leads to: by key and value, by the first pattern, by the key.
func take(level []*Descriptor, e Entry) (taken, bool) {
	for _, d := range level {
		if joined(d) == e.Key+"_"+e.Value {
			return taken{d, "exact", joined(d)}, true
		}
	}
	for _, d := range level {
		if strings.Contains(joined(d), "*") && glob(joined(d), e.Key+"_"+e.Value) {
			return taken{d, "wild", joined(d)}, true
		}
	}
	for _, d := range level {
		if joined(d) == e.Key {
			return taken{d, "alone", joined(d)}, true
		}
	}
	return taken{}, false
}

// glob tries every length for every *.
func glob(pattern, text string) bool {
	if pattern == "" {
		return text == ""
	}
	if pattern[0] != '*' {
		return text != "" && text[0] == pattern[0] && glob(pattern[1:], text[1:])
	}
	for n := 0; n <= len(text); n++ {
		if glob(pattern[1:], text[n:]) {
			return true
		}
	}
	return false
}

func (t taken) shares() bool { return t.how == "wild" && t.d.ShareThreshold }

// value is the pattern's part for the value of an entry with that key.
func (t taken) value(key string) string { return strings.TrimPrefix(t.text, key+"_") }

func counted(entries []Entry, path []taken) (all []Entry) {
	for i, e := range entries {
		if path[i].shares() {
			e.Value = path[i].value(e.Key)
		}
		all = append(all, e)
	}
	return all
}

func modelMetric(domain string, entries []Entry, path []taken) string {
	anyShares := false
	for _, t := range path {
		anyShares = anyShares || t.shares()
	}
	asked := func(e Entry) string { return joined(&Descriptor{Key: e.Key, Value: e.Value}) }
	detailed := path[len(path)-1].d.DetailedMetric
	metric := domain
	for i, e := range entries {
		switch t := path[i]; {
		case t.shares():
			metric += "." + e.Key + "_" + t.value(e.Key)
		case detailed && !anyShares:
			metric += "." + e.Key + "_" + e.Value
		case detailed, t.how == "exact", t.d.ValueToMetric:
			metric += "." + asked(e)
		case t.how == "wild":
			metric += "." + e.Key + "_" + t.value(e.Key)
		default:
			metric += "." + e.Key
		}
	}
	return metric
}

// A dice makes configurations and requests that often meet.
type dice struct{ *rand.Rand }

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 2)) }

func (r dice) of(words ...string) string { return words[r.IntN(len(words))] }
func (r dice) one(in int) bool           { return r.IntN(in) == 0 }

func (r dice) key() string { return r.of("a", "b", "a_b", "ab", "a*", "*", "_", "b_") }

func (r dice) value() string {
	return r.of("", "", "x", "y", "x*", "*", "*x", "x*y", "x*x*", "**y", "b", "x_y", "y*_*")
}

func (r dice) level(depth int, places *int) (all []Descriptor) {
	seen := map[string]bool{}
	for range r.IntN(6) {
		d := Descriptor{Key: r.key(), Value: r.value(), ValueToMetric: r.one(3)}
		if seen[joined(&d)] {
			continue
		}
		seen[joined(&d)] = true
		d.ShareThreshold = r.one(2) && strings.Contains(joined(&d), "*")
		if !r.one(4) {
			*places++
			d.DetailedMetric = r.one(4)
			d.RateLimit = &RateLimit{Unit: "hour", RequestsPerUnit: uint32(*places), Name: r.of("", "n", "m")}
			if r.one(3) {
				d.RateLimit.Replaces = []string{"other", "third"}
			}
		}
		if depth > 1 && !r.one(3) {
			d.Descriptors = r.level(depth-1, places)
		}
		all = append(all, d)
	}
	return all
}

// entries are a descriptor to ask for: mostly one that leads down into level, or nearly so.
func (r dice) entries(level []Descriptor) (all []Entry) {
	for range 1 + r.IntN(3) {
		e := Entry{r.key(), r.letters()}
		if len(level) > 0 && !r.one(6) {
			d := level[r.IntN(len(level))]
			e, level = Entry{r.fill(d.Key), r.fill(d.Value)}, d.Descriptors
			if e.Value == "" && !r.one(4) {
				e.Value = r.letters()
			}
		}
		all = append(all, e)
		if len(level) == 0 && !r.one(4) {
			break
		}
	}
	return all[r.IntN(8)/7:] // now and then without its beginning
}

func (r dice) letters() (s string) {
	for range r.IntN(5) {
		s += r.of("x", "y", "_", "b", "*")
	}
	return s
}

// fill puts something in the place of every *, most of the time.
func (r dice) fill(s string) string {
	for strings.Contains(s, "*") && !r.one(5) {
		s = strings.Replace(s, "*", strings.ReplaceAll(r.letters(), "*", "x"), 1)
	}
	return s
}

// yamlOf writes descriptors as a file has them.
func yamlOf(all []Descriptor, indent string) string {
	var b strings.Builder
	for _, d := range all {
		fmt.Fprintf(&b, "%s- key: %q\n%s  value: %q\n", indent, d.Key, indent, d.Value)
		fmt.Fprintf(&b, "%s  value_to_metric: %v\n%s  share_threshold: %v\n", indent, d.ValueToMetric, indent, d.ShareThreshold)
		if l := d.RateLimit; l != nil {
			fmt.Fprintf(&b, "%s  detailed_metric: %v\n", indent, d.DetailedMetric)
			fmt.Fprintf(&b, "%s  rate_limit: {unit: %s, requests_per_unit: %d, name: %q, replaces: [", indent, l.Unit, l.RequestsPerUnit, l.Name)
			for _, name := range l.Replaces {
				fmt.Fprintf(&b, "{name: %s},", name)
			}
			b.WriteString("]}\n")
		}
		if len(d.Descriptors) > 0 {
			fmt.Fprintf(&b, "%s  descriptors:\n%s", indent, yamlOf(d.Descriptors, indent+"    "))
		}
	}
	return b.String()
}

// answerOf is what s says, as the model says it. A limit is told from others by its number.
func answerOf(s *Set, domain string, entries []Entry, m *Match) answer {
	s.Find(domain, entries, m)
	a := answer{Domain: m.Domain, Entries: append([]Entry(nil), m.Entries...), Metric: m.Metric}
	if m.Limit != nil {
		a.Unit, a.Name, a.Replaces, a.PerUnit = m.Limit.Unit.String(), m.Limit.Name, m.Limit.Replaces, m.Limit.PerUnit
	}
	return a
}

// 100,000 random requests to random configurations, read from text, get what the written rules say.
func TestSetIsTheModel(t *testing.T) {
	racing.Skip(t)
	const configurations, requests = 500, 200
	r := dice{newRand(1)}
	limited := 0
	for range configurations {
		places := 0
		m := model{
			{Name: "d", Descriptors: r.level(3, &places)},
			{Name: "e", Descriptors: r.level(2, &places)},
		}
		var files []Source
		for i, d := range m {
			text := fmt.Sprintf("domain: %s\ndescriptors:\n%s", d.Name, yamlOf(d.Descriptors, "  "))
			files = append(files, Source{File: fmt.Sprint(i), Content: []byte(text)})
		}
		set, problems := Parse(files, Options{})
		if len(problems) > 0 {
			t.Fatalf("%v in\n%s", problems, files[0].Content)
		}
		var memory Match
		for range requests {
			domain, entries := r.of("d", "d", "d", "e", "f"), r.entries(m[r.IntN(6)/5].Descriptors)
			want, got := m.find(domain, entries), answerOf(set, domain, entries, &memory)
			if got.Unit != "" {
				limited++
			}
			if !got.equal(want) {
				t.Fatalf("%s %q (-want +got):\n%s\nin\n%s", domain, entries, cmp.Diff(want, got, cmpopts.EquateEmpty()), files)
			}
		}
	}
	if limited < configurations*requests/5 {
		t.Errorf("%d requests met a limit, want at least a fifth", limited)
	}
}
