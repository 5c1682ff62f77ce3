package envoyrls

import (
	"fmt"
	"math/rand/v2"
	"strings"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// A modelDice makes configurations and requests that often meet.
type modelDice struct{ *rand.Rand }

func (r modelDice) one(in int) bool { return r.IntN(in) == 0 }

// model returns a random configuration, and its text.
func (r modelDice) model() (*model, string) {
	m := &model{quota: r.one(6), shadow: r.one(6), counters: map[string]int64{}}
	m.top = r.level(1 + r.IntN(3))
	return m, "domain: d\ndescriptors:\n" + textOf(m.top, "  ")
}

// level returns the descriptors of a level with at most depth of them below each other.
func (r modelDice) level(depth int) (all []*modelNode) {
	seen := map[string]bool{}
	for range 1 + r.IntN(5) {
		n := &modelNode{key: fmt.Sprint("k", r.IntN(3)), value: []string{"", "", "v0", "v1", "v1x", "v*", "*"}[r.IntN(7)]}
		if seen[n.key+n.value] {
			continue
		}
		seen[n.key+n.value] = true
		n.shares = strings.HasSuffix(n.value, "*") && r.one(2)
		if depth > 1 && !r.one(4) {
			n.below = r.level(depth - 1)
		}
		if n.below == nil || r.one(2) {
			n.limit = r.limit()
		}
		all = append(all, n)
	}
	return all
}

func (r modelDice) limit() *modelLimit {
	u := modelUnits[r.IntN(len(modelUnits))]
	l := &modelLimit{
		name: fmt.Sprint("n", r.IntN(4)), unit: u.name, seconds: u.seconds, perUnit: int64(r.IntN(6)),
		unlimited: r.one(8), shadow: r.one(5), quota: r.one(4), numbers: map[string]any{},
	}
	if r.one(4) {
		l.replaces = fmt.Sprint("n", 3-r.IntN(4))
	}
	if l.replaces == l.name {
		l.replaces = ""
	}
	if r.one(3) {
		l.tag = fmt.Sprint("t", r.IntN(9))
	}
	for range r.IntN(3) {
		l.numbers[fmt.Sprint("x", r.IntN(3))] = float64(r.IntN(9))
	}
	return l
}

// textOf writes a level as a file has it.
func textOf(level []*modelNode, indent string) string {
	var b strings.Builder
	for _, n := range level {
		fmt.Fprintf(&b, "%s- key: %s\n", indent, n.key)
		indented := func(format string, args ...any) { fmt.Fprintf(&b, indent+"  "+format+"\n", args...) }
		if n.value != "" {
			indented("value: %q", n.value)
		}
		if n.shares {
			indented("share_threshold: true")
		}
		if n.limit != nil {
			n.limit.write(indented)
		}
		if len(n.below) > 0 {
			indented("descriptors:")
			b.WriteString(textOf(n.below, indent+"    "))
		}
	}
	return b.String()
}

func (l *modelLimit) write(line func(format string, args ...any)) {
	line("shadow_mode: %v", l.shadow)
	line("quota_mode: %v", l.quota)
	if l.tag != "" || len(l.numbers) > 0 {
		line("metadata:")
	}
	if l.tag != "" {
		line("  tag: %s", l.tag)
	}
	if len(l.numbers) > 0 {
		line("  numbers:")
	}
	for name, n := range l.numbers {
		line("    %s: %v", name, n)
	}
	line("rate_limit:")
	line("  name: %s", l.name)
	if l.replaces != "" {
		line("  replaces: [{name: %s}]", l.replaces)
	}
	if l.unlimited {
		line("  unlimited: true")
		return
	}
	line("  unit: %s", l.unit)
	line("  requests_per_unit: %d", l.perUnit)
}

// request asks mostly for what m has.
func (r modelDice) request(m *model) *pb.RateLimitRequest {
	req := &pb.RateLimitRequest{Domain: "d", HitsAddend: uint32(r.IntN(3))}
	for range 1 + r.IntN(4) {
		d := &ratelimitv3.RateLimitDescriptor{Entries: r.entries(m.top), IsNegativeHits: r.one(20)}
		if r.one(10) {
			unit := typev3.RateLimitUnit(r.IntN(7))
			if unit != 0 { // a counter has one unit: its name does not tell them apart
				d.Entries[0].Key = unit.String()
			}
			d.Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(r.IntN(5)), Unit: unit}
		}
		if r.one(5) {
			d.HitsAddend = wrapperspb.UInt64(uint64(r.IntN(3)))
		}
		req.Descriptors = append(req.Descriptors, d)
	}
	return req
}

// entries lead down into level, now and then too deep, not deep enough or astray.
func (r modelDice) entries(level []*modelNode) (all []*ratelimitv3.RateLimitDescriptor_Entry) {
	for {
		e := &ratelimitv3.RateLimitDescriptor_Entry{Key: fmt.Sprint("k", r.IntN(4)), Value: []string{"v0", "v1", "v1x", "v2", "w"}[r.IntN(5)]}
		var below []*modelNode
		if len(level) > 0 && !r.one(8) {
			n := level[r.IntN(len(level))]
			e.Key, below = n.key, n.below
			if n.value != "" && !strings.HasSuffix(n.value, "*") {
				e.Value = n.value
			}
		}
		all, level = append(all, e), below
		if len(level) == 0 && !r.one(12) || r.one(6) {
			return all
		}
	}
}
