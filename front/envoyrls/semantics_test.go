package envoyrls

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirgate/weir"
)

const someLimits = `domain: d
descriptors:
  - {key: l3, rate_limit: {unit: day, requests_per_unit: 3, name: three}}
  - {key: l10, rate_limit: {unit: day, requests_per_unit: 10}}
  - {key: free, rate_limit: {unlimited: true, replaces: [{name: three}]}}
  - {key: quiet, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1, name: quiet}}
  - {key: other, rate_limit: {unit: day, requests_per_unit: 5, name: other, replaces: [{name: three}, {name: quiet}]}}
  - {key: q1, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: q2, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: second, rate_limit: {unit: second, requests_per_unit: 1}}
  - {key: minute, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: hour, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: week, rate_limit: {unit: week, requests_per_unit: 1}}
  - {key: month, rate_limit: {unit: month, requests_per_unit: 1}}
  - {key: year, rate_limit: {unit: year, requests_per_unit: 1}}
`

// line shows an answer: the overall code, and for each descriptor its code, what is left and of how much.
func line(a *pb.RateLimitResponse) string {
	b := strings.Builder{}
	b.WriteString(a.OverallCode.String())
	for _, st := range a.Statuses {
		b.WriteString(" | " + st.Code.String())
		if l := st.CurrentLimit; l != nil {
			b.WriteString(" " + number(st.LimitRemaining) + "/" + number(l.RequestsPerUnit) + " " + l.Unit.String())
		} else if st.LimitRemaining > 0 {
			b.WriteString(" " + number(st.LimitRemaining))
		}
	}
	return b.String()
}

