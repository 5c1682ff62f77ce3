package forwardauth

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/internal/timed"
)

// Through Caddy, by the shipped file, a client gets the whole refusal, and what is left before it.
func TestCaddyTrue429(t *testing.T) {
	t.Parallel()
	r := open(t, "caddy", plan{})
	c := r.client()
	for left := 2; left >= 0; left-- {
		a := c.get("/a?b=c")
		if a.status != 200 || a.header.Get("RateLimit") != fmt.Sprintf(`"few";r=%d;t=60`, left) || a.header.Get("RateLimit-Policy") != `"few";q=3;w=60` || a.seen.Target != "/a?b=c" {
			t.Errorf("HTTP status %d, %v, the service saw %s", a.status, a.header, a.seen.Target)
		}
	}
	a := c.get("/a")
	delete(a.header, "Date")
	delete(a.header, "Content-Length")
	want := http.Header{
		"Server": {"Caddy"}, "Content-Type": {"application/problem+json"}, "Cache-Control": {"no-store"}, "Retry-After": {"60"},
		"Ratelimit": {`"few";r=0;t=60`}, "Ratelimit-Policy": {`"few";q=3;w=60`}, "Access-Control-Expose-Headers": {"Retry-After, RateLimit, RateLimit-Policy"},
	}
	if diff := cmp.Diff(want, a.header); diff != "" || a.status != http.StatusTooManyRequests {
		t.Errorf("HTTP status %d (-want +got):\n%s", a.status, diff)
	}
	problemOf(t, a.body, 429)
	if a := r.client().get("/open"); a.status != 200 || a.header["Ratelimit"] != nil {
		t.Errorf("what is exempt: HTTP status %d, %v", a.status, a.header)
	}
	if a := r.client().get("/forbidden"); a.status != http.StatusForbidden || a.body != "the service's own word" {
		t.Errorf("the service's 403: HTTP status %d, %q", a.status, a.body)
	}
}

func TestCaddyBodies(t *testing.T) {
	t.Parallel()
	c := open(t, "caddy", plan{}).client()
	body := strings.Repeat("body", 20_000)
	if a := c.do("POST", "/shut", body); a.status != 200 || a.seen.Body != body {
		t.Errorf("HTTP status %d, %d bytes arrived", a.status, len(a.seen.Body))
	}
}

func TestCaddyForgeries(t *testing.T) {
	t.Parallel()
	open(t, "caddy", plan{}).forge()
}

// Behind a proxy that Caddy trusts, the client is the one that this proxy names; and whatever else comes
// through it as the client wrote it changes nothing.
func TestCaddyBehindAnother(t *testing.T) {
	t.Parallel()
	r := open(t, "caddy", plan{client: "{path: [{name: edge, cidrs: [127.0.0.0/8]}, caddy]}", edit: func(config string) string {
		return strings.Replace(config, "# trusted_proxies 192.0.2.1/32", "trusted_proxies 127.0.0.0/8", 1)
	}})
	r.behindAnother()
}

// Without the question mark Caddy hands the client's query on to Weir, which reads none.
func TestCaddyWithoutTheQuestionMark(t *testing.T) {
	t.Parallel()
	open(t, "caddy", plan{edit: func(config string) string {
		return strings.Replace(config, "rewrite /auth/caddy?", "rewrite /auth/caddy", 1)
	}}).forge()
}

// The short form does as well, but for what is left on admitted answers.
func TestCaddyShortForm(t *testing.T) {
	t.Parallel()
	r := open(t, "caddy", plan{edit: func(string) string {
		return ":80 {\n\tforward_auth 127.0.0.1:8080 {\n\t\turi /auth/caddy?\n\t}\n\treverse_proxy 127.0.0.1:3000\n}\n"
	}})
	if a := r.client().get("/open"); a.status != 200 {
		t.Errorf("HTTP status %d", a.status)
	}
	r.forge()
}

func TestCaddyTellsTheService(t *testing.T) {
	t.Parallel()
	open(t, "caddy", plan{yaml: telling}).told()
}

// handling uncomments what lets everything pass while Weir is away.
func handling(config string) string {
	head, rest, _ := strings.Cut(config, "\t# handle_errors {")
	return head + strings.ReplaceAll("\t# handle_errors {"+rest, "#", "")
}

func TestCaddyWithoutWeir(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit   func(string) string
		status map[string]int
	}{
		"closed": {nil, map[string]int{"nobody": 502, "frozen": 504}},
		"open":   {handling, map[string]int{"nobody": 200, "frozen": 200}},
	} {
		t.Run(name, func(t *testing.T) {
			for where, addr := range map[string]string{"nobody": nobody(t), "frozen": frozen(t)} {
				r := open(t, "caddy", plan{edit: c.edit, weir: addr, hasty: true})
				began := time.Now()
				a := r.client().do("POST", "/a", "body")
				if a.status != c.status[where] || a.status == 200 && a.seen.Body != "body" {
					t.Errorf("%s: HTTP status %d, want %d; body %q", where, a.status, c.status[where], a.seen.Body)
				}
				if took := time.Since(began); took > timed.Bound(300*time.Millisecond+soon) {
					t.Errorf("%s: it took %v", where, took)
				}
			}
			if got := open(t, "caddy", plan{edit: c.edit}).client().get("/shut").status; got != 429 {
				t.Errorf("with Weir: HTTP status %d, want 429", got)
			}
		})
	}
}
