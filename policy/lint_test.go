package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWarnings(t *testing.T) {
	const lim = "limits: [{rate: 5/1m}]"
	for name, c := range map[string]struct {
		yaml string
		want []string
	}{
		"the contract's example": {`
rules:
  - {name: oauth_token, path: /oauth/token/, methods: [POST], limits: [{rate: 120/5m, algorithm: fixed_window}]}
  - {name: search, path: /api/search, ` + lim + `}
  - {name: static, path: /static/, exempt: true}
`, nil},
		"nested rules are no overlap": {`
rules:
  - {name: api, path: /api, ` + lim + `}
  - {name: search, path: /api/search, ` + lim + `}
  - {name: post, path: /api/search, methods: [POST], ` + lim + `}
  - {name: user, path: /users/*, ` + lim + `}
  - {name: me, path: /users/me, ` + lim + `}
`, nil},
		"exempt inside a limited rule, in either order": {`
rules:
  - {name: docs, path: /api/docs, exempt: true}
  - {name: api, path: /api, ` + lim + `}
  - {name: ping, path: =/api/ping, methods: [GET], exempt: true}
  - {name: watched, path: /w, limits: []}
  - {name: inside, path: /w/x, exempt: true}
`, []string{
			"rules[0].exempt: docs is exempt inside api, whose limits do not hold there",
			"rules[2].exempt: ping is exempt inside api, whose limits do not hold there",
		}},
		"a literal and a longer path": {`
rules:
  - {name: orders, path: /users/*/orders, ` + lim + `}
  - {name: me, path: /users/me, ` + lim + `}
`, []string{"rules[1]: orders and me share requests, and me gets them: path /users/me has a literal segment where /users/*/orders has *"}},
		"a host and a path": {`
rules:
  - {name: host, host: a.test, ` + lim + `}
  - {name: search, path: /search, ` + lim + `}
`, []string{"rules[1]: search and host share requests, and host gets them: host a.test is more specific than *"}},
		"methods and a path": {`
rules:
  - {name: writes, path: /api, methods: [POST], ` + lim + `}
  - {name: search, path: /api/search, ` + lim + `}
`, []string{"rules[1]: writes and search share requests, and search gets them: path /api/search is longer than /api"}},
		"other hosts and methods share nothing": {`
rules:
  - {name: a, host: a.test, path: /x/*/z, ` + lim + `}
  - {name: b, host: b.test, path: /x/y, ` + lim + `}
  - {name: c, path: /p/*/z, methods: [GET], ` + lim + `}
  - {name: d, path: /p/y, methods: [PUT], ` + lim + `}
  - {name: e, path: =/q/*, ` + lim + `}
  - {name: f, path: /q/y/z, ` + lim + `}
`, nil},
		"a rule that never wins": {`
rules:
  - {name: hidden, path: /a, ` + lim + `}
  - {name: self, path: =/a, ` + lim + `}
  - {name: below, path: /a/*, ` + lim + `}
  - {name: get, path: /b, methods: [GET], ` + lim + `}
  - {name: get_self, path: =/b, ` + lim + `}
  - {name: get_child, path: =/b/*, methods: [GET], ` + lim + `}
  - {name: get_below, path: /b/*/*, methods: [GET], ` + lim + `}
  - {name: seen, path: /c, ` + lim + `}
  - {name: seen_self, path: =/c, methods: [GET], ` + lim + `}
  - {name: seen_below, path: /c/*, ` + lim + `}
`, []string{
			"rules[0]: hidden never wins: more specific rules take each of its requests",
			"rules[3]: get never wins: more specific rules take each of its requests",
			"rules[4]: get and get_self share requests, and get_self gets them: path =/b is exact",
		}},
		"a rule that takes everything": {`
rules: [{name: all, path: /, ` + lim + `}]
`, []string{"rules[0]: all takes every request, so the default rule takes none"}},
		"limits that an asker walks around": {`
default:
  limits:
    - {name: a, rate: 5/1m, per: "header:X-Tenant"}
    - {name: b, rate: 5/1m, per: [path, host, method, "cookie:s"]}
    - {name: c, rate: 5/1m, per: [client, path]}
    - {name: d, rate: 5/1m, per: ["header:X-Tenant", ip]}
    - {name: e, rate: 5/1m, per: global}
    - {name: f, rate: 5/1m, per: rule}
`, []string{
			"default.limits[0].per: the asker chooses header:X-Tenant and so has as many counts as he likes",
			"default.limits[1].per: the asker chooses path+host+method+cookie:s and so has as many counts as he likes",
		}},
		"a header that proxies write": {`
limits: [{rate: 5/1m, per: [client, "header:x-forwarded-for"]}]
`, []string{"limits[0].per: X-Forwarded-For is what a proxy or anyone else wrote, not who is asking"}},
		"headers that some frameworks read, and one's own": {`
client: {path: [{name: edge, cidrs: [192.0.2.0/28], header: X-Edge-Client}]}
default:
  limits:
    - {name: a, rate: 5/1m, per: [client, "header:X-Originating-IP"]}
    - {name: b, rate: 5/1m, per: [client, "header:x_real_ip"]}
    - {name: c, rate: 5/1m, per: [client, "header:X-Edge-Client"]}
`, []string{
			"default.limits[0].per: X-Originating-Ip is what a proxy or anyone else wrote, not who is asking",
			"default.limits[1].per: X_real_ip is what a proxy or anyone else wrote, not who is asking",
			"default.limits[2].per: X-Edge-Client is what a proxy or anyone else wrote, not who is asking",
		}},
	} {
		if diff := cmp.Diff(c.want, problemsOf(t, c.yaml)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

func TestWarningsAreAtMostOneOverlapPerRule(t *testing.T) {
	cfg := manyRules(200)
	for i := range cfg.Rules {
		cfg.Rules[i].Path = "/*" + cfg.Rules[i].Path
		if i%2 == 0 {
			cfg.Rules[i].Path = cfg.Rules[i].Path[2:]
		}
	}
	if _, problems := Compile(cfg); len(problems) > len(cfg.Rules) {
		t.Errorf("%d warnings of %d rules", len(problems), len(cfg.Rules))
	}
}
