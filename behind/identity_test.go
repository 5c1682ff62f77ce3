package behind_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// chains are the proxies that are tried, in travel order.
var chains = [][]string{
	{"nginx"}, {"haproxy"}, {"caddy"},
	{"nginx", "haproxy"}, {"haproxy", "nginx"}, {"caddy", "nginx"},
	{"nginx", "caddy"}, {"haproxy", "caddy"}, {"caddy", "haproxy"},
}

// line returns the proxies as shipped, and as they are told to stand behind another.
func line(kinds ...string) []proxy {
	var list []proxy
	for i, kind := range kinds {
		p := proxy{kind: kind}
		if kind == "caddy" && i > 0 {
			p.edit = behindAnother
		}
		list = append(list, p)
	}
	return list
}

// strategies are the ways in which a user may say where the client is to be found.
func strategies(kinds []string) map[string]string {
	return map[string]string{
		"path":            "{path: [" + strings.Join(kinds, ", ") + "]}",
		"from_right":      fmt.Sprintf("{from_right: %d}", len(kinds)),
		"trusted_proxies": "{trusted_proxies: [127.0.0.1/32]}",
	}
}

// Whatever stands in front and however Weir is told, a client is who he is.
func TestIdentity(t *testing.T) {
	for _, kinds := range chains {
		for name, client := range strategies(kinds) {
			t.Run(strings.Join(kinds, "_")+"/"+name, func(t *testing.T) {
				t.Parallel()
				r := open(t, plan{proxies: line(kinds...), client: client})
				t.Run("each his own", r.eachHisOwn)
				t.Run("refusal", r.refusalArrives)
				t.Run("keep alive", r.keepAlive)
				t.Run("bodies", r.bodiesArrive)
				t.Run("forged", r.forgedChangesNothing)
			})
		}
	}
}

// Two clients have two counts, however their requests alternate, and a third is not concerned: behind
// a proxy a site is not in one bucket.
func (r *road) eachHisOwn(t *testing.T) {
	a, b, third := r.client(), r.client(), r.client()
	var got []string
	for range 4 {
		for _, c := range []*client{a, b} {
			answer := c.get(t, "/", nil)
			if got = append(got, fmt.Sprint(answer.status)); answer.status == http.StatusOK {
				answer.wantOnly(t, c.addr)
			}
		}
	}
	got = append(got, fmt.Sprint(third.get(t, "/", nil).status))
	if want := strings.Fields("200 200 200 200 200 200 429 429 200"); !cmp.Equal(got, want) {
		t.Errorf("two clients in turn, and a third: %v, want %v", got, want)
	}
}

// wantOnly checks that the upstream was told addr once under each of the two names, and nothing else
// that looks like an identity.
func (a answer) wantOnly(t *testing.T, addr string) {
	t.Helper()
	got := map[string][]string{}
	for name, lines := range a.seen.Header {
		if folded := fold(name); identities[folded] || strings.HasPrefix(folded, "x-weir-") {
			got[name] = lines
		}
		if strings.Contains(strings.Join(lines, " "), forgedNetwork) {
			t.Errorf("the upstream got %s: %q", name, lines)
		}
	}
	want := map[string][]string{"X-Forwarded-For": {addr}, "X-Real-Ip": {addr}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what the upstream is told of the client, -want +got:\n%s", diff)
	}
}

// fold returns a header's name as servers see it that take _ and . for -.
func fold(name string) string {
	return strings.NewReplacer("_", "-", ".", "-").Replace(strings.ToLower(name))
}

// identities are the headers in which upstreams look for a client's address.
var identities = map[string]bool{
	"x-forwarded-for": true, "x-real-ip": true, "forwarded": true, "x-forwarded": true, "forwarded-for": true,
	"cf-connecting-ip": true, "true-client-ip": true, "x-client-ip": true, "x-cluster-client-ip": true,
	"fastly-client-ip": true, "fly-client-ip": true, "x-original-forwarded-for": true,
}

// The refusal comes through every proxy as it was written.
func (r *road) refusalArrives(t *testing.T) {
	c := r.client()
	passed := c.get(t, "/", nil)
	wantHeader(t, passed, "RateLimit-Policy", `"few";q=3;w=60`)
	wantHeader(t, passed, "RateLimit", `"few";r=2;t=(60|5\d)`)
	c.statuses(t, 2)
	before := r.upstream.count.Load()
	refused := c.get(t, "/", nil)
	if refused.status != http.StatusTooManyRequests {
		t.Fatalf("HTTP status %d, want 429", refused.status)
	}
	if n := r.upstream.count.Load() - before; n != 0 {
		t.Errorf("%d refused requests reached the upstream", n)
	}
	wantHeader(t, refused, "Content-Type", "application/problem\\+json")
	wantHeader(t, refused, "Cache-Control", "no-store")
	wantHeader(t, refused, "Retry-After", `60|[1-5]?\d`)
	wantHeader(t, refused, "RateLimit-Policy", `"few";q=3;w=60`)
	wantHeader(t, refused, "RateLimit", `"few";r=0;t=(60|[1-5]?\d)`)
	refused.wantProblem(t)
}

func wantHeader(t *testing.T, a answer, name, pattern string) {
	t.Helper()
	lines := a.header.Values(name)
	if len(lines) != 1 || !regexp.MustCompile("^(?:"+pattern+")$").MatchString(lines[0]) {
		t.Errorf("HTTP status %d: %s: %q, want one line like %s", a.status, name, lines, pattern)
	}
}

func (a answer) wantProblem(t *testing.T) {
	t.Helper()
	var got map[string]any
	if err := json.Unmarshal([]byte(a.body), &got); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	wait, _ := got["retry_after"].(float64)
	if want, _ := strconv.Atoi(a.header.Get("Retry-After")); int(wait) != want {
		t.Errorf("retry_after %v in the body and %d in the header", got["retry_after"], want)
	}
	for _, member := range []string{"title", "detail", "retry_after"} {
		if got[member] == nil {
			t.Errorf("no %s in %s", member, a.body)
		}
		delete(got, member)
	}
	want := map[string]any{
		"type": "https://iana.org/assignments/http-problem-types#quota-exceeded", "status": 429.,
		"violated-policies": []any{"few"}, "rule": "default", "limit": 3.,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
