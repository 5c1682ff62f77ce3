package feed

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// usual are the defaults of the contract.
var usual = Limits{Depth: 64, Values: 2000, Bytes: 128 << 10, Inflated: 1 << 20}

// read returns what is found in a body as "part name=value", and the refusal's name.
func read(t testing.TB, media, body string, limits Limits) (leaves []string, refused string) {
	t.Helper()
	var f Feed
	h := http.Header{}
	if media != "" {
		h.Set("Content-Type", media)
	}
	refusal := f.Read(&Source{Header: h, Body: []byte(body)}, limits)
	for _, l := range f.Leaves {
		leaves = append(leaves, fmt.Sprintf("%s %s=%s", l.Part, l.Name, l.Value))
	}
	if refusal != nil {
		return leaves, refusal.Name
	}
	return leaves, ""
}

// What of a body is inspected, by its type.
func TestRead(t *testing.T) {
	const form, json, multi = "application/x-www-form-urlencoded", "application/json", "multipart/form-data; boundary=b"
	part := func(head, content string) string { return "--b\r\n" + head + "\r\n\r\n" + content + "\r\n--b--\r\n" }
	tests := []struct {
		name, media, body string
		want              []string
		refused           string
	}{
		{"no body", json, "", nil, ""},
		{"plain values are left out", json, `{"a":1,"b":true,"c":null,"d":"word","e":"2024-01-31","f":-1.5e3}`, nil, ""},
		{"texts", json, `{"a":{"b":["it's","so it is"]}}`, []string{"json a/b=it's", "json a/b=so it is"}, ""},
		{"escapes", json, `{"a":"\u0027 \ud83d\udc4d \/ \n"}`, []string{"json a=' 👍 / \n"}, ""},
		{"odd keys", json, `{"a b":{"c'd":"e f"},"__proto__":1}`, []string{"json a b=", "json c'd=", "json a_b/c_d=e f", "json __proto__="}, ""},
		{"every one of two", json, `{"a":"x y","a":"y z","A":"z a"}`, []string{"json a=x y", "json a=y z", "json A=z a"}, ""},
		{"JSON in a string", json, `{"a":"{\"b\":\"c d\"}"}`, []string{"json a/b=c d"}, ""},
		{"nearly JSON in a string", json, `{"a":"{b c"}`, []string{"json a={b c"}, ""},
		{"a scalar", json, ` "it's" `, []string{"json =it's"}, ""},
		{"a byte order mark", json, "\uFEFF{}", nil, ""},
		{"a suffix", "application/vnd.api+json; charset=UTF-8", `["a b"]`, []string{"json =a b"}, ""},
		{"lines", "application/x-ndjson", "{\"a\":\"b c\"}\n{\"a\":\"d e\"}\n", []string{"json a=b c", "json a=d e"}, ""},
		{"two texts", json, `{"a":"b c"} {}`, []string{"json a=b c"}, "json"},
		{"after the end", json, `{"a":"b c"} x`, []string{"json a=b c"}, "json"},
		{"open", json, `{"a": {`, nil, "json"},
		{"not JSON", json, "a=b", nil, "json"},
		{"lenient JSON", json, `{'a':1}`, nil, "json"},
		{"a trailing comma", json, `[1,]`, nil, "json"},
		{"leading zeros", json, `[01]`, nil, "json"},
		{"a bare control byte", json, "[\"a\nb\"]", nil, "json"},
		{"half an escape", json, `["\u00"]`, nil, "json"},

		{"a form", form, "a=it%27s&b=1&c+d=e+f", []string{"form a=it's", "form c d=e f"}, ""},
		{"a form with semicolons", form, "a=1;b=c d", []string{"form a=1;b=c d", "form b=c d"}, ""},
		{"bad escapes stay", form, "a=%zz%2", []string{"form a=%zz%2"}, ""},
		{"no name", form, "=a b", []string{"form =a b"}, ""},

		{"a field", multi, part(`Content-Disposition: form-data; name="a"`, "it's"),
			[]string{`part a=Content-Disposition: form-data; name="a"`, "form a=it's"}, ""},
		{"a file", multi, part(`Content-Disposition: form-data; name="a"; filename="../x.php"`, "' or 1=1--"),
			[]string{`part a=Content-Disposition: form-data; name="a"; filename="../x.php"`, "file a=../x.php"}, ""},
		{"a file in two readings", multi, part(`Content-Disposition: form-data; name="a"; filename="x.png"; filename*=utf-8''x%2Ephp`, "x"),
			[]string{`part a=Content-Disposition: form-data; name="a"; filename="x.png"; filename*=utf-8''x%2Ephp`, "file a=x.png", "file a=x.php"}, ""},
		{"a file that may be a field", multi, part(`Content-Disposition: form-data; name="a"; filename*=utf-8''x`, "it's"),
			[]string{`part a=Content-Disposition: form-data; name="a"; filename*=utf-8''x`, "file a=x", "form a=it's"}, ""},
		{"a file without a name", multi, part(`Content-Disposition: form-data; name="a"; filename=""`, "it's"),
			[]string{`part a=Content-Disposition: form-data; name="a"; filename=""`, "file a=", "form a=it's"}, ""},
		{"two names of a file", multi, part(`Content-Disposition: form-data; name="a"; filename="a.png"; filename="b.php"`, "x"), nil, "multipart_header"},
		{"a name in pieces", multi, part(`Content-Disposition: form-data; name="a"; filename*0="a.p"; filename*1="hp"`, "x"), nil, "multipart_header"},
		{"two dispositions", multi, part("Content-Disposition: form-data; name=a\r\nContent-Disposition: form-data; name=b", "x"), nil, "multipart_header"},
		{"an open quote", multi, part(`Content-Disposition: form-data; name="a`, "x"), nil, "multipart_header"},
		{"encoded content", multi, part("Content-Disposition: form-data; name=a\r\nContent-Transfer-Encoding: base64", "x"), nil, "multipart_header"},
		{"another charset", multi, part(`Content-Disposition: form-data; name="_charset_"`, "utf-7"),
			[]string{`part _charset_=Content-Disposition: form-data; name="_charset_"`}, "charset"},
		{"a field in another charset", multi, part("Content-Type: text/plain; charset=utf-16", "x"), []string{"part =Content-Type: text/plain; charset=utf-16"}, "charset"},
		{"bytes of a related part", "multipart/related; boundary=b", part("Content-Type: image/png", "\x89PNG\x00' or 1=1--"), []string{"part =Content-Type: image/png"}, ""},
		{"text of a related part, called bytes", "multipart/related; boundary=b", part("Content-Type: image/png", "it's"), []string{"part =Content-Type: image/png", "form =it's"}, ""},
		{"no end", multi, "--b\r\nContent-Disposition: form-data; name=a\r\n\r\nx", nil, "multipart"},
		{"parts after the end", multi, part("Content-Disposition: form-data; name=a", "x") + part("Content-Disposition: form-data; name=b", "y z"), nil, "multipart"},
		{"no boundary", "multipart/form-data", "--b--", nil, "multipart"},

		{"text", "text/plain", "it's\nso", []string{"text body=it's\nso"}, ""},
		{"no type", "", `{"a":"b c"}`, []string{"json a=b c"}, ""},
		{"JSON called text", "text/plain", `{"a":"b c"}`, []string{"json a=b c"}, ""},
		{"nearly JSON called text", "text/plain", `{"a":"b c"`, []string{`text body={"a":"b c"`}, ""},
		{"JSON called bytes", "application/octet-stream", `{"a":"b c"}`, []string{"json a=b c"}, ""},
		{"bytes", "image/png", "\x89PNG ' or 1=1--", nil, ""},
		{"bytes as file(1) names them", "image/png; charset=binary", "\x89PNG ' or 1=1--", nil, ""},
		{"text in another charset", "text/plain; charset=utf-16", "x", nil, "charset"},
		{"bytes without a type", "", "\x00\x01\x02\x03' or 1=1--", nil, ""},
		{"gRPC", "application/grpc+proto", "\x00\x00\x00\x00\x02' or 1=1--", nil, ""},

		{"XML", "text/xml", `<?xml version="1.0" encoding="UTF-8"?><a b="c d">e &lt; f<!-- g h --></a>`, []string{"xml b=c d", "xml xml=e < f", "xml xml= g h "}, ""},
		{"SOAP", "application/soap+xml", `<a>b c</a>`, []string{"xml xml=b c"}, ""},
		{"a document type", "text/xml", `<!DOCTYPE a [<!ENTITY b SYSTEM "file:///c">]><a>&b;</a>`, nil, "xml_doctype"},
		{"an encoding", "text/xml", `<?xml version="1.0" encoding="utf-16"?><a/>`, nil, "charset"},
		{"not XML", "text/xml", `<a`, nil, "xml"},

		{"GraphQL alone", "application/graphql", `{ a(b: "c d") }`, []string{"graphql =c d"}, ""},
		{"GraphQL", json, `{"query":"query A($b: [C!]! = [\"d e\"]) { a(b: $b) @f { ...G ... on H { i } } } # j k\nfragment G on H { l }","variables":{"b":"m n"}}`,
			[]string{"graphql query=d e", "graphql query= j k", "json variables/b=m n"}, ""},
		{"an injection in the place of GraphQL", json, `{"query":"1 UNION SELECT a"}`, []string{"json query=1 UNION SELECT a"}, ""},
		{"an injection in braces", json, `{"query":"{ a } UNION SELECT b"}`, []string{"json query={ a } UNION SELECT b"}, ""},

		{"another charset of JSON", "application/json; charset=utf-7", "{}", nil, "charset"},
		{"two charsets", "application/json; charset=utf-8; charset=utf-7", "{}", nil, "content_type"},
		{"an unreadable type", "application/json; charset=", "{}", nil, "content_type"},
		{"an odd parameter", "text/plain; x", "a b", []string{"text body=a b"}, ""},
	}
	for _, test := range tests {
		got, refused := read(t, test.media, test.body, usual)
		if !cmp.Equal(got, test.want) || refused != test.refused {
			t.Errorf("%s: got %q, refused %q; want %q, %q", test.name, got, refused, test.want, test.refused)
		}
	}
}

