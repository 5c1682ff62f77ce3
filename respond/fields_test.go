package respond

import (
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
)

func perMinute(name string, n int64) *weir.Limit {
	return &weir.Limit{Name: name, Rate: "60/1m", Max: n, Window: time.Minute}
}

func decided(statuses ...weir.Status) *weir.Decision {
	return &weir.Decision{At: time.Unix(1_700_000_000, 0), HTTP: 200, Statuses: statuses}
}

func TestHeaders(t *testing.T) {
	minute, hour := perMinute("minute", 60), &weir.Limit{Name: "hour", Max: 5000, Window: time.Hour}
	trial := &weir.Limit{Name: "trial", Max: 1, Window: time.Second, Mode: weir.Shadow}
	flight := &weir.Limit{Name: "flight", Algorithm: weir.Concurrency, Max: 20}
	tests := []struct {
		name          string
		statuses      []weir.Status
		policy, state string
	}{
		{"one limit", []weir.Status{{Limit: minute, Allowed: true, Remaining: 59, ResetAfter: 60 * time.Second}},
			`"minute";q=60;w=60`, `"minute";r=59;t=60`},
		{"a reset is rounded up", []weir.Status{{Limit: minute, Allowed: true, Remaining: 1, ResetAfter: 22*time.Second + 1}},
			`"minute";q=60;w=60`, `"minute";r=1;t=23`},
		{"a reset of 0 is a number", []weir.Status{{Limit: minute, Allowed: true, Remaining: 60}},
			`"minute";q=60;w=60`, `"minute";r=60;t=0`},
		{"a refusal's reset is when to retry", []weir.Status{{Limit: minute, RetryAfter: 400 * time.Millisecond, ResetAfter: 50 * time.Second}},
			`"minute";q=60;w=60`, `"minute";r=0;t=1`},
		{"no waiting helps", []weir.Status{{Limit: minute, Remaining: 60, RetryAfter: weir.Never, ResetAfter: 9 * time.Second}},
			`"minute";q=60;w=60`, `"minute";r=60`},
		{"the least left is first", []weir.Status{{Limit: hour, Allowed: true, Remaining: 4000, ResetAfter: time.Hour}, {Limit: minute, Allowed: true, Remaining: 3, ResetAfter: time.Minute}},
			`"minute";q=60;w=60, "hour";q=5000;w=3600`, `"minute";r=3;t=60, "hour";r=4000;t=3600`},
		{"the longest wait is first", []weir.Status{{Limit: minute, RetryAfter: time.Second}, {Limit: hour, RetryAfter: 2 * time.Second}},
			`"hour";q=5000;w=3600, "minute";q=60;w=60`, `"hour";r=0;t=2, "minute";r=0;t=1`},
		{"what no waiting helps is first of all", []weir.Status{{Limit: minute, RetryAfter: time.Hour}, {Limit: hour, RetryAfter: weir.Never}},
			`"hour";q=5000;w=3600, "minute";q=60;w=60`, `"hour";r=0, "minute";r=0;t=3600`},
		{"a refusal is before what has less left", []weir.Status{{Limit: minute, Allowed: true}, {Limit: hour, Remaining: 1, RetryAfter: time.Second}},
			`"hour";q=5000;w=3600, "minute";q=60;w=60`, `"hour";r=1;t=1, "minute";r=0;t=0`},
		{"shadow limits are not shown", []weir.Status{{Limit: trial, RetryAfter: time.Second}, {Limit: minute, Allowed: true, Remaining: 59, ResetAfter: time.Minute}},
			`"minute";q=60;w=60`, `"minute";r=59;t=60`},
		{"only a shadow limit", []weir.Status{{Limit: trial, RetryAfter: time.Second}}, "", ""},
		{"in flight", []weir.Status{{Limit: flight, Allowed: true, Remaining: 19}},
			`"flight";q=20;qu="concurrent-requests"`, `"flight";r=19`},
		{"too many in flight", []weir.Status{{Limit: flight, RetryAfter: time.Second}},
			`"flight";q=20;qu="concurrent-requests"`, `"flight";r=0;t=1`},
		{"nothing passes", []weir.Status{{Limit: perMinute("none", 0), RetryAfter: weir.Never}},
			`"none";q=0;w=60`, `"none";r=0`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := http.Header{}
			new(Responder).Headers(got, decided(test.statuses...))
			want := http.Header{}
			if test.policy != "" {
				want.Set("RateLimit-Policy", test.policy)
				want.Set("RateLimit", test.state)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}

// What is written is what the capacity over the window promises: never more than the limit passes.
func TestPolicyOfEveryAlgorithm(t *testing.T) {
	tests := []struct {
		limit weir.Limit
		want  string
	}{
		{weir.Limit{Algorithm: weir.SlidingWindow, Max: 10, Window: 1500 * time.Millisecond}, `"l";q=10;w=2`},
		{weir.Limit{Algorithm: weir.SlidingLog, Max: 10, Window: time.Second}, `"l";q=10;w=1`},
		{weir.Limit{Algorithm: weir.FixedWindow, Max: 120, Window: 5 * time.Minute}, `"l";q=120;w=300`},
		{weir.Limit{Algorithm: weir.TokenBucket, Max: 10, Burst: 10, Window: time.Second}, `"l";q=10;w=1`},
		{weir.Limit{Algorithm: weir.TokenBucket, Max: 10, Burst: 20, Window: time.Second}, `"l";q=20;w=2`},
		{weir.Limit{Algorithm: weir.TokenBucket, Max: 60, Burst: 1, Window: time.Minute}, `"l";q=1;w=1`},
		{weir.Limit{Algorithm: weir.TokenBucket, Max: 1, Burst: 3, Window: 24 * time.Hour}, `"l";q=3;w=259200`},
		{weir.Limit{Algorithm: weir.Quota, Max: 1000, Period: weir.Day}, `"l";q=1000;w=86400`},
		{weir.Limit{Algorithm: weir.Quota, Max: 1000, Period: weir.Week}, `"l";q=1000;w=604800`},
		{weir.Limit{Algorithm: weir.Quota, Max: 1000, Period: weir.Month}, `"l";q=1000;w=2678400`},
		{weir.Limit{Max: math.MaxInt64, Window: time.Second}, `"l";q=999999999999999;w=1`},
	}
	for _, test := range tests {
		test.limit.Name = "l"
		h := http.Header{}
		new(Responder).Headers(h, decided(weir.Status{Limit: &test.limit, Allowed: true}))
		if got := h.Get("RateLimit-Policy"); got != test.want {
			t.Errorf("%s %d: got %s, want %s", test.limit.Algorithm, test.limit.Max, got, test.want)
		}
	}
}

// express-rate-limit#552: a reset of 0 was taken for "not set", and the field disappeared.
func TestLegacyHeaders(t *testing.T) {
	at := time.Unix(1_700_000_000, 500)
	bucket := &weir.Limit{Name: "b", Algorithm: weir.TokenBucket, Max: 10, Burst: 20, Window: time.Second}
	tests := []struct {
		name    string
		options Options
		status  weir.Status
		want    http.Header
	}{
		{"delta", Options{Headers: "legacy"}, weir.Status{Limit: perMinute("m", 5), Allowed: true, Remaining: 4, ResetAfter: 59*time.Second + 1},
			http.Header{"X-Ratelimit-Limit": {"5"}, "X-Ratelimit-Remaining": {"4"}, "X-Ratelimit-Reset": {"60"}}},
		{"delta 0", Options{Headers: "legacy", LegacyReset: "delta"}, weir.Status{Limit: perMinute("m", 5), Allowed: true, Remaining: 5},
			http.Header{"X-Ratelimit-Limit": {"5"}, "X-Ratelimit-Remaining": {"5"}, "X-Ratelimit-Reset": {"0"}}},
		{"epoch rounds up", Options{Headers: "legacy", LegacyReset: "epoch"}, weir.Status{Limit: perMinute("m", 5), RetryAfter: 10 * time.Second},
			http.Header{"X-Ratelimit-Limit": {"5"}, "X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"1700000011"}}},
		{"what may be used at once is never above the limit", Options{Headers: "legacy"}, weir.Status{Limit: bucket, Allowed: true, Remaining: 19, ResetAfter: 100 * time.Millisecond},
			http.Header{"X-Ratelimit-Limit": {"20"}, "X-Ratelimit-Remaining": {"19"}, "X-Ratelimit-Reset": {"1"}}},
		{"both", Options{Headers: "both"}, weir.Status{Limit: perMinute("m", 5), Allowed: true, Remaining: 4, ResetAfter: time.Minute},
			http.Header{"Ratelimit-Policy": {`"m";q=5;w=60`}, "Ratelimit": {`"m";r=4;t=60`},
				"X-Ratelimit-Limit": {"5"}, "X-Ratelimit-Remaining": {"4"}, "X-Ratelimit-Reset": {"60"}}},
		{"off", Options{Headers: "off"}, weir.Status{Limit: perMinute("m", 5), Allowed: true}, http.Header{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := decided(test.status)
			d.At = at
			got := http.Header{}
			New(test.options).Headers(got, d)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEpochOfAWholeSecond(t *testing.T) {
	if got := epochAfter(time.Unix(100, 0), time.Second); got != 101 {
		t.Errorf("got %d, want 101", got)
	}
}

// Kong#14353: the upstream's fields and the gateway's stood side by side.
func TestHeadersReplaceThoseOfTheSameName(t *testing.T) {
	h := http.Header{}
	for _, name := range []string{"RateLimit", "RateLimit-Policy", "X-RateLimit-Remaining"} {
		h.Add(name, "upstream's")
		h.Add(name, "upstream's second")
	}
	h.Set("Retry-After", "7")
	New(Options{Headers: "both"}).Headers(h, decided(weir.Status{Limit: perMinute("m", 5), Allowed: true, Remaining: 4, ResetAfter: time.Minute}))
	want := http.Header{
		"Retry-After": {"7"}, "Ratelimit-Policy": {`"m";q=5;w=60`}, "Ratelimit": {`"m";r=4;t=60`},
		"X-Ratelimit-Limit": {"5"}, "X-Ratelimit-Remaining": {"4"}, "X-Ratelimit-Reset": {"60"},
	}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

// Where no waiting helps there is no moment to wait for.
func TestLegacyResetIsAbsentWhereNoWaitingHelps(t *testing.T) {
	for _, reset := range []string{"delta", "epoch"} {
		h := http.Header{}
		New(Options{Headers: "legacy", LegacyReset: reset}).Headers(h, decided(weir.Status{Limit: perMinute("m", 5), Remaining: 5, RetryAfter: weir.Never}))
		want := http.Header{"X-Ratelimit-Limit": {"5"}, "X-Ratelimit-Remaining": {"5"}}
		if diff := cmp.Diff(want, h); diff != "" {
			t.Errorf("%s (-want +got):\n%s", reset, diff)
		}
	}
}

// Values must not grow into each other when a handler appends to one.
func TestHeadersAreApart(t *testing.T) {
	h := http.Header{}
	new(Responder).Headers(h, decided(weir.Status{Limit: perMinute("m", 5), Allowed: true}))
	h.Add("RateLimit-Policy", "more")
	if got, want := h.Get("RateLimit"), `"m";r=0;t=0`; got != want {
		t.Errorf("RateLimit: got %s, want %s", got, want)
	}
}

func TestNamesAreStructuredStrings(t *testing.T) {
	tests := map[string]string{
		"plain":       "plain",
		`a"b\c`:       `a"b\c`,
		"grüße\n":     "gr%C3%BC%C3%9Fe%0A",
		"rule/60/1m!": "rule/60/1m!",
	}
	for name, want := range tests {
		list, err := httpsfv.UnmarshalList([]string{string(appendName(nil, name))})
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if got := list[0].(httpsfv.Item).Value; got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func FuzzHeadersAreStructuredFields(f *testing.F) {
	f.Add("search", int64(10), int64(3), int64(time.Second), uint8(weir.TokenBucket), true)
	f.Add("in \"flight\"", int64(-1), int64(math.MaxInt64), int64(-1), uint8(weir.Concurrency), false)
	f.Fuzz(func(t *testing.T, name string, n, left, wait int64, algorithm uint8, allowed bool) {
		l := &weir.Limit{Name: name, Max: max(n, 0), Burst: max(n, 1), Window: time.Minute, Algorithm: weir.Algorithm(algorithm % 6)}
		s := weir.Status{Limit: l, Allowed: allowed, Remaining: left, ResetAfter: time.Duration(max(wait, 0)), RetryAfter: time.Duration(max(wait, -1))}
		h := http.Header{}
		new(Responder).Headers(h, decided(s, s))
		for _, field := range []struct{ name, parameter string }{{"RateLimit-Policy", "q"}, {"RateLimit", "r"}} {
			list, err := httpsfv.UnmarshalList(h.Values(field.name))
			if err != nil || len(list) != 2 {
				t.Fatalf("%s: %v: %d items, %v", field.name, h.Values(field.name), len(list), err)
			}
			item := list[0].(httpsfv.Item)
			if v, _ := item.Params.Get(field.parameter); v == nil || v.(int64) < 0 {
				t.Errorf("%s: %s is %v", field.name, field.parameter, v)
			}
		}
	})
}

func TestHeadersAllocate(t *testing.T) {
	r := new(Responder)
	d := decided(
		weir.Status{Limit: perMinute("minute", 60), Allowed: true, Remaining: 59, ResetAfter: time.Minute},
		weir.Status{Limit: perMinute("client", 600), Allowed: true, Remaining: 599, ResetAfter: time.Minute},
	)
	h := http.Header{"Ratelimit": nil, "Ratelimit-Policy": nil}
	if got := testing.AllocsPerRun(100, func() { r.Headers(h, d) }); got > 2 {
		t.Errorf("allocations: got %v, want at most 2: the text and its values", got)
	}
}
