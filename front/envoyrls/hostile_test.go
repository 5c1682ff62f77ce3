package envoyrls

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirgate/weir/internal/racing"
)

// What cannot be answered is an error that Envoy takes for one, and 400 on /json.
func TestErrors(t *testing.T) {
	long := make([]*ratelimitv3.RateLimitDescriptor, mostDescriptors+1)
	counted := make([]*ratelimitv3.RateLimitDescriptor, mostHits+1)
	for i := range long {
		long[i] = descriptor("unknown", "x")
	}
	for i := range counted {
		counted[i] = descriptor("l10", fmt.Sprint(i))
	}
	h := build(t, plan{yaml: someLimits})
	none := build(t, plan{})
	for name, c := range map[string]struct {
		house *house
		ask   *pb.RateLimitRequest
		want  codes.Code
	}{
		"nothing":                     {h, nil, codes.InvalidArgument},
		"empty":                       {h, &pb.RateLimitRequest{}, codes.InvalidArgument},
		"no domain":                   {h, &pb.RateLimitRequest{Descriptors: long[:1]}, codes.InvalidArgument},
		"no descriptors":              {h, request(), codes.InvalidArgument},
		"too many":                    {h, request(long...), codes.InvalidArgument},
		"most":                        {h, request(long[:mostDescriptors]...), codes.OK},
		"too many that are counted":   {h, request(counted...), codes.InvalidArgument},
		"most that are counted":       {h, request(counted[:mostHits]...), codes.OK},
		"without a configuration":     {none, request(descriptor("l3", "a")), codes.FailedPrecondition},
		"no domain, no configuration": {none, &pb.RateLimitRequest{}, codes.InvalidArgument},
	} {
		a, err := c.house.ShouldRateLimit(context.Background(), c.ask)
		if status.Code(err) != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if err == nil && len(a.Statuses) != len(c.ask.Descriptors) {
			t.Errorf("%s: %d statuses, want %d", name, len(a.Statuses), len(c.ask.Descriptors))
		}
	}
	for _, body := range []string{"", "{", "[]", `{"domain":"d"}`, `{"domain":"d","descriptors":[{}],"more":1}`, "null", strings.Repeat("[", 100_000)} {
		if code, _ := h.postJSON(t, []byte(body)); code != http.StatusBadRequest {
			t.Errorf("%.20s: %d, want 400", body, code)
		}
	}
	if code, _ := h.postJSON(t, []byte(`{"domain":"`+strings.Repeat("x", mostJSON)+`"}`)); code != http.StatusBadRequest {
		t.Errorf("a body above the bound: %d, want 400", code)
	}
}

// Values of any length are told apart, and a store key stays short.
func TestLongValues(t *testing.T) {
	for _, counting := range []Counting{Compat, Own} {
		h := build(t, plan{yaml: someLimits, options: Options{Counting: counting}})
		big := strings.Repeat("v", 1<<20)
		for _, value := range []string{big, big + "w", big[1:]} {
			if got := h.passes(t, 4, request(descriptor("l3", value))); got != 3 {
				t.Errorf("counting %d: %d passed, want 3", counting, got)
			}
		}
		s := &Server{options: Options{Counting: counting}}
		k := keyed{domain: "d", limit: &h.newLimit(overrideOf(1)).counted, at: noon}
		k.entries = append(k.entries, entry("l3", big))
		if key, _ := s.appendKey(nil, k); len(key) > 200 {
			t.Errorf("counting %d: a key of %d bytes", counting, len(key))
		}
	}
}

