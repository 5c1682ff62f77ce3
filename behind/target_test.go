package behind_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// targets are request targets that a proxy might tidy up on the way.
var targets = []string{
	"/a//b", "//a/b", "///", "/a/", "/a/./b", "/a/../b", "/a/%2e%2e/b", "/a/b/..", "/a%2Fb", "/a%2fb", "/a%252Fb", "/a%5Cb",
	"/a;v=1/b;p=2", "/;p/a", "/a%3Bb", "/a%20b", "/a%3Fb", "/a%23b", "/caf%C3%A9", "/~a!$&'()*+,=:@", "/%7Ea",
	"/a?", "/a?x=1;y=2&z=%zz", "/a?x=//..//%2F", "/a?q=a+b%20c&&=", "/a??b", "http://other.example/a//b?c",
}

// What the front sends is what the upstream gets: the same front, with and without Weir behind it,
// gives the upstream the same targets and hosts.
func TestTargetsPassAsTheFrontSentThem(t *testing.T) {
	for _, kind := range []string{"nginx", "haproxy", "caddy"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			bare := open(t, plan{proxies: line(kind), bare: true}).client()
			client := "{path: [" + kind + "]}"
			behind := open(t, plan{proxies: line(kind), client: client})
			for _, target := range targets {
				want, got := bare.rawGet(t, target), behind.client().rawGet(t, target)
				if want.status != got.status || want.seen.Target != got.seen.Target || want.seen.Host != got.seen.Host {
					t.Errorf("%s: HTTP status %d, target %q, host %q, want %d, %q, %q", target,
						got.status, got.seen.Target, got.seen.Host, want.status, want.seen.Target, want.seen.Host)
				}
			}
		})
	}
}

// Spellings of a path that one rule shuts.
var (
	shutPaths = []string{
		"/shut/x", "/shut", "/shut/", "//shut/x", "/shut//x", "///shut///x", "/%73hut/x", "/shut;p=1/x", "/shut/x;p", "/%73%68%75%74/%78",
	}
	// ambiguousPaths could mean something else to the upstream. They never get what is exempt.
	ambiguousPaths = []string{
		"/open/../shut/x", "/open/%2e%2e/shut/x", "/open/..%2Fshut/x", "/open%2F..%2Fshut/x", "/open/..;/shut/x", "/open/.%2e/shut/x",
		"/open/..%5Cshut", "/open/%252e%252e/shut/x", "/open/x/../../shut", "/open/%2e%2e%2fshut", "/./open/../shut/x", "/open//../shut/x",
	}
	// shutHosts name the host at which a rule shuts everything.
	shutHosts = []string{
		"GET / HTTP/1.1\nHost: shut.example\n", "GET / HTTP/1.1\nHost: SHUT.example\n", "GET / HTTP/1.1\nHost: shut.example:80\n",
		"GET / HTTP/1.1\nHost: shut.example.\n", "GET http://shut.example/ HTTP/1.1\nHost: shut.example\n", "GET http://shut.example/ HTTP/1.1\nHost: other.example\n",
		"GET http://SHUT.example/a//b HTTP/1.1\nHost: shut.example\n",
	}
)

// However a path or a host is spelled, its rule is not escaped.
func TestNoSpellingEscapesARule(t *testing.T) {
	for _, kind := range []string{"nginx", "haproxy", "caddy"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := open(t, plan{proxies: line(kind), client: "{path: [" + kind + "]}"})
			for _, path := range shutPaths {
				if a := r.client().rawGet(t, path); a.status != http.StatusTooManyRequests {
					t.Errorf("%s: HTTP status %d, want 429", path, a.status)
				}
			}
			t.Run("ambiguous", r.ambiguousIsNotExempt)
			t.Run("host", r.hostIsShut)
			t.Run("broken", r.brokenStopsHere)
		})
	}
}

// ambiguousIsNotExempt checks that of four requests, one was refused: by the rule that is meant, by
// the default rule, or by the proxy.
func (r *road) ambiguousIsNotExempt(t *testing.T) {
	for _, path := range ambiguousPaths {
		c := r.client()
		var statuses []int
		for range 4 {
			statuses = append(statuses, c.rawGet(t, path).status)
		}
		if last := statuses[3]; last != http.StatusTooManyRequests && last != http.StatusBadRequest {
			t.Errorf("%s: HTTP statuses %v, want 429 or 400 in the end", path, statuses)
		}
	}
}

// hostIsShut takes a refusal by the proxy for an answer, too.
func (r *road) hostIsShut(t *testing.T) {
	for _, head := range shutHosts {
		if a := r.client().raw(t, head+"Connection: close\n\n"); a.status != http.StatusTooManyRequests && a.status != http.StatusBadRequest {
			t.Errorf("%s: HTTP status %d, want 429", strings.ReplaceAll(head, "\n", " "), a.status)
		}
	}
}

// brokenStopsHere checks that what is no request, or may be read as two, never arrives.
func (r *road) brokenStopsHere(t *testing.T) {
	before := r.upstream.count.Load()
	for _, head := range []string{
		"GET /open/a%00b HTTP/1.1\nHost: site.example\nConnection: close\n\n",
		"GET /open/a%ffb HTTP/1.1\nHost: site.example\nConnection: close\n\n",
		"GET /open/a HTTP/1.1\nHost: site.example\nHost: shut.example\nConnection: close\n\n",
		"GET /open/a HTTP/1.1\nConnection: close\n\n",
		"POST /open/a HTTP/1.1\nHost: site.example\nContent-Length: 3\nContent-Length: 4\nConnection: close\n\nabc",
	} {
		a := r.client().raw(t, head)
		if a.status != http.StatusBadRequest && a.status != 0 {
			t.Errorf("%q: HTTP status %d, want 400", head, a.status)
		}
	}
	if n := r.upstream.count.Load() - before; n != 0 {
		t.Errorf("%d of them reached the upstream", n)
	}
}

// A request in absolute form is for the host that its target names, whatever its Host field says
// (RFC 9112 section 3.2.2).
func TestAbsoluteFormNamesTheHost(t *testing.T) {
	for _, kind := range []string{"nginx", "caddy"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := open(t, plan{proxies: line(kind), client: "{path: [" + kind + "]}"})
			a := r.client().raw(t, "GET http://other.example/a HTTP/1.1\nHost: shut.example\nConnection: close\n\n")
			got := []string{a.seen.Host, a.seen.Target, strings.Join(a.seen.Header["X-Forwarded-Host"], "|")}
			if want := []string{"other.example", "/a", "other.example"}; !slices.Equal(got, want) {
				t.Errorf("host, target and X-Forwarded-Host: %s", cmp.Diff(want, got))
			}
		})
	}
}

// nginx and HAProxy pass a raw # on, of which the upstream may make what it likes; Caddy encodes it.
func TestRawFragmentStopsHere(t *testing.T) {
	for _, kind := range []string{"nginx", "haproxy"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := open(t, plan{proxies: line(kind), client: "{path: [" + kind + "]}"}).client()
			if a := c.rawGet(t, "/open/a#b"); a.status != http.StatusBadRequest {
				t.Errorf("HTTP status %d, want 400", a.status)
			}
		})
	}
}
