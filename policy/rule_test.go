package policy

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
)

// A charge is a hit without its key.
type charge struct {
	Limit string
	N     int64
}

func charges(hits []weir.Hit) []charge {
	var all []charge
	for _, h := range hits {
		all = append(all, charge{h.Limit.Name, h.N})
	}
	return all
}

const charging = `
limits:
  - {name: site, rate: 600/1m, per: ip}
rules:
  - name: search
    path: /search
    cost: 2
    limits:
      - {name: burst, rate: 10/1s, burst: 20, algorithm: token_bucket}
      - {name: flight, in_flight: 4}
      - {name: trial, rate: 5/1m, mode: shadow}
      - {name: never, rate: 9/1m, mode: off}
  - name: login
    path: /login
    count: {only_statuses: [401, 403], skip_methods: [HEAD]}
    limits: [{rate: 5/1m}]
  - {name: look, path: /look, cost: 0, limits: [{rate: 5/1m}]}
  - {name: free, path: /free, exempt: true}
  - {name: off, path: /off, mode: off, limits: [{rate: 5/1m}]}
`

func TestHits(t *testing.T) {
	p := policyOf(t, charging)
	for _, c := range []struct {
		method, path string
		hits         []charge
		deferred     []charge
	}{
		// The cost holds for every limit; a request in flight is one request.
		{"GET", "/search", []charge{{"site", 2}, {"burst", 2}, {"flight", 1}, {"trial", 2}}, nil},
		{"GET", "/", []charge{{"site", 1}, {"default", 1}}, nil},
		// What depends on the answer is a look until then; limits for every request do not.
		{"POST", "/login", []charge{{"site", 1}, {"login", 0}}, []charge{{"login", 1}}},
		{"HEAD", "/login", []charge{{"site", 1}}, nil},
		{"head", "/login", []charge{{"site", 1}, {"login", 0}}, []charge{{"login", 1}}},
		{"GET", "/look", []charge{{"site", 0}, {"look", 0}}, nil},
		{"GET", "/off", []charge{{"site", 1}}, nil},
	} {
		req := request(c.path)
		req.Method = c.method
		d := hitsOf(t, p, req)
		if diff := cmp.Diff(c.hits, charges(d.Hits)); diff != "" {
			t.Errorf("%s %s: (-want +got)\n%s", c.method, c.path, diff)
		}
		if diff := cmp.Diff(c.deferred, charges(d.Deferred)); diff != "" {
			t.Errorf("%s %s, after the answer: (-want +got)\n%s", c.method, c.path, diff)
		}
		if len(d.Statuses) != len(d.Hits) {
			t.Errorf("%s %s: %d statuses for %d hits", c.method, c.path, len(d.Statuses), len(d.Hits))
		}
		if (c.deferred != nil) != (len(d.OnlyStatuses) > 0) {
			t.Errorf("%s %s: only statuses %v", c.method, c.path, d.OnlyStatuses)
		}
	}
}

func TestDeferredHitIsTheLookWithItsCost(t *testing.T) {
	d := hitsOf(t, policyOf(t, charging), request("/login"))
	want := d.Hits[1]
	want.N = 1
	if diff := cmp.Diff(want, d.Deferred[0]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]int{401, 403}, d.OnlyStatuses); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Statuses of an earlier decision must not be taken for this one's.
