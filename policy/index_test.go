package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/config"
)

// score compares rules by the book: it returns how well a rule, as it stands in the file, takes a
// request in normal form, the greatest being the most specific, or nil if it does not.
func score(r *config.Rule, host, path, method string) []int {
	hostScore := 0
	if below, ok := strings.CutPrefix(r.Host, "*."); ok {
		if !strings.HasSuffix(host, "."+below) {
			return nil
		}
		hostScore = len(below)
	} else if r.Host != "" {
		if host != r.Host {
			return nil
		}
		hostScore = 1000
	}
	scores := []int{hostScore}
	pattern, exact := strings.CutPrefix(r.Path, "=")
	want, have := split(pattern), split(path)
	if len(want) > len(have) || exact && len(want) != len(have) {
		return nil
	}
	for i, s := range want {
		switch s {
		case "*":
			scores = append(scores, 1)
		case have[i]:
			scores = append(scores, 2)
		default:
			return nil
		}
	}
	for len(scores) < 8 {
		scores = append(scores, 0)
	}
	if r.Methods != nil && !slices.Contains(r.Methods, method) {
		return nil
	}
	return append(scores, rank(exact), rank(r.Methods != nil))
}

func split(path string) []string {
	return strings.FieldsFunc(path, func(c rune) bool { return c == '/' })
}

// best returns the name of the rule that takes a request, or default.
func best(rules []config.Rule, host, path, method string) string {
	name, top := defaultName, []int(nil)
	for i := range rules {
		if s := score(&rules[i], host, path, method); s != nil && (top == nil || slices.Compare(s, top) > 0) {
			name, top = rules[i].Name, s
		}
	}
	return name
}

func pick[T any](rnd *rand.Rand, of ...T) T { return of[rnd.IntN(len(of))] }

func randomPath(rnd *rand.Rand, segments ...string) string {
	path := ""
	for range rnd.IntN(5) {
		path += "/" + pick(rnd, segments...)
	}
	if path == "" {
		return "/"
	}
	return path
}

// randomRules returns rules of which no two tie.
func randomRules(rnd *rand.Rand, n int) []config.Rule {
	var rules []config.Rule
	taken := map[string]bool{}
	for i := range n {
		r := config.Rule{
			Name:    fmt.Sprintf("r%d", i),
			Host:    pick(rnd, "", "", "a.test", "b.a.test", "*.a.test", "*.test"),
			Path:    pick(rnd, "", "", "=") + randomPath(rnd, "x", "y", "*"),
			Methods: pick(rnd, nil, nil, []string{"GET"}, []string{"POST"}),
		}
		if place := fmt.Sprint(r.Host, r.Path, r.Methods); !taken[place] {
			taken[place] = true
			rules = append(rules, r)
		}
	}
	return rules
}

func TestMostSpecificRuleWinsWhateverTheOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		cfg := config.Default()
		cfg.Rules = randomRules(rnd, 1+rnd.IntN(60))
		p := compiled(t, cfg)
		for range 100 {
			req := request(randomPath(rnd, "x", "y", "z"))
			req.Host = pick(rnd, "a.test", "b.a.test", "c.b.a.test", "test", "other", "xa.test")
			req.Method = pick(rnd, "GET", "POST", "PUT")
			want := best(cfg.Rules, req.Host, req.Path, req.Method)
			d := matched(p, req)
			if d.Rule.Name != want {
				t.Fatalf("%s %s%s falls under %s, want %s of %+v", req.Method, req.Host, req.Path, d.Rule.Name, want, cfg.Rules)
			}
			if got := p.Candidates(d)[0].Name; got != want {
				t.Fatalf("%s %s%s: the first candidate is %s, want %s", req.Method, req.Host, req.Path, got, want)
			}
		}
	}
}

