package policy

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
)

const askID = "0123456789abcdef0123456789abcdef"

// named is an ordinary request that has an ID.
func named(path string) weir.Request {
	req := request(path)
	req.ID = askID
	return req
}

const onceConfig = charging + `
  - {name: shy, path: /shy, mode: shadow, limits: [{name: shy, rate: 5/1m}]}
  - {name: denied, path: /denied, on_failure: deny, limits: [{name: denied, rate: 5/1m}]}
`

// A named request has one hit more, the last, if it is charged anything.
func TestNamedRequestsAreHitOnce(t *testing.T) {
	p := policyOf(t, strings.Replace(onceConfig, "limits:\n  - {name: site, rate: 600/1m, per: ip}\n", "", 1))
	for path, want := range map[string]bool{
		"/search": true, "/": true, "/shy": true, "/denied": true,
		"/look":  false, // costs nothing
		"/login": false, // a look until the answer is known
		"/off":   false,
	} {
		plain, named := hitsOf(t, p, request(path)), hitsOf(t, p, named(path))
		more := len(named.Hits) - len(plain.Hits)
		if (more == 1) != want || len(named.Statuses) != len(named.Hits) {
			t.Errorf("%s: %d hits more, %d statuses for %d hits", path, more, len(named.Statuses), len(named.Hits))
		}
		if diff := cmp.Diff(plain.Hits, named.Hits[:len(plain.Hits)]); diff != "" {
			t.Errorf("%s: the others (-without +with):\n%s", path, diff)
		}
	}
}

