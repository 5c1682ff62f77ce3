package waftest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/waf"
)

// An Attack is a request that is made to cost more than it should.
type Attack struct {
	Name string
	In   waf.Input
	Want weir.Verdict // what becomes of it: Clean stands for Plain as well, Uninspected for whatever the bounds say
}

// Attacks are those of public reports: coraza#1176 (WAF-09), gjson#391, GHSA-3ww9-vw83-9w5x, GHSA-6r3q-mjv7-xr8m,
// ModSecurity#2019 and their kin.
func Attacks(t testing.TB) []Attack {
	const injection = "1 UNION SELECT password FROM users-- -"
	json := func(name, body string, want weir.Verdict) Attack { return post(name, "application/json", body, want) }
	nested := func(open, end string, n int) string { return strings.Repeat(open, n) + "1" + strings.Repeat(end, n) }
	prose := strings.Repeat("The invoice was paid on time; and the parcel's in good shape. ", 17000)[:1<<20]
	list := []Attack{
		json("2 KB of brackets", nested("[", "]", 1000), weir.Blocked),
		json("12 MB of brackets", nested("[", "]", 6<<20), weir.Blocked),
		json("objects in objects", nested(`{"a":`, "}", 60000), weir.Blocked),
		json("an open list", strings.Repeat("[", 1<<20), weir.Blocked),
		json("1500 numbers before an injection", `[`+strings.Repeat("1,", 1500)+`"`+injection+`"]`, weir.Blocked),
		json("1500 texts before an injection", `[`+strings.Repeat(`"it's",`, 1500)+`"`+injection+`"]`, weir.Blocked),
		post("1500 pairs before an injection", "application/x-www-form-urlencoded", strings.Repeat("a=1&", 1500)+"q=1+UNION+SELECT+1,2,3--", weir.Blocked),
		post("20,000 pairs", "application/x-www-form-urlencoded", strings.Repeat("a=&", 20000)+"b=1", weir.Blocked),
		json("a wide object", wide(1900, `"it's %d o'clock"`), weir.Clean),
		json("a wider object", wide(100000, `"it's %d"`), weir.Blocked),
		json("a million numbers", "["+strings.Repeat("1,", 1<<19-2)+"1]", weir.Clean),
		json("long keys", `{`+strings.Repeat(`"`+strings.Repeat("k!", 500)+`":1,`, 100)+`"b":2}`, weir.Clean),
		json("long keys in each other", strings.Repeat(`{"`+strings.Repeat("k", 1000)+`":`, 60)+`"it's"`+strings.Repeat("}", 60), weir.Clean),
		json("quotes and backslashes", `["`+strings.Repeat(`\\\"`, 20000)+`"]`, weir.Clean),
		json("JSON in JSON in JSON", `{"a":"[`+strings.Repeat(`\"it's\",`, 1500)+`1]"}`, weir.Clean),
		json("openings of commands", `{"a":"`+strings.Repeat("; cat x", 17000)+`"}`, weir.Clean),
		json("a text of 128 KB", `{"a":"`+prose[:127<<10]+`"}`, weir.Clean),
		json("markup of 120 KB", `{"a":"`+strings.Repeat("<b a=b>", 17000)+`"}`, weir.Clean),
		json("bytes that are not UTF-8", `{"a":"`+strings.Repeat("select \xff ", 13000)+`"}`, weir.Clean),
		json("a text of 1 MB", `{"a":"`+prose+`"}`, weir.Uninspected),
		post("a form of 1 MB", "application/x-www-form-urlencoded", "a="+strings.ReplaceAll(prose, ";", ","), weir.Uninspected),
		json("base64 of 1 MB", `{"a":"`+strings.Repeat("QUJDREVGR0hJSktMTU5P", 52000)+`"}`, weir.Clean),
		post("XML in XML", "application/xml", strings.Repeat("<a>", 50000), weir.Blocked),
		post("XML with entities", "application/xml", `<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>`, weir.Blocked),
		post("multipart in multipart", "multipart/form-data; boundary=b0", deepMultipart(200), weir.Blocked),
		post("2500 parts", "multipart/form-data; boundary=b", strings.Repeat("--b\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n", 2500)+"--b--", weir.Blocked),
		json("a document of many selections", `{"query":"{`+strings.Repeat(" a(b: 1)", 10000)+`}"}`, weir.Clean),
		json("a document of deep selections", `{"query":"`+strings.Repeat("{a", 20000)+`"}`, weir.Clean),
	}
	bomb := post("a bomb of 100 MB", "application/json", string(zipped(t, 100<<20)), weir.Blocked)
	bomb.In.Header.Set("Content-Encoding", "gzip")
	return append(list, bomb)
}

func post(name, media, body string, want weir.Verdict) Attack {
	h := http.Header{"Content-Type": {media}, "Accept": {"*/*"}, "User-Agent": {"curl/8.10.1"}, "Content-Length": {fmt.Sprint(len(body))}}
	return Attack{name, waf.Input{Mode: weir.Enforce, Method: "POST", Proto: "HTTP/1.1", Host: "cost.test", Path: "/v1/x", Header: h, Body: []byte(body)}, want}
}

// wide returns an object of n members.
func wide(n int, value string) string {
	var b strings.Builder
	b.WriteString(`{"a":1`)
	for i := range n {
		fmt.Fprintf(&b, `,"k%d":`+value, i, i)
	}
	b.WriteString("}")
	return b.String()
}

func deepMultipart(depth int) string {
	var b strings.Builder
	for i := range depth {
		fmt.Fprintf(&b, "--b%d\r\nContent-Disposition: form-data; name=a\r\nContent-Type: multipart/mixed; boundary=b%d\r\n\r\n", i, i+1)
	}
	for i := depth; i >= 0; i-- {
		fmt.Fprintf(&b, "\r\n--b%d--\r\n", i)
	}
	return b.String()
}

func zipped(t testing.TB, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	chunk := bytes.Repeat([]byte(" "), 1<<20)
	for range n >> 20 {
		if _, err := z.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
