package embedded_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/embedded"
	"github.com/weirgate/weir/internal/leaktest"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // what is embedded tells it of every refusal
	leaktest.Main(m)
}

// write returns the name of a file with that text.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// decide returns what e says to n requests for path, and records them.
func decide(e *embedded.Engine, path string, n int) (reasons []string) {
	for range n {
		s := e.Current()
		d := e.Decide(context.Background(), s, weir.Request{Front: "middleware", Method: "GET", Path: path, Host: "x", Header: http.Header{}})
		reasons = append(reasons, d.Rule.Name+": "+string(d.Reason))
		e.Record(s, d, weir.Outcome{HTTP: d.HTTP})
	}
	return reasons
}

// Go values mean what a file of the same content means, defaults included.
func TestValuesAreAFile(t *testing.T) {
	file, err := embedded.Open(write(t, `
rules:
  - {name: search, path: /search, limits: [{rate: 2/1m, algorithm: token_bucket, burst: 1, per: ip}, {in_flight: 5}]}
  - {name: pit, path: /pit, action: tarpit, limits: [{quota: 1/day}]}
  - {name: static, path: /static, exempt: true}
`), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cfg := config.Default()
	cfg.Rules = []config.Rule{
		{Name: "search", Path: "/search", Limits: []config.Limit{
			{Rate: &config.Rate{N: 2, Window: time.Minute}, Algorithm: "token_bucket", Burst: new(int64(1)), Per: config.List{"ip"}},
			{InFlight: new(int64(5))},
		}},
		{Name: "pit", Path: "/pit", Action: "tarpit", Limits: []config.Limit{{Quota: &config.Rate{N: 1, Unit: "day"}}}},
		{Name: "static", Path: "/static", Exempt: true},
	}
	values, err := embedded.New(cfg, embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer values.Close()
	cfg.Rules[0].Name = "changed later"
	for _, path := range []string{"/search", "/pit", "/static", "/else"} {
		if diff := cmp.Diff(decide(file, path, 3), decide(values, path, 3)); diff != "" {
			t.Errorf("%s (-file +values):\n%s", path, diff)
		}
	}
	ofFile, ofValues := file.Current().Policy.Rules(), values.Current().Policy.Rules()
	for i := range ofFile {
		if diff := cmp.Diff(ofFile[i].Rule, ofValues[i].Rule); diff != "" {
			t.Errorf("rule (-file +values):\n%s", diff)
		}
	}
}

// Every fault of a value is told by the name that the file has for it. Values that are not over the defaults are
// faults, too: a Config that was left empty would let everything pass.
func TestFaultyValues(t *testing.T) {
	with := func(change func(*config.Config)) *config.Config {
		c := config.Default()
		change(c)
		return c
	}
	tests := map[string]struct {
		cfg  *config.Config
		want string
	}{
		"a rate without a time": {with(func(c *config.Config) {
			c.Limits = []config.Limit{{Name: "site", Rate: &config.Rate{N: 1}}}
		}), "limits[0].rate: "},
		"a misspelt algorithm": {with(func(c *config.Config) {
			c.Default.Limits[0].Algorithm = "leaky"
		}), "default.limits[0].algorithm: "},
		"two rules for one path": {with(func(c *config.Config) {
			c.Rules = []config.Rule{{Name: "a", Path: "/a", Exempt: true}, {Name: "b", Path: "/a", Exempt: true}}
		}), "rules[1]: "},
		"a limit of nothing": {with(func(c *config.Config) { c.Limits = []config.Limit{{Name: "site"}} }), "limits[0]: "},
		"a shared store":     {with(func(c *config.Config) { c.Store.Redis.URL = "redis://127.0.0.1" }), "store.redis: "},
		"not over defaults":  {&config.Config{Rules: []config.Rule{{Name: "a", Path: "/a"}}}, ""},
	}
	for name, test := range tests {
		e, err := embedded.New(test.cfg, embedded.Options{})
		if err == nil || e != nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error about %s", name, err, test.want)
		}
	}
}

// A quota that a restart forgets is said to be one, once, when it is opened.
func TestQuotasAreWarnedOf(t *testing.T) {
	const quota = "{quota: 5/day, per: client}"
	for yaml, want := range map[string]int{
		"": 0, "limits: [{name: site, quota: 5/day}]": 1, "default: {limits: [" + quota + "]}": 1,
		"rules: [{name: a, path: /a, limits: [" + quota + ", {quota: 9/week, per: ip}]}]": 1,
	} {
		var written bytes.Buffer
		before := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&written, nil)))
		e, err := embedded.Open(write(t, yaml), embedded.Options{})
		slog.SetDefault(before)
		if err != nil {
			t.Fatal(err)
		}
		e.Close()
		if n := strings.Count(written.String(), "a restart forgets them"); n != want {
			t.Errorf("%q: warned %d times, want %d:\n%s", yaml, n, want, &written)
		}
	}
}

// The environment overrides a file, as for the program, and Go values never.
func TestEnvironment(t *testing.T) {
	t.Setenv("WEIR_ENABLED", "false")
	file, err := embedded.Open(write(t, ""), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	values, err := embedded.New(config.Default(), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer values.Close()
	if !file.Current().Policy.Disabled || values.Current().Policy.Disabled {
		t.Error("want the file's engine disabled, and the other not")
	}
}

func TestMetrics(t *testing.T) {
	e, err := embedded.New(config.Default(), embedded.Options{TarpitHeld: func() int { return 7 }})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	decide(e, "/", 3)
	w := httptest.NewRecorder()
	e.Metrics().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{`weir_decisions_total{action="pass",front="middleware",rule="default"} 3`, "weir_tarpit_held 7", "weir_memory_keys 1"} {
		if !strings.Contains(w.Body.String(), want+"\n") {
			t.Errorf("the metrics lack %s", want)
		}
	}
}

// anyone proves whoever says a name in X-Name.
type anyone struct{}

func (anyone) Verify(_ context.Context, d *weir.Decision) {
	if name := d.Request.Header.Get("X-Name"); name != "" {
		d.Client.Credential, d.Client.APIKey, d.Client.Plan = weir.Verified, name, "free"
	}
}

// What asks for keys or tokens wants somebody who proves them; whoever does is asked.
func TestVerifier(t *testing.T) {
	for _, yaml := range []string{
		"jwt: {jwks_file: keys.json}\n", "keys: {required: true}\n",
		"rules: [{name: a, path: /a, require_key: true}]\n", "rules: [{name: a, path: /a, scopes: [read]}]\n",
	} {
		if e, err := embedded.Open(write(t, yaml), embedded.Options{}); err == nil || !strings.Contains(err.Error(), "Options{Verifier") {
			t.Errorf("%s: %v, %v", yaml, e, err)
		}
	}
	e, err := embedded.Open(write(t, "keys: {required: true}\nplans: {free: {quota: [2/day]}}\n"), embedded.Options{Verifier: anyone{}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ask := func(name string) int {
		s := e.Current()
		req := weir.Request{Front: "middleware", Method: "GET", Path: "/", Host: "x", Header: http.Header{"X-Name": {name}}}
		d := e.Decide(context.Background(), s, req)
		status := d.HTTP
		e.Record(s, d, weir.Outcome{HTTP: status})
		return status
	}
	var got []int
	for _, name := range []string{"", "ann", "ann", "ann", "bob"} {
		got = append(got, ask(name))
	}
	if diff := cmp.Diff([]int{401, 200, 200, 429, 200}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