// The greatest costs are refused, and nothing turns round.
func TestGreatCosts(t *testing.T) {
	for _, counting := range []Counting{Compat, Own} {
		h := build(t, plan{yaml: someLimits, options: Options{Counting: counting}})
		for range 500 {
			for _, n := range []uint64{math.MaxUint64, math.MaxInt64, 1 << 62, 4} {
				d := descriptor("l3", "a")
				d.HitsAddend = wrapperspb.UInt64(n)
				if a := h.ask(t, request(d)); a.OverallCode != pb.RateLimitResponse_OVER_LIMIT {
					t.Fatalf("counting %d: %d hits: %s", counting, n, line(a))
				}
			}
		}
		most := request(descriptor("l3", "b"))
		most.HitsAddend = math.MaxUint32
		if a := h.ask(t, most); a.OverallCode != pb.RateLimitResponse_OVER_LIMIT {
			t.Errorf("counting %d: %s", counting, line(a))
		}
	}
}

// A fault of ours is one call's, recorded once.
func TestPanicIsOneCalls(t *testing.T) {
	h := build(t, plan{yaml: someLimits, options: Options{Store: &scripted{do: func() error { panic("a fault") }}}})
	_, err := h.ShouldRateLimit(context.Background(), request(descriptor("l3", "a")))
	if status.Code(err) != codes.Internal {
		t.Errorf("got %v, want Internal", err)
	}
	if totals := h.journal.Totals(); totals.Requests != 1 || totals.Refused != 1 {
		t.Errorf("recorded %+v", totals)
	}
	if code, _ := h.postJSON(t, []byte(`{"domain":"d","descriptors":[{"entries":[{"key":"l3","value":"a"}]}]}`)); code != http.StatusInternalServerError {
		t.Errorf("/json: %d, want 500", code)
	}
	if h.under.Load() != 0 {
		t.Error("a call is under way for ever")
	}
}

// A million distinct values: counters, metrics and what is kept between calls stay within their bounds.
func TestManyValuesAreBounded(t *testing.T) {
	racing.Skip(t)
	const most, asked = 100_000, 1_000_000
	store := NewMemory(MemoryOptions{MaxKeys: most})
	h := build(t, plan{yaml: `domain: d
descriptors:
  - {key: plain, rate_limit: {unit: day, requests_per_unit: 3}}
  - {key: told, detailed_metric: true, rate_limit: {unit: day, requests_per_unit: 3}}
  - {key: named, value_to_metric: true, rate_limit: {unit: day, requests_per_unit: 3}}
`, options: Options{Store: store}})
	before := heap()
	long := strings.Repeat("x", 100)
	for i := range asked {
		value := fmt.Sprint(i)
		switch i % 100 {
		case 1:
			value = long + value
		case 2:
			value = long + long + long + value
		}
		ask := request(descriptor([]string{"plain", "told", "named"}[i%3], value))
		if i%50 == 0 {
			ask.Descriptors[0].Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(i), Unit: typev3.RateLimitUnit_DAY}
		}
		if _, err := h.ShouldRateLimit(context.Background(), ask); err != nil {
			t.Fatal(err)
		}
	}
	if keys := store.Keys(); keys > most+memoryShards {
		t.Errorf("%d counters, want at most %d", keys, most)
	}
	if grown := heap() - before; grown > 32<<20 {
		t.Errorf("%d MiB more, want at most 32", grown>>20)
	}
	lines := h.scrape("ratelimit_")
	if len(lines) > 5*mostAsked {
		t.Errorf("%d series, want at most %d", len(lines), 5*mostAsked)
	}
	size := 0
	for _, l := range lines {
		size += len(l)
	}
	if size > 4<<20 {
		t.Errorf("metrics of %d bytes", size)
	}
	total := uint64(0)
	for _, s := range h.metrics.series {
		total += s.total.Load()
	}
	if total != uint64(asked) {
		t.Errorf("%d hits counted, want %d: what has no series of its own is counted as other", total, asked)
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC() // what pools kept is gone now
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Whatever bytes come over the wire: an answer with one status each, or an error that is not Unknown.
func FuzzBytes(f *testing.F) {
	for _, req := range []*pb.RateLimitRequest{
		request(descriptor("l3", "a")), request(), {}, request(descriptor("l3", "a", "b", "c"), descriptor("free", "x")),
		{Domain: "d", HitsAddend: math.MaxUint32, Descriptors: []*ratelimitv3.RateLimitDescriptor{{
			Limit:      &ratelimitv3.RateLimitDescriptor_RateLimitOverride{Unit: 99, RequestsPerUnit: 1},
			HitsAddend: wrapperspb.UInt64(math.MaxUint64),
		}}},
	} {
		text, err := proto.Marshal(req)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	houses := fuzzHouses(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		req := new(pb.RateLimitRequest)
		if proto.Unmarshal(text, req) != nil {
			return
		}
		for _, h := range houses {
			h.survives(t, req)
		}
	})
}

// Whatever is asked in the words of the configuration: the same.
func FuzzRequests(f *testing.F) {
	f.Add(uint64(1), uint64(2), "a", uint32(1))
	f.Add(uint64(3), uint64(0), "_}{:\x00\xff", uint32(math.MaxUint32))
	houses := fuzzHouses(f)
	f.Fuzz(func(t *testing.T, seed, n uint64, value string, cost uint32) {
		value = valid(value) // as a wire sees to it
		r := rand.New(rand.NewPCG(seed, n))
		keys := []string{"l3", "l10", "free", "quiet", "other", "q1", "q2", "second", "unknown", value, ""}
		req := &pb.RateLimitRequest{Domain: []string{"d", value}[r.IntN(2)], HitsAddend: cost}
		for range r.IntN(6) {
			d := descriptor()
			for range r.IntN(4) {
				d.Entries = append(d.Entries, descriptor(keys[r.IntN(len(keys))], []string{value, "x", ""}[r.IntN(3)]).Entries...)
			}
			if r.IntN(3) == 0 {
				d.Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: r.Uint32(), Unit: typev3.RateLimitUnit(r.IntN(9) - 1)}
			}
			if r.IntN(3) == 0 {
				d.HitsAddend = wrapperspb.UInt64(n >> r.IntN(64))
			}
			d.IsNegativeHits = r.IntN(5) == 0
			req.Descriptors = append(req.Descriptors, d)
		}
		for _, h := range houses {
			h.survives(t, req)
		}
	})
}

