package envoyrls

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/internal/racing"
)

// A model answers as research says that envoyproxy/ratelimit does, in the plainest way: it walks down lists, counts
// in a map, and shares no code with what it judges.
type model struct {
	top           []*modelNode
	quota, shadow bool
	counters      map[string]int64
}

// A modelNode is a descriptor of a configuration.
type modelNode struct {
	key, value string // the value may end in *, or be empty for any
	shares     bool   // all values that the * stands for have one counter
	limit      *modelLimit
	below      []*modelNode
}

type modelLimit struct {
	name, unit               string
	seconds, perUnit         int64
	unlimited, shadow, quota bool
	replaces                 string
	tag                      string         // metadata: a scalar, of which the first that passes stays
	numbers                  map[string]any // metadata: a map, which is joined with others
}

// A modelAnswer is what is compared.
type modelAnswer struct {
	Line     string
	Headers  []string // limit, remaining, reset
	Metadata map[string]any
}

var modelUnits = []struct {
	name    string
	seconds int64
	asked   typev3.RateLimitUnit
}{
	{"second", 1, typev3.RateLimitUnit_SECOND}, {"minute", 60, typev3.RateLimitUnit_MINUTE}, {"hour", 3600, typev3.RateLimitUnit_HOUR},
	{"day", 86400, typev3.RateLimitUnit_DAY}, {"month", 30 * 86400, typev3.RateLimitUnit_MONTH}, {"year", 365 * 86400, typev3.RateLimitUnit_YEAR},
	{"week", 7 * 86400, 0},
}

// A modelStatus is the answer to one descriptor.
type modelStatus struct {
	limit *modelLimit // nil: none applies
	over  bool
	left  int64
}

// isQuota reports whether a descriptor with that answer is a quota.
func (m *model) isQuota(s modelStatus) bool {
	if s.limit != nil && s.limit.unlimited {
		return false
	}
	return m.quota || s.limit != nil && s.limit.quota
}

// lead returns the one of level that an entry leads to: by its value, by the first pattern, by its key alone.
func lead(level []*modelNode, key, value string) *modelNode {
	for _, fits := range []func(n *modelNode) bool{
		func(n *modelNode) bool { return n.value == value },
		func(n *modelNode) bool {
			prefix, wild := strings.CutSuffix(n.value, "*")
			return wild && strings.HasPrefix(value, prefix)
		},
		func(n *modelNode) bool { return n.value == "" },
	} {
		for _, n := range level {
			if n.key == key && fits(n) {
				return n
			}
		}
	}
	return nil
}

// of returns the limit of a descriptor, or nil, and what its counter is called.
func (m *model) of(d *ratelimitv3.RateLimitDescriptor) (*modelLimit, string) {
	asked := ""
	for _, e := range d.Entries {
		asked += e.Key + "=" + e.Value + " "
	}
	if own := d.Limit; own != nil && own.Unit != 0 {
		for _, u := range modelUnits {
			if u.asked == own.Unit {
				return &modelLimit{unit: u.name, seconds: u.seconds, perUnit: int64(own.RequestsPerUnit)}, asked
			}
		}
	}
	last, counted := &modelNode{below: m.top}, ""
	for _, e := range d.Entries {
		if last = lead(last.below, e.Key, e.Value); last == nil {
			return nil, ""
		}
		value := e.Value
		if last.shares {
			value = last.value
		}
		counted += e.Key + "=" + value + " "
	}
	return last.limit, counted
}

// answer returns the answer at a Unix time.
func (m *model) answer(req *pb.RateLimitRequest, now int64) modelAnswer {
	all := make([]modelStatus, len(req.Descriptors))
	counters, gone := make([]string, len(all)), map[string]bool{}
	for i, d := range req.Descriptors {
		if all[i].limit, counters[i] = m.of(d); all[i].limit != nil && all[i].limit.replaces != "" {
			gone[all[i].limit.replaces] = true
		}
	}
	for i, d := range req.Descriptors {
		l := all[i].limit
		switch {
		case l == nil || l.unlimited:
			continue
		case l.name != "" && gone[l.name]:
			all[i].limit = nil
			continue
		}
		n := max(1, int64(req.HitsAddend))
		if d.HitsAddend != nil {
			n = int64(d.HitsAddend.Value)
		}
		if d.IsNegativeHits {
			n = 0
		}
		key := fmt.Sprint(counters[i], now-now%l.seconds)
		m.counters[key] += n
		all[i].left = max(0, l.perUnit-m.counters[key])
		all[i].over = m.counters[key] > l.perUnit && !l.shadow && !d.IsNegativeHits
	}
	return modelAnswer{m.line(all), m.headers(all, now), m.metadata(req, all)}
}

func (m *model) line(all []modelStatus) (text string) {
	ordinary, quotas, quotasOver := false, 0, 0
	for _, s := range all {
		code := map[bool]string{true: "OVER_LIMIT", false: "OK"}[s.over]
		switch {
		case s.limit == nil:
			text += " | OK"
		case s.limit.unlimited:
			text += " | OK 4294967295"
		default:
			text += fmt.Sprintf(" | %s %d/%d %s", code, s.left, s.limit.perUnit, strings.ToUpper(s.limit.unit))
		}
		if !m.isQuota(s) {
			ordinary = ordinary || s.over
			continue
		}
		quotas++
		if s.over {
			quotasOver++
		}
	}
	if !m.shadow && (ordinary || quotas > 0 && quotas == quotasOver) {
		return "OVER_LIMIT" + text
	}
	return "OK" + text
}

