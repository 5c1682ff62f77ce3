package config

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var update = flag.Bool("update", false, "write the .want files")

// sameValues compares what configurations say, wherever it was said.
func sameValues() cmp.Option { return cmpopts.IgnoreUnexported(Config{}) }

func lines(problems []Problem) string {
	var b strings.Builder
	for _, p := range problems {
		b.WriteString(p.String() + "\n")
	}
	return b.String()
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func glob(t testing.TB, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(names), err)
	}
	return names
}

// Each bad file holds one kind of mistake and gives exactly the problems of its .want file.
// CFG-01, CFG-04, CFG-10, CFG-13, CFG-15, CNT-23, CNT-50.
func TestBadFiles(t *testing.T) {
	for _, name := range glob(t, "testdata/bad/*.yaml") {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".yaml"), func(t *testing.T) {
			_, problems := Parse(filepath.Base(name), read(t, name), nil)
			compareWant(t, strings.TrimSuffix(name, ".yaml")+".want", lines(problems))
		})
	}
}

func compareWant(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := string(read(t, name)); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got == "" {
		t.Error("no problem found")
	}
}

func TestGoodFilesHaveNoErrors(t *testing.T) {
	for _, name := range glob(t, "testdata/good/*.yaml") {
		if _, problems := Parse(name, read(t, name), nil); HasErrors(problems) {
			t.Errorf("%s", lines(problems))
		}
	}
}

// What stands in the contract's appendix A is the default: no value of it differs.
func TestAppendixAIsTheDefault(t *testing.T) {
	c, _ := Parse("appendix-a.yaml", read(t, "testdata/good/appendix-a.yaml"), nil)
	if changed := Diff(Default(), c); changed != nil {
		t.Errorf("differ from the default: %q", changed)
	}
}

// And nothing stands in the file's shape that the appendix lacks, but what it gives in words.
func TestAppendixAHasEveryKey(t *testing.T) {
	c, _ := Parse("appendix-a.yaml", read(t, "testdata/good/appendix-a.yaml"), nil)
	inWords := map[string]bool{
		"admin_read_token": true, "client.dangerously_trust_everyone": true, "default.mode": true, "default.action": true,
		"store.redis.tls.ca": true, "store.redis.tls.cert": true, "store.redis.tls.key": true, "store.redis.tls.server_name": true,
	}
	for variable, o := range overrides(valueOf(c), "") {
		if !c.Given(o.path) && !inWords[o.path] && !strings.HasSuffix(variable, "_FILE") {
			t.Errorf("%s is not in appendix A", o.path)
		}
	}
}

// An empty file is valid, and null sections are as absent.
func TestEmptyFilesAreTheDefault(t *testing.T) {
	for _, name := range []string{"empty", "comments", "explicit-null", "null-sections", "bom", "secret-file"} {
		c, problems := Parse("weir.yaml", read(t, "testdata/good/"+name+".yaml"), nil)
		want := Default()
		nothing := "weir.yaml:1:1: warning: listen: nothing is served: give listen and upstream\n"
		if name == "secret-file" {
			want.Admin, want.AdminToken = ":9090", "s3cret"
			nothing += "weir.yaml:2:19: warning: admin_token: shorter than 16 characters, so it may be guessed: take what openssl rand -hex 32 prints\n"
		}
		if d := cmp.Diff(want, c, sameValues()); d != "" {
			t.Errorf("%s: -want +got\n%s", name, d)
		}
		if got := lines(problems); got != nothing {
			t.Errorf("%s: got %q, want %q", name, got, nothing)
		}
	}
}

