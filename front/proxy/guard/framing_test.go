package guard

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

// lines joins the lines of a request with CRLF.
func lines(l ...string) string { return strings.Join(l, "\r\n") }

// get is the smallest request.
const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

// pieces cuts s into pieces of n bytes.
func pieces(s string, n int) (p [][]byte) {
	for ; len(s) > n; s = s[n:] {
		p = append(p, []byte(s[:n]))
	}
	return append(p, []byte(s))
}

// follow returns how many bytes of s are handed on when it arrives in pieces of n bytes, and the fault.
func follow(s string, n, max int) (int, Fault) {
	f := framing{max: max}
	passed := 0
	for _, p := range pieces(s, n) {
		passed += f.scan(p)
		if f.fault != None {
			break
		}
	}
	return passed, f.fault
}

func TestRequestsWithOneReadingPass(t *testing.T) {
	tests := map[string]string{
		"simple":              get,
		"pipelined":           get + get,
		"length":              lines("POST / HTTP/1.1", "Host: a", "Content-Length: 3", "", "a\nb") + get,
		"length 0":            lines("POST / HTTP/1.1", "Host: a", "Content-Length: 0", "", "") + get,
		"no blank":            lines("POST / HTTP/1.1", "Host:a", "content-length:3", "", "abc") + get,
		"GET with body":       lines("GET / HTTP/1.1", "Host: a", "Content-Length: 3", "", "abc") + get,
		"chunked":             lines("POST / HTTP/1.1", "Host: a", "Transfer-Encoding: chunked", "", "3", "a\nb", "0", "", "") + get,
		"chunked, upper case": lines("POST / HTTP/1.1", "Host: a", "TRANSFER-ENCODING: Chunked", "", "aF", strings.Repeat("x", 0xaf), "000", "", "") + get,
		"chunk extension":     lines("POST / HTTP/1.1", "Host: a", "Transfer-Encoding: chunked", "", `1;a="b";c`, "x", "0;z", "", "") + get,
		"trailers":            lines("POST / HTTP/1.1", "Host: a", "Transfer-Encoding: chunked", "", "1", "x", "0", "Grpc-Status: 0", "T: x", "", "") + get,
		"like framing":        lines("GET / HTTP/1.1", "Host: a", "Content-Lengthy: x", "Content-Len: y", "Transfer-Encodin: z", "Te: trailers", "C: d", "", "") + get,
		"empty and odd value": lines("GET / HTTP/1.1", "Host: a", "A:", "B:  \t x\tü ", "", "") + get,
		"HTTP/1.0":            lines("GET / HTTP/1.0", "", ""),
		"asterisk":            lines("OPTIONS * HTTP/1.1", "Host: a", "", ""),
		"absolute form":       lines("GET http://a/b?c=%00;d HTTP/1.1", "Host: a", "", ""),
		"like HTTP/2":         lines("PRI * HTTP/1.1", "Host: a", "", ""),
		"like HTTP/2, early":  lines("PRINT / HTTP/1.1", "Host: a", "", ""),
		"HTTP/2":              preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00\n\n",
	}
	for name, s := range tests {
		for _, n := range []int{1, 2, 7, len(s)} {
			if passed, fault := follow(s, n, 1000); passed != len(s) || fault != None {
				t.Errorf("%s in pieces of %d: %d of %d bytes passed: %s", name, n, passed, len(s), fault)
			}
		}
	}
}

