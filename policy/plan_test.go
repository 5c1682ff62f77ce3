package policy

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/config"
)

const planned = `
limits: [{name: site, rate: 9000/1m, per: global}]
rules:
  - name: search
    path: /search
    limits:
      - {name: search, rate: 10/1m}
      - {name: by_address, rate: 50/1m, per: ip}
  - {name: export, path: /export, limits: [{rate: 2/1h}], mode: shadow}
  - {name: static, path: /static, exempt: true}
plans:
  free:
    quota: [1000/day, 20000/month]
    timezone: Europe/Berlin
  pro:
    limits:
      - {rule: search, rate: 100/1m}
      - {rule: export, rate: 20/1h}
      - {rule: default, rate: 7/1m}
      - {rule: default, name: own, rate: 8/1h, per: ip}
      - {in_flight: 5}
    quota: [50000/month]
  mad:
    limits:
      - {rate: 3/1m}
      - {rate: 4/1h}
      - {rule: search, rate: 1/1m, mode: off}
`

// limitsFor returns the names of the limits that a request is charged.
func limitsFor(t *testing.T, p *Policy, b bearer, path string) string {
	t.Helper()
	d := &weir.Decision{Request: request(path)}
	p.Identify(d)
	b.as(d)
	r := p.Match(d)
	if r == nil {
		return tells(d)
	}
	r.Hits(d)
	var names []string
	for _, h := range d.Hits {
		names = append(names, h.Limit.Name+"="+h.Limit.Rate)
	}
	return strings.Join(names, " ")
}

// A plan's limits stand in place of a rule's per: client limits, or beside its limits; those for every request stay.
func TestPlans(t *testing.T) {
	p := policyOf(t, planned)
	const quotas = " free/day=1000/day free/month=20000/month"
	for _, c := range []struct {
		who  bearer
		path string
		want string
	}{
		{nobody, "/search", "site=9000/1m search=10/1m by_address=50/1m"},
		{ann, "/search", "site=9000/1m search=10/1m by_address=50/1m"}, // a key without a plan
		{onPlan("free"), "/search", "site=9000/1m search=10/1m by_address=50/1m" + quotas},
		{onPlan("free"), "/", "site=9000/1m default=300/1m" + quotas},
		{onPlan("free"), "/static", "200 exempt rule"},
		{onPlan("pro"), "/search", "site=9000/1m by_address=50/1m pro/search=100/1m pro/*=5 in flight pro/month=50000/month"},
		{onPlan("pro"), "/export", "site=9000/1m pro/export=20/1h pro/*=5 in flight pro/month=50000/month"},
		{onPlan("pro"), "/", "site=9000/1m pro/default/7/1m/client=7/1m own=8/1h pro/*=5 in flight pro/month=50000/month"},
		{onPlan("mad"), "/search", "site=9000/1m by_address=50/1m mad/*/3/1m/client=3/1m mad/*/4/1h/client=4/1h"},
		{onPlan("mad"), "/", "site=9000/1m default=300/1m mad/*/3/1m/client=3/1m mad/*/4/1h/client=4/1h"},
		{onPlan("other"), "/", "site=9000/1m default=300/1m"}, // counted, and then refused
	} {
		if got := limitsFor(t, p, c.who, c.path); got != c.want {
			t.Errorf("plan %q, %s: %s, want %s", c.who.plan, c.path, got, c.want)
		}
	}
	if diff := cmp.Diff([]string{"free", "mad", "pro"}, p.Plans()); diff != "" {
		t.Error(diff)
	}
}

// A key on a plan that there is not passes by no limit, and gets no further.
func TestUnknownPlanIsRefused(t *testing.T) {
	p := policyOf(t, planned)
	d := counts{}.decided(p, onPlan("other"), request("/"))
	if got := tells(d); got != "401 api key not valid" || d.Client.Plan != "other" || d.Client.APIKey != "of other" {
		t.Errorf("%s of %+v", got, d.Client)
	}
	p = policyOf(t, planned+"allow: [{key: of other}]\n")
	if got := tells(counts{}.decided(p, onPlan("other"), request("/static"))); got != "401 api key not valid" {
		t.Errorf("allowed and exempt: %s", got)
	}
}

