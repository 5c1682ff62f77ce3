package envoyrls

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// A modelLimit is a limit of a random configuration of one level.
type modelLimit struct {
	name, unit               string
	seconds, perUnit         int64
	unlimited, shadow, quota bool
	replaces                 string
}

// A model answers as research says that envoyproxy/ratelimit does, in the plainest way.
type model struct {
	limits        map[string]*modelLimit // by key
	quota, shadow bool
	counters      map[string]int64
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

func randomModel(r *rand.Rand) (*model, string) {
	m := &model{limits: map[string]*modelLimit{}, quota: r.IntN(6) == 0, shadow: r.IntN(6) == 0, counters: map[string]int64{}}
	text := strings.Builder{}
	text.WriteString("domain: d\ndescriptors:\n")
	for i := range 1 + r.IntN(6) {
		u := modelUnits[r.IntN(len(modelUnits))]
		l := &modelLimit{name: fmt.Sprint("n", r.IntN(4)), unit: u.name, seconds: u.seconds, perUnit: int64(r.IntN(6)), unlimited: r.IntN(8) == 0, shadow: r.IntN(5) == 0, quota: r.IntN(4) == 0}
		if r.IntN(4) == 0 {
			l.replaces = fmt.Sprint("n", 3-r.IntN(4))
		}
		if l.replaces == l.name {
			l.replaces = ""
		}
		m.limits[fmt.Sprint("k", i)] = l
		fmt.Fprintf(&text, "  - {key: k%d, shadow_mode: %v, quota_mode: %v, rate_limit: {name: %s", i, l.shadow, l.quota, l.name)
		if l.unlimited {
			text.WriteString(", unlimited: true")
		} else {
			fmt.Fprintf(&text, ", unit: %s, requests_per_unit: %d", l.unit, l.perUnit)
		}
		if l.replaces != "" {
			fmt.Fprintf(&text, ", replaces: [{name: %s}]", l.replaces)
		}
		text.WriteString("}}\n")
	}
	return m, text.String()
}

// of returns the limit of a descriptor, or nil.
func (m *model) of(d *ratelimitv3.RateLimitDescriptor) *modelLimit {
	if own := d.Limit; own != nil {
		for _, u := range modelUnits {
			if u.asked == own.Unit && own.Unit != 0 {
				return &modelLimit{unit: u.name, seconds: u.seconds, perUnit: int64(own.RequestsPerUnit)}
			}
		}
	}
	if len(d.Entries) != 1 {
		return nil
	}
	return m.limits[d.Entries[0].Key]
}

// answer returns what line shows of the answer at a Unix time.
func (m *model) answer(req *pb.RateLimitRequest, now int64) string {
	limits, gone := make([]*modelLimit, len(req.Descriptors)), map[string]bool{}
	for i, d := range req.Descriptors {
		if limits[i] = m.of(d); limits[i] != nil && limits[i].replaces != "" {
			gone[limits[i].replaces] = true
		}
	}
	text, ordinary, quotas, quotasOver := "", false, 0, 0
	for i, d := range req.Descriptors {
		l := limits[i]
		if l != nil && l.unlimited {
			text += " | OK 4294967295"
			continue
		}
		isQuota := m.quota
		code := "OK"
		if l != nil && !(l.name != "" && gone[l.name]) {
			isQuota = isQuota || l.quota
			n := max(1, int64(req.HitsAddend))
			if d.HitsAddend != nil {
				n = int64(d.HitsAddend.Value)
			}
			key := fmt.Sprint(d.Entries[0].Key, d.Entries[0].Value, len(d.Entries), now-now%l.seconds)
			m.counters[key] += n
			left := max(0, l.perUnit-m.counters[key])
			if m.counters[key] > l.perUnit && !l.shadow {
				code = "OVER_LIMIT"
			}
			text += fmt.Sprintf(" | %s %d/%d %s", code, left, l.perUnit, strings.ToUpper(l.unit))
		} else {
			text += " | OK"
		}
		if isQuota {
			quotas++
		}
		switch over := code == "OVER_LIMIT"; {
		case over && isQuota:
			quotasOver++
		case over:
			ordinary = true
		}
	}
	if !m.shadow && (ordinary || quotas > 0 && quotas == quotasOver) {
		return "OVER_LIMIT" + text
	}
	return "OK" + text
}

func randomRequest(r *rand.Rand) *pb.RateLimitRequest {
	req := &pb.RateLimitRequest{Domain: "d", HitsAddend: uint32(r.IntN(3))}
	for range 1 + r.IntN(4) {
		d := descriptor(fmt.Sprint("k", r.IntN(7)), fmt.Sprint("v", r.IntN(3)))
		if r.IntN(12) == 0 {
			d.Entries = append(d.Entries, descriptor("deeper", "x").Entries...)
		}
		if r.IntN(10) == 0 {
			unit := typev3.RateLimitUnit(r.IntN(7))
			if unit != 0 { // a counter has one unit: its name does not tell them apart
				d.Entries[0].Key = unit.String()
			}
			d.Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(r.IntN(5)), Unit: unit}
		}
		if r.IntN(5) == 0 {
			d.HitsAddend = wrapperspb.UInt64(uint64(r.IntN(3)))
		}
		req.Descriptors = append(req.Descriptors, d)
	}
	return req
}

// 100,000 random requests under 1,000 random configurations are answered as the model answers.
func TestAnswersEqualTheModel(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	h := build(t, plan{})
	for range 1000 {
		m, text := randomModel(r)
		h.options.Settings.Quota, h.options.Settings.Shadow = m.quota, m.shadow
		h.options.Store = NewMemory(MemoryOptions{MaxKeys: 10_000})
		h.Set(parse(t, map[string]string{"c.yaml": text}, plan{}.read))
		at := rand.N(400 * 24 * time.Hour)
		for range 100 {
			at += time.Duration(r.IntN(500)) * time.Millisecond
			h.at(at)
			req := randomRequest(r)
			want := m.answer(req, noon.Add(at).Unix())
			if got := line(h.ask(t, req)); got != want {
				t.Fatalf("%s%v:\n got %s\nwant %s", text, req, got, want)
			}
		}
	}
}
