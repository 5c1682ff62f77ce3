package hostile_test

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// field is a header field in HPACK: a literal that no table keeps, in no code (RFC 7541 section 6.2.2).
func field(name, value string) string { return "\x00" + text(name) + text(value) }

// text is a string literal of HPACK.
func text(s string) string {
	if len(s) < 127 {
		return string([]byte{byte(len(s))}) + s
	}
	return "\x7f" + string(binary.AppendUvarint(nil, uint64(len(s)-127))) + s
}

// frame is a frame of HTTP/2.
func frame(kind, flags byte, stream uint32, payload string) string {
	head := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	return string(binary.BigEndian.AppendUint32(head, stream)) + payload
}

const (
	frameData, frameHeaders, frameReset, frameGoAway, frameContinuation = 0, 1, 3, 7, 9
	endStream, endHeaders                                               = 1, 4

	begun = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
)

// request is a header block on stream 1, in as many frames as it needs.
func request(flags byte, block string) string {
	const most = 16 << 10
	if len(block) <= most {
		return frame(frameHeaders, flags|endHeaders, 1, block)
	}
	all := frame(frameHeaders, flags, 1, block[:most])
	for block = block[most:]; len(block) > most; block = block[most:] {
		all += frame(frameContinuation, 0, 1, block[:most])
	}
	return all + frame(frameContinuation, endHeaders, 1, block)
}

// outcome waits for what becomes of stream 1: its first HEADERS, or how it or the connection ends.
func outcome(t *testing.T, c net.Conn) (kind byte, payload string) {
	t.Helper()
	for {
		var head [9]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
				t.Error("neither answered nor ended")
			}
			return frameGoAway, ""
		}
		body := make([]byte, binary.BigEndian.Uint32(head[:])>>8)
		if _, err := io.ReadFull(c, body); err != nil {
			return frameGoAway, ""
		}
		switch kind, stream := head[3], binary.BigEndian.Uint32(head[5:]); {
		case kind == frameGoAway, stream == 1 && (kind == frameHeaders || kind == frameReset):
			return kind, string(body)
		}
	}
}

// passed reports whether an answer's header begins with :status 200, which is in HPACK's table.
func passed(kind byte, payload string) bool {
	return kind == frameHeaders && strings.HasPrefix(strings.TrimLeft(payload, "\x20\x3f"), "\x88")
}

// A request that says it has no body, and has one, arrives without, if at all; a length that is no number is 0 to net/http.
func TestABodyThatIsNone(t *testing.T) {
	up := record(t)
	w := start(t, 512, "listen: \"127.0.0.1:0\"\nadmin: \"127.0.0.1:0\"\nupstream: \""+up.url+"\"\nwaf: {enabled: false}\ndefault: {limits: []}\n")
	for _, length := range []string{"0", "+32", ""} {
		c := w.dial("listen")
		block := field(":method", "POST") + field(":scheme", "http") + field(":path", "/") + field(":authority", "a") + field("content-length", length)
		go io.WriteString(c, begun+request(0, block)+frame(frameData, endStream, 1, "GET /admin HTTP/1.1\r\nHost: a\r\n\r\n"))
		outcome(t, c)
	}
	if status, _, err := w.get("listen", "/last"); status != 200 {
		t.Errorf("the next is answered %d, %v", status, err)
	}
	for _, s := range up.take() {
		if strings.Contains(s, "/admin") || strings.HasPrefix(s, "RUBBISH") {
			t.Errorf("the upstream saw %q", s)
		}
	}
}

