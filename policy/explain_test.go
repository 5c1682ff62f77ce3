package policy

import (
	"strings"
	"testing"
)

func TestWhy(t *testing.T) {
	p := policyOf(t, `
rules:
  - {name: host, host: a.test, path: /api, limits: []}
  - {name: hosts, host: "*.test", limits: []}
  - {name: api, path: /api, limits: [{rate: 5/1m}]}
  - {name: search, path: /api/search, limits: []}
  - {name: post, path: /api/search, methods: [POST], limits: []}
  - {name: exact, path: =/api, limits: []}
  - {name: me, path: /users/me, limits: []}
  - {name: orders, path: /users/*/orders, limits: []}
  - {name: static, path: /static, exempt: true}
`)
	for _, c := range []struct{ method, host, path, candidates, why string }{
		{"GET", "x", "/", "default", "no other rule takes the request"},
		{"GET", "x", "/api/x", "api default", "it is the only rule that takes the request"},
		{"GET", "x", "/api/search/x", "search api default", "path /api/search is longer than /api"},
		{"POST", "x", "/api/search", "post search api default", "method POST is named"},
		{"GET", "x", "/api/", "exact api default", "path =/api is exact"},
		{"GET", "x", "/users/me/orders", "me orders default", "path /users/me has a literal segment where /users/*/orders has *"},
		{"GET", "a.test", "/api/search", "host hosts search api default", "host a.test is more specific than *.test"},
		{"GET", "x", "/./static", "static default", "the path is ambiguous, so static, which would let it pass, gives way to the default"},
		{"GET", "x", "/%00", "", "no rule was looked for"},
	} {
		req := request(c.path)
		req.Method, req.Host = c.method, c.host
		d := matched(p, req)
		var names []string
		for _, r := range p.Candidates(d) {
			names = append(names, r.Name)
		}
		if got := strings.Join(names, " "); got != c.candidates {
			t.Errorf("%s %s%s: candidates %s, want %s", c.method, c.host, c.path, got, c.candidates)
		}
		if got := p.Why(d); got != c.why {
			t.Errorf("%s %s%s: %s, want %s", c.method, c.host, c.path, got, c.why)
		}
	}
}