func number(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

// Steps run in order against one house. What an answer says is in line's words.
func TestAnswers(t *testing.T) {
	costs := func(d *ratelimitv3.RateLimitDescriptor, n uint64) *ratelimitv3.RateLimitDescriptor {
		d.HitsAddend = wrapperspb.UInt64(n)
		return d
	}
	brings := func(d *ratelimitv3.RateLimitDescriptor, n uint32, u typev3.RateLimitUnit) *ratelimitv3.RateLimitDescriptor {
		d.Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: n, Unit: u}
		return d
	}
	all := func(n uint32, of ...*ratelimitv3.RateLimitDescriptor) *pb.RateLimitRequest {
		r := request(of...)
		r.HitsAddend = n
		return r
	}
	steps := []struct {
		what string
		ask  *pb.RateLimitRequest
		want string
	}{
		{"0 means 1", all(0, descriptor("l3", "a")), "OK | OK 2/3 DAY"},
		{"a cost", all(2, descriptor("l3", "a")), "OK | OK 0/3 DAY"},
		{"a look at what is full", all(9, costs(descriptor("l3", "a"), 0)), "OK | OK 0/3 DAY"},
		{"one over", all(1, descriptor("l3", "a")), "OVER_LIMIT | OVER_LIMIT 0/3 DAY"},
		{"a look at what is over", all(9, costs(descriptor("l3", "a"), 0)), "OVER_LIMIT | OVER_LIMIT 0/3 DAY"},
		{"a cost of its own", all(9, costs(descriptor("l3", "b"), 2)), "OK | OK 1/3 DAY"},
		{"what is refused is counted", all(5, descriptor("l3", "b")), "OVER_LIMIT | OVER_LIMIT 0/3 DAY"},
		{"also of the others", all(1, descriptor("l3", "b"), descriptor("l10", "b")), "OVER_LIMIT | OVER_LIMIT 0/3 DAY | OK 9/10 DAY"},
		{"the same twice counts twice", all(1, descriptor("l10", "b"), descriptor("l10", "b")), "OK | OK 8/10 DAY | OK 7/10 DAY"},
		{"hits to give back are a look", func() *pb.RateLimitRequest {
			d := costs(descriptor("l10", "b"), 5)
			d.IsNegativeHits = true
			return all(1, d)
		}(), "OK | OK 7/10 DAY"},

		{"unlimited", all(1, descriptor("free", "x")), "OK | OK 4294967295"},
		{"unlimited replaces what is over", all(1, descriptor("l3", "a"), descriptor("free", "x")), "OK | OK | OK 4294967295"},
		{"whatever the order", all(1, descriptor("free", "x"), descriptor("l3", "a")), "OK | OK 4294967295 | OK"},
		{"what is replaced is not counted, and replaces", all(1, descriptor("other", "x"), descriptor("l3", "c"), descriptor("quiet", "c")), "OK | OK 4/5 DAY | OK | OK"},
		{"so all is left", all(1, descriptor("l3", "c")), "OK | OK 2/3 DAY"},

		{"shadow passes", all(1, descriptor("quiet", "a")), "OK | OK 0/1 DAY"},
		{"also when it is over", all(1, descriptor("quiet", "a")), "OK | OK 0/1 DAY"},

		{"quotas with room", all(1, descriptor("q1", "a"), descriptor("q2", "a")), "OK | OK 0/1 DAY | OK 1/2 DAY"},
		{"one of two is over", all(1, descriptor("q1", "a"), descriptor("q2", "a")), "OK | OVER_LIMIT 0/1 DAY | OK 0/2 DAY"},
		{"all are over", all(1, descriptor("q1", "a"), descriptor("q2", "a")), "OVER_LIMIT | OVER_LIMIT 0/1 DAY | OVER_LIMIT 0/2 DAY"},
		{"ordinary ones do not make room", all(1, descriptor("q1", "a"), descriptor("l10", "q")), "OVER_LIMIT | OVER_LIMIT 0/1 DAY | OK 9/10 DAY"},
		{"an ordinary one over is enough", all(1, descriptor("q2", "b"), descriptor("l3", "a")), "OVER_LIMIT | OK 1/2 DAY | OVER_LIMIT 0/3 DAY"},

		{"a limit brought along", all(1, brings(descriptor("l3", "a"), 100, typev3.RateLimitUnit_HOUR)), "OK | OK 99/100 HOUR"},
		{"needs no other", all(1, brings(descriptor("unknown", "a"), 7, typev3.RateLimitUnit_MONTH)), "OK | OK 6/7 MONTH"},
		{"0 lets nothing pass", all(1, brings(descriptor("unknown", "a"), 0, typev3.RateLimitUnit_YEAR)), "OVER_LIMIT | OVER_LIMIT 0/0 YEAR"},
		{"of unit 0 is left aside", all(1, brings(descriptor("l10", "z"), 100, typev3.RateLimitUnit_UNKNOWN)), "OK | OK 9/10 DAY"},
		{"of an unknown unit, too", all(1, brings(descriptor("l10", "z"), 100, 77)), "OK | OK 8/10 DAY"},
		{"and nothing applies then", all(1, brings(descriptor("unknown", "z"), 1, 7)), "OK | OK"},
		{"not in an unknown domain", &pb.RateLimitRequest{Domain: "nope", Descriptors: all(1, brings(descriptor("l3", "a"), 0, typev3.RateLimitUnit_DAY)).Descriptors}, "OK | OK"},
	}
	h := build(t, plan{yaml: someLimits})
	for _, step := range steps {
		if got := line(h.ask(t, step.ask)); got != step.want {
			t.Errorf("%s:\n got %s\nwant %s", step.what, got, step.want)
		}
	}
}

// A window ends by the caller's clock, to the second, and the reset is what is left of it, at least 1.
func TestWindowsOfEveryUnit(t *testing.T) {
	h := build(t, plan{yaml: someLimits})
	lengths := map[string]time.Duration{
		"second": time.Second, "minute": time.Minute, "hour": time.Hour,
		"l3": 24 * time.Hour, "week": 7 * 24 * time.Hour, "month": 30 * 24 * time.Hour, "year": 365 * 24 * time.Hour,
	}
	for key, length := range lengths {
		ask := request(descriptor(key, "x"))
		ask.HitsAddend = 3
		h.at(300 * time.Millisecond)
		left := length - time.Duration(noon.Unix()%int64(length/time.Second))*time.Second
		st := h.ask(t, ask).Statuses[0]
		if got := st.DurationUntilReset.AsDuration(); got != left {
			t.Errorf("%s: reset in %v, want %v", key, got, left)
		}
		h.at(left - time.Nanosecond)
		if a := h.ask(t, ask); a.OverallCode != pb.RateLimitResponse_OVER_LIMIT || a.Statuses[0].DurationUntilReset.Seconds != 1 {
			t.Errorf("%s: at the window's last moment %s, reset %v", key, line(a), a.Statuses[0].DurationUntilReset)
		}
		h.at(left)
		ask.HitsAddend = 1
		if a := h.ask(t, ask); a.OverallCode != pb.RateLimitResponse_OK {
			t.Errorf("%s: a new window: %s", key, line(a))
		}
	}
}

