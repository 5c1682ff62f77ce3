package fronttest

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/journal"
)

// pictures are how the proxies may stand.
var pictures = map[string]string{
	"one proxy":            "client: {from_right: 1, peers: [loopback]}\n",
	"one proxy, as a path": "client: {path: [{name: edge, cidrs: [127.0.0.0/8]}]}\nmatching: {ambiguous_paths: reject}\n",
	"two proxies":          "client: {path: [{name: lb, cidrs: [203.0.113.0/29]}, {name: edge, cidrs: [127.0.0.0/8]}], unresolved: reject}\n",
	"trusted":              "client: {trusted_proxies: [loopback, 203.0.113.0/24], unresolved: limit}\n",
}

const policyOfAll = `
exempt_addresses: [198.51.100.99]
limits: [{name: site, rate: 40/1m, per: ip}]
rules:
  - {name: search, path: /search, limits: [{rate: 5/1m, per: client, algorithm: token_bucket, burst: 3}, {name: trial, rate: 1/1m, per: client, mode: shadow}]}
  - {name: token, path: "=/oauth/token", methods: [POST], limits: [{rate: 3/1m, per: client, algorithm: fixed_window}]}
  - {name: orders, path: "/users/*/orders", cost: 2, limits: [{rate: 7/1m, per: ip, algorithm: sliding_log}]}
  - {name: static, path: /static, exempt: true}
  - {name: tenant, host: tenant.example, limits: [{rate: 6/1m, per: "header:X-Tenant"}]}
  - {name: costly, path: /svc/Report, cost: 3, limits: [{rate: 8/1h, per: client}]}
  - {name: tagged, path: /tagged, action: tag, limits: [{rate: 2/1m, per: client}]}
  - {name: quota, path: /svc/Quota, limits: [{quota: 4/day, per: client}]}
default: {limits: [{rate: 20/1m, per: client}]}
`

var (
	sources = []string{"203.0.113.7", "203.0.113.8", "198.51.100.99", "2001:db8:1:2::3", "2001:db8:1:2::4"}
	chains  = []string{"", "6.6.6.6", "203.0.113.7", "6.6.6.6, 203.0.113.8", "127.0.0.1, garbage"}
	paths   = []string{
		"/", "/search", "/search/a", "/oauth/token", "/oauth/token/x", "/users/7/orders", "/users/7/orders/1", "/static/a.css", "/tagged/a",
		"/svc/Report", "/svc/Quota", "/svc/Method", "//search", "/static/..%2fsearch", "/a%2fb/c", "/search;x=1/b", "/users/%37/orders", "/x/%00",
	}
	methods = []string{"GET", "POST", "POST", "PUT", "HEAD"}
	hosts   = []string{"api.example", "api.example", "tenant.example", "TENANT.example:443"}
	queries = []string{"", "", "q=1&r=%2f", "a=b?c"}
	tenants = []string{"", "blue", "red"}
)

// requests returns n requests by chance, of which each seed has its own.
func requests(n int, seed uint64) []request {
	r := rand.New(rand.NewPCG(seed, seed))
	of := func(list []string) string { return list[r.IntN(len(list))] }
	all := make([]request, n)
	for i := range all {
		all[i] = request{src: of(sources), chain: of(chains), method: of(methods), host: of(hosts), path: of(paths), query: of(queries), tenant: of(tenants)}
	}
	return all
}

// A verdict is what an operator and an asker see of a decision, but for the door.
type verdict struct {
	Answer                               answer
	Client, Source, Rule, Action, Reason string
	Limit                                string
	Remaining                            int64
	Shadow                               []string
}

// pass sends list through a door of its own house, and returns what became of each. There is one record each.
func (d *door) pass(t *testing.T, picture string, list []request) []verdict {
	h := alone(t, picture+policyOfAll)
	send := d.open(t, h)
	all := make([]verdict, len(list))
	for i := range list {
		told := send(&list[i])
		all[i] = judge(told, h.newest(t))
		h.clock.at.Add(int64(700 * time.Millisecond))
	}
	h.recorded(t, len(list))
	return all
}

func judge(a answer, e journal.Entry) verdict {
	return verdict{a, e.Client, e.Source, e.Rule, e.Action, e.Reason, e.Limit, e.Remaining, e.Shadow}
}

// The same requests are decided alike at every door, down to what is left of each limit: whose they are, under
// which rule, what follows, what the asker is told; and each is recorded once.
func TestSameDecisions(t *testing.T) {
	for name, picture := range pictures {
		for _, d := range doors[1:] {
			t.Run(name+"/"+d.name, func(t *testing.T) {
				list := d.taken(requests(3000, 1), 300)
				want, got := doors[0].pass(t, picture, list), d.pass(t, picture, list)
				for i, wrong := 0, 0; i < len(want) && wrong < 3; i++ {
					if diff := cmp.Diff(want[i], got[i]); diff != "" {
						t.Errorf("request %d: %v (-middleware +%s):\n%s", i, &list[i], d.name, diff)
						wrong++
					}
				}
				summarize(t, want)
			})
		}
	}
}

// taken returns the first n of list that d takes.
func (d *door) taken(list []request, n int) []request {
	if d.takes != nil {
		list = slices.DeleteFunc(list, func(r request) bool { return !d.takes(&r) })
	}
	return list[:n]
}

// summarize fails unless the requests were of many kinds.
func summarize(t *testing.T, all []verdict) {
	t.Helper()
	seen := map[string]int{}
	for _, v := range all {
		seen[v.Action+", "+v.Reason]++
		seen[v.Source]++
	}
	t.Log(seen)
	for _, kind := range []string{"pass, within limits", "reject, over limit", "reject, bad request", "forwarded"} {
		if seen[kind] == 0 {
			t.Errorf("no request was of the kind %s", kind)
		}
	}
}

// DEN-02: outside of the proxy and the middleware nothing is dropped or held: it is refused at once, and recorded so.
func TestDropAndTarpitActAsReject(t *testing.T) {
	r := request{src: "203.0.113.7", method: "POST", host: "api.example", path: "/svc/Method"}
	for _, action := range []string{"drop", "tarpit"} {
		for _, d := range doors {
			if d.name == "middleware" || d.name == "proxy" {
				continue
			}
			h := alone(t, "client: {from_right: 1, peers: [loopback]}\ndefault: {action: "+action+", limits: [{rate: 0/1h}]}")
			told := d.open(t, h)(&r)
			if e := h.newest(t); told.Status != 429 || e.Action != "reject" || e.Status != 429 {
				t.Errorf("%s, %s: told %+v, recorded %+v", action, d.name, told, e)
			}
		}
	}
}
