package admin_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirgate/weir/admin"
)

// hostile are values that have broken things elsewhere.
func hostile() []string {
	return []string{
		"", " ", ".", "..", "../", "../../../../etc/passwd", "..\\..\\windows", "%2e%2e%2f%2e%2e%2f", "%252e%252e%252f", "/etc/passwd", "file:///etc/passwd", "audit.log", "-", "--help", "~",
		"\x00", "a\x00b", "a\r\nX-Injected: yes", "a\nb", "\t", "\x1b[2J\x1b]0;owned\a", "\u009b2J", "\x7f", "\u0085", "\u2028", "\u202e", "\u2066a", "\u200b", "\ufeff", "\ufffd",
		"\xff\xfe", "a\xc0\xafb", "\xed\xa0\x80", "é", "e\u0301", "\u212a", "ſ", "１２", "\U0001f600", "\U000e0041",
		"'", "' OR '1'='1", "\"; DROP TABLE weir_keys; --", "%", "_", "%%", "a%' ESCAPE '", "\\", "*", "?", "[a-z]", "{a}", "}{", "weir:*", "\r\n*1\r\n$8\r\nFLUSHALL\r\n",
		"%s%n%d%v", "%!s(MISSING)", "{{.}}", "${jndi:ldap://a}", "$(id)", "`id`", "| id", "<script>alert(1)</script>", "javascript:alert(1)", "=1+1",
		"-1", "0", "1e309", "NaN", "Infinity", "9223372036854775808", "-9223372036854775809", "0x10", "1_000", "00", "1.5", "99999999999999999999999999h", "-1h", "0s", "1ns", "366d", "10m10",
		"null", "true", "[]", "{}", "2030-13-45T99:99:99Z", "9999-12-31T23:59:59-23:59", "0000-01-01T00:00:00Z", "0001-01-01T00:00:00Z",
		"key:", "key: ", "key:..", "key:a\nb", "key:*", "key:jwt:' OR 1=1", "unresolved:", "unresolved:none", "unresolved:::1", "0.0.0.0/0", "::/0", "203.0.113.7/33", "::ffff:203.0.113.7", "fe80::1%eth0", "1.2.3", "0x7f.1",
		strings.Repeat("a", 201), strings.Repeat("%", 4000), strings.Repeat("é", 3000), strings.Repeat("../", 3000),
	}
}

// Whatever stands in whichever parameter of the path and the query: the answer is a good one or a problem in one line,
// no fault of the server; no file beside the audit log is touched; and every line that is written stays one.
func TestHostileParameters(t *testing.T) {
	f := besiege(t, nil)
	elsewhere := f.elsewhere(t)
	for _, o := range operations(t) {
		for _, value := range hostile() {
			for _, name := range o.names {
				sound := f.with(o, map[string]string{name: value})
				if w := f.as1(t, "all", sound); w.Code/100 != 3 { // the mux has no segments of dots, and no empty ones
					f.judge(t, w, o, name, value)
				}
			}
			for _, name := range o.query {
				for _, written := range []string{escaped(value), value} {
					sound := f.with(o, nil)
					sound.path += "?" + name + "=" + written
					f.judge(t, f.as1(t, "all", sound), o, name, value)
				}
			}
		}
	}
	f.intact(t, elsewhere)
}