// smuggling holds requests with more than one reading, each a complete one before get.
func smuggling() map[string]struct {
	request string
	fault   Fault
} {
	type s = struct {
		request string
		fault   Fault
	}
	head := func(l ...string) string {
		return lines(append(append([]string{"POST / HTTP/1.1", "Host: a"}, l...), "", "")...)
	}
	return map[string]s{
		"bare LF, request line":   {"GET / HTTP/1.1\nHost: a\r\n\r\n", BareLF},
		"bare LF, field":          {"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", BareLF},
		"bare LF, empty line":     {"GET / HTTP/1.1\r\nHost: a\r\n\n", BareLF},
		"bare LF, length":         {"GET / HTTP/1.1\r\nContent-Length: 3\n\r\nabc", BareLF},
		"bare CR":                 {"GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", BareCR},
		"bare CR, empty line":     {"GET / HTTP/1.1\r\nHost: a\r\n\rX", BareCR},
		"folded":                  {head("X: a", " b"), Folded},
		"folded with tab":         {head("X: a", "\tContent-Length: 3"), Folded},
		"folded first line":       {lines("GET / HTTP/1.1", " X: a", "", ""), Folded},
		"length and coding":       {head("Content-Length: 3", "Transfer-Encoding: chunked"), LengthAndCoding},
		"coding and length":       {head("Transfer-Encoding: chunked", "Content-Length: 3"), LengthAndCoding},
		"lengths differ":          {head("Content-Length: 3", "Content-Length: 4"), RepeatedLength},
		"lengths equal":           {head("Content-Length: 3", "content-length: 3"), RepeatedLength},
		"length list":             {head("Content-Length: 3, 3"), BadLength},
		"length with sign":        {head("Content-Length: +3"), BadLength},
		"length negative":         {head("Content-Length: -3"), BadLength},
		"length in hex":           {head("Content-Length: 0x3"), BadLength},
		"length empty":            {head("Content-Length: "), BadLength},
		"length with blank after": {head("Content-Length: 3 "), BadLength},
		"length of 19 digits":     {head("Content-Length: 1000000000000000000"), BadLength},
		"coding with blank after": {head("Transfer-Encoding: chunked "), BadCoding},
		"xchunked":                {head("Transfer-Encoding: xchunked"), BadCoding},
		"chunkedx":                {head("Transfer-Encoding: chunkedx"), BadCoding},
		"chunk":                   {head("Transfer-Encoding: chunk"), BadCoding},
		"coding empty":            {head("Transfer-Encoding:"), BadCoding},
		"coding list":             {head("Transfer-Encoding: gzip, chunked"), BadCoding},
		"coding with VT":          {head("Transfer-Encoding: \vchunked"), BadCoding},
		"coding twice":            {head("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"), RepeatedCoding},
		"coding in HTTP/1.0":      {lines("POST / HTTP/1.0", "Transfer-Encoding: chunked", "", ""), CodingInHTTP10},
		"blank before colon":      {head("Content-Length : 3"), BadFieldName},
		"no name":                 {head(": x"), BadFieldName},
		"no colon":                {head("X"), BadFieldName},
		"NUL in name":             {head("Content-Length\x00: 3"), BadFieldName},
		"NUL in value":            {head("X: a\x00b"), BadFieldValue},
		"DEL in value":            {head("X: a\x7fb"), BadFieldValue},
		"blank in target":         {lines("GET /a b HTTP/1.1", "Host: a", "", ""), BadRequestLine},
		"two blanks":              {lines("GET  / HTTP/1.1", "Host: a", "", ""), BadRequestLine},
		"tab in request line":     {lines("GET\t/ HTTP/1.1", "Host: a", "", ""), BadRequestLine},
		"CTL in target":           {lines("GET /\x01 HTTP/1.1", "Host: a", "", ""), BadRequestLine},
		"no version":              {lines("GET /", "Host: a", "", ""), BadRequestLine},
		"HTTP/0.9":                {lines("GET / HTTP/0.9", "", ""), BadRequestLine},
		"HTTP/1.2":                {lines("GET / HTTP/1.2", "Host: a", "", ""), BadRequestLine},
		"lower case version":      {lines("GET / http/1.1", "Host: a", "", ""), BadRequestLine},
		"long version":            {lines("GET / HTTP/1.10", "Host: a", "", ""), BadRequestLine},
		"empty line first":        {"\r\n" + get, BadRequestLine},
		"PROXY v1":                {"PROXY TCP4 1.2.3.4 10.0.0.9 56324 443\r\n" + get, BadRequestLine},
		"PROXY v2":                {"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x00" + get, BadRequestLine},
		"almost HTTP/2":           {preface[:14] + "\r\nHost: a\r\n\r\n", BadRequestLine},
	}
}

