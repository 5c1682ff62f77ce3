package envoyrls

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/front/envoyrls/descriptors"
)

const ownLimits = `domain: d
descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 5, name: per user}}
  - {key: site, rate_limit: {unit: minute, requests_per_unit: 100, name: site}}
  - {key: a_b, rate_limit: {unit: minute, requests_per_unit: 2}}
  - key: a
    rate_limit: {unit: minute, requests_per_unit: 2}
    descriptors: [{key: b, rate_limit: {unit: minute, requests_per_unit: 2}}]
  - {key: ten, rate_limit: {unit: 10m, requests_per_unit: 3}}
  - {key: odd, rate_limit: {unit: 90s, requests_per_unit: 3, algorithm: fixed_window}}
  - {key: bucket, rate_limit: {unit: minute, requests_per_unit: 60, algorithm: token_bucket, burst: 2}}
  - {key: q1, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: q2, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: quiet, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
`

func buildOwn(tb testing.TB) *house {
	return build(tb, plan{yaml: ownLimits, options: Options{Counting: Own}, read: descriptors.Options{Extensions: true}})
}

// CNT-11: what one limit refuses is charged to no other.
func TestOwnChargesAllOrNone(t *testing.T) {
	h := buildOwn(t)
	for i := range 500 {
		h.at(time.Duration(i) * 20 * time.Millisecond)
		h.ask(t, request(descriptor("user", "u1"), descriptor("site", "")))
	}
	h.at(11 * time.Second)
	if got := h.passes(t, 96, request(descriptor("site", ""))); got != 95 {
		t.Errorf("%d of the site's requests passed, want the 95 that u1 left", got)
	}
}

// CNT-12: a look says whether one would pass, and charges nothing; an absent cost is 1.
func TestOwnLook(t *testing.T) {
	h := buildOwn(t)
	look := descriptor("user", "u")
	look.HitsAddend = wrapperspb.UInt64(0)
	for range 10 {
		if got := line(h.ask(t, request(look))); got != "OK | OK 5/5 MINUTE" {
			t.Fatalf("a look: %s", got)
		}
	}
	if got := h.passes(t, 5, request(descriptor("user", "u"))); got != 5 {
		t.Errorf("%d passed, want 5", got)
	}
	if got := line(h.ask(t, request(look))); got != "OVER_LIMIT | OVER_LIMIT 0/5 MINUTE" {
		t.Errorf("a look at what is full: %s", got)
	}
}

// CNT-62: refused calls are not in the counter, so a limit that is raised lets as many more pass.
func TestOwnLimitRaised(t *testing.T) {
	h := buildOwn(t)
	h.passes(t, 50, request(descriptor("user", "u")))
	h.Set(parse(t, map[string]string{"c.yaml": strings.Replace(ownLimits, "requests_per_unit: 5,", "requests_per_unit: 15,", 1)}, descriptors.Options{Extensions: true}))
	if got := h.passes(t, 20, request(descriptor("user", "u"))); got != 10 {
		t.Errorf("%d passed, want exactly 10 more", got)
	}
}

// No value imitates another tuple.
func TestOwnKeysAreUnambiguous(t *testing.T) {
	h := buildOwn(t)
	for _, tuple := range [][]string{{"a", "x"}, {"a", "x_b_y"}, {"a", "x", "b", "y"}, {"a_b", "x"}, {"a", "b"}, {"a", "}x"}, {"a", "x:1:b1:y"}} {
		if got := h.passes(t, 3, request(descriptor(tuple...))); got != 2 {
			t.Errorf("%q: %d passed, want 2", tuple, got)
		}
	}
}

// A key begins with its tag, which holds all of who is counted; another window or algorithm is another counter.
func TestOwnKey(t *testing.T) {
	l := &weir.Limit{Window: time.Minute}
	for _, c := range []struct {
		k         keyed
		tag, rest string
	}{
		{keyed{domain: "d", limit: l}, "{rls:1:d}", ":sliding_window:60000000000"},
		{keyed{domain: "d", limit: l, entries: []descriptors.Entry{entry("k", "v1"), entry("", "")}}, "{rls:1:d1:k2:v10:0:}", ":sliding_window:60000000000"},
		{keyed{domain: "d", limit: &weir.Limit{Window: time.Hour, Algorithm: weir.TokenBucket}}, "{rls:1:d}", ":token_bucket:3600000000000"},
		{keyed{domain: "}", limit: l}, "{rls:sha256:f4158f3d73784d37354469681577fee1bd30673b19d75cd17773991be26665a5}", ":sliding_window:60000000000"},
	} {
		key, tag := appendOwnKey([]byte("before"), c.k)
		if got := string(key[len("before"):]); got != c.tag+c.rest || tag != len(c.tag) {
			t.Errorf("%v: %s with a tag of %d, want %s%s", c.k, got, tag, c.tag, c.rest)
		}
	}
}

