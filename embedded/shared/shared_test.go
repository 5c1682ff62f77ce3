package shared

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/embedded"
	"github.com/weirgate/weir/internal/leaktest"
	"github.com/weirgate/weir/internal/redistest"
	"github.com/weirgate/weir/middleware"
	"github.com/weirgate/weir/store/memory"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // what is embedded tells it of every refusal
	leaktest.Main(m)
}

// A program is a library user's: a middleware before a service, over one engine.
type program struct {
	t       *testing.T
	engine  *embedded.Engine
	handler http.Handler
}

// launch returns a program with that configuration.
func launch(t *testing.T, yaml string) *program {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	engine, err := embedded.Open(path, embedded.Options{Shared: Redis})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(engine.Close)
	return over(t, engine)
}

func over(t *testing.T, engine *embedded.Engine) *program {
	yes := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	return &program{t, engine, middleware.New(engine.Engine, middleware.Options{}).Wrap(yes)}
}

// passes counts how many of n requests pass.
func (p *program) passes(n int) (passed int) {
	for range n {
		w := httptest.NewRecorder()
		p.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if w.Code == http.StatusOK {
			passed++
		}
	}
	return passed
}

// metric reports whether the metrics have that line.
func (p *program) metric(line string) bool {
	w := httptest.NewRecorder()
	p.engine.Metrics().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return strings.Contains(w.Body.String(), "\n"+line+"\n")
}

// ten is a limit that a process keeps with all others, by which nothing is regained while a test runs. Redis is
// waited for: what is counted in its place is no shared count.
func ten(server *redistest.Server) string {
	return fmt.Sprintf("default: {limits: [{rate: 10/365d, per: client, algorithm: token_bucket}]}\nstore: {redis: {url: %q, timeout: 5s}}\n", server.URL())
}

// Of the requests to two programs exactly the limit passes, and the metrics say where they were counted.
func TestProgramsShareACount(t *testing.T) {
	server := redistest.Start(t)
	one, two := launch(t, ten(server)), launch(t, ten(server))
	passed := 0
	for range 20 {
		passed += one.passes(1) + two.passes(1)
	}
	if passed != 10 {
		t.Errorf("%d passed, want 10", passed)
	}
	for _, p := range []*program{one, two} {
		if !p.metric("weir_store_breaker_open 0") || !p.metric(`weir_store_finding{finding="other_policy"} 0`) {
			t.Error("the metrics do not tell of Redis")
		}
	}
}

// A secret of Go values reaches Redis; it is in no copy that is checked.
func TestValuesKeepTheirSecrets(t *testing.T) {
	server := redistest.Start(t, "--requirepass", "hush")
	cfg := config.Default()
	cfg.Store.Redis.URL, cfg.Store.Redis.Password, cfg.Store.Redis.Timeout = config.Secret("redis://"+server.Addr), "hush", config.Duration(5*time.Second)
	cfg.Default.Limits[0].Rate = &config.Rate{N: 3, Window: 24 * time.Hour}
	engine, err := embedded.New(cfg, embedded.Options{Shared: Redis})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	p := over(t, engine)
	if got := p.passes(5); got != 3 || !p.metric("weir_store_breaker_open 0") {
		t.Errorf("%d passed of 5 against 3, breaker closed %v", got, p.metric("weir_store_breaker_open 0"))
	}
	other := over(t, engine)
	if got := other.passes(1); got != 0 {
		t.Errorf("%d passed after all were used, want none", got)
	}
}

// A Redis that is not there is no error: this process counts its share, and says so.
func TestStartsWithoutRedis(t *testing.T) {
	server := redistest.Start(t)
	yaml := strings.Replace(ten(server), "timeout: 5s}", "timeout: 15ms}, replicas: 2", 1)
	server.Kill()
	p := launch(t, yaml)
	if got := p.passes(20); got != 5 {
		t.Errorf("%d passed, want this replica's share of 5", got)
	}
	if !p.metric("weir_store_breaker_open 1") {
		t.Error("nobody can see it")
	}
}