func TestEveryKindOfValue(t *testing.T) {
	c, problems := Parse("everything.yaml", read(t, "testdata/good/everything-in-memory.yaml"), nil)
	if len(problems) > 0 {
		t.Errorf("problems: %s", lines(problems))
	}
	want := Default()
	want.Listen, want.TLS, want.Admin = "unix:/run/weir.sock", TLS{"cert.pem", "key.pem"}, "[::1]:9090"
	want.ProxyProtocol.From = []string{"10.0.0.0/8"}
	want.Upstream = "https://app.example:8443/base"
	want.Routes = []Route{{Host: "*.example.com", Path: "/shop", Upstream: "h2c://127.0.0.1:3001"}, {Path: "=/health", Upstream: "http://[::1]:3002"}}
	want.Client.Path = []Hop{{Name: "cloudflare"}, {Name: "ours", CIDRs: []string{"192.0.2.0/24"}, Appends: new(0), Header: "X-Real-IP"}}
	want.Client.IPv6Prefix, want.Client.IPv6Tiers = 56, map[int]Multiple{}
	want.Matching = Matching{AmbiguousPaths: "reject", CaseInsensitive: true}
	want.Headers, want.LegacyReset = "both", "epoch"
	want.CORS = CORS{AllowOrigin: "https://app.example.com"}
	want.Limits = []Limit{
		{Name: "site", Rate: &Rate{N: 600, Window: time.Minute, Text: "600/1m"}, Per: List{"ip"}},
		{Name: "all", InFlight: new(int64(100)), Per: List{"global"}},
		{Name: "each", InFlight: new(int64(10))},
	}
	tarpit := Tarpit{Delay: Duration(5 * time.Second), MaxHeld: 100, MaxHeldPerClient: 2}
	want.Rules = []Rule{{
		Name: "orders", Host: "shop.example.com", Path: "/users/*/orders/", Methods: []string{"GET", "POST"},
		Cost: new(int64(2)), Action: "tarpit", Tarpit: Tarpit{Duration(2 * time.Second), 100, 2}, MaxBody: 1 << 20,
		Limits: []Limit{
			{Rate: &Rate{N: 10, Window: time.Second, Text: "10/1s"}, Burst: new(int64(20)), Algorithm: "token_bucket"},
			{Name: "trial", Rate: &Rate{N: 100, Window: time.Hour, Text: "100/1h"}, Per: List{"client", "path"}, Mode: "shadow", Algorithm: "sliding_log"},
		},
	}, {
		Name: "bots", Path: "/", Mode: "shadow", Action: "tag", TagHeader: "X-Bot", Tarpit: tarpit,
		Limits: []Limit{{Rate: &Rate{N: 1, Window: time.Second, Text: "1/1s"}, Per: List{"cookie:sid"}}},
	}, {
		Name: "static", Path: "/static/", Exempt: true, Body: "skip", Tarpit: tarpit,
	}}
	want.ExemptAddresses = []string{"192.0.2.7", "2001:db8::/32"}
	want.Store.Memory.MaxKeys, want.Store.OnFailure = 5000, "deny"
	want.WAF.Mode = "off"
	want.Log.Format, want.Log.Addresses, want.Log.RefusalsPerSecond = "text", "hashed", 0
	if d := cmp.Diff(want, c, sameValues()); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

func TestAnchorsAndMerges(t *testing.T) {
	c, _ := Parse("anchors.yaml", read(t, "testdata/good/anchors.yaml"), nil)
	login, signup, reset := c.Rules[0], c.Rules[1], c.Rules[2]
	login.Name, login.Path = "signup", "/signup"
	if d := cmp.Diff(login, signup); d != "" {
		t.Errorf("a merged rule: -want +got\n%s", d)
	}
	if d := cmp.Diff([]string{"POST"}, reset.Methods); d != "" {
		t.Errorf("an aliased list: -want +got\n%s", d)
	}
}

// The default tiers give way to a client prefix that is as wide as they are; those in the file are
// judged instead.
func TestDefaultTiersFollowThePrefix(t *testing.T) {
	c, problems := Parse("weir.yaml", []byte("client: {ipv6_prefix: 56}"), nil)
	if d := cmp.Diff(map[int]Multiple{48: 16}, c.Client.IPv6Tiers); d != "" || HasErrors(problems) {
		t.Errorf("-want +got\n%s%s", d, lines(problems))
	}
}

func TestTooLargeAFile(t *testing.T) {
	data := []byte(strings.Repeat("#", maxFile))
	if _, problems := Parse("weir.yaml", data, nil); HasErrors(problems) {
		t.Errorf("4MiB: %s", lines(problems))
	}
	_, problems := Parse("weir.yaml", append(data, '#'), nil)
	if got, want := lines(problems), "weir.yaml:1:1: the file is too large: want at most 4MiB\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A file of many mistakes is reported up to a bound.
func TestProblemsAreBounded(t *testing.T) {
	_, problems := Parse("weir.yaml", []byte("limits:\n"+strings.Repeat("  - {rate: 1, burst: x, in_flight: z}\n", 1000)), nil)
	if n := len(problems); n < maxProblems || n > 2*maxProblems {
		t.Errorf("%d problems", n)
	}
}

func TestLoad(t *testing.T) {
	c, problems, err := Load("testdata/good/watch.yaml", nil)
	if err != nil || len(problems) > 0 || c.Listen != ":8080" || len(c.Default.Limits) != 0 {
		t.Errorf("got %v, %s, %v", c, lines(problems), err)
	}
	for name, want := range map[string]string{
		"testdata/nowhere.yaml": "configuration testdata/nowhere.yaml: no such file or directory",
		"testdata":              "configuration testdata: is a directory",
	} {
		if _, _, err := Load(name, nil); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