// A refusal is a problem document with the fields of Weir's other fronts; an answer that passes has the
// rate limit fields alone.
func TestOwnAnswer(t *testing.T) {
	h := buildOwn(t)
	ask := request(descriptor("user", "u"), descriptor("site", ""))
	passed := headers(h.ask(t, ask))
	want := map[string]string{"Ratelimit-Policy": `"per user";q=5;w=60, "site";q=100;w=60`, "Ratelimit": `"per user";r=4;t=60, "site";r=99;t=60`}
	if d := cmp.Diff(want, passed); d != "" {
		t.Errorf("passed (-want +got):\n%s", d)
	}
	h.passes(t, 4, ask)
	refused := h.ask(t, ask)
	got := headers(refused)
	if got["Content-Type"] != "application/problem+json" || got["Cache-Control"] != "no-store" || got["Retry-After"] == "" || !strings.HasPrefix(got["Ratelimit"], `"per user";r=0`) {
		t.Errorf("refused: %v", got)
	}
	var problem struct {
		Type       string
		Status     int
		Violated   []string `json:"violated-policies"`
		RetryAfter int64    `json:"retry_after"`
		Rule       string
	}
	if err := json.Unmarshal(refused.RawBody, &problem); err != nil {
		t.Fatal(err)
	}
	if problem.Status != 429 || !cmp.Equal(problem.Violated, []string{"per user"}) || fmt.Sprint(problem.RetryAfter) != got["Retry-After"] || problem.Rule != "rls:d" {
		t.Errorf("body: %+v", problem)
	}
	if reset := refused.Statuses[0].DurationUntilReset.Seconds; reset != problem.RetryAfter {
		t.Errorf("reset in %d, want the wait of %d", reset, problem.RetryAfter)
	}
	h.at(time.Duration(problem.RetryAfter) * time.Second)
	if got := h.passes(t, 1, ask); got != 1 {
		t.Error("waiting as told did not pass")
	}
}

func headers(a *pb.RateLimitResponse) map[string]string {
	m := map[string]string{}
	for _, h := range a.ResponseHeadersToAdd {
		m[h.Key] = h.Value
	}
	return m
}

// Windows of any length are told by the unit below and how many of it, if that is whole.
func TestOwnWindows(t *testing.T) {
	h := buildOwn(t)
	for key, want := range map[string]string{"ten": "MINUTE 10", "odd": "MINUTE 0", "user": "MINUTE 0"} {
		l := h.ask(t, request(descriptor(key, "x"))).Statuses[0].CurrentLimit
		if got := fmt.Sprintf("%v %d", l.Unit, l.UnitMultiplier.GetValue()); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
	if got := h.passes(t, 5, request(descriptor("ten", "y"))); got != 3 {
		t.Errorf("10m: %d passed, want 3", got)
	}
	h.at(9 * time.Minute)
	if got := h.passes(t, 1, request(descriptor("ten", "y"))); got != 0 {
		t.Error("10m: passed within the window")
	}
	if got := h.passes(t, 5, request(descriptor("bucket", "y"))); got != 2 {
		t.Errorf("bucket: %d passed, want its burst of 2", got)
	}
}

// A quota that is over refuses nothing by itself, nor is anything charged to it; all together do. A shadow rule
// says OK.
func TestOwnQuotasAndShadow(t *testing.T) {
	h := buildOwn(t)
	both := request(descriptor("q1", "a"), descriptor("q2", "a"))
	for _, want := range []string{
		"OK | OK 0/1 DAY | OK 1/2 DAY",
		"OK | OVER_LIMIT 0/1 DAY | OK 0/2 DAY",
		"OVER_LIMIT | OVER_LIMIT 0/1 DAY | OVER_LIMIT 0/2 DAY",
	} {
		if got := line(h.ask(t, both)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for range 3 {
		if got := line(h.ask(t, request(descriptor("quiet", "a")))); got != "OK | OK 0/1 DAY" {
			t.Errorf("shadow: %s", got)
		}
	}
}