// headers tell of the limit with the fewest left, the first of several; or of the last ordinary one that is over.
func (m *model) headers(all []modelStatus, now int64) []string {
	var told *modelStatus
	overs := false
	for i, s := range all {
		if s.limit == nil || s.limit.unlimited {
			continue
		}
		switch refuses := s.over && !m.isQuota(s); {
		case refuses:
			told, overs = &all[i], true
		case !overs && (told == nil || s.left < told.left):
			told = &all[i]
		}
	}
	if told == nil {
		return nil
	}
	return []string{fmt.Sprint(told.limit.perUnit), fmt.Sprint(told.left), fmt.Sprint(told.limit.seconds - now%told.limit.seconds)}
}

// metadata are what was asked, and what the limits that let pass say of themselves.
func (m *model) metadata(req *pb.RateLimitRequest, all []modelStatus) map[string]any {
	var asked []any
	for _, d := range req.Descriptors {
		var entries []any
		for _, e := range d.Entries {
			entries = append(entries, e.Key+"="+e.Value)
		}
		shown := map[string]any{"entries": entries}
		if d.Limit != nil {
			shown["limit"] = fmt.Sprintf("requests_per_unit:%d unit:%v", d.Limit.RequestsPerUnit, d.Limit.Unit)
		}
		if d.HitsAddend != nil {
			shown["hitsAddend"] = float64(d.HitsAddend.Value)
		}
		asked = append(asked, shown)
	}
	whole := map[string]any{"domain": req.Domain, "descriptors": asked}
	if req.HitsAddend > 0 {
		whole["hitsAddend"] = float64(req.HitsAddend)
	}
	passed, numbers := map[string]any{}, map[string]any{}
	for _, s := range all {
		if s.over || s.limit == nil || s.limit.unlimited {
			continue
		}
		if passed["tag"] == nil && s.limit.tag != "" {
			passed["tag"] = s.limit.tag
		}
		for name, n := range s.limit.numbers {
			if numbers[name] == nil {
				numbers[name] = n
			}
		}
	}
	if len(numbers) > 0 {
		passed["numbers"] = numbers
	}
	if len(passed) > 0 {
		whole["metadata"] = passed
	}
	return whole
}

// answerOf is what the service answered, as the model says it.
func answerOf(a *pb.RateLimitResponse) modelAnswer {
	got := modelAnswer{Line: line(a), Metadata: a.DynamicMetadata.AsMap()}
	for _, name := range []string{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"} {
		for _, h := range a.ResponseHeadersToAdd {
			if h.Key == name {
				got.Headers = append(got.Headers, h.Value)
			}
		}
	}
	return got
}

// 100,000 random requests under 1,000 random configurations of one to three levels are answered as the model answers:
// which limit applies, what is left of it, the codes, the headers and the metadata.
func TestAnswersEqualTheModel(t *testing.T) {
	racing.Skip(t)
	r := modelDice{rand.New(rand.NewPCG(5, 6))}
	h := build(t, plan{options: Options{Settings: Settings{Headers: &HeaderNames{}, DynamicMetadata: true}}})
	seen := map[string]int{}
	for range 1000 {
		m, text := r.model()
		h.options.Settings.Quota, h.options.Settings.Shadow = m.quota, m.shadow
		h.options.Store = NewMemory(MemoryOptions{MaxKeys: 10_000})
		set := parse(t, map[string]string{"c.yaml": text}, plan{}.read)
		if set == nil {
			t.Fatalf("refused:\n%s", text)
		}
		h.Set(set)
		at := rand.N(400 * 24 * time.Hour)
		for range 100 {
			at += time.Duration(r.IntN(500)) * time.Millisecond
			h.at(at)
			req := r.request(m)
			want := m.answer(req, noon.Add(at).Unix())
			got := answerOf(h.ask(t, req))
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%s%v (-want +got):\n%s", text, req, cmp.Diff(want, got))
			}
			m.note(seen, req, want)
		}
	}
	for _, what := range []string{"over", "deep limit", "deep over", "headers", "metadata"} {
		if seen[what] < 3000 {
			t.Errorf("%s: met %d times in 100,000 requests; the dice are bad: %v", what, seen[what], seen)
		}
	}
}

// note counts what a request met, so that no part of the model is never asked for.
func (m *model) note(seen map[string]int, req *pb.RateLimitRequest, a modelAnswer) {
	parts := strings.Split(a.Line, " | ")
	for what, met := range map[string]bool{
		"over": parts[0] == "OVER_LIMIT", "headers": a.Headers != nil, "metadata": a.Metadata["metadata"] != nil,
		"deep limit": slices.ContainsFunc(req.Descriptors, func(d *ratelimitv3.RateLimitDescriptor) bool {
			l, _ := m.of(d)
			return len(d.Entries) > 1 && l != nil && d.Limit == nil
		}),
		"deep over": slices.ContainsFunc(req.Descriptors, func(d *ratelimitv3.RateLimitDescriptor) bool {
			return len(d.Entries) > 1 && strings.HasPrefix(parts[1+slices.Index(req.Descriptors, d)], "OVER_LIMIT")
		}),
	} {
		if met {
			seen[what]++
		}
	}
}