// What is in a file has no charset for us; what may be a field is read whatever its part calls it. A part's
// own fields come in no order.
func TestPartsByType(t *testing.T) {
	for _, test := range []struct {
		head, content string
		want          []string
	}{
		{"Content-Disposition: form-data; name=a; filename=b.csv\r\nContent-Type: text/csv; charset=windows-1251", "\xcf' or 1=1--", []string{"file a=b.csv"}},
		{"Content-Disposition: form-data; name=a\r\nContent-Type: image/png", "\x89\x00' or", []string{"form a=\x89\x00' or"}},
	} {
		leaves, refused := read(t, "multipart/form-data; boundary=b", "--b\r\n"+test.head+"\r\n\r\n"+test.content+"\r\n--b--\r\n", usual)
		got := slices.DeleteFunc(leaves, func(leaf string) bool { return strings.HasPrefix(leaf, "part ") })
		if !cmp.Equal(got, test.want) || refused != "" {
			t.Errorf("%s: got %q, refused %q; want %q", test.head, got, refused, test.want)
		}
	}
}

// At each limit, and one past it.
func TestLimits(t *testing.T) {
	few := Limits{Depth: 3, Values: 3, Bytes: 20, Inflated: 1000}
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, test := range []struct{ name, media, body, refused string }{
		{"depth", "application/json", nested(3), ""},
		{"depth + 1", "application/json", nested(4), "max_depth"},
		{"depth in XML", "text/xml", "<a><b><c/></b></a>", ""},
		{"depth in XML + 1", "text/xml", "<a><b><c><d/></c></b></a>", "max_depth"},
		{"depth in a string", "application/json", `["[[1]]"]`, ""},
		{"values", "application/json", `["a b","a c","a d",1,2,3,4,"word"]`, ""},
		{"values + 1", "application/json", `["a b","a c","a d",1,2,3,4,"e f"]`, "max_values"},
		{"pairs", "application/x-www-form-urlencoded", "a=1&b=2&c=3", ""},
		{"pairs + 1", "application/x-www-form-urlencoded", "a=1&b=2&c=3&d=4", "max_values"},
		{"bytes", "application/json", `["1234567890 234567890"]`, ""},
		{"bytes + 1", "application/json", `["1234567890 2345678901"]`, "inspect_bytes"},
		{"bytes of a name", "application/json", `{"123456789 234567 901!":1}`, "inspect_bytes"},
		{"base64 does not count", "application/json", `["` + strings.Repeat("QUJDREVGR0hJSktM", 5) + `"]`, ""},
	} {
		if _, refused := read(t, test.media, test.body, few); refused != test.refused {
			t.Errorf("%s: refused %q, want %q", test.name, refused, test.refused)
		}
	}
	var f Feed
	if refusal := f.Read(&Source{Query: "a=1&b=2;c=3&d=4"}, few); refusal == nil || refusal.Name != "max_values" || refusal.HTTP != 413 {
		t.Errorf("a query of four pairs: %v", refusal)
	}
	if refusal := f.Read(&Source{Header: http.Header{"Cookie": {"a=1; b=2; c=3", "d=4"}}}, few); refusal == nil || refusal.Name != "max_values" {
		t.Errorf("four cookies: %v", refusal)
	}
	if refusal := f.Read(&Source{Header: http.Header{"X": make([]string, 501)}}, few); refusal == nil || refusal.Name != "max_fields" || refusal.HTTP != 431 {
		t.Errorf("501 fields: %v", refusal)
	}
}

