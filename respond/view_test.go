package respond

import (
	"encoding/json"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
)

// example is the decision that the contract shows.
func example() *weir.Decision {
	limit := &weir.Limit{Name: "search", Rate: "10/1s", Algorithm: weir.TokenBucket, Max: 10, Burst: 20, Window: time.Second}
	return &weir.Decision{
		Request: weir.Request{Front: "proxy"},
		Client: weir.Client{
			Addr: netip.MustParseAddr("203.0.113.7"), Prefix: netip.MustParsePrefix("203.0.113.7/32"), Source: weir.Forwarded,
			Hops: []weir.Hop{{Address: "10.0.0.1", Trusted: true, By: "nginx"}, {Address: "203.0.113.7", By: "x-forwarded-for[1]"}},
		},
		Rule:     &weir.Rule{Name: "search", Host: "*", Path: "/api/search", Method: "*"},
		Hits:     []weir.Hit{{Limit: limit, Key: []byte("…"), N: 2}},
		Statuses: []weir.Status{{Limit: limit, Allowed: true, Remaining: 6, ResetAfter: 400 * time.Millisecond}},
		Reason:   weir.WithinLimits,
		HTTP:     200,
	}
}

// The contract's object, but for the firewall's part, which comes later.
func TestDecisionIsTheContracts(t *testing.T) {
	text, err := os.ReadFile("testdata/decision.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	want["waf"] = map[string]any{"verdict": "off", "ruleset": nil, "inspected": nil, "rules": []any{}, "incident": nil}
	if diff := cmp.Diff(want, marshalled(t, example())); diff != "" {
		t.Errorf("decision (-want +got):\n%s", diff)
	}
}

func marshalled(t *testing.T, d *weir.Decision) map[string]any {
	t.Helper()
	text, err := MarshalDecision(d)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestDecisionOfARefusal(t *testing.T) {
	d := example()
	trial := &weir.Limit{Name: "trial", Rate: "1/1s", Max: 1, Window: time.Second, Mode: weir.Shadow}
	d.Statuses[0] = weir.Status{Limit: d.Hits[0].Limit, RetryAfter: 100*time.Millisecond + 1, ResetAfter: 2 * time.Second}
	d.Hits = append(d.Hits, weir.Hit{Limit: trial, Key: []byte("k"), N: 2})
	d.Statuses = append(d.Statuses, weir.Status{Limit: trial, Remaining: 1, RetryAfter: weir.Never})
	d.Action, d.Reason, d.HTTP, d.Degraded = weir.Reject, weir.OverLimit, 429, true
	got := marshalled(t, d)
	want := map[string]any{"action": "reject", "reason": "over limit", "status": 429.0, "degraded": true, "shadow": []any{"trial"},
		"limits": []any{
			map[string]any{"name": "search", "rate": "10/1s", "algorithm": "token_bucket", "key": "…", "mode": "enforce", "cost": 2.0,
				"limit": 10.0, "remaining": 0.0, "reset_after": 2.0, "retry_after": 0.101, "allowed": false},
			map[string]any{"name": "trial", "rate": "1/1s", "algorithm": "sliding_window", "key": "k", "mode": "shadow", "cost": 2.0,
				"limit": 1.0, "remaining": 1.0, "reset_after": 0.0, "retry_after": nil, "allowed": false},
		}}
	for name := range want {
		if diff := cmp.Diff(want[name], got[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Nobody is shown an address where there is none.
func TestDecisionOfAnUnresolvedClient(t *testing.T) {
	d := &weir.Decision{Client: weir.Client{Source: weir.Unresolved, Via: netip.MustParseAddr("10.0.0.1"),
		APIKey: "k1", Plan: "free", Chain: weir.Chain{Codes: weir.ChainShort | weir.ChainInvalidEntry}}}
	got := marshalled(t, d)
	want := map[string]any{
		"address": nil, "key": "unresolved:10.0.0.1", "source": "unresolved", "prefix": nil, "api_key": "k1", "plan": "free",
		"hops": []any{}, "warnings": []any{"chain.short", "chain.invalid_entry"},
	}
	if diff := cmp.Diff(want, got["client"]); diff != "" {
		t.Errorf("client (-want +got):\n%s", diff)
	}
	if got["rule"] != nil || got["matched_by"] != nil || got["ban"] != nil {
		t.Errorf("rule, matched_by, ban: got %v, %v, %v, want null", got["rule"], got["matched_by"], got["ban"])
	}
}

// A decision is used again after it was recorded: what is shown must not change with it.
func TestViewKeepsNoKey(t *testing.T) {
	d := example()
	d.Hits[0].Key = []byte("before")
	v := View(d)
	copy(d.Hits[0].Key, "after!")
	if got := v.Limits[0].Key; got != "before" {
		t.Errorf("key: got %q, want before", got)
	}
}
