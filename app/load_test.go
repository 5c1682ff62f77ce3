package app

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/config"
)

// The command line beats the environment, which beats the file; a service alone is served on loopback.
func TestWordsOfTheCommandLine(t *testing.T) {
	type words struct{ Listen, Upstream, Admin string }
	tests := map[string]struct {
		yaml    string
		options Options
		want    words
	}{
		"nothing":          {"", Options{}, words{"", "", "127.0.0.1:9090"}},
		"upstream alone":   {"", Options{Upstream: new("http://a")}, words{"127.0.0.1:8080", "http://a", "127.0.0.1:9090"}},
		"all flags":        {"", Options{Upstream: new("http://a"), Listen: new(":1"), Admin: new("127.0.0.1:2")}, words{":1", "http://a", "127.0.0.1:2"}},
		"flag over file":   {"listen: \":5\"\nupstream: http://file\n", Options{Upstream: new("http://a")}, words{":5", "http://a", "127.0.0.1:9090"}},
		"environment":      {"listen: \":5\"\nupstream: http://file\n", Options{Env: []string{"WEIR_LISTEN=:6", "WEIR_ADMIN="}}, words{":6", "http://file", ""}},
		"flag over both":   {"listen: \":5\"\nupstream: http://file\n", Options{Env: []string{"WEIR_LISTEN=:6"}, Listen: new(":7")}, words{":7", "http://file", "127.0.0.1:9090"}},
		"an empty flag":    {"listen: \":5\"\nupstream: http://file\nadmin: \"127.0.0.1:6\"\n", Options{Admin: new("")}, words{":5", "http://file", ""}},
		"empty flags":      {"listen: \":5\"\nadmin: \":6\"\n", Options{Listen: new(""), Admin: new("")}, words{"", "", ""}},
		"no upstream":      {"", Options{Upstream: new(""), Env: []string{"WEIR_UPSTREAM=http://a"}}, words{"", "", "127.0.0.1:9090"}},
		"variable beside":  {"", Options{Env: []string{"WEIR_LISTEN=:6"}, Upstream: new("http://a")}, words{":6", "http://a", "127.0.0.1:9090"}},
		"environment last": {"", Options{Env: []string{"WEIR_LISTEN=:6", "WEIR_LISTEN=:8"}, Upstream: new("http://a"), Listen: new(":9")}, words{":9", "http://a", "127.0.0.1:9090"}},
	}
	for name, test := range tests {
		if test.yaml != "" {
			test.options.Config = t.TempDir() + "/weir.yaml"
			write(t, test.options.Config, test.yaml)
		}
		env := slices.Clone(test.options.Env)
		l := Load(test.options)
		got := words{l.Config.Listen, l.Config.Upstream, l.Config.Admin}
		if diff := cmp.Diff(test.want, got); diff != "" || l.Err() != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, l.Err(), diff)
		}
		if !slices.Equal(env, test.options.Env) {
			t.Errorf("%s: the environment was written to", name)
		}
	}
}

// What cannot be read is a problem like any other, with the file as its place.
func TestLoadOfNoFile(t *testing.T) {
	l := Load(Options{Config: "testdata/nowhere.yaml"})
	want := []config.Problem{{File: "testdata/nowhere.yaml", What: "no such file or directory", Cure: "name a file that can be read with -c"}}
	if diff := cmp.Diff(want, l.Problems); diff != "" || l.Policy != nil {
		t.Errorf("policy %v, problems (-want +got):\n%s", l.Policy, diff)
	}
}

// Everything that is wrong with a file is told at once, in the order of the file, whichever part of the
// program finds it.
func TestLoadTellsEveryProblemAtOnce(t *testing.T) {
	file := t.TempDir() + "/weir.yaml"
	write(t, file, `listen: ":8080"
upstream: "http://127.0.0.1:3000"
client: {path: [ngnix]}
rules:
  - {name: a, path: /a, limits: [{rate: 5/1}]}
  - {name: b, path: /a, limits: [{rate: 5/1m}]}
tls: {cert: nowhere.pem, key: nowhere.key}
`)
	l := Load(Options{Config: file})
	var got []string
	for _, p := range l.Problems {
		got = append(got, fmt.Sprintf("%d:%d %s warning=%v", p.Line, p.Col, p.Field, p.Warning))
	}
	want := []string{
		"3:17 client.path[0] warning=false", "5:41 rules[0].limits[0].rate warning=false",
		"6:5 rules[1] warning=false", "7:13 tls.cert warning=true",
	}
	if diff := cmp.Diff(want, got); diff != "" || l.Policy != nil {
		t.Errorf("policy %v, problems (-want +got):\n%s", l.Policy, diff)
	}
}