// chunkFaults holds bodies with more than one reading.
func chunkFaults() map[string]string {
	return map[string]string{
		"size with sign":       "+1\r\nx\r\n0\r\n\r\n",
		"size negative":        "-1\r\nx\r\n0\r\n\r\n",
		"size with 0x":         "0x1\r\nx\r\n0\r\n\r\n",
		"size empty":           "\r\nx\r\n0\r\n\r\n",
		"size with blank":      " 1\r\nx\r\n0\r\n\r\n",
		"size, blank after":    "1 \r\nx\r\n0\r\n\r\n",
		"size of 16 digits":    "0000000000000001\r\nx\r\n0\r\n\r\n",
		"size with underscore": "1_0\r\nx\r\n0\r\n\r\n",
		"LF after size":        "1\nx\r\n0\r\n\r\n",
		"LF in extension":      "1;a\nx\r\n0\r\n\r\n",
		"CR in extension":      "1;a\rb\r\nx\r\n0\r\n\r\n",
		"long extension":       "1;" + strings.Repeat("a", maxExtensions+1) + "\r\nx\r\n0\r\n\r\n",
		"LF after chunk":       "1\r\nx\n0\r\n\r\n",
		"chunk too long":       "1\r\nxy\r\n0\r\n\r\n",
		"CR after chunk":       "1\r\nx\r\r0\r\n\r\n",
	}
}

func TestRequestsWithTwoReadingsAreKeptBack(t *testing.T) {
	for name, s := range smuggling() {
		for _, n := range []int{1, 2, 7, 1000} {
			passed, fault := follow(get+s.request+get, n, 1000)
			if fault != s.fault {
				t.Errorf("%s in pieces of %d: got %s, want %s", name, n, fault, s.fault)
			}
			if n == 1000 && passed != len(get) {
				t.Errorf("%s: %d bytes passed, want those of the request before: %d", name, passed, len(get))
			}
		}
	}
}

func TestBodiesWithTwoReadingsAreKeptBack(t *testing.T) {
	head := lines("POST / HTTP/1.1", "Host: a", "Transfer-Encoding: chunked", "", "")
	for name, body := range chunkFaults() {
		for _, n := range []int{1, 5, 1000} {
			passed, fault := follow(get+head+body, n, 1000)
			if fault != BadChunk {
				t.Errorf("%s in pieces of %d: got %s", name, n, fault)
			}
			if n == 1000 && passed != len(get) {
				t.Errorf("%s in one piece: %d bytes passed, want none of its request: %d", name, passed, len(get))
			}
		}
	}
}

func TestTrailersCannotFrame(t *testing.T) {
	s := lines("POST / HTTP/1.1", "Host: a", "Transfer-Encoding: chunked", "", "0", "Content-Length: 3", "", "")
	if _, fault := follow(s, 1, 1000); fault != FramingInTrailer {
		t.Error(fault)
	}
	s = lines("POST / HTTP/1.1", "Host: a", "Transfer-Encoding: chunked", "", "0", "X: a", " b", "", "")
	if _, fault := follow(s, 1, 1000); fault != Folded {
		t.Error(fault)
	}
}

func TestHeadersAreBoundedToTheByte(t *testing.T) {
	for _, n := range []int{1, 10, 1000} {
		if _, fault := follow(get+get, n, len(get)); fault != None {
			t.Errorf("at the bound, in pieces of %d: %s", n, fault)
		}
		if _, fault := follow(get+get, n, len(get)-1); fault != HeaderTooLarge {
			t.Errorf("past the bound, in pieces of %d: %s", n, fault)
		}
	}
	post := lines("POST / HTTP/1.1", "Content-Length: 500", "", strings.Repeat("x", 500))
	if _, fault := follow(post+post, 9, 45); fault != None {
		t.Errorf("bodies do not count: %s", fault)
	}
	trailer := lines("POST / HTTP/1.1", "Transfer-Encoding: chunked", "", "0", "X: "+strings.Repeat("x", 60), "", "")
	if _, fault := follow(trailer, 9, 60); fault != HeaderTooLarge {
		t.Errorf("trailers count: %s", fault)
	}
	many := "GET / HTTP/1.1\r\n" + strings.Repeat("a:\r\n", maxFields)
	if _, fault := follow(many+"\r\n", 1000, 1<<20); fault != None {
		t.Errorf("%d fields: %s", maxFields, fault)
	}
	if _, fault := follow(many+"a:\r\n\r\n", 1000, 1<<20); fault != HeaderTooLarge {
		t.Errorf("%d fields: %s", maxFields+1, fault)
	}
}