// What is wrong with the words about Redis is found by a check without a server, and by opening.
func TestFaults(t *testing.T) {
	dir := t.TempDir()
	junk := filepath.Join(dir, "junk.pem")
	if err := os.WriteFile(junk, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	local := memory.New(memory.Options{MaxKeys: 1})
	defer local.Close()
	for redis, want := range map[string]string{
		"url: \"redis://127.0.0.1:1/0\"": "",
		"url: \"\"":                      "",
		"url: \"http://127.0.0.1\"":      "http",
		"url: \"rediss://127.0.0.1:1\", tls: {ca: missing.pem}":                       "store.redis.tls.ca",
		"url: \"rediss://127.0.0.1:1\", tls: {ca: " + junk + "}":                      "holds no PEM certificate",
		"url: \"rediss://127.0.0.1:1\", tls: {cert: " + junk + ", key: " + junk + "}": "store.redis.tls",
	} {
		c, problems := config.Parse("weir.yaml", []byte("store: {redis: {"+redis+"}}"), nil)
		if config.HasErrors(problems) {
			t.Fatal(problems)
		}
		if got := fmt.Sprint(Check(c)); (got == "[]") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: check: %s, want %q", redis, got, want)
		}
		if want == "" {
			continue
		}
		if s, err := Redis(c, embedded.Beside{Local: local, Log: slog.New(slog.DiscardHandler)}); err == nil || s != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: open: %v, want %q", redis, err, want)
		}
	}
}

// What is wrong with a URL stands at its place, which may be a variable: a file of variables as Docker reads it
// keeps the quotes.
func TestFaultOfAVariable(t *testing.T) {
	c, _ := config.Parse("weir.yaml", []byte("listen: \":80\"\nupstream: http://a.example\n"), []string{`WEIR_STORE_REDIS_URL="redis://a:1"`})
	want := "environment: WEIR_STORE_REDIS_URL: redis url: "
	if got := Check(c); len(got) != 1 || !strings.HasPrefix(got[0].String(), want) {
		t.Errorf("%v, want %s...", got, want)
	}
}

// Two replicas count alike if what is counted, for whom and against what is alike, whatever else is not.
func TestCountsBy(t *testing.T) {
	print := func(yaml string) string {
		c, problems := config.Parse("weir.yaml", []byte(yaml), nil)
		if config.HasErrors(problems) {
			t.Fatal(problems)
		}
		text, err := countsBy(c)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	const rules = "rules: [{name: api, path: /api, limits: [{rate: 5/1m}]}]\n"
	base := print(rules)
	for yaml, same := range map[string]bool{
		rules + "listen: \":1\"\nupstream: http://a\nadmin: \"127.0.0.1:2\"\nlog: {level: debug}\n": true,
		rules + "store: {redis: {url: \"redis://a:1\", password: hush}, replicas: 3}\n":             true,
		"# a comment\n" + rules + "default: {limits: [{rate: 300/1m, per: client}]}\n":              true,
		strings.Replace(rules, "5/1m", "6/1m", 1):                                                   false,
		strings.Replace(rules, "api,", "other,", 1):                                                 false,
		rules + "client: {ipv4_prefix: 24}\n":                                                       false,
		rules + "limits: [{name: site, rate: 600/1m}]\n":                                            false,
		rules + "default: {limits: []}\n":                                                           false,
		rules + "plans: {free: {quota: [10/day]}}\n":                                                false,
		rules + "keys: {required: true}\n":                                                          false,
		rules + "jwt: {jwks_file: keys.json, plan_claim: plan}\n":                                   false,
		rules + "jwt: {jwks_file: keys.json}\n":                                                     true,
	} {
		if got := print(yaml); (got == base) != same || len(got) != 12 || strings.Contains(got, " ") {
			t.Errorf("%q, like %q: want the same %v\n%s", got, base, same, yaml)
		}
	}
}

// A ban that one program's penalty makes holds in the others, too.
func TestProgramsShareBans(t *testing.T) {
	server := redistest.Start(t)
	yaml := ten(server) + "penalties: [{after: 5 denials in 1h, ban: 1h}]\nclient: {ipv4_prefix: 24}\n"
	one, two := launch(t, yaml), launch(t, yaml)
	one.passes(20)
	for until := time.Now().Add(30 * time.Second); !two.metric("weir_bans 1") && time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
	}
	for name, p := range map[string]*program{"one": one, "two": two} {
		w := httptest.NewRecorder()
		p.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if w.Code != http.StatusForbidden || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s answers %d, Retry-After %q; want the ban", name, w.Code, w.Header().Get("Retry-After"))
		}
	}
}