// The counters of a plan are the key's, wherever it asks from; a rule's mode is the mode of the plan's limits there.
func TestPlansCountPerKey(t *testing.T) {
	p := policyOf(t, planned)
	at := func(peer, path string) *weir.Decision {
		req := request(path)
		req.Peer = netip.MustParseAddr(peer)
		return counts{}.decided(p, onPlan("pro"), req)
	}
	here, there := at("203.0.113.9", "/search"), at("2001:db8::1", "/search")
	if a, b := string(here.Hits[2].Key), string(there.Hits[len(there.Hits)-3].Key); a != b || a != "{=of pro}:pro/search:sliding_window:1m0s:=of pro" {
		t.Errorf("%s and %s", a, b)
	}
	if quota := here.Hits[4]; string(quota.Key) != "{=of pro}:pro/month:quota:month@UTC:=of pro" {
		t.Errorf("%s", quota.Key)
	}
	if d := at("203.0.113.9", "/export"); d.Hits[1].Limit.Mode != weir.Shadow || d.Hits[2].Limit.Mode != weir.Enforce {
		t.Errorf("modes %s and %s", d.Hits[1].Limit.Mode, d.Hits[2].Limit.Mode)
	}
}

// A new number, place or zone of the file keeps what was used, and what is shared by rules is one counter.
func TestPlanCountersGoByName(t *testing.T) {
	keys := func(yaml, path string) map[string]string {
		p := policyOf(t, yaml)
		d := counts{}.decided(p, onPlan("free"), request(path))
		all := map[string]string{}
		for _, h := range d.Hits {
			all[h.Limit.Name] = string(h.Key)
		}
		return all
	}
	const before = `
rules: [{name: a, path: /a, limits: []}]
plans: {free: {limits: [{rule: a, rate: 5/1m}, {rate: 9/1h}], quota: [10/day]}}
default: {limits: []}
`
	const after = `
rules: [{name: b, path: /b, limits: []}, {name: a, path: /a, limits: [{rate: 3/1m}]}]
plans: {able: {quota: [1/day]}, free: {limits: [{rate: 8/1h}, {rule: a, rate: 7/1m}], quota: [7/week, 20/day]}}
default: {limits: []}
`
	old, other, reloaded := keys(before, "/a"), keys(before, "/"), keys(after, "/a")
	if len(old) != 3 || len(other) != 2 || old["free/*"] != other["free/*"] || old["free/day"] != other["free/day"] {
		t.Errorf("one counter for all rules:\n%v\n%v", old, other)
	}
	delete(reloaded, "free/week")
	if diff := cmp.Diff(old, reloaded); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

// KEY-02: who has no key is counted by address, wherever a key or a plan is counted.
func TestKEY02NoKeyIsTheAddress(t *testing.T) {
	p := policyOf(t, `
plans: {free: {}}
rules:
  - {name: key,  path: /key,  limits: [{rate: 3/1m, per: key}]}
  - {name: plan, path: /plan, limits: [{rate: 3/1m, per: plan}]}
  - {name: pair, path: /pair, limits: [{rate: 3/1m, per: [key, path]}]}
`)
	for path, want := range map[string][3]string{ // of nobody, of ann without a plan, of a key on a plan
		"/key":  {"{203.0.113.9/32}:key:sliding_window:1m0s:@203.0.113.9/32", "{=ann}:key:sliding_window:1m0s:=ann", "{=of free}:key:sliding_window:1m0s:=of free"},
		"/plan": {"{203.0.113.9/32}:plan:sliding_window:1m0s:@203.0.113.9/32", "{203.0.113.9/32}:plan:sliding_window:1m0s:@203.0.113.9/32", "{=free}:plan:sliding_window:1m0s:"},
		"/pair": {"{203.0.113.9/32}:pair:sliding_window:1m0s:@203.0.113.9/32|=/pair", "{=ann}:pair:sliding_window:1m0s:=ann|=/pair", "{=of free}:pair:sliding_window:1m0s:=of free|=/pair"},
	} {
		for i, who := range []bearer{nobody, ann, onPlan("free")} {
			d := counts{}.decided(p, who, request(path))
			if got := string(d.Hits[0].Key); got != want[i] {
				t.Errorf("%s of %q: %s, want %s", path, who.key, got, want[i])
			}
		}
	}
}

// Names that are taken are told.
func TestPlanNamesAreUnique(t *testing.T) {
	_, problems := Compile(parse(t, `
rules: [{name: free, path: /f, limits: [{name: free/day, rate: 1/1m}]}]
plans: {free: {limits: [{rule: free, rate: 2/1m, name: x}, {rate: 2/1m, name: free/free}, {rule: default, rate: 3/1m, name: free/free/default}], quota: [1/day]}}
`))
	if got := config.HasErrors(problems); !got || !strings.Contains(problems[0].String(), "free/day is what the limit at rules[0].limits[0].name is called, too") {
		t.Errorf("%v", problems)
	}
}

// What operators see of a rule has the plans' limits last; a client's counters are those of its plan.
func TestPlansAreSeen(t *testing.T) {
	p := policyOf(t, planned)
	var seen []string
	for _, l := range limitsOf(t, p, "search") {
		seen = append(seen, l.Name+":"+l.Plan)
	}
	want := "site: search: by_address: free/day:free free/month:free mad/*/3/1m/client:mad mad/*/4/1h/client:mad pro/search:pro pro/*:pro pro/month:pro"
	if got := strings.Join(seen, " "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	owned := func(b bearer) (names []string) {
		d := &weir.Decision{Request: request("/")}
		p.Identify(d)
		b.as(d)
		for _, h := range p.ClientHits(d.Client) {
			names = append(names, h.Limit.Name)
		}
		return names
	}
	for _, c := range []struct {
		who  bearer
		want string
	}{
		{nobody, "search by_address export default"},
		{onPlan("pro"), "by_address pro/search pro/* pro/month pro/export pro/default/7/1m/client own"},
	} {
		if got := strings.Join(owned(c.who), " "); got != c.want {
			t.Errorf("plan %q: %s, want %s", c.who.plan, got, c.want)
		}
	}
}

// A client that is known by its key alone has the counters of its key alone.
func TestClientHitsByKeyAlone(t *testing.T) {
	p := policyOf(t, planned)
	var names []string
	for _, h := range p.ClientHits(weir.Client{APIKey: "ann", Plan: "pro"}) {
		names = append(names, h.Limit.Name)
		if strings.Contains(string(h.Key), "invalid") || !strings.HasPrefix(string(h.Key), "{=ann}:") {
			t.Errorf("%s", h.Key)
		}
	}
	if got, want := strings.Join(names, " "), "pro/search pro/* pro/month pro/export pro/default/7/1m/client"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Asking for one's own limits costs none of them, and has a limit of its own.
func TestOwnLimits(t *testing.T) {
	p, c := policyOf(t, "self_service: true\ndefault: {limits: [{rate: 1/1m}]}\n"), counts{}
	req := request("/.well-known/weir/limits")
	req.OwnLimits = true
	got := map[string]int{}
	for range 70 {
		got[tells(c.decided(p, nobody, req))]++
	}
	if diff := cmp.Diff(map[string]int{"200 within limits": 60, "429 over limit": 10}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if d := c.decided(p, nobody, request("/")); d.Refused() {
		t.Errorf("the asker's own limit: %s", tells(d))
	}
	if d := c.decided(p, ann, req); d.Refused() || d.Rule.Name != OwnLimitsRule || !slices.Contains(p.Names(), OwnLimitsRule) {
		t.Errorf("with a key: %s by %s", tells(d), d.Rule.Name)
	}
	if d := c.decided(p, guesser, req); d.HTTP != 401 {
		t.Errorf("a guesser, who has a count of his own: %s", tells(d))
	}
	off := policyOf(t, "default: {limits: [{rate: 1/1m}]}\n")
	if d := c.decided(off, nobody, req); off.OwnLimits() || d.Rule.Name != "default" {
		t.Errorf("off: %s", d.Rule.Name)
	}
}

// A decision by a plan costs no more memory than one without.
func TestPlansAllocateNothing(t *testing.T) {
	p := policyOf(t, planned)
	d, req := new(weir.Decision), request("/search")
	ask := func() {
		d.Reset()
		d.Request = req
		p.Identify(d)
		d.Client.Credential, d.Client.APIKey, d.Client.Plan = weir.Verified, "ann", "pro"
		r := p.Match(d)
		r.Hits(d)
		admit(d)
		r.Decide(d, nil)
	}
	ask()
	if n := testing.AllocsPerRun(100, ask); n != 0 || d.Refused() {
		t.Errorf("%v allocations, %s", n, tells(d))
	}
}

func BenchmarkDecideByPlan(b *testing.B) {
	p := policyOf(b, planned)
	for name, who := range map[string]bearer{"none": ann, "two limits fewer, three more": onPlan("pro"), "two quotas": onPlan("free")} {
		b.Run("plan="+name, func(b *testing.B) {
			d, req := new(weir.Decision), request("/search")
			b.ReportAllocs()
			for b.Loop() {
				d.Reset()
				d.Request = req
				p.Identify(d)
				who.as(d)
				r := p.Match(d)
				r.Hits(d)
				admit(d)
				r.Decide(d, nil)
			}
		})
	}
}
