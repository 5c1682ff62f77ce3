package policy

import (
	"math/rand/v2"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestNormalForm(t *testing.T) {
	for _, c := range []struct {
		raw, want string
		form      form
	}{
		{"/", "/", plain},
		{"", "/", plain},
		{"*", "*", plain},
		{"/*", "/*", plain},
		{"/api", "/api", plain},
		{"/api/", "/api", plain},
		{"/api//", "/api", plain},
		{"//api", "/api", plain},
		{"/Api", "/Api", plain},
		{"/.well-known/x", "/.well-known/x", plain},
		{"/a.b/..c/...", "/a.b/..c/...", plain},

		// Percent-decoding, once.
		{"/%75sers", "/users", plain},
		{"/a%20b", "/a b", plain},
		{"/validate%2Dpassword", "/validate-password", plain},
		{"/items/%E2%82%AC", "/items/€", plain},
		{"/items/€", "/items/€", plain},
		{"/100%25", "/100%", plain},
		{"/login%3Fx=1", "/login?x=1", plain},
		{"/login%23x", "/login#x", plain},
		{"/a%2541", "/a%41", ambiguous},
		{"/status%252f", "/status%2f", ambiguous},

		// Parameters.
		{"/admin;a=b", "/admin", varied},
		{"/admin;/", "/admin", varied},
		{"/;x/admin", "/admin", varied},
		{"/admin%3Ba=b", "/admin", varied},
		{"/admin;a=b/users", "/admin/users", varied},
		{"/%2e;/admin", "/admin", ambiguous},
		{"/x/..;/admin", "/admin", ambiguous},

		// Dot segments and slashes of another kind.
		{"/./a", "/a", ambiguous},
		{"/x/../a", "/a", ambiguous},
		{"/x/%2e%2E/a", "/a", ambiguous},
		{"/../../a", "/a", ambiguous},
		{"/a/..", "/", ambiguous},
		{"/a/.", "/a", ambiguous},
		{"/x%2f../status", "/status", ambiguous},
		{"/x/%2e%2e%2fstatus", "/status", ambiguous},
		{"/status%2F", "/status", ambiguous},
		{`/x\..\status`, "/status", ambiguous},
		{"/x%5Cstatus", "/x/status", ambiguous},

		// No paths.
		{"api/x", "", bad},
		{"http://x/", "", bad},
		{"/login%00", "", bad},
		{"/login\x00", "", bad},
		{"/a%0d%0ab", "", bad},
		{"/a%7f", "", bad},
		{"/login#frag", "", bad},
		{"/login?x=1", "", bad},
		{"/%ff", "", bad},
		{"/\xff", "", bad},
		{"/%C0%AFadmin", "", bad},        // an overlong slash
		{"/%ED%A0%80", "", bad},          // half of a surrogate pair
		{"/%zz", "", bad},                // no escape
		{"/a%2", "", bad},                // half of one
		{"/x%2f%00/../a", "", bad},       // bad beats ambiguous
		{"/a%E2%82/../b%AC", "", bad},    // judged before segments are cut
		{"/;%00/a", "", bad},             // also in what is cut away
		{"/a\t", "", bad},                // raw control characters too
		{"/%EF%BD%81", "/ａ", plain},      // a full-width letter is no ASCII letter
		{"/adm%C4%B1n", "/admın", plain}, // nor is a dotless i
	} {
		got, form := matching{}.normal(c.raw)
		if got != c.want || form != c.form {
			t.Errorf("normal(%q) = %q, %d; want %q, %d", c.raw, got, form, c.want, c.form)
		}
	}
}

func TestNormalFormFoldsCase(t *testing.T) {
	for raw, want := range map[string]string{
		"/API/x":        "/api/x",
		"/caf%C3%89":    "/café",
		"/%41":          "/a",
		"/api":          "/api",
		"/adm%C4%B1n":   "/admın",
		"/%C8%BA%C8%BA": "/ⱥⱥ", // a letter that lower case makes longer
	} {
		if got, _ := (matching{foldCase: true}).normal(raw); got != want {
			t.Errorf("normal(%q) = %q, want %q", raw, got, want)
		}
	}
}

func TestCleanPathIsNotCopied(t *testing.T) {
	for _, raw := range []string{"/", "/api/v1/users/17", "/api/v1/users/", "/.well-known/acme", "/Mixed/Case", "*"} {
		if n := testing.AllocsPerRun(100, func() { matching{}.normal(raw) }); n != 0 {
			t.Errorf("normal(%q) allocates %v times", raw, n)
		}
	}
}

// slowNormal is the normal form by the book, one step after another.
func slowNormal(raw string, foldCase bool) (string, form) {
	if raw == "*" {
		return "*", plain
	}
	text, err := url.PathUnescape(raw)
	if err != nil || raw != "" && raw[0] != '/' || strings.ContainsAny(raw, "#?") || !utf8.ValidString(text) || regexp.MustCompile(`[\x00-\x1f\x7f]`).MatchString(text) {
		return "", bad
	}
	f := plain
	if regexp.MustCompile(`(?i)%2f|%5c|\\`).MatchString(raw) || regexp.MustCompile(`%[0-9a-fA-F]{2}`).MatchString(text) {
		f = ambiguous
	}
	var segments []string
	if strings.Contains(text, ";") {
		f = max(f, varied)
	}
	for _, s := range strings.Split(strings.ReplaceAll(text, `\`, "/"), "/") {
		s = regexp.MustCompile(`(?s);.*`).ReplaceAllString(s, "")
		switch s {
		case "":
		case ".":
			f = ambiguous
		case "..":
			f = ambiguous
			segments = segments[:max(0, len(segments)-1)]
		default:
			segments = append(segments, s)
		}
	}
	text = "/" + strings.Join(segments, "/")
	if foldCase {
		text = strings.ToLower(text)
	}
	return text, f
}

// escapeAll writes a normal form so that decoding it once gives it back.
func escapeAll(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return strings.Join(segments, "/")
}

func checkNormal(t *testing.T, raw string) {
	t.Helper()
	for _, fold := range []bool{false, true} {
		m := matching{foldCase: fold}
		got, f := m.normal(raw)
		if want, wantForm := slowNormal(raw, fold); got != want || f != wantForm {
			t.Fatalf("normal(%q), fold %v = %q, %d; want %q, %d", raw, fold, got, f, want, wantForm)
		}
		if f == bad || raw == asterisk {
			continue
		}
		if again, _ := m.normal(escapeAll(got)); again != got {
			t.Fatalf("normal(%q), fold %v = %q, and once more %q", raw, fold, got, again)
		}
	}
}

func FuzzNormal(f *testing.F) {
	for _, raw := range []string{"/", "*", "/api//x/../y/", "/%2e;/admin", "/x%2f..%5cy", "/%252f", "/caf%C3%89", "/%C0%AF", "/;a/b;c", "/a%00", "/%"} {
		f.Add(raw)
	}
	f.Fuzz(checkNormal)
}

// pathBytes are pieces that paths are made trouble with.
var pathBytes = []string{"/", "/", "a", "B", ".", "..", ";", "%2f", "%2E", "%5c", `\`, "%25", "2f", "%", "%3b", "é", "%C3%89", "%ff", "#", "?", "\x01", "*", "%00"}

func TestNormalFormAgreesWithTheSlowOne(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var raw strings.Builder
		for range rnd.IntN(9) {
			raw.WriteString(pathBytes[rnd.IntN(len(pathBytes))])
		}
		checkNormal(t, raw.String())
	}
}

// respell writes a path in another way that means the same to some server.
func respell(rnd *rand.Rand, path string) string {
	var out strings.Builder
	for i := range len(path) {
		c := path[i]
		switch n := rnd.IntN(12); {
		case c == '/':
			out.WriteString([]string{"/", "//", "/./", "/x/../", "/;p/", `\`, "%2f", "%5C", ";p=1/", "/%2e/", "/y/%2E./", "/"}[n])
		case n == 0:
			out.WriteString("%" + string("0123456789abcdef"[c>>4]) + string("0123456789ABCDEF"[c&15]))
		default:
			out.WriteByte(c)
		}
	}
	return out.String() + []string{"", "/", ";x", "/.", "%2F"}[rnd.IntN(5)]
}

func TestNoSpellingEscapesItsRule(t *testing.T) {
	p := policyOf(t, `
rules:
  - {name: login, path: /api/login, limits: [{rate: 5/1m}]}
  - {name: exact, path: =/one/two, limits: [{rate: 5/1m}]}
  - {name: orders, path: /users/*/orders, limits: [{rate: 5/1m}]}
  - {name: static, path: /x, exempt: true}
  - {name: site, path: /y, limits: []}
`)
	rnd := rand.New(rand.NewPCG(3, 4))
	for path, want := range map[string]string{"/api/login": "login", "/one/two": "exact", "/users/7/orders": "orders", "/users/7/orders/9": "orders"} {
		for range 2000 {
			raw := "/" + respell(rnd, path)
			if got := ruleOf(p, request(raw)); got != want {
				t.Fatalf("%q falls under %s, want %s", raw, got, want)
			}
		}
	}
}