// A feed that was reset holds nothing of before.
func TestReset(t *testing.T) {
	var f Feed
	for range 3 {
		if refusal := f.Read(&Source{Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(`{"a":["b c","d e"]}`)}, Limits{Depth: 9, Values: 2, Bytes: 6}); refusal != nil {
			t.Fatal(refusal)
		}
		if len(f.Leaves) != 2 || f.Kind != JSONBody {
			t.Errorf("%+v", f)
		}
		f.Reset()
		if len(f.Leaves) != 0 || f.Kind != NoBody {
			t.Errorf("after the reset: %+v", f)
		}
	}
}

func TestInflate(t *testing.T) {
	zip := func(w func(io.Writer) io.WriteCloser, text string) []byte {
		var b bytes.Buffer
		z := w(&b)
		if _, err := io.WriteString(z, text); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	gz := func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }
	zl := func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }
	fl := func(w io.Writer) io.WriteCloser {
		z, err := flate.NewWriter(w, 9)
		if err != nil {
			t.Fatal(err)
		}
		return z
	}
	const text = `["a b"]`
	spaces := strings.Repeat(" ", 900<<10)
	for _, test := range []struct {
		name, coding string
		body         []byte
		refused      string
	}{
		{"gzip", "gzip", zip(gz, text), ""},
		{"gzip, in capitals", "GZIP", zip(gz, text), ""},
		{"zlib", "deflate", zip(zl, text), ""},
		{"bare deflate", "deflate", zip(fl, text), ""},
		{"identity", "identity", []byte(text), ""},
		{"cut", "gzip", zip(gz, text)[:20], "content_encoding"},
		{"not gzip", "gzip", []byte(text), "content_encoding"},
		{"twice", "gzip, gzip", zip(gz, text), "content_encoding"},
		{"another", "br", []byte(text), "content_encoding"},
		{"too dense", "gzip", zip(gz, text+spaces), "inflate_ratio"},
		{"too long", "gzip", append(zip(gz, text+spaces+spaces), bytes.Repeat([]byte("x"), 30000)...), "max_inflated"},
	} {
		var f Feed
		refusal := f.Read(&Source{Header: http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {test.coding}}, Body: test.body}, usual)
		switch {
		case test.refused == "" && (refusal != nil || len(f.Leaves) != 1):
			t.Errorf("%s: %v, %v", test.name, refusal, f.Leaves)
		case test.refused != "" && (refusal == nil || refusal.Name != test.refused):
			t.Errorf("%s: %v, want %s", test.name, refusal, test.refused)
		}
	}
}