func TestHitsLeaveNoOldStatuses(t *testing.T) {
	p := policyOf(t, charging)
	d := &weir.Decision{Request: request("/"), Statuses: make([]weir.Status, 7)}
	for i := range d.Statuses {
		d.Statuses[i].Remaining = 9
	}
	p.Identify(d)
	p.Match(d).Hits(d)
	if diff := cmp.Diff(make([]weir.Status, 2), d.Statuses); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

const acting = `
rules:
  - {name: reject, path: /reject, limits: [{rate: 5/1m}]}
  - {name: drop, path: /drop, action: drop, limits: [{rate: 5/1m}]}
  - {name: tarpit, path: /tarpit, action: tarpit, limits: [{rate: 5/1m}]}
  - {name: tag, path: /tag, action: tag, limits: [{rate: 5/1m}]}
  - {name: shadow, path: /shadow, mode: shadow, limits: [{rate: 5/1m}]}
  - {name: deny, path: /deny, on_failure: deny, limits: [{rate: 5/1m}]}
  - {name: allow, path: /allow, on_failure: allow, limits: [{rate: 5/1m}]}
`

// decided returns the answer of the rule at path to one status for each hit, or to an error.
func decided(t *testing.T, p *Policy, path string, allowed, degraded bool, err error) *weir.Decision {
	t.Helper()
	d := hitsOf(t, p, request(path))
	for i := range d.Statuses {
		d.Statuses[i] = weir.Status{Limit: d.Hits[i].Limit, Allowed: allowed, Degraded: degraded}
	}
	r := p.rules[len(p.rules)-1]
	for _, o := range p.rules {
		if &o.Rule == d.Rule {
			r = o
		}
	}
	r.Decide(d, err)
	return d
}

func TestDecide(t *testing.T) {
	p := policyOf(t, acting)
	for _, c := range []struct {
		path    string
		allowed bool
		want    answer
	}{
		{"/reject", true, answer{"reject", weir.Pass, weir.WithinLimits, 200}},
		{"/reject", false, answer{"reject", weir.Reject, weir.OverLimit, 429}},
		{"/drop", false, answer{"drop", weir.Drop, weir.OverLimit, 429}},
		{"/tarpit", false, answer{"tarpit", weir.Tarpit, weir.OverLimit, 429}},
		{"/tag", true, answer{"tag", weir.Pass, weir.WithinLimits, 200}},
		{"/tag", false, answer{"tag", weir.Tag, weir.OverLimit, 200}},
		{"/shadow", false, answer{"shadow", weir.Pass, weir.WithinLimits, 200}},
		{"/other", false, answer{"default", weir.Reject, weir.OverLimit, 429}},
	} {
		d := decided(t, p, c.path, c.allowed, false, nil)
		if diff := cmp.Diff(c.want, answerOf(d)); diff != "" || d.Degraded {
			t.Errorf("%s, allowed %v: degraded %v (-want +got)\n%s", c.path, c.allowed, d.Degraded, diff)
		}
	}
}

func TestDecideWhereTheStoreDidNotAnswer(t *testing.T) {
	failure := errors.New("no store")
	for _, c := range []struct {
		store, path string
		want        answer
	}{
		{"", "/reject", answer{"reject", weir.Pass, weir.StoreFailed, 200}},
		{"", "/allow", answer{"allow", weir.Pass, weir.StoreFailed, 200}},
		{"", "/deny", answer{"deny", weir.Reject, weir.StoreFailed, 503}},
		{"store: {on_failure: deny}\n", "/reject", answer{"reject", weir.Reject, weir.StoreFailed, 503}},
		{"store: {on_failure: deny}\n", "/allow", answer{"allow", weir.Pass, weir.StoreFailed, 200}},
		{"store: {on_failure: deny}\n", "/other", answer{"default", weir.Reject, weir.StoreFailed, 503}},
	} {
		d := decided(t, policyOf(t, c.store+acting), c.path, true, false, failure)
		if diff := cmp.Diff(c.want, answerOf(d)); diff != "" {
			t.Errorf("%s%s: (-want +got)\n%s", c.store, c.path, diff)
		}
		if !d.Degraded || len(d.Statuses) != 0 || d.Over() {
			t.Errorf("%s%s: degraded %v with %d statuses", c.store, c.path, d.Degraded, len(d.Statuses))
		}
	}
}

// The limits for every request fail as the rule of the request does.
func TestHitsFailAsTheirRule(t *testing.T) {
	const all = "store: {on_failure: allow}\nlimits: [{name: site, rate: 600/1m}]\n" + `
rules:
  - {name: deny, path: /deny, on_failure: deny, count: {only_statuses: [401]}, limits: [{rate: 5/1m}]}
  - {name: local, path: /local, on_failure: local, limits: [{rate: 5/1m}]}
`
	p := policyOf(t, all)
	for path, want := range map[string]weir.OnFailure{"/deny": weir.FailDeny, "/local": weir.FailLocal, "/": weir.FailAllow} {
		d := hitsOf(t, p, request(path))
		for _, h := range append(d.Hits, d.Deferred...) {
			if h.OnFailure != want {
				t.Errorf("%s: %s says %v, want %v", path, h.Limit.Name, h.OnFailure, want)
			}
		}
		if len(d.Hits) != 2 {
			t.Errorf("%s: %d hits, want 2", path, len(d.Hits))
		}
	}
}

func TestDecisionIsDegradedIfAStatusIs(t *testing.T) {
	d := decided(t, policyOf(t, acting), "/reject", false, true, nil)
	if !d.Degraded || d.Reason != weir.OverLimit {
		t.Errorf("degraded %v, %s", d.Degraded, d.Reason)
	}
}
