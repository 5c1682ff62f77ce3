package app

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// broken are configurations that cannot be used, and a word of what is said about each. The files are
// in testdata/broken.
var broken = map[string]string{
	"unknown_key":         "did you mean default?",
	"unknown_key_deep":    "did you mean per?",
	"unknown_key_rule":    "did you mean path?",
	"unknown_key_store":   "did you mean max_keys?",
	"unknown_key_waf":     "did you mean mode?",
	"unknown_key_action":  "did you mean delay?",
	"penalty_of_nothing":  "want denials, blocks or statuses",
	"wrong_type":          "found a list",
	"rate_without_unit":   "want a unit",
	"negative_window":     "60/-1m",
	"no_rate":             "has no rate",
	"duplicate_rule":      "probe is the name of rules[0].name",
	"tie":                 "take the same requests",
	"unknown_preset":      "write nginx",
	"trusts_everyone":     "every address is trusted",
	"cost_over_limit":     "want at most 5",
	"unknown_algorithm":   "want sliding_window",
	"secret_file_missing": "no such file or directory",
	"variable_missing":    "${NOWHERE} is not set",
	"not_yaml":            "brackets and quotes",
	"not_text":            "control character",
	"key_twice":           "given twice",
	"cut_off":             "a quoted text does not end",
	"upstream_scheme":     "want a URL",
	"no_upstream":         "nothing behind it",
	"listen_without_port": "want host:port",
	"empty":               "no front is configured",
}

func read(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Whatever is wrong with a new configuration, the old one stays whole: no request fails, counts and
// limits are as before, and the metric and one line of the log say so.
func TestBrokenReloadChangesNothing(t *testing.T) {
	good := read(t, "testdata/good.yaml")
	h := build(t, plan{yaml: good})
	if got := h.passes(3, "/probe"); got != 3 {
		t.Fatalf("%d of the first 3 passed", got)
	}
	before, hash := h.engine.Current(), h.metric("weir_config_hash")
	l := underLoad(t, h.url("/"))
	for name, want := range broken {
		l.flows(5)
		rename(t, h.file, read(t, filepath.Join("testdata", "broken", name+".yaml")))
		h.refuses(name, want)
	}
	if err := os.Remove(h.file); err != nil {
		t.Fatal(err)
	}
	h.refuses("no file", "no such file")
	if err := os.Mkdir(h.file, 0o700); err != nil {
		t.Fatal(err)
	}
	h.refuses("a folder", "is a directory")
	l.flows(5)
	if h.engine.Current() != before {
		t.Error("the old snapshot is not in force")
	}
	if got := h.passes(4, "/probe"); got != 2 {
		t.Errorf("%d more passed against 5/1h, want 2", got)
	}
	if got := h.metric("weir_config_hash"); got != hash {
		t.Errorf("the hash of what is in force changed from %v to %v", hash, got)
	}
	// The watcher sees one thing after the other: when it has put this in force, it has said all that
	// it had to say about what was before.
	if err := os.Remove(h.file); err != nil {
		t.Fatal(err)
	}
	rename(t, h.file, good+"html: true\n")
	eventually(t, "the mended file", func() bool { return len(h.logs.lines(changedLine)) == 1 })
	if got, want := len(h.logs.lines(refusedLine)), len(broken)+2; got != want {
		t.Errorf("%d lines say that a configuration was refused, want one for each: %d", got, want)
	}
	l.end()
}

// refuses reloads what is wrong, and wants one line and one count more that say what.
func (h *house) refuses(name, want string) {
	h.t.Helper()
	const series = `weir_config_reload_total{result="failure"}`
	lines, failures := len(h.logs.lines(refusedLine)), h.metric(series)
	err := h.Reload()
	if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), h.file) {
		h.t.Errorf("%s: got %v, want the place and %q", name, err, want)
	}
	said := h.logs.lines(refusedLine)
	if len(said) != lines+1 || !strings.Contains(fmt.Sprint(said[len(said)-1]["err"]), want) {
		h.t.Errorf("%s: %d lines more, want one that says %q: %v", name, len(said)-lines, want, said)
	}
	if got := h.metric(series); got != failures+1 {
		h.t.Errorf("%s: %s went from %v to %v", name, series, failures, got)
	}
}

// A new limit is in force at once and what was used stays used (CNT-33); no request fails meanwhile.
func TestReloadedLimitKeepsCounts(t *testing.T) {
	yaml := basics + "rules: [{name: api, path: /api, limits: [{rate: %d/1h, per: client}]}]\ndefault: {limits: []}\n"
	h := build(t, plan{yaml: fmt.Sprintf(yaml, 1000)})
	l := underLoad(t, h.url("/"))
	if got := h.passes(300, "/api"); got != 300 {
		t.Fatalf("%d of 300 passed", got)
	}
	h.reloads(fmt.Sprintf(yaml, 100))
	if a := h.get("/api"); a.status != 429 || !strings.HasPrefix(a.header.Get("RateLimit"), `"api";r=0;`) {
		t.Errorf("lowered to 100 after 300: %d, RateLimit %s", a.status, a.header.Get("RateLimit"))
	}
	h.reloads(fmt.Sprintf(yaml, 500))
	if got := h.passes(201, "/api"); got != 200 {
		t.Errorf("raised to 500 after 300: %d of 201 passed, want 200", got)
	}
	l.end()
}