func fuzzHouses(f *testing.F) []*house {
	all := Settings{Headers: &HeaderNames{}, DynamicMetadata: true}
	return []*house{
		build(f, plan{yaml: someLimits, options: Options{Settings: all, Store: NewMemory(MemoryOptions{MaxKeys: 1000, Spare: true})}}),
		build(f, plan{yaml: someLimits, options: Options{Settings: all, Counting: Own}}),
	}
}

// survives asks, and checks what holds for every answer.
func (h *house) survives(t *testing.T, req *pb.RateLimitRequest) {
	t.Helper()
	before := h.journal.Totals().Requests
	answer, err := h.ShouldRateLimit(context.Background(), req)
	if h.journal.Totals().Requests != before+1 {
		t.Error("not recorded once")
	}
	if err != nil {
		if code := status.Code(err); code != codes.InvalidArgument || answer != nil {
			t.Errorf("error %v with %v", err, answer)
		}
		return
	}
	if len(answer.Statuses) != len(req.GetDescriptors()) || answer.OverallCode == pb.RateLimitResponse_UNKNOWN {
		t.Errorf("%d descriptors: %s", len(req.GetDescriptors()), line(answer))
	}
	for i, st := range answer.Statuses {
		if st.Code == pb.RateLimitResponse_OVER_LIMIT && (st.LimitRemaining != 0 || st.CurrentLimit == nil) || st.CurrentLimit != nil && st.DurationUntilReset.GetSeconds() < 1 {
			t.Errorf("status %d: %v", i, st)
		}
	}
	if _, err := proto.Marshal(answer); err != nil {
		t.Error(err)
	}
}