func TestScanAllocatesNothing(t *testing.T) {
	f := framing{max: 1000}
	p := []byte(get + lines("POST / HTTP/1.1", "Host: a", "Transfer-Encoding: chunked", "", "3", "abc", "0", "", ""))
	if n := testing.AllocsPerRun(100, func() { f.scan(p) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// framed is what a reader made of a stream.
type framed struct {
	requests int
	bytes    int // where the last complete one ended
}

// byNetHTTP reads requests from s as net/http does.
func byNetHTTP(s []byte) (got framed) {
	under := bytes.NewReader(s)
	r := bufio.NewReader(under)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return got
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return got
		}
		got.requests++
		got.bytes = len(s) - under.Len() - r.Buffered()
	}
}

// byGuard reads requests from s as the guard does.
func byGuard(s []byte, n int) (got framed, fault Fault) {
	f := framing{max: 4000}
	for i, c := range s {
		was := f.state
		if f.scan([]byte{c}) == 0 {
			return got, f.fault
		}
		if f.state == atStart && was != atPreface && was != atStart {
			got.requests++
			got.bytes = i + 1
		}
	}
	return got, None
}

// What the guard lets pass, net/http divides into the same requests at the same bytes, or refuses; and
// the size of the pieces makes no difference.
func FuzzFraming(f *testing.F) {
	f.Add([]byte(get+get), 3)
	for _, s := range smuggling() {
		f.Add([]byte(get+s.request+get), 5)
	}
	for _, body := range chunkFaults() {
		f.Add([]byte(lines("POST / HTTP/1.1", "Host: a", "Transfer-Encoding: chunked", "", "")+body+get), 2)
	}
	f.Add([]byte(lines("POST / HTTP/1.1", "Host: a", "Transfer-Encoding: chunked", "", "3;x", "abc", "0", "T: x", "", "")+get), 1)
	f.Add([]byte(lines("POST / HTTP/1.1", "Host: a", "Content-Length: 3", "", "abc")+get), 1000)
	f.Fuzz(func(t *testing.T, s []byte, n int) {
		if n < 1 || bytes.HasPrefix(s, []byte(preface)) {
			return
		}
		mine, fault := byGuard(s, n)
		if _, other := follow(string(s), n, 4000); other != fault {
			t.Fatalf("%q: by byte %s, in pieces of %d %s", s, fault, n, other)
		}
		if theirs := byNetHTTP(s[:mine.bytes]); theirs != mine {
			// net/http may refuse a request for reasons of its own; then it must stop at or before the
			// end of one that the guard saw.
			if theirs.requests >= mine.requests || theirs.bytes > mine.bytes {
				t.Fatalf("%q: guard %+v, net/http %+v", s, mine, theirs)
			}
			checkPrefix(t, s, theirs)
		}
	})
}

// checkPrefix tells whether the guard saw as many requests in the bytes that net/http got through.
func checkPrefix(t *testing.T, s []byte, theirs framed) {
	if mine, _ := byGuard(s[:theirs.bytes], 1); mine != theirs {
		t.Fatalf("%q: guard %+v, net/http %+v", s[:theirs.bytes], mine, theirs)
	}
}

func BenchmarkScan(b *testing.B) {
	p := []byte(lines("GET /api/search?q=something+or+other HTTP/1.1", "Host: www.example.com",
		"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
		"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
		"Accept-Language: en-US,en;q=0.5", "Accept-Encoding: gzip, deflate, br, zstd",
		"Cookie: session=0123456789abcdef0123456789abcdef", "Connection: keep-alive", "", ""))
	f := framing{max: 4000}
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		f.scan(p)
	}
}