// Reloads fill no bucket, and a changed limit reaches those who are already counted (CNT-64).
func TestReloadsFillNoBucket(t *testing.T) {
	yaml := basics + "problem_type_base: \"https://example.com/%d/\"\n" +
		"rules: [{name: b, path: /b, limits: [{rate: %d/1h, per: client, algorithm: token_bucket}]}]\n"
	h := build(t, plan{yaml: fmt.Sprintf(yaml, 0, 5)})
	if got := h.passes(6, "/b"); got != 5 {
		t.Fatalf("%d passed, want 5", got)
	}
	for i := range 20 {
		h.reloads(fmt.Sprintf(yaml, i+1, 5))
		if a := h.get("/b"); a.status != 429 {
			t.Fatalf("reload %d: %d", i, a.status)
		}
	}
	h.reloads(fmt.Sprintf(yaml, 21, 10))
	if got := h.passes(6, "/b"); got != 5 {
		t.Errorf("raised to 10 after 5: %d of 6 passed, want 5", got)
	}
}

// Counters of rules that stay never go back, whatever comes and goes beside them (MET-03, MET-04).
func TestMetricsSurviveReloads(t *testing.T) {
	watching := basics + "default: {limits: []}\n"
	h := build(t, plan{yaml: watching})
	const stays = `weir_decisions_total{action="pass",front="proxy",rule="default"}`
	h.get("/")
	l := underLoad(t, h.url("/"))
	before := h.metric(stays)
	if before < 1 {
		t.Fatalf("%s is %v", stays, before)
	}
	for i := range 50 {
		name := fmt.Sprintf("r%d", i%7)
		h.reloads(watching + fmt.Sprintf("rules: [{name: %s, path: /%s, limits: [{rate: %d/1m}]}]\n", name, name, i+1))
		h.get("/" + name)
		h.get("/")
		now := h.metric(stays)
		if now < before {
			t.Fatalf("reload %d: %s went from %v to %v", i, stays, before, now)
		}
		before = now
	}
	l.end()
	h.reloads(watching)
	if text := h.adminGet("/metrics").body; strings.Contains(text, `rule="r`) {
		t.Error("series of rules that are gone remain")
	}
}

// What cannot change while running is named, until it is as it was; the rest is in force (CFG-14).
func TestReloadNamesWhatNeedsARestart(t *testing.T) {
	h := build(t, plan{yaml: basics + "server: {drain: 30s}\ndefault: {limits: [{rate: 5/1h}]}\n"})
	h.reloads(strings.Replace(basics, "${LISTEN}", "127.0.0.1:1", 1) +
		"default: {limits: [{rate: 7/1h}]}\nadmin_token: secret\nserver: {drain: 7s}\nstore: {memory: {max_keys: 77}}\nlog: {format: text}\n")
	lines := h.logs.lines(restartLine)
	want := []any{"listen", "admin_token", "server.drain", "store.memory.max_keys", "log.format"}
	if len(lines) != 1 || !cmp.Equal(lines[0]["needs restart"], any(want)) {
		t.Errorf("got %v, want one line that names %v", lines, want)
	}
	if got := h.passes(8, "/"); got != 7 {
		t.Errorf("%d passed, want the new 7", got)
	}
	h.reloads(basics + "default: {limits: [{rate: 8/1h}]}\n")
	if got := len(h.logs.lines(restartLine)); got != 1 {
		t.Errorf("%d lines name settings after they went back, want 1", got)
	}
}

// The page for operators names all of them.
func TestWhatNeedsARestartIsDocumented(t *testing.T) {
	_, list, _ := strings.Cut(read(t, "../docs/operating.md"), "These need a restart")
	list, _, _ = strings.Cut(list, "Everything else")
	for _, field := range fixed {
		if !strings.Contains(list, "`"+field+"`") {
			t.Errorf("%s is not named", field)
		}
	}
}

// Every setting that a reload can change is in force afterwards (CFG-14).
func TestReloadPutsInForce(t *testing.T) {
	tests := map[string]struct {
		yaml string
		want func(answer) bool
	}{
		"action":     {"rules: [{name: r, path: /r, limits: [{rate: 0/1m}]}]", func(a answer) bool { return a.status == 429 }},
		"window":     {"default: {limits: [{rate: 5/1h}]}", func(a answer) bool { return strings.Contains(a.header.Get("RateLimit-Policy"), "w=3600") }},
		"headers":    {"headers: legacy", func(a answer) bool { return a.header.Get("X-RateLimit-Limit") != "" }},
		"exempt":     {"rules: [{name: r, path: /r, exempt: true}]", func(a answer) bool { return a.header.Get("RateLimit") == "" }},
		"client":     {"client: {trusted_proxies: [loopback]}", func(a answer) bool { return a.status == 200 }},
		"disabled":   {"enabled: false\ndefault: {limits: [{rate: 0/1m}]}", func(a answer) bool { return a.status == 200 && a.header.Get("RateLimit") == "" }},
		"log level":  {"log: {level: error}", func(a answer) bool { return a.status == 200 }},
		"time-outs":  {"upstream_timeouts: {connect: 1s}", func(a answer) bool { return a.status == 200 }},
		"unresolved": {"client: {trusted_proxies: [loopback], from_right: 0, unresolved: reject}", func(a answer) bool { return a.status == 200 }},
	}
	h := build(t, plan{yaml: basics})
	for name, test := range tests {
		h.reloads(basics + test.yaml + "\n")
		if a := h.get("/r"); !test.want(a) {
			t.Errorf("%s: got %d %v", name, a.status, a.header)
		}
	}
	if lines := h.logs.lines(restartLine); len(lines) != 0 {
		t.Errorf("a restart is asked for: %v", lines)
	}
}

