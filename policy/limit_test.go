package policy

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
)

var locations = cmp.Comparer(func(a, b *time.Location) bool { return a.String() == b.String() })

// limitsOf returns the limits of the rule called name.
func limitsOf(t *testing.T, p *Policy, name string) []Limit {
	t.Helper()
	for _, r := range p.Rules() {
		if r.Name == name {
			return r.Limits()
		}
	}
	t.Fatalf("no rule %s", name)
	return nil
}

func TestLimitsAreCompiled(t *testing.T) {
	p := policyOf(t, `
limits: [{rate: 600/1m, per: global}]
rules:
  - name: api
    path: /api
    cost: 2
    limits:
      - {name: window, rate: 60 per 1m}
      - {name: log, rate: 5000/1h, algorithm: sliding_log, per: [ip, path]}
      - {name: fixed, rate: 120/5m, algorithm: fixed_window, per: method}
      - {name: bucket, rate: 10/1s, algorithm: token_bucket}
      - {name: burst, rate: 10/1s, burst: 20, algorithm: token_bucket, per: host}
      - {name: flight, in_flight: 20, mode: shadow}
      - {name: daily, quota: 1000/day, timezone: Europe/Berlin}
      - {name: monthly, quota: 9/month}
  - {name: trial, path: /trial, mode: shadow, limits: [{rate: 1/1m, per: global}, {name: x, rate: 2/1m, mode: off}]}
`)
	want := []Limit{
		{Limit: &weir.Limit{Name: "limits", Rate: "600/1m", Max: 600, Window: time.Minute}, Global: true, Charges: 2},
		{Limit: &weir.Limit{Name: "window", Rate: "60 per 1m", Max: 60, Window: time.Minute}, Per: []string{"client"}, Charges: 2, Tiers: []*weir.Limit{
			{Name: "window@/56", Rate: "240/1m", Max: 240, Window: time.Minute},
			{Name: "window@/48", Rate: "960/1m", Max: 960, Window: time.Minute},
		}},
		{Limit: &weir.Limit{Name: "log", Rate: "5000/1h", Algorithm: weir.SlidingLog, Max: 5000, Window: time.Hour}, Per: []string{"ip", "path"}, Charges: 2, Tiers: []*weir.Limit{
			// No log keeps more than 10,000 time stamps.
			{Name: "log@/56", Rate: "20000/1h", Max: 20000, Window: time.Hour},
			{Name: "log@/48", Rate: "80000/1h", Max: 80000, Window: time.Hour},
		}},
		{Limit: &weir.Limit{Name: "fixed", Rate: "120/5m", Algorithm: weir.FixedWindow, Max: 120, Window: 5 * time.Minute}, Per: []string{"method"}, Charges: 2},
		{Limit: &weir.Limit{Name: "bucket", Rate: "10/1s", Algorithm: weir.TokenBucket, Max: 10, Burst: 10, Window: time.Second}, Per: []string{"client"}, Charges: 2, Tiers: []*weir.Limit{
			{Name: "bucket@/56", Rate: "40/1s", Algorithm: weir.TokenBucket, Max: 40, Burst: 40, Window: time.Second},
			{Name: "bucket@/48", Rate: "160/1s", Algorithm: weir.TokenBucket, Max: 160, Burst: 160, Window: time.Second},
		}},
		{Limit: &weir.Limit{Name: "burst", Rate: "10/1s", Algorithm: weir.TokenBucket, Max: 10, Burst: 20, Window: time.Second}, Per: []string{"host"}, Charges: 2},
		{Limit: &weir.Limit{Name: "flight", Rate: "20 in flight", Algorithm: weir.Concurrency, Mode: weir.Shadow, Max: 20}, Per: []string{"client"}, Charges: 1},
		{Limit: &weir.Limit{Name: "daily", Rate: "1000/day", Algorithm: weir.Quota, Max: 1000, Period: weir.Day, Location: berlin(t)}, Per: []string{"client"}, Charges: 2},
		{Limit: &weir.Limit{Name: "monthly", Rate: "9/month", Algorithm: weir.Quota, Max: 9, Period: weir.Month, Location: time.UTC}, Per: []string{"client"}, Charges: 2},
	}
	if diff := cmp.Diff(want, limitsOf(t, p, "api"), locations); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	trial := []Limit{want[0], {Limit: &weir.Limit{Name: "trial/1/1m/global", Rate: "1/1m", Mode: weir.Shadow, Max: 1, Window: time.Minute}, Charges: 1}}
	trial[0].Charges = 1
	if diff := cmp.Diff(trial, limitsOf(t, p, "trial"), locations); diff != "" {
		t.Errorf("trial: (-want +got)\n%s", diff)
	}
}

