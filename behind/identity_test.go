package behind_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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
				t.Run("at once", r.countedAtOnce)
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

// countedAtOnce checks that of many requests at the same time exactly three pass.
func (r *road) countedAtOnce(t *testing.T) {
	c := r.client()
	var passed, refused atomic.Int32
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() {
			res, err := c.http.Do(c.request(http.MethodGet, "/", nil, nil))
			if err != nil {
				t.Error(err)
				return
			}
			drop(res.Body)
			switch res.StatusCode {
			case http.StatusOK:
				passed.Add(1)
			case http.StatusTooManyRequests:
				refused.Add(1)
			}
		})
	}
	wg.Wait()
	if passed.Load() != 3 || refused.Load() != 27 {
		t.Errorf("of 30 requests at once %d passed and %d were refused, want 3 and 27", passed.Load(), refused.Load())
	}
}

// wantOnly checks that the upstream was told addr once under each of the two names, and nothing else
// that looks like an identity.
func (a answer) wantOnly(t *testing.T, addr string) {
	t.Helper()
	want := map[string][]string{"X-Forwarded-For": {addr}, "X-Real-Ip": {addr}}
	if diff := cmp.Diff(want, a.told()); diff != "" {
		t.Errorf("what the upstream is told of the client, -want +got:\n%s", diff)
	}
	way := []string{strings.Join(a.seen.Header["X-Forwarded-Proto"], "|"), strings.Join(a.seen.Header["X-Forwarded-Host"], "|")}
	if want := []string{"http", a.seen.Host}; !cmp.Equal(way, want) {
		t.Errorf("X-Forwarded-Proto and -Host are %q, want %q", way, want)
	}
}

// told returns what the upstream may take for the client's identity, and whatever bears a forged one.
func (a answer) told() map[string][]string {
	got := map[string][]string{}
	for name, lines := range a.seen.Header {
		folded := fold(name)
		if identities[folded] || strings.HasPrefix(folded, "x-weir-") || strings.Contains(strings.Join(lines, " "), forgedNetwork) {
			got[name] = lines
		}
	}
	return got
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

// Addresses of one /64 are one client, the next /64 is another, and an IPv4 address in IPv6 form is
// the IPv4 client, as real proxies write them.
func TestIPv6(t *testing.T) {
	for _, kind := range []string{"nginx", "haproxy"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := open(t, plan{proxies: []proxy{hearing(kind)}, public: true, client: "{path: [" + kind + "]}"})
			var got []string
			for _, addr := range []string{
				"2001:db8:1:2::1", "2001:DB8:1:2:ffff::2", "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::1", "2001:db8:1:3::1",
				"203.0.113.7", "::ffff:203.0.113.7", "203.0.113.7", "::ffff:cb00:7107", "203.0.113.8",
			} {
				a := r.clientAt(addr).get(t, "/", nil)
				if got = append(got, fmt.Sprint(a.status)); a.status == http.StatusOK {
					a.wantOnly(t, netip.MustParseAddr(addr).Unmap().String())
				}
			}
			if want := strings.Fields("200 200 200 429 200 200 200 200 429 200"); !cmp.Equal(got, want) {
				t.Errorf("HTTP statuses %v, want %v", got, want)
			}
		})
	}
}

// What the comment of a shipped file says to write into weir.yaml is what was tried with it.
func TestShippedComments(t *testing.T) {
	for kind, s := range shipped {
		text, err := os.ReadFile(filepath.Join("..", "deploy", s.file))
		if err != nil {
			t.Fatal(err)
		}
		head, _, _ := cutComment(string(text))
		for _, want := range []string{"client: " + strategies([]string{kind})["path"] + "\n", "listen: \"" + shippedNext + "\"\n"} {
			if !strings.Contains(head, "#   "+want) {
				t.Errorf("deploy/%s: no line %q in its comment", s.file, want)
			}
		}
	}
}