func TestPlain(t *testing.T) {
	base64 := strings.Repeat("QUJDREVGR0hJSktMTU5P", 4)
	for _, text := range []string{"", "word", "two_words", "a1-b2", "-1.5", "0x52908400098527886E0F7030069857D2E4169EE7", "123e4567-e89b-12d3-a456-426614174000",
		base64, base64 + "==", "data:image/png;base64," + base64, "eyJ" + base64 + "." + base64 + "." + base64, strings.Repeat("0123456789abcdef", 5)} {
		if !Plain(text) {
			t.Errorf("%q is not plain", text)
		}
	}
	for _, text := range []string{"it's", "a b", "a--b", "a.b", "é", "<", "__proto__", "Constructor", "information_schema", "Get-Content", "rO0AB" + base64, "H4sIA" + base64,
		base64 + "'", "data:text/html," + base64, "data:x;base64," + base64 + "<", "1+UNION+SELECT+" + base64, strings.Repeat("/", 64) + "etc/passwd1A", strings.Repeat("/", 64) + "sys/class/net1A", "var/log/" + base64,
		"XyQkTkRfRlVOQyQkXwo=", base64 + "AF8kJE5EX0ZVTkMkJF8K", base64 + "AABfJCRORF9GVU5DJCRfCg", strings.Repeat("a", 65)} {
		if Plain(text) {
			t.Errorf("%q is plain", text)
		}
	}
}

func TestCookies(t *testing.T) {
	var got []string
	for name, value := range Cookies(`a=1; b="c d";;e; =f; g=h=i`) {
		got = append(got, name+"|"+value)
	}
	if want := []string{"a|1", `b|"c d"`, "e|", "|f", "g|h=i"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