func TestRouteIsFoundAsRulesAre(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	for range 100 {
		rules := randomRules(rnd, 20)
		cfg := config.Default()
		seen := map[string]bool{}
		rules = slices.DeleteFunc(rules, func(r config.Rule) bool {
			place := r.Host + r.Path
			twice := seen[place]
			seen[place] = true
			return twice
		})
		for i := range rules {
			rules[i].Methods, rules[i].Name = nil, fmt.Sprint(i)
			cfg.Routes = append(cfg.Routes, config.Route{Host: rules[i].Host, Path: rules[i].Path, Upstream: "http://127.0.0.1:1"})
		}
		p := compiled(t, cfg)
		for range 50 {
			req := request(randomPath(rnd, "x", "y", "z"))
			req.Host = pick(rnd, "a.test", "b.a.test", "other")
			want := best(rules, req.Host, req.Path, req.Method)
			if want == defaultName {
				want = "-1"
			}
			if got := p.Upstream(&weir.Decision{Request: req}); fmt.Sprint(got) != want {
				t.Fatalf("%s%s goes to route %d, want %s of %+v", req.Host, req.Path, got, want, cfg.Routes)
			}
		}
	}
}

func TestWithoutRoutesEverythingGoesToTheUpstream(t *testing.T) {
	p := policyOf(t, "upstream: http://127.0.0.1:1\nlisten: ':8080'\n")
	if got := p.Upstream(&weir.Decision{Request: request("/a")}); got != -1 {
		t.Errorf("route %d, want -1", got)
	}
}

func TestSpecificity(t *testing.T) {
	p := policyOf(t, `
rules:
  - {name: site, path: /, limits: []}
  - {name: api, path: /api/, limits: []}
  - {name: api_exact, path: =/api, limits: []}
  - {name: orders, path: /users/*/orders, limits: []}
  - {name: me, path: /users/me, limits: []}
  - {name: post_me, path: /users/me, methods: [POST, PUT], limits: []}
  - {name: host, host: API.example.com, path: /, limits: []}
  - {name: deep, host: "*.a.example.com", limits: []}
  - {name: wide, host: "*.example.com", limits: []}
  - {name: wide_api, host: "*.example.com", path: /api/v1, limits: []}
  - {name: v6, host: "2001:db8::1", limits: []}
`)
	for _, c := range []struct{ method, host, path, want string }{
		{"GET", "x", "/", "site"},
		{"GET", "x", "/apiary", "site"}, // whole segments
		{"GET", "x", "/api", "api_exact"},
		{"GET", "x", "/api/", "api_exact"}, // the trailing slash is folded, for exact paths too
		{"GET", "x", "/api/x", "api"},
		{"GET", "x", "/users/7/orders", "orders"},
		{"GET", "x", "/users/7/orders/9", "orders"},
		{"GET", "x", "/users/7", "site"},
		{"GET", "x", "/users/me", "me"},
		{"GET", "x", "/users/me/orders", "me"}, // the literal comes first, though the other is longer
		{"POST", "x", "/users/me", "post_me"},
		{"post", "x", "/users/me", "post_me"}, // some frameworks read it as POST
		{"PUT", "x", "/users/me/x", "post_me"},
		{"GET", "api.example.com", "/api/v1", "host"}, // host before path
		{"GET", "b.example.com", "/api/v1", "wide_api"},
		{"GET", "b.a.example.com", "/api/v1", "deep"},
		{"GET", "a.example.com", "/", "wide"}, // *. is below, not itself
		{"GET", "example.com", "/", "site"},
		{"GET", "notexample.com", "/", "site"},
		{"GET", "[2001:db8::1]:8443", "/", "v6"},
	} {
		req := request(c.path)
		req.Method, req.Host = c.method, c.host
		if got := ruleOf(p, req); got != c.want {
			t.Errorf("%s %s%s falls under %s, want %s", c.method, c.host, c.path, got, c.want)
		}
	}
}

func TestRuleWhoseMethodDoesNotMatchDoesNotHideOthers(t *testing.T) {
	p := policyOf(t, `
rules:
  - {name: exact_host_post, host: a.test, path: /a/b, methods: [POST], limits: []}
  - {name: literal_post, path: /a/b, methods: [POST], limits: []}
  - {name: exact_put, path: =/a/b, methods: [PUT], limits: []}
  - {name: star_get, path: /a/*, methods: [GET], limits: []}
  - {name: root_delete, path: /, methods: [DELETE], limits: []}
`)
	for method, want := range map[string]string{"POST": "exact_host_post", "PUT": "exact_put", "GET": "star_get", "DELETE": "root_delete", "PATCH": "default"} {
		req := request("/a/b")
		req.Method, req.Host = method, "a.test"
		if got := ruleOf(p, req); got != want {
			t.Errorf("%s falls under %s, want %s", method, got, want)
		}
	}
}