// What HTTP/2 can say and HTTP/1 cannot makes no second request, nor a request whose length the upstream reads otherwise:
// H2.CL, H2.TE, and line ends in every place. And no header is larger than its bound.
func TestHTTP2ToHTTP1(t *testing.T) {
	const smuggled = "GET /admin HTTP/1.1\r\nHost: a\r\n\r\n"
	line := func(method, path, authority string) string {
		return field(":method", method) + field(":scheme", "http") + field(":path", path) + field(":authority", authority)
	}
	post := line("POST", "/", "a")
	tests := []struct {
		name, sent string
		arrives    string // empty: nothing whole may
	}{
		{"a request", request(endStream, line("GET", "/", "a")), "GET / HTTP/1.1\r\nHost: a\r\n"},
		{"a body", request(0, post) + frame(frameData, endStream, 1, "abc"), "\r\n\r\n3\r\nabc\r\n0\r\n\r\n"},
		{"H2.CL, too short", request(0, post+field("content-length", "3")) + frame(frameData, endStream, 1, smuggled), ""},
		{"H2.CL, too long", request(0, post+field("content-length", "100")) + frame(frameData, endStream, 1, smuggled), ""},
		{"H2.CL, twice", request(0, post+field("content-length", "3")+field("content-length", "32")) + frame(frameData, endStream, 1, smuggled), ""},
		{"H2.TE", request(0, post+field("transfer-encoding", "chunked")) + frame(frameData, endStream, 1, "0\r\n\r\n"+smuggled), ""},
		{"H2.TE, in capitals", request(0, post+field("Transfer-Encoding", "chunked")) + frame(frameData, endStream, 1, "0\r\n\r\n"+smuggled), ""},
		{"connection", request(endStream, post+field("connection", "close")), ""},
		{"upgrade", request(endStream, post+field("upgrade", "websocket")), ""},
		{"lines in a value", request(endStream, post+field("x", "a\r\n\r\n"+smuggled)), ""},
		{"LF in a value", request(endStream, post+field("x", "a\ntransfer-encoding: chunked")), ""},
		{"NUL in a value", request(endStream, post+field("x", "a\x00b")), ""},
		{"lines in a name", request(endStream, post+field("x: a\r\ntransfer-encoding", "chunked")), ""},
		{"colon in a name", request(endStream, post+field("transfer-encoding: chunked", "x")), ""},
		{"blank in a name", request(endStream, post+field("transfer-encoding ", "chunked")), ""},
		{"lines in the method", request(endStream, line("GET / HTTP/1.1\r\nX: a\r\n\r\nGET", "/", "a")), ""},
		{"blank in the method", request(endStream, line("GET /admin", "/", "a")), ""},
		{"lines in the path", request(endStream, line("GET", "/ HTTP/1.1\r\nHost: a\r\n\r\nGET /admin", "a")), ""},
		{"lines in the authority", request(endStream, line("GET", "/", "a\r\nX: y")), ""},
		{"a path that is none", request(endStream, line("GET", "admin", "a")), ""},
		{"asterisk of a GET", request(endStream, line("GET", "*", "a")), ""},
		{"two paths", request(endStream, line("GET", "/", "a")+field(":path", "/admin")), ""},
		{"a pseudo-header that nobody knows", request(endStream, line("GET", "/", "a")+field(":x", "y")), ""},
		{"a pseudo-header after a field", request(endStream, field("x", "y")+line("GET", "/", "a")), ""},
		{"another Host", request(endStream, line("GET", "/", "a")+field("host", "b")), "\r\nHost: a\r\n"},
		{"a length among the trailers", request(0, post) + frame(frameData, 0, 1, "abc") + frame(frameHeaders, endStream|endHeaders, 1, field("content-length", "32")), "\r\n\r\n3\r\nabc\r\n0\r\n\r\n"},
		{"a huge field", request(endStream, post+field("x", strings.Repeat("a", 1<<17))), ""},
		{"many fields", request(endStream, post+strings.Repeat(field("x", "a"), 10_000)), ""},
		{"many cookies", request(endStream, post+strings.Repeat(field("cookie", "a=b"), 10_000)), ""},
		{"a huge path", request(endStream, line("GET", "/"+strings.Repeat("a", 1<<17), "a")), ""},
	}
	up := record(t)
	w := start(t, 512, "listen: \"127.0.0.1:0\"\nadmin: \"127.0.0.1:0\"\nupstream: \""+up.url+"\"\nwaf: {enabled: false}\ndefault: {limits: []}\n")
	for _, x := range tests {
		t.Run(x.name, func(t *testing.T) {
			c := w.dial("listen")
			defer c.Close()
			go io.WriteString(c, begun+x.sent) // what is refused early is not read to its end
			kind, payload := outcome(t, c)
			if passed(kind, payload) != (x.arrives != "") {
				t.Errorf("frame %d: %q", kind, payload)
			}
			if status, _, err := w.get("listen", "/last"); status != 200 {
				t.Errorf("the next is answered %d, %v", status, err)
			}
			var seen []string
			for _, s := range up.take() {
				if !strings.HasPrefix(s, "GET /last ") {
					seen = append(seen, s)
				}
			}
			if x.arrives == "" && len(seen) > 0 || x.arrives != "" && (len(seen) != 1 || !strings.Contains(seen[0], x.arrives)) {
				t.Errorf("the upstream saw %q, want %q", seen, x.arrives)
			}
		})
	}
	if err := w.Gone(); err != nil {
		t.Error(err)
	}
}

// The gRPC listeners take no header bombs: the connection or the stream ends, memory is not filled, and others are served.
func TestHeaderBombsOnGRPC(t *testing.T) {
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(limits, []byte("domain: edge\ndescriptors: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := start(t, 512, "admin: \"127.0.0.1:0\"\nrls: {listen: \"127.0.0.1:0\", config: "+limits+"}\next_authz: {listen: \"127.0.0.1:0\"}\nspoe: {listen: \"127.0.0.1:0\"}\n")
	call := field(":method", "POST") + field(":scheme", "http") + field(":path", "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit") +
		field(":authority", "a") + field("content-type", "application/grpc") + field("te", "trailers")
	bombs := map[string]string{
		"a huge field": request(endStream, call+field("x", strings.Repeat("a", 1<<20))),
		"many fields":  request(endStream, call+strings.Repeat(field("x", "a"), 100_000)),
		"many cookies": request(endStream, call+strings.Repeat(field("cookie", "a=b"), 100_000)),
		"no end":       frame(frameHeaders, 0, 1, call) + strings.Repeat(frame(frameContinuation, 0, 1, field("x", strings.Repeat("a", 1000))), 10_000),
		"HPACK":        request(endStream, call+"\x40\x01x"+text(strings.Repeat("y", 4000))+strings.Repeat("\xbe", 60_000)),
	}
	for _, front := range []string{"rls.listen", "ext_authz.listen"} {
		for name, bomb := range bombs {
			c := w.dial(front)
			go io.WriteString(c, begun+bomb)
			if kind, payload := outcome(t, c); t.Failed() || kind == frameHeaders && !strings.Contains(payload, "431") && strings.Contains(payload, "grpc-status\x010") {
				t.Errorf("%s: %s: answered %q", front, name, payload)
			}
			c.Close()
		}
	}
	c := w.dial("spoe.listen")
	go io.WriteString(c, "\xff\xff\xff\xff"+strings.Repeat("x", 1<<20)) // a frame of 4 GiB
	if _, err := io.Copy(io.Discard, c); err != nil && strings.Contains(err.Error(), "timeout") {
		t.Error("spoe.listen: a frame of 4 GiB is waited for")
	}
	if status, _, err := w.get("admin", "/livez"); status != 200 {
		t.Errorf("afterwards: %d, %v", status, err)
	}
	if resident := w.metric("process_resident_memory_bytes"); resident > 300<<20 {
		t.Errorf("%v bytes of memory", resident)
	}
	if err := w.Gone(); err != nil {
		t.Error(err)
	}
}