func berlin(t *testing.T) *time.Location {
	t.Helper()
	l, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestNamesOfLimitsWithoutAName(t *testing.T) {
	p := policyOf(t, `
limits: [{rate: 600/1m, per: ip}, {rate: 9000/1h, per: global}]
rules:
  - {name: one, path: /one, limits: [{rate: 60/1m}]}
  - {name: two, path: /two, limits: [{rate: 60/1m}, {rate: 5 per hour, per: [client, path]}, {name: mine, rate: 9/1m}, {in_flight: 3}, {quota: 9/week}]}
`)
	for rule, want := range map[string]string{
		"one":     "limits/600/1m/ip limits/9000/1h/global one",
		"two":     "limits/600/1m/ip limits/9000/1h/global two/60/1m/client two/5 per hour/client+path mine two/3 in flight/client two/9/week/client",
		"default": "limits/600/1m/ip limits/9000/1h/global default",
	} {
		var names []string
		for _, l := range limitsOf(t, p, rule) {
			names = append(names, l.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %s, want %s", rule, got, want)
		}
	}
}

func TestCounterIdentityIsNotPositionMaximumOrMode(t *testing.T) {
	before := policyOf(t, `
rules:
  - {name: api, path: /api, limits: [{name: n, rate: 60/1m}]}
`)
	after := policyOf(t, `
limits: [{name: site, rate: 100/1s, mode: off}]
rules:
  - {name: other, path: /other, limits: []}
  - {name: renamed, path: /api, mode: shadow, limits: [{name: m, rate: 7/1s, mode: off}, {name: n, rate: 90/1m, per: ip}]}
`)
	if diff := cmp.Diff(keysOf(t, before, request("/api")), keysOf(t, after, request("/api"))); diff != "" {
		t.Errorf("(-before +after)\n%s", diff)
	}
	for _, other := range []string{"{name: n, rate: 60/2m}", "{name: n, rate: 60/1m, algorithm: fixed_window}", "{name: m, rate: 60/1m}", "{name: n, quota: 60/day}"} {
		p := policyOf(t, "rules: [{name: api, path: /api, limits: ["+other+"]}]\n")
		if got := keysOf(t, p, request("/api"))[0]; got == keysOf(t, before, request("/api"))[0] {
			t.Errorf("%s has the counter %s, too", other, got)
		}
	}
}

func TestQuotasOfTwoTimeZonesAreTwoCounts(t *testing.T) {
	p := policyOf(t, "rules: [{name: api, path: /api, limits: [{name: n, quota: 5/day, timezone: Europe/Berlin}]}]\n")
	if got, want := keysOf(t, p, request("/api"))[0], "{203.0.113.9/32}:n:quota:day@Europe/Berlin:@203.0.113.9/32"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestTiersOff(t *testing.T) {
	p := policyOf(t, "client: {ipv6_tiers: {}}\n")
	if l := limitsOf(t, p, "default"); len(l) != 1 || l[0].Tiers != nil {
		t.Errorf("limits %+v", l)
	}
}

func TestTimesSaturates(t *testing.T) {
	for _, c := range []struct{ n, by, want int64 }{
		{0, 16, 0}, {5, 4, 20}, {math.MaxInt64, 1, math.MaxInt64}, {math.MaxInt64/2 + 1, 2, math.MaxInt64}, {math.MaxInt64, math.MaxInt64, math.MaxInt64},
	} {
		if got := times(c.n, c.by); got != c.want {
			t.Errorf("times(%d, %d) = %d, want %d", c.n, c.by, got, c.want)
		}
	}
}