// One passes, and the next when exactly 5 seconds are over. The rule says what follows where it cannot
// be counted, as of the others.
func TestTheHitOnce(t *testing.T) {
	d := hitsOf(t, policyOf(t, onceConfig), named("/denied"))
	got := d.Hits[len(d.Hits)-1]
	limit := weir.Limit{Rate: "1/5s", Algorithm: weir.TokenBucket, Mode: weir.Enforce, Max: 1, Burst: 1, Window: 5 * time.Second}
	want := weir.Hit{Limit: &limit, Key: []byte("{203.0.113.9/32}::token_bucket:5s:=" + askID), TagLen: len("{203.0.113.9/32}"), N: 1, OnFailure: weir.FailDeny}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// The counter shares a Cluster slot with what is counted per client, whatever the rule, so that it is the
// same one when the second ask falls under another rule.
func TestTheHitOnceSharesTheClientsTag(t *testing.T) {
	p := policyOf(t, "limits: [{name: all, rate: 9/1m, per: global}, {name: site, rate: 9/1m}]\nrules: [{name: a, path: /a, limits: [{rate: 9/1m, per: path}]}]")
	for _, peer := range []string{"203.0.113.9", "2001:db8:1:2::9", "::1", "64:ff9b::1"} {
		req, other := named("/a"), named("/b")
		req.Peer, other.Peer, other.Method = netip.MustParseAddr(peer), netip.MustParseAddr(peer), "POST"
		d := hitsOf(t, p, req)
		last, site := d.Hits[len(d.Hits)-1], d.Hits[1]
		if got, want := string(last.Key[:last.TagLen]), string(site.Key[:site.TagLen]); got != want {
			t.Errorf("%s: tag %s, want %s", peer, got, want)
		}
		again := hitsOf(t, p, other)
		if got := again.Hits[len(again.Hits)-1]; string(got.Key) != string(last.Key) {
			t.Errorf("%s: under another rule %s, want %s", peer, got.Key, last.Key)
		}
	}
	d := &weir.Decision{Request: named("/a"), Client: weir.Client{APIKey: "k1"}}
	p.rules[0].Hits(d)
	if last := d.Hits[len(d.Hits)-1]; string(last.Key[:last.TagLen]) != "{=k1}" {
		t.Errorf("with an API key: %s", last.Key)
	}
}

// Whatever an ID is, its key is nobody else's.
func TestStrangeIDs(t *testing.T) {
	p := policyOf(t, "default: {limits: [{rate: 9/1m}]}")
	seen := map[string]string{string(hitsOf(t, p, request("/")).Hits[0].Key): "the limit"}
	for _, id := range []string{"a", "A", "a|b", "a:b", "}a", "{a}", "=a", "%3aa", " ", "\x00", strings.Repeat("a", 65), strings.Repeat("a", 66)} {
		req := request("/")
		req.ID = id
		d := hitsOf(t, p, req)
		key := string(d.Hits[1].Key)
		if other, taken := seen[key]; taken || len(key) > 300 {
			t.Errorf("%q has the key of %q: %s", id, other, key)
		}
		seen[key] = id
	}
}

// An outcome is a decision as everybody but the store sees it.
type outcome struct {
	Action    weir.Action
	Reason    weir.Reason
	HTTP      int
	Hits      []charge
	Allowed   []bool
	Remaining []int64
	Retry     []time.Duration
	Degraded  bool
}

// outcomeOf decides a named request after the store said this of its hits, the last of which is the one
// of its own.
func outcomeOf(t *testing.T, p *Policy, path string, err error, said ...weir.Status) outcome {
	t.Helper()
	d := &weir.Decision{Request: named(path)}
	p.Identify(d)
	r := p.Match(d)
	r.Hits(d)
	for i := range said {
		d.Statuses[i] = said[i]
		d.Statuses[i].Limit = d.Hits[i].Limit
	}
	r.Decide(d, err)
	o := outcome{Action: d.Action, Reason: d.Reason, HTTP: d.HTTP, Hits: charges(d.Hits), Degraded: d.Degraded}
	for i := range d.Statuses {
		s := &d.Statuses[i]
		o.Allowed, o.Remaining, o.Retry = append(o.Allowed, s.Allowed), append(o.Remaining, s.Remaining), append(o.Retry, s.RetryAfter)
	}
	return o
}

func TestDecideOnce(t *testing.T) {
	p := policyOf(t, acting)
	yes := weir.Status{Allowed: true, Remaining: 3}
	no := weir.Status{RetryAfter: time.Second, ResetAfter: time.Second}
	far := weir.Status{Allowed: true, Degraded: true}
	one := func(name string) []charge { return []charge{{name, 1}} }
	passes := func(why weir.Reason, name string, left int64) outcome {
		return outcome{weir.Pass, why, 200, one(name), []bool{true}, []int64{left}, []time.Duration{0}, false}
	}
	for name, c := range map[string]struct {
		path string
		said []weir.Status
		err  error
		want outcome
	}{
		"first":               {"/reject", []weir.Status{yes, yes}, nil, passes(weir.WithinLimits, "reject", 3)},
		"asked before":        {"/reject", []weir.Status{yes, no}, nil, passes(weir.AskedBefore, "reject", 3)},
		"before, limit full":  {"/reject", []weir.Status{no, no}, nil, passes(weir.AskedBefore, "reject", 0)},
		"before, drop":        {"/drop", []weir.Status{no, no}, nil, passes(weir.AskedBefore, "drop", 0)},
		"before, tag":         {"/tag", []weir.Status{no, no}, nil, passes(weir.AskedBefore, "tag", 0)},
		"before, shadow full": {"/shadow", []weir.Status{no, no}, nil, passes(weir.AskedBefore, "shadow", 0)},
		"refused": {"/reject", []weir.Status{no, yes}, nil,
			outcome{weir.Reject, weir.OverLimit, 429, one("reject"), []bool{false}, []int64{0}, []time.Duration{time.Second}, false}},
		"tagged": {"/tag", []weir.Status{no, yes}, nil,
			outcome{weir.Tag, weir.OverLimit, 200, one("tag"), []bool{false}, []int64{0}, []time.Duration{time.Second}, false}},
		"degraded": {"/reject", []weir.Status{far, far}, nil,
			outcome{weir.Pass, weir.WithinLimits, 200, one("reject"), []bool{true}, []int64{0}, []time.Duration{0}, true}},
		// A store that did not answer said nothing about whether the request was charged.
		"no answer":        {"/reject", []weir.Status{{}, {}}, errDown, outcome{Action: weir.Pass, Reason: weir.StoreFailed, HTTP: 200, Hits: one("reject"), Degraded: true}},
		"no answer, allow": {"/allow", nil, errDown, outcome{Action: weir.Pass, Reason: weir.StoreFailed, HTTP: 200, Hits: one("allow"), Degraded: true}},
		"no answer, deny":  {"/deny", nil, errDown, outcome{Action: weir.Reject, Reason: weir.StoreFailed, HTTP: 503, Hits: one("deny"), Degraded: true}},
	} {
		if diff := cmp.Diff(c.want, outcomeOf(t, p, c.path, c.err, c.said...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

var errDown = errors.New("down")

// A path with two readings charges both rules' limits, and is named once.
func TestTwoReadingsAreHitOnce(t *testing.T) {
	p := policyOf(t, acting)
	d := hitsOf(t, p, named("/reject/../tag"))
	n := 0
	for _, h := range d.Hits {
		if h.Limit.Name == "" {
			n++
		}
	}
	if n != 1 || len(d.Hits) < 3 {
		t.Errorf("%d hits of its own among %v", n, charges(d.Hits))
	}
}
