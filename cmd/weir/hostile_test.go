package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirgate/weir/admin"
	"github.com/weirgate/weir/internal/verify"
)

// evil moves the cursor, names the window, links, breaks the line and turns what follows: in the controls of ASCII and
// of ECMA-48.
const evil = "a\x1b[2J\x1b]0;owned\a\x1b]8;;http://evil.example\x1b\\b\u009b2J\u009d0;owned\u009cc\r\nd\te\b\b\bf\x7f\u0085\u2028\u202eg\u2066\u200f\x00\x9bh"

// filled is a value of a type with evil in every text, and one of every list.
func filled[T any](t *testing.T) T {
	t.Helper()
	var v T
	fill(reflect.ValueOf(&v).Elem())
	return v
}

func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(evil)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint64:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)))
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	}
}

// harmless fails for what a terminal would obey, and for another number of lines than there are without evil. Lines
// below 0 are not counted.
func harmless(t *testing.T, what, text string, lines int) {
	t.Helper()
	if text == "" {
		t.Errorf("%s: nothing was printed", what)
	}
	if got := strings.Count(text, "\n"); lines >= 0 && got != lines {
		t.Errorf("%s: %d lines, want %d: %q", what, got, lines, text)
	}
	if at := strings.IndexFunc(text, func(c rune) bool { return c != '\n' && !strconv.IsPrint(c) }); at >= 0 {
		t.Errorf("%s prints %q", what, text[max(0, at-20):min(len(text), at+20)])
	}
}

// Whatever stands in whichever text of an answer, a terminal obeys none of it, and no line is broken.
func TestStrangersTextsOnATerminal(t *testing.T) {
	var b bytes.Buffer
	taken := func() string { defer b.Reset(); return b.String() }
	top, e := filled[admin.Top](t), filled[admin.Explanation](t)
	bans, key, report := filled[admin.Bans](t), filled[admin.Key](t), filled[verify.Report](t)
	asked := watching{running: adminClient{base: defaultAdmin, direct: answering(t, top)}, by: "client", window: "1m", sort: "requests", limit: 10, asJSON: true}
	for what, print := range map[string]struct {
		to    func() error
		lines int
	}{
		"weir top":             {func() error { return tellTop(&b, &top, wide) }, 4},
		"weir top, narrow":     {func() error { return tellTop(&b, &top, wide-1) }, 4},
		"weir ban list":        {func() error { return tellBans(&b, &bans) }, 2},
		"weir key list":        {func() error { return tellKeys(&b, []admin.Key{key}) }, 2},
		"weir key show":        {func() error { return tellKey(&b, &key) }, 11},
		"weir explain --live":  {func() error { return tellDecision(&b, e, nil) }, 10},
		"weir verify":          {func() error { return tellProof(&b, &report) }, -1}, // its lines to paste are several
		"weir verify, a proof": {func() error { report.Paste = ""; return tellProof(&b, &report) }, 7},
		"weir top --json":      {func() error { return asked.print(t.Context(), &b) }, 1},
	} {
		if err := print.to(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		harmless(t, what, taken(), print.lines)
	}
	s := screen{terminal: terminal{out: &b, plain: true, size: func() (int, int) { return 200, 20 }}, top: top, fault: &admin.Problem{Detail: evil}, said: "x"}
	s.asked = asked
	harmless(t, "the screen of weir top", strings.Join(s.lines(), "\n"), 19)
}

// answering answers everything with a value, as a Weir that was taken over might: raw.
func answering(t *testing.T, v any) http.Handler {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(text) })
}

// The same on the command line: in arguments, in what a Weir answers, in a configuration's file and in an access log.
func TestStrangersTextsInFilesAndArguments(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	named := strconv.QuoteToASCII(strings.TrimSuffix(evil, "\x00\x9bh"))
	policy := file("weir.yaml", "rules: [{name: "+named+", path: /a, limits: [{name: "+named+", rate: 1/1h}]}]\nclient: {path: [{name: "+named+", cidrs: [10.0.0.0/8]}]}\nwaf: {ruleset: fast}\n")
	broken := file("broken.yaml", named+": 1\nrules: [{name: a, path: "+named+", "+named+": 1, limits: [{rate: "+named+"}]}]\nallow: [{cidr: "+named+"}]\n")
	line := `203.0.113.7 - - [01/Mar/2026:12:00:0%d +0000] "GET /a/` + evilPath + ` HTTP/1.1" 200 1 "-" "` + evilPath + `"` + "\n"
	log := file("access.log", strings.ReplaceAll(line, "%d", "1")+strings.ReplaceAll(line, "%d", "2")+evilPath+"\n")
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		_ = json.NewEncoder(w).Encode(admin.Problem{Status: http.StatusTeapot, Detail: evil}) // or the test sees nothing
	}))
	defer refusing.Close()
	for _, args := range [][]string{
		{"check", "-c", policy}, {"check", "-c", broken}, {"check", "-c", broken, "--json"}, {"check", "-c", filepath.Join(dir, strings.ReplaceAll(evil, "\x00", ""))},
		{"explain", "-c", policy, "http://example.com/a"}, {"explain", "-c", policy, "--json", "http://example.com/a"},
		{"explain", "-c", policy, "http://example.com/?q=%27%20or%201=1--%1b[2J%C2%9B2J%0a%0d%E2%80%AE"},
		{"explain", "-c", policy, "-X", evil, "http://example.com/"}, {"explain", "-c", policy, "-H", evil, "http://example.com/"}, {"explain", evil},
		{"replay", "-c", policy, log}, {"replay", "-c", policy, "--json", log}, {"replay", "-c", policy, "--strict", "--format", "combined", log}, {"replay", evil}, {"suggest", "--format", "combined", log},
		{"top", "--admin", refusing.URL}, {"ban", "list", "--admin", refusing.URL}, {"key", "list", "--admin", refusing.URL}, {"key", "show", evil, "--admin", refusing.URL},
		{"explain", "--live", "--admin", refusing.URL, "http://example.com/"}, {"top", "--admin", evil}, {"ban", "add", evil}, {evil}, {"--" + evil}, {"top", "--by", evil},
	} {
		harmless(t, "weir "+strings.Join(args, " "), printed(t, args), -1)
	}
}

// evilPath is evil as it may stand in a log, with what nginx would have escaped.
var evilPath = strings.NewReplacer("\n", "", "\r", "", "\"", "").Replace(evil)

// printed is what a command prints, its errors among it.
func printed(t *testing.T, args []string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "out")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	out, errs := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = f, f
	run(t.Context(), args)
	os.Stdout, os.Stderr = out, errs
	text, err := os.ReadFile(name)
	if err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	return string(text)
}