// A certificate that cannot be read here may be readable there: it is told, and no error.
func TestCertificateThatCannotBeUsed(t *testing.T) {
	dir := t.TempDir()
	cert, key, other := dir+"/cert.pem", dir+"/key.pem", dir+"/other.pem"
	certify(t, other, key, "other.test")
	certify(t, cert, key, "one.test")
	for want, files := range map[string][2]string{
		"": {cert, key},
		"tls.cert: nowhere cannot be used here (no such file or directory)":                        {"nowhere", key},
		"tls.key: nowhere cannot be used here (no such file or directory)":                         {cert, "nowhere"},
		"tls.cert: " + other + " cannot be used here (tls: private key does not match public key)": {other, key},
	} {
		c, _ := config.Parse("weir.yaml", fmt.Appendf(nil, "tls: {cert: %q, key: %q}", files[0], files[1]), nil)
		got := ""
		for _, p := range certificate(c) {
			got = p.Field + ": " + p.What
			if !p.Warning || p.Line != 1 {
				t.Errorf("%+v", p)
			}
		}
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Peers that send the PROXY protocol are found by the address that a socket has, however it is written.
func TestProxyProtocolNetworks(t *testing.T) {
	c, problems := config.Parse("weir.yaml", []byte("proxy_protocol: {from: ['::ffff:127.0.0.0/104', '::ffff:192.0.2.1', 10.0.0.0/8, '2001:db8::/32', 192.0.2.2]}"), nil)
	if config.HasErrors(problems) {
		t.Fatal(problems)
	}
	var got []string
	for _, network := range new(App).proxyOptions(c).ProxyProtocol {
		got = append(got, network.String())
	}
	if diff := cmp.Diff([]string{"127.0.0.0/8", "192.0.2.1/32", "10.0.0.0/8", "2001:db8::/32", "192.0.2.2/32"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// An error says every error and no warning; one that was shown says nothing twice.
func TestConfigErrorLines(t *testing.T) {
	e := &ConfigError{Problems: []config.Problem{
		{File: "f", Line: 1, Col: 2, Field: "a", What: "b", Cure: "c"},
		{File: "f", Line: 3, Col: 4, Field: "w", What: "x", Cure: "y", Warning: true},
		{File: "f", Line: 5, Col: 6, Field: "d", What: "e", Cure: "g"},
	}}
	const want = "f:1:2: a: b: c\nf:5:6: d: e: g"
	if e.Error() != want || e.Lines() != want+"\n" {
		t.Errorf("got %q and %q, want %q", e.Error(), e.Lines(), want)
	}
	e.Silent = true
	if e.Error() != want || e.Lines() != "" {
		t.Errorf("silent: got %q and %q, want %q and nothing", e.Error(), e.Lines(), want)
	}
}

// To explain is to decide over an empty store, again and again.
func TestExplainCountsNothing(t *testing.T) {
	file := t.TempDir() + "/weir.yaml"
	write(t, file, "default: {limits: [{rate: 1/1m, algorithm: fixed_window}]}\n")
	l := Load(Options{Config: file})
	req := weir.Request{Front: "proxy", Peer: netip.MustParseAddr("203.0.113.7"), Method: "GET", Host: "a", Path: "/", Header: http.Header{}, Trace: true}
	noon := time.Date(2026, 3, 4, 12, 0, 15, 0, time.UTC)
	for range 3 {
		d, err := l.Explain(context.Background(), req, noon)
		if err != nil {
			t.Fatal(err)
		}
		got := []any{d.Action, d.Statuses[0].Remaining, d.Statuses[0].ResetAfter, len(d.Client.Hops)}
		if diff := cmp.Diff([]any{weir.Pass, int64(0), 45 * time.Second, 1}, got); diff != "" {
			t.Errorf("decision (-want +got):\n%s", diff)
		}
	}
}

func TestWhereAServiceListens(t *testing.T) {
	for text, want := range map[string]string{
		"http://a": "a:80", "https://a/b": "a:443", "h2c://a": "a:80", "http://a:3000": "a:3000", "https://[2001:db8::1]": "[2001:db8::1]:443",
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := hostPort(u); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// The hash tells configurations apart by what they mean, and shows no secret's change.
func TestHash(t *testing.T) {
	of := func(yaml string) string {
		c, problems := config.Parse("weir.yaml", []byte(yaml), nil)
		if config.HasErrors(problems) {
			t.Fatal(problems)
		}
		sum, err := c.Hash()
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	if of("headers: draft") != of("") || of("headers: draft # the default") != of("{headers: \"draft\"}") {
		t.Error("another spelling has another hash")
	}
	if of("headers: legacy") == of("") {
		t.Error("another meaning has the same hash")
	}
}
