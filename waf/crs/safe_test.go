package crs

import (
	"math/rand/v2"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"

	"github.com/corazawaf/coraza/v3/types"

	"github.com/weirgate/weir/internal/racing"
	"github.com/weirgate/weir/waf"
)

// askFor is a browser's request, with another path, query or field.
func askFor(where, what string) *waf.Case {
	in := &waf.Input{Method: "GET", Host: "words.test", Proto: "HTTP/1.1", Path: "/v1/x", Header: browser()}
	switch where {
	case "path":
		in.Path = what
	case "query":
		in.Query = what
	default:
		in.Header[where] = []string{what}
	}
	return &waf.Case{Input: in, Path: in.Path}
}

// Attacks of nothing but letters, digits and a little else do not pass fast: the rules match them.
func TestUnsafe(t *testing.T) {
	racing.Skip(t)
	rules, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer rules.Close()
	for _, test := range [][2]string{
		{"query", "p=java.lang.Runtime"}, {"query", "p=process.env"}, {"query", "p=document.cookie"}, {"query", "p=pm2.log"},
		{"query", "p=1.E.0"}, {"query", "p=initials=LS"}, {"query", "p=&DOLLAR&LCUBCTX"}, {"query", "p=-MOZ-BINDING7"},
		{"path", "/java.lang.Runtime"}, {"path", "/localhost/"}, {"path", "/ip6-loopback/"},
		{"User-Agent", "curl/1) ;SELECT PG_SLEEP(5)"}, {"User-Agent", "Mozilla/5.0 (d;PS"}, {"User-Agent", "curl/8; REBOOT"},
		{"User-Agent", "curl/8 java.lang.Runtime"}, {"User-Agent", "curl/ (17,/OPR,:15 node/15:)"}, {"User-Agent", "Mozilla/5.0; data:text/plain;base64,SSBsb3"},
		{"X-Forwarded-For", "1 union select 1,2,3,4,CONCAT,version"}, {"X-Real-Ip", "-0HAVING p"},
		{"Authorization", "java.lang.Runtime"}, {"Authorization", "runtime java.x"}, {"Traceparent", "3ONFMv=a"}, {"If-Modified-Since", "0X5C0X2E0X2E0X5C"},
		{"Accept", "3"}, {"Accept", "/post"}, {"Accept", "org.omg.CORBA/x"}, {"Accept", "a/b;"}, {"Accept-Language", "en, 1onload=x"},
		{"Accept-Encoding", strings.Repeat("gzip, ", 20) + "br"}, {"Cache-Control", "no-cache, onload=1"},
	} {
		c := askFor(test[0], test[1])
		if rules.isSafe(c) {
			t.Errorf("%s %q passes fast", test[0], test[1])
		}
		if rules.evaluate(c); c.Score() < 5 {
			t.Errorf("%s %q: score %d: not an attack to the rules", test[0], test[1], c.Score())
		}
	}
}

// What browsers and client libraries send passes fast.
func TestOrdinaryIsSafe(t *testing.T) {
	racing.Skip(t)
	rules, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer rules.Close()
	for _, test := range [][2]string{
		{"path", "/"}, {"path", "/api/v1.2/users/17"}, {"path", "/static/app.js"}, {"path", "/a/"}, {"query", "page=2&sort=name&v=1.5"}, {"query", "a&b="},
		{"User-Agent", "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36 Edg/126.0.0.0"},
		{"User-Agent", "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1"},
		{"User-Agent", "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Mobile Safari/537.36"},
		{"User-Agent", "curl/8.5.0"}, {"User-Agent", "Go-http-client/2.0"}, {"User-Agent", "Dart/3.4 (dart:io)"}, {"User-Agent", "axios/1.7.2"}, {"User-Agent", "Java/17.0.11"}, {"User-Agent", "node"},
		{"Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7"},
		{"Accept-Language", "de-DE,de;q=0.9,en;q=0.8"}, {"Accept-Encoding", "gzip, deflate, br, zstd"}, {"Priority", "u=1, i"}, {"Cache-Control", "max-age=0"},
		{"Authorization", "Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI0MiJ9.c2lnbmF0dXJl"}, {"Authorization", "Basic YTpi=="}, {"Origin", "https://shop.example.com"},
		{"X-Forwarded-For", "2001:db8::1, 192.0.2.7"}, {"If-Modified-Since", "Sun, 06 Nov 1994 08:49:37 GMT"},
	} {
		if c := askFor(test[0], test[1]); !rules.isSafe(c) {
			t.Errorf("%s %q does not pass fast", test[0], test[1])
		}
	}
}

// safeBytes returns text without all but safe bytes and more.
func safeBytes(random *rand.Rand, text, more string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; isSafeByte(c) || strings.IndexByte(more, c) >= 0 {
			b.WriteByte(c)
		} else if random.IntN(2) == 0 {
			b.WriteByte(more[random.IntN(len(more))])
		}
	}
	return b.String()
}

// glued are rules that take a word for two commands on end, without a blank between: no shell does.
var glued = []int{932235, 932260, 932340}

// matches are the rules that match c and count, but for those that take a word for two.
func (r *Rules) matches(c *waf.Case) (ids []int) {
	r.run(c, func(_ *sheet, m types.MatchedRule) {
		if id := m.Rule().ID(); m.Rule().Severity() == types.RuleSeverityCritical && !slices.Contains(glued, id) {
			ids = append(ids, id)
		}
	})
	return ids
}

// Texts grown from the patterns, of bytes that may pass fast, in each place that may: what passes is nothing
// that a rule blocks.
func TestFastPassOfGrownTexts(t *testing.T) {
	racing.Skip(t)
	rules, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer rules.Close()
	random := rand.New(rand.NewPCG(7, 8))
	passed := 0
	for _, pattern := range patterns(t) {
		tree, err := syntax.Parse("(?sm)"+pattern, syntax.Perl)
		if err != nil {
			continue
		}
		for _, place := range [][3]string{
			{"path", "/", "/"}, {"query", "p=", "=&"}, {"query", "", "=&"}, {"User-Agent", "curl/8.5 (", " /();:,_"}, {"User-Agent", "Mozilla/5.0 ", " /();:,_"},
			{"Accept", "", "*/;=,+ "}, {"Accept-Language", "", "*;=, "}, {"Authorization", "", " =,:"}, {"X-Forwarded-For", "", ":, "}, {"Origin", "", ":/"},
			{"Cache-Control", "max-age=", ";=, "}, {"Priority", "u=1,", ";=, "}, {"Sec-Fetch-Mode", "", "?"},
		} {
			var b strings.Builder
			grow(random, tree.Simplify(), &b)
			c := askFor(place[0], place[1]+safeBytes(random, b.String(), place[2]))
			if !rules.isSafe(c) {
				continue
			}
			passed++
			if ids := rules.matches(c); ids != nil {
				t.Errorf("%q?%q %v passes fast, and %v match", c.Input.Path, c.Input.Query, c.Input.Header, ids)
			}
		}
	}
	t.Logf("%d texts pass fast", passed)
	if passed < 500 {
		t.Errorf("%d texts pass fast, want more", passed)
	}
}