// QUOTA_MODE makes a quota of every descriptor: one that nothing applies to has room, an unlimited one is none.
func TestGlobalQuota(t *testing.T) {
	h := build(t, plan{yaml: someLimits, options: Options{Settings: Settings{Quota: true}}})
	full := descriptor("l3", "a")
	h.passes(t, 3, request(full))
	for _, c := range []struct {
		ask  *pb.RateLimitRequest
		want pb.RateLimitResponse_Code
	}{
		{request(full), pb.RateLimitResponse_OVER_LIMIT},
		{request(full, descriptor("unknown", "x")), pb.RateLimitResponse_OK},
		{request(full, descriptor("l10", "x")), pb.RateLimitResponse_OK},
		{request(full, descriptor("year", "x", "deeper", "y")), pb.RateLimitResponse_OK},
	} {
		if a := h.ask(t, c.ask); a.OverallCode != c.want {
			t.Errorf("%s, want %v", line(a), c.want)
		}
	}
}

// The headers tell of the limit with the fewest left, the first of several; one that refused always wins, the
// last of several; a quota that is over does not. Their names are configured.
func TestHeaders(t *testing.T) {
	names := &HeaderNames{Limit: "x-limit", Reset: "x-reset"}
	h := build(t, plan{yaml: someLimits, options: Options{Settings: Settings{Headers: names}}})
	h.passes(t, 5, request(descriptor("l3", "full")))
	h.passes(t, 5, request(descriptor("l10", "full"), descriptor("l10", "full")))
	h.passes(t, 2, request(descriptor("q1", "full")))
	for _, c := range []struct {
		ask                   *pb.RateLimitRequest
		limit, left, presence string
	}{
		{request(descriptor("l10", "a"), descriptor("l3", "a")), "3", "2", ""},
		{request(descriptor("hour", "a"), descriptor("minute", "a")), "1", "0", "3600"},
		{request(descriptor("minute", "b"), descriptor("l3", "full"), descriptor("l10", "full"), descriptor("hour", "c")), "10", "0", ""},
		{request(descriptor("q1", "full"), descriptor("q2", "x"), descriptor("l10", "c")), "1", "0", ""},
		{request(descriptor("unknown", "a"), descriptor("free", "a")), "", "", ""},
	} {
		a := h.ask(t, c.ask)
		got := map[string]string{}
		for _, header := range a.ResponseHeadersToAdd {
			got[header.Key] = header.Value
		}
		if got["x-limit"] != c.limit || got["RateLimit-Remaining"] != c.left || c.presence != "" && got["x-reset"] != c.presence || (len(got) == 3) != (c.limit != "") {
			t.Errorf("%s: headers %v, want %s and %s left", line(a), got, c.limit, c.left)
		}
	}
	if *names != (HeaderNames{Limit: "x-limit", Reset: "x-reset"}) {
		t.Error("the caller's names were changed")
	}
}

