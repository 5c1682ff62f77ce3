package feed

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// all lets everything through.
var all = Limits{Depth: 1000, Values: 1 << 30, Bytes: 1 << 30, Inflated: 1 << 20, Thorough: true}

// Every string and every key that encoding/json sees is seen exactly once, and what it refuses is refused.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{`{"a":["b",{"c":"d\u0027"}],"a":"\ud83d\udc4d"}`, `"x"`, `[1,-0.5e+3,true,null]`, `{"a":"\ud800x"}`, `[""]`, `{"":""}`, "{\"\xff\":\"\xfe\"}", `[`, `{"a"}`, `[1,]`, `"\x"`, " \u2028"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsAny(text, "\x1e") || strings.HasPrefix(text, "\uFEFF") {
			return // passed by us
		}
		want, ok := strict(text)
		var feed Feed
		feed.limits = all
		feed.nested = maxNested // strings are not looked into
		refusal := feed.jsonText(text)
		if ok != (refusal == nil) || strings.TrimSpace(text) == "" {
			if strings.TrimSpace(text) != "" {
				t.Fatalf("%q: refused with %v, by encoding/json %v", text, refusal, !ok)
			}
			return
		}
		if !ok {
			return
		}
		var got []string
		for _, l := range feed.Leaves {
			if l.Part == Key { // with U+FFFD for each byte that is not UTF-8
				got = append(got, string([]rune(l.Name)))
			} else {
				got = append(got, string([]rune(l.Value)))
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	})
}

// strict returns the keys and scalars of a JSON text, sorted, and whether it is one.
func strict(text string) (found []string, ok bool) {
	if !json.Valid([]byte(text)) {
		return nil, false
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, false // deeper than it goes
		}
		switch token := token.(type) {
		case string:
			found = append(found, token)
		case json.Number:
			found = append(found, token.String())
		}
	}
	slices.Sort(found)
	return found, true
}

// Whatever is sent is read within the limits or refused, and never panics.
func FuzzRead(f *testing.F) {
	f.Add("multipart/form-data; boundary=b", "", "a=1;b=2", "--b\r\nContent-Disposition: form-data; name=\"a\"; filename*=utf-8''x\r\n\r\nx\r\n--b--")
	f.Add("application/xml", "", "", `<?xml version="1.0" encoding="a"?><a b="c">d</a>`)
	f.Add("application/json", "gzip", "", "\x1f\x8b")
	f.Add("application/json", "", "", `{"query":"query($a:B=[{c:\"d\"}]){e(f:$a)@g{...h}} # i","a":"[\"b c\"]"}`)
	f.Add("application/graphql", "deflate", "%", "{")
	f.Add("text/plain; charset=x", "", "", "\"")
	f.Fuzz(func(t *testing.T, media, coding, query, body string) {
		var feed Feed
		h := http.Header{"Content-Type": {media}}
		if coding != "" {
			h["Content-Encoding"] = []string{coding}
		}
		limits := Limits{Depth: 8, Values: 50, Bytes: 4000, Inflated: 10000}
		refusal := feed.Read(&Source{Query: query, Header: h, Body: []byte(body)}, limits)
		total := 0
		for _, l := range feed.Leaves {
			total += len(l.Value)
		}
		if total > limits.Bytes || len(feed.Leaves) > limits.Values {
			t.Errorf("%d bytes in %d leaves, refused %v", total, len(feed.Leaves), refusal)
		}
		if refusal != nil && (refusal.HTTP < 400 || refusal.HTTP > 499) {
			t.Errorf("refused with %d", refusal.HTTP)
		}
		_ = EachPair(query, func(string, string) *Refusal { return nil })
	})
}

// Every pair that net/url sees in a form is seen exactly once, as it is read there.
func FuzzForm(f *testing.F) {
	for _, seed := range []string{"a=1&b=2", "a=%27+or+1=1&a=&=&&%41=b=c", "a", "%zz=1", "a;b=c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		pairs, err := url.ParseQuery(text)
		if err != nil {
			return // read by us in every way that a server may
		}
		var want, got []string
		for name, values := range pairs {
			for _, value := range values {
				want = append(want, name+"="+value)
			}
		}
		feed := Feed{limits: all}
		if refusal := feed.form(Form, text); refusal != nil {
			t.Fatalf("%q: refused with %v", text, refusal)
		}
		for _, l := range feed.Leaves {
			got = append(got, l.Name+"="+l.Value)
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	})
}

// Every field that mime/multipart writes, and every file's name, is seen exactly once.
func FuzzMultipart(f *testing.F) {
	f.Add("a", "1 or 1=1", "a.php")
	f.Add("a\"b", "\r\n--b\r\n", "../../x")
	f.Add("", "", "")
	f.Fuzz(func(t *testing.T, name, value, file string) {
		if strings.ContainsFunc(name+file, unicode.IsControl) || strings.ContainsAny(name+file, `"\`) || file == "" || name == "" {
			return // refused, or written in another form
		}
		var body bytes.Buffer
		w := multipart.NewWriter(&body)
		if w.WriteField(name, value) != nil {
			t.Fatal("a field cannot be written")
		}
		if part, err := w.CreateFormFile("f", file); err != nil || w.Close() != nil {
			t.Fatal(part, err)
		}
		var feed Feed
		h := http.Header{"Content-Type": {w.FormDataContentType()}}
		if refusal := feed.Read(&Source{Header: h, Body: body.Bytes()}, all); refusal != nil {
			t.Fatalf("%q, %q, %q: refused with %v", name, value, file, refusal)
		}
		values, files := 0, 0
		for _, l := range feed.Leaves {
			switch {
			case l.Part == Form && l.Name == name && l.Value == value:
				values++
			case l.Part == File && l.Value == file:
				files++
			}
		}
		if values != 1 || files != 1 {
			t.Errorf("%q, %q, %q: seen %d and %d times: %q", name, value, file, values, files, feed.Leaves)
		}
	})
}
