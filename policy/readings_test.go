package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// twoReadings is a policy whose rules a path may fall under that servers read differently.
const twoReadings = `
rules:
  - {name: login, path: /login, limits: [{rate: 2/1h}]}
  - {name: tenant, path: /t/*/login, limits: [{rate: 2/1h}]}
  - {name: files, path: /t/static, exempt: true}
  - {name: shop, path: /shop, limits: [{rate: 5/1h}]}
  - {name: assets, host: static.example.com, exempt: true}
default: {limits: [{rate: 100/1h}]}
`

// Go's ServeMux takes /login/..;/x for a path below /login, Tomcat for /x: the limits of both hold.
func TestBothReadingsAreCharged(t *testing.T) {
	p := policyOf(t, twoReadings)
	for path, want := range map[string][]string{
		"/login/x":            {"login"},
		"/login/..;/x":        {"default", "login"},
		"/login/..%2fx":       {"default", "login"},
		"/login/..%5cx":       {"default", "login"},
		`/login/..\x`:         {"default", "login"},
		"/login/%2e%2e%2fx":   {"default", "login"},
		"/login/../shop":      {"shop", "login"},
		"/login/../login":     {"login"},
		"/t/static;x/login":   {"default", "tenant"},
		"/shop;a=b/x":         {"shop", "default"},
		"/shop/..;/login":     {"login", "shop"},
		"/x;y":                {"default"},
		"/%2e%2e/%2e%2e/shop": {"shop", "default"},
	} {
		var got []string
		for _, h := range hitsOf(t, p, request(path)).Hits {
			got = append(got, h.Limit.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", path, diff)
		}
	}
}

// A server that compares hosts byte by byte serves another site for a variant of one.
func TestVariantsOfAHostAreNotExempt(t *testing.T) {
	p := policyOf(t, twoReadings)
	for host, want := range map[string]string{
		"static.example.com":        "assets",
		"static.example.com:8080":   "assets",
		"static.example.com.":       "default",
		"STATIC.example.com":        "default",
		"static.example.com..:80":   "default",
		"static.example.com:80:90":  "bad request",
		"x@static.example.com":      "bad request",
		"static.example.com/login":  "bad request",
		"static.example.com evil":   "bad request",
		"[2001:db8::1]:80":          "default",
		"[2001:db8::1]:80:90":       "bad request",
		"a]b":                       "bad request",
		"":                          "default",
		`static.example.com\x`:      "bad request",
		"static.example.com?x":      "bad request",
		"static.example.com\x00":    "bad request",
		"xn--bcher-kva.example.com": "default",
	} {
		req := request("/z")
		req.Host = host
		if got := ruleOf(p, req); got != want {
			t.Errorf("%q falls under %s, want %s", host, got, want)
		}
	}
}

// HTTP/2 carries any text for a method; one that would be a request line of its own is none.
func TestWhatIsNoMethodIsRefused(t *testing.T) {
	p := policyOf(t, twoReadings)
	for method, want := range map[string]string{
		"GET": "default", "PROPFIND": "default", "M-SEARCH": "default", "": "bad request",
		"GET /login/x HTTP/1.1": "bad request", "GET\r\n": "bad request", "G\x00T": "bad request", "É": "bad request",
	} {
		req := request("/z")
		req.Method = method
		if got := ruleOf(p, req); got != want {
			t.Errorf("%q falls under %s, want %s", method, got, want)
		}
	}
}