// Dynamic metadata say what was asked, word for word, and what passed.
func TestDynamicMetadata(t *testing.T) {
	h := build(t, plan{yaml: `domain: d
descriptors:
  - {key: a, metadata: {n: {x: 1, y: {z: true}}, list: [1, two]}, rate_limit: {unit: day, requests_per_unit: 9}}
  - {key: b, metadata: {n: {x: 2, w: 3}, list: []}, rate_limit: {unit: day, requests_per_unit: 9}}
`, options: Options{Settings: Settings{DynamicMetadata: true}}})
	second := descriptor("b", "2", "c", "=")
	second.HitsAddend = wrapperspb.UInt64(7)
	second.Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 5, Unit: typev3.RateLimitUnit_DAY}
	ask := request(descriptor("a", "1"), descriptor("b", "1"), second)
	ask.HitsAddend = 2
	for range 2 { // what is merged must not grow into the configuration
		want := map[string]any{
			"domain": "d", "hitsAddend": 2.0,
			"descriptors": []any{
				map[string]any{"entries": []any{"a=1"}},
				map[string]any{"entries": []any{"b=1"}},
				map[string]any{"entries": []any{"b=2", "c=="}, "hitsAddend": 7.0, "limit": "requests_per_unit:5 unit:DAY"},
			},
			"metadata": map[string]any{"n": map[string]any{"x": 1.0, "y": map[string]any{"z": true}, "w": 3.0}, "list": []any{1.0, "two"}},
		}
		if d := cmp.Diff(want, h.ask(t, ask).DynamicMetadata.AsMap()); d != "" {
			t.Fatalf("metadata (-want +got):\n%s", d)
		}
		ask.Descriptors[2].HitsAddend = wrapperspb.UInt64(7)
	}
}

// Another configuration takes effect with the next call and forgets no count; limits are counted under their
// new number.
func TestSetKeepsCounts(t *testing.T) {
	h := build(t, plan{yaml: someLimits})
	ask := request(descriptor("l3", "a"))
	h.passes(t, 2, ask)
	set := parse(t, map[string]string{"c.yaml": strings.Replace(someLimits, "requests_per_unit: 3", "requests_per_unit: 5", 1)}, plan{}.read)
	h.Set(set)
	if got := h.passes(t, 5, ask); got != 3 {
		t.Errorf("%d passed, want the 3 that are left of 5", got)
	}
}

// Each call is recorded once, under its domain or as without a rule, and no client is made up for it.
func TestEveryCallIsRecordedOnce(t *testing.T) {
	h := build(t, plan{yaml: someLimits})
	calls := 0
	ask := func(req *pb.RateLimitRequest) {
		calls++
		_, _ = h.ShouldRateLimit(context.Background(), req) // some are errors
	}
	for range 4 {
		ask(request(descriptor("l3", "a")))
	}
	ask(request())
	ask(nil)
	ask(&pb.RateLimitRequest{Domain: "strange", Descriptors: request(descriptor("l3", "a")).Descriptors})
	totals := h.journal.Totals()
	if totals.Requests != uint64(calls) || totals.Refused != 3 {
		t.Errorf("%d recorded with %d refused, want %d with 3", totals.Requests, totals.Refused, calls)
	}
	rules := map[string]uint64{}
	for _, r := range totals.Rules {
		rules[r.Rule] = r.Requests
	}
	if d := cmp.Diff(map[string]uint64{"rls:d": 4, "none": 3}, rules); d != "" {
		t.Errorf("by rule (-want +got):\n%s", d)
	}
	last := h.journal.Recent(10)
	if first := last[len(last)-1]; first.Front != "rls" || first.Client != "" || first.Source != "" || first.Limit != "three" || first.Remaining != 2 {
		t.Errorf("the first: %+v", first)
	}
	if f := h.journal.Findings(); len(f) != 0 {
		t.Errorf("the chain diagnosis speaks of %v", f)
	}
}

// enabled: false passes everything through, one status each.
func TestDisabled(t *testing.T) {
	h := build(t, plan{yaml: someLimits, policy: "enabled: false\n"})
	if got := h.passes(t, 10, request(descriptor("l3", "a"), descriptor("l10", "a"))); got != 10 {
		t.Errorf("%d of 10 passed", got)
	}
	a := h.ask(t, request(descriptor("l3", "a"), descriptor("free", "a")))
	if got := line(a); got != "OK | OK | OK" {
		t.Errorf("got %s", got)
	}
	if e := h.journal.Recent(1)[0]; e.Reason != string(weir.Disabled) {
		t.Errorf("reason %q", e.Reason)
	}
}