// That nothing is done is said at the start and at a reload, and is a metric.
func TestDisabledIsTold(t *testing.T) {
	h := build(t, plan{yaml: basics + "enabled: false\n"})
	lines := func() int {
		return len(slices.DeleteFunc(h.logs.lines("configuration"), func(line map[string]any) bool {
			return !strings.Contains(fmt.Sprint(line["problem"]), "nothing is limited, inspected or banned")
		}))
	}
	atStart := lines()
	if enabled := h.metric("weir_enabled"); atStart != 1 || enabled != 0 {
		t.Errorf("at the start %d lines, want 1; weir_enabled is %v, want 0", atStart, enabled)
	}
	h.reloads(basics)
	if enabled := h.metric("weir_enabled"); lines() != atStart || enabled != 1 {
		t.Errorf("put in force, it is told again, or weir_enabled is %v, want 1", enabled)
	}
	h.reloads(basics + "enabled: false\n")
	if enabled := h.metric("weir_enabled"); lines() == atStart || enabled != 0 {
		t.Errorf("taken out of force, it is not told, or weir_enabled is %v, want 0", enabled)
	}
}

// A reload of the same says so, and names no fields.
func TestReloadOfTheSame(t *testing.T) {
	h := build(t, plan{yaml: basics})
	if err := h.Reload(); err != nil {
		t.Fatal(err)
	}
	if same, changed := h.logs.lines("says what it said before"), h.logs.lines(changedLine); len(same) != 1 || len(changed) != 0 {
		t.Errorf("got %v and %v", same, changed)
	}
}

func TestReloadChangesTheLogLevel(t *testing.T) {
	h := build(t, plan{yaml: basics})
	h.reloads(basics + "log: {level: error}\n")
	before := len(h.logs.lines(""))
	h.reloads(basics + "log: {level: error}\nhtml: true\n")
	if got := h.logs.lines("")[before:]; len(got) != 0 {
		t.Errorf("level error, and yet: %v", got)
	}
}

// The environment and the command line beat the file at each reload, too.
func TestOverridesHoldOverAReload(t *testing.T) {
	h := build(t, plan{yaml: basics, env: []string{"WEIR_HEADERS=legacy"}, edit: func(o *Options) {
		o.Upstream = new(serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "flag") })))
	}})
	for range 2 {
		if a := h.get("/"); a.body != "flag" || a.header.Get("X-RateLimit-Limit") != "300" {
			t.Errorf("got %q, %v", a.body, a.header)
		}
		h.reloads(basics + "headers: draft\nproblem_type_base: \"https://example.com/\"\n")
	}
}

// Requests that are under way end at the old upstream, new ones go to the new (no request fails).
func TestReloadSwitchesTheUpstream(t *testing.T) {
	began, release := make(chan bool), make(chan bool)
	h := build(t, plan{yaml: basics, service: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			began <- true
			<-release
		}
		io.WriteString(w, "old")
	})})
	slow := make(chan string, 1)
	go func() {
		a, err := ask(client(t, false), h.url("/slow"))
		slow <- fmt.Sprint(a.body, err)
	}()
	<-began
	l := underLoad(t, h.url("/"))
	l.flows(20)
	other := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "new") }))
	h.reloads(strings.Replace(basics, "${UPSTREAM}", other, 1))
	if a := h.get("/"); a.body != "new" {
		t.Errorf("after the reload: %q", a.body)
	}
	l.flows(20)
	l.end()
	close(release)
	if got := <-slow; got != "old<nil>" {
		t.Errorf("the request under way got %s", got)
	}
}

// A warning of a reloaded configuration is logged with its place, and keeps nothing from happening.
func TestReloadTellsWarnings(t *testing.T) {
	h := build(t, plan{yaml: basics})
	h.reloads(basics + "default: {limits: [{rate: 5/1m, per: \"header:X-Any\"}]}\n")
	lines := h.logs.lines("configuration")
	if !slices.ContainsFunc(lines, func(l map[string]any) bool {
		return l["level"] == "WARN" && strings.HasPrefix(fmt.Sprint(l["problem"]), h.file+":4:")
	}) {
		t.Errorf("no warning with its place: %v", lines)
	}
}