// escaped writes every byte as %XX.
func escaped(value string) string {
	var b strings.Builder
	for _, c := range []byte(value) {
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}

// The same in every field of every body, as text and as everything else that JSON has.
func TestHostileBodies(t *testing.T) {
	f := besiege(t, nil)
	elsewhere := f.elsewhere(t)
	for _, o := range operations(t) {
		for field, kind := range o.body {
			for _, value := range hostile() {
				f.judge(t, f.ask(t, o, o.bodyWith(field, raw(value))), o, field, value)
			}
			for _, value := range []string{"1", "-1", "1.5", "1e400", "true", "[]", "{}", "[[[]]]", `[{"name": 1}]`, `"x"`} {
				w := f.ask(t, o, o.bodyWith(field, value))
				if of(value) != kind && w.Code < 400 && kind != "" {
					t.Errorf("%s %s took %s: %s, which is no %s", o.method, o.path, field, value, kind)
				}
				f.judge(t, w, o, field, value)
			}
			twice := fmt.Sprintf(`{%[1]q: null, %[1]q: null}`, field)
			if p := wantProblem(t, f.ask(t, o, twice), 400, o.path+" "+twice); !strings.Contains(p.Detail, field+": given twice") {
				t.Errorf("%s: %+v", twice, p)
			}
		}
	}
	f.intact(t, elsewhere)
}

// Bodies that are no sound JSON, or none that anybody means.
func TestHostileJSON(t *testing.T) {
	f := besiege(t, nil)
	before := f.state(t)
	for _, o := range operations(t) {
		if len(o.body) == 0 {
			continue
		}
		for body, want := range map[string]int{
			"{": 400, "[]": 400, `"`: 400, "1": 400, "true": 400, "{}{}": 400, "{} x": 400, "\xef\xbb\xbf{}": 400, `{"a": 1}`: 400, `{"reason": "x" "reason"}`: 400, "{'reason': 1}": 400, "// x": 400, " ": 400, "\x00": 400,
			`{"reason": "x", "Reason": "y"}`: 400, `{"reason": "x", "\u0072eason": "y"}`: 400, `{"__proto__": {}, "constructor": 1}`: 400,
			strings.Repeat("[", 30_000): 400, strings.Repeat(`{"reason":`, 6000): 400, `{"reason": "` + strings.Repeat("a", 64<<10) + `"}`: 413, strings.Repeat(" ", 64<<10) + "{}": 413,
		} {
			wantProblem(t, f.ask(t, o, body), want, fmt.Sprintf("%s %s %.40s", o.method, o.path, body))
		}
	}
	if f.state(t) != before {
		t.Error("something has changed")
	}
}

// ask sends a body to a sound path.
func (f *fortress) ask(t testing.TB, o operation, body string) *httptest.ResponseRecorder {
	t.Helper()
	return f.send(t, f.with(o, nil), body, http.Header{"Authorization": {"Bearer all"}})
}

// bodyWith is a sound body but for the JSON of one field.
func (o *operation) bodyWith(field, value string) string {
	body := fmt.Sprintf("{%q: %s", field, value)
	for name, sound := range map[string]string{"subject": "203.0.113.9", "name": "n", "url": "http://example.com/"} {
		if _, known := o.body[name]; known && name != field {
			body += fmt.Sprintf(", %q: %q", name, sound)
		}
	}
	return body + "}"
}

// raw writes a value into JSON without mending what is no UTF-8.
func raw(value string) string {
	var b strings.Builder
	for _, c := range []byte(value) {
		if c < ' ' || c == '"' || c == '\\' {
			fmt.Fprintf(&b, "\\u%04x", c)
		} else {
			b.WriteByte(c)
		}
	}
	return `"` + b.String() + `"`
}

// of is the type of a JSON value as the OpenAPI document names it.
func of(value string) string {
	switch value[0] {
	case '"':
		return "string"
	case '[':
		return "array"
	case '{':
		return "object"
	case 't':
		return "boolean"
	}
	return "number"
}

// judge wants an answer that is good, or says in one line what is wrong with the parameter.
func (f *fortress) judge(t testing.TB, w *httptest.ResponseRecorder, o operation, name, value string) {
	t.Helper()
	what := fmt.Sprintf("%s %s with %s: %.60q", o.method, o.path, name, value)
	if w.Code >= 500 {
		t.Errorf("%s: HTTP status %d: %s", what, w.Code, w.Body)
	}
	if w.Code >= 400 {
		if p := wantProblem(t, w, w.Code, what); w.Code == 400 && !slices.Contains(o.names, name) && !strings.Contains(p.Detail, name) && !strings.HasPrefix(p.Detail, "query: ") {
			t.Errorf("%s: the field is not named: %s", what, p.Detail)
		}
	} else if !strings.HasSuffix(o.path, "/events") && o.method != "HEAD" && !json.Valid(w.Body.Bytes()) {
		t.Errorf("%s: HTTP status %d: no JSON: %.200q", what, w.Code, w.Body)
	}
	for field, values := range w.Header() {
		if strings.ContainsFunc(strings.Join(values, ""), func(c rune) bool { return c < ' ' || c > '~' }) || field == "X-Injected" {
			t.Errorf("%s: %s: %q", what, field, values)
		}
	}
	obeyed(t, what, strings.TrimSuffix(w.Body.String(), "\n"), o)
}

// obeyed fails for what a terminal would obey. Events are lines, and the document is indented.
func obeyed(t testing.TB, what, text string, o operation) {
	t.Helper()
	if strings.HasSuffix(o.path, "/events") || strings.HasSuffix(o.path, "/openapi.json") {
		text = strings.ReplaceAll(text, "\n", "")
	}
	if at := strings.IndexFunc(text, func(c rune) bool { return !strconv.IsPrint(c) }); at >= 0 {
		t.Errorf("%s: %q is not escaped", what, text[max(0, at-20):min(len(text), at+20)])
	}
}

// elsewhere is the text of a file beside data_dir.
func (f *fortress) elsewhere(t testing.TB) string {
	t.Helper()
	name := filepath.Join(filepath.Dir(f.dir), "passwd")
	if err := os.WriteFile(name, []byte("root"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// intact wants the files that there were, and the audit log; and every line that was written to be one of JSON.
func (f *fortress) intact(t testing.TB, elsewhere string) {
	t.Helper()
	for dir, want := range map[string]string{f.dir: admin.TrailName, filepath.Dir(f.dir): filepath.Base(f.dir) + " passwd"} {
		entries, err := os.ReadDir(dir)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if got := strings.Join(names, " "); err != nil || got != want {
			t.Errorf("%s holds %s, want %s: %v", dir, got, want, err)
		}
	}
	if text, err := os.ReadFile(elsewhere); err != nil || string(text) != "root" {
		t.Errorf("the file beside data_dir reads %q: %v", text, err)
	}
	trail, err := os.ReadFile(filepath.Join(f.dir, admin.TrailName))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range bytes.Lines(slices.Concat(trail, f.log.Bytes())) {
		n++
		if !json.Valid(line) || strings.ContainsFunc(strings.TrimSuffix(string(line), "\n"), func(c rune) bool { return !strconv.IsPrint(c) }) {
			t.Errorf("a broken line: %.300q", line)
		}
	}
	if n < 50 {
		t.Errorf("%d lines were written: nothing was tried", n)
	}
}

// Whoever sends whatever, with the admin token: no fault of the server, and an answer of JSON in one line.
func FuzzRequest(f *testing.F) {
	all := operations(f)
	for i := range all {
		f.Add(uint8(i), "203.0.113.7/32", "reason=x", `{"subject": "203.0.113.9", "name": "n", "url": "http://example.com/"}`)
	}
	f.Add(uint8(0), "../../etc/passwd", "limit=1&limit=2", `{"reason": "\u0000"}`)
	house := besiege(f, nil)
	f.Fuzz(func(t *testing.T, which uint8, name, query, body string) {
		o := all[int(which)%len(all)]
		sent := house.with(o, map[string]string{"key": name, "subject": name, "id": name, "nonce": name})
		sent.path += "?" + query
		w := house.send(t, sent, body, http.Header{"Authorization": {"Bearer all"}})
		if w.Code >= 500 && !strings.Contains(w.Body.String(), `"busy"`) { // nonces that nobody asks for have an end
			t.Errorf("%s %q: HTTP status %d: %s", o.method, sent.path, w.Code, w.Body)
		}
		if w.Code/100 != 3 {
			obeyed(t, o.path, strings.TrimSuffix(w.Body.String(), "\n"), o)
		}
	})
}
