package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirgate/weir/internal/timed"
)

// What is wrong with these values is in testdata/bad; these are the edges of what is right.
func TestGoodValues(t *testing.T) {
	service := func(s string) string { return wantURL(s, "http", "https", "h2c") }
	for _, c := range []struct {
		name   string
		want   func(string) string
		values []string
	}{
		{"listen", wantListen, []string{":0", ":65535", "127.0.0.1:8080", "[::1]:80", "localhost:80", "unix:/run/weir.sock", "unix:@weir"}},
		{"url", service, []string{"http://a", "https://a.example:65535/base/", "h2c://[::1]:3000", "http://127.0.0.1"}},
		{"key set", wantKeySet, []string{"https://a.example/keys", "https://a.example/discovery/keys?p=sign_in&appid=1", "http://a?x"}},
		{"origins", wantOrigins, []string{"*", "null", "https://a.example", "http://127.0.0.1:3000", "https://a.example, http://b.example", "https://a.example,null", "http://a:443", "capacitor://localhost"}},
		{"token", wantToken, []string{"X-Real-IP", "a", "0", "!#$%&'*+-.^_`|~"}},
		{"method", wantMethod, []string{"GET", "M-SEARCH", "X"}},
		{"name", wantName, []string{"search", "search/60/1m/client", "two words", strings.Repeat("a", 128)}},
		{"host", wantHost, []string{"a", "A.example", "*.a.example", "192.0.2.1", "::1", "[::1]", "a_b.example", strings.Repeat("a", 63)}},
		{"path", wantPath, []string{"/", "=/", "/a", "/a/", "=/a/", "/*", "/a/*/b", "/a.b", "/...", "/a%2Fb", "/größe"}},
		{"network", wantNetwork, []string{"10.0.0.0/8", "192.0.2.1", "::1", "2001:db8::/32", "192.0.2.1/32"}},
		{"per", wantPer, []string{"client", "ip", "global", "host", "method", "path", "rule", "header:X-Tenant", "cookie:sid"}},
	} {
		for _, value := range c.values {
			if got := c.want(value); got != "" {
				t.Errorf("%s %q: %s", c.name, value, got)
			}
		}
	}
}

// One past each edge.
func TestBadValues(t *testing.T) {
	for name, got := range map[string]string{
		"port": wantListen(":65536"), "port with a sign": wantListen(":+80"), "port with a zero": wantListen(":080"), "port's name": wantListen(":http"),
		"no port": wantListen("127.0.0.1"), "abstract": wantListen("unix:"), "scheme": wantListen("http://a:80"),
		"URL without host": wantURL("http://:80", "http"), "URL with an empty port": wantURL("http://a:", "http"), "URL with an empty query": wantURL("http://a?", "http"),
		"URL with a variable of the shell's": wantURL("http://$HOST:3000", "http"),
		"key set without a host":             wantKeySet("https://?a=b"), "key set's fragment": wantKeySet("https://a/keys?a#b"), "key set of another scheme": wantKeySet("file:///keys"),
		"empty token": wantToken(""), "token with a colon": wantToken("a:b"), "token in other letters": wantToken("é"),
		"long name": wantName(strings.Repeat("a", 129)), "name of two lines": wantName("a\nb"), "long label": wantHost(strings.Repeat("a", 64)), "dot": wantHost("a."),
		"escaped host": wantHost("a%41"), "two signs": wantPath("==/a"), "backslash": wantPath(`/a\b`), "part of a segment": wantPath("/a/*.js"), "dots": wantPath("/.."),
		"origin's usual port": wantOrigins("http://a:80"), "origin in other letters": wantOrigins("https://é.example"), "origin in upper case": wantOrigins("https://A"),
		"prefix": wantNetwork("10.0.0.0/33"), "zone": wantNetwork("fe80::1%eth0/64"), "per nothing": wantPer(""), "header without a name": wantPer("header"),
	} {
		if got == "" {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestIsLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "localhost:1": true, "LOCALHOST:1": true, "unix:/run/a": true, "[::ffff:127.0.0.1]:1": true,
		":1": false, "0.0.0.0:1": false, "[::]:1": false, "10.0.0.1:1": false, "localhost.example:1": false, "": false,
	} {
		if got := isLoopback(address); got != want {
			t.Errorf("%s: got %t, want %t", address, got, want)
		}
	}
}

// Whoever names his own address as the service asks himself without end.
func TestReaches(t *testing.T) {
	for _, c := range []struct {
		service, listen string
		want            bool
	}{
		{"http://127.0.0.1:8080", ":8080", true},
		{"http://localhost:8080/base", "127.0.0.1:8080", true},
		{"http://LocalHost:8080", "0.0.0.0:8080", true},
		{"h2c://[::1]:8080", "[::]:8080", true},
		{"http://10.0.0.1:8080", "10.0.0.1:8080", true},
		{"http://127.0.0.1", ":80", true},
		{"https://localhost", ":443", true},
		{"http://127.0.0.1:8081", ":8080", false},
		{"http://127.0.0.1:8080", "127.0.0.2:8080", false},
		{"http://[::1]:8080", "0.0.0.0:8080", false},
		{"http://app:8080", ":8080", false},
		{"http://127.0.0.1:8080", "unix:/run/weir.sock", false},
		{"http://127.0.0.1:8080", "", false},
	} {
		if got := reaches(c.service, c.listen); got != c.want {
			t.Errorf("%s, listening on %q: %t", c.service, c.listen, got)
		}
	}
}

// A file of a thousand rules is read while nobody waits for it.
func TestAThousandRulesAreReadQuickly(t *testing.T) {
	var file strings.Builder
	file.WriteString("listen: \":80\"\nupstream: http://a.example\nrules:\n")
	for i := range 1000 {
		fmt.Fprintf(&file, "  - {name: r%d, path: /r%[1]d, methods: [GET, POST], limits: [{rate: 60/1m, per: ip}, {name: day%[1]d, rate: 1000 per day}]}\n", i)
	}
	began := time.Now()
	c, problems := Parse("weir.yaml", []byte(file.String()), nil)
	took := time.Since(began)
	t.Logf("%d rules in %v", len(c.Rules), took)
	if len(problems) > 0 || len(c.Rules) != 1000 || took > timed.Bound(5*time.Second) {
		t.Errorf("%d rules in %v, %s", len(c.Rules), took, lines(problems))
	}
}
