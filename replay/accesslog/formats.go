package accesslog

import (
	"fmt"
	"slices"
	"strings"
)

// rows is the table of formats. The order is that in which they are tried; of two that fit, the first
// wins.
var rows = []struct {
	name, about string
	pattern     string // a pattern, or json: and members
	escape      escape
	begin       func(string) (string, error)
}{
	{name: "haproxy", about: "HAProxy httplog", escape: hash, begin: haproxyLine,
		pattern: `{client_port} [{start}] {-} {-} {timers} {status} {bytes} {-} {-} {-} {-} {-}"{request}"`},
	{name: "alb", about: "AWS Application Load Balancer", begin: albLine, escape: backslash,
		pattern: `{time} {-} {client} {-} {-} {-} {-} {status} {-} {bytes} {bytes} "{request}" "{-}" {-} {-} {-} "{-}" "{-}" "{-}" {-} {start} {-}`},
	{name: "traefik", about: "Traefik CLF", escape: backslash,
		pattern: `{client} - {-} [{start}] "{request}" {status} {bytes} "{-}" "{-}" {-} "{-}" "{-}" {duration_ms}ms`},
	{name: "envoy", about: "Envoy's default",
		pattern: `[{start}] "{request}" {status} {-} {bytes} {bytes} {duration_ms} {-} "{chain}" "{-}" "{-}" "{host}" "{-}"`},
	{name: "main", about: "combined with X-Forwarded-For, as in nginx's packages", escape: backslash,
		pattern: `{client} - {-} [{time}] "{request}" {status} {bytes} "{-}" "{-}" "{header:X-Forwarded-For}"`},
	{name: "combined", about: "nginx and Apache combined", escape: backslash,
		pattern: `{client} - {-} [{time}] "{request}" {status} {bytes} "{-}" "{-}"`},
	{name: "common", about: "nginx and Apache common", escape: backslash,
		pattern: `{client} - {-} [{time}] "{request}" {status} {bytes}`},
	{name: "vcombined", about: "combined, a host in front", escape: backslash,
		pattern: `{host} {client} - {-} [{time}] "{request}" {status} {bytes} "{-}" "{-}"`},
	{name: "vcommon", about: "common, a host in front", escape: backslash,
		pattern: `{host} {client} - {-} [{time}] "{request}" {status} {bytes}`},
	{name: "caddy", about: "Caddy JSON",
		pattern: `json: ts=time request.client_ip=client request.remote_ip=from request.method=method request.host=host ` +
			`request.uri=path request.headers=headers status=status duration=duration`},
	{name: "gcp", about: "Google Cloud load balancer and Cloud Run JSON",
		pattern: `json: timestamp=start httpRequest.remoteIp=client httpRequest.requestMethod=method httpRequest.requestUrl=url ` +
			`httpRequest.status=status httpRequest.latency=latency`},
	{name: "traefik-json", about: "Traefik JSON",
		pattern: `json: StartUTC=start ClientHost=client RequestMethod=method RequestPath=path RequestHost=host ` +
			`DownstreamStatus=status Duration=duration_ns`},
	{name: "envoy-json", about: "Envoy JSON with the usual names",
		pattern: `json: start_time=start downstream_remote_address=client x_forwarded_for=chain method=method path=path ` +
			`authority=host response_code=status duration=duration_ms`},
}

// Names are what --format takes, beside auto and a pattern.
func Names() []string {
	list := make([]string, len(rows))
	for i := range rows {
		list[i] = rows[i].name
	}
	return list
}

// Lookup returns the format of that name, or the one that a custom pattern describes: a text with
// fields in braces, or json: with MEMBER=FIELD pairs.
func Lookup(name string) (*Format, error) {
	for i := range rows {
		if rows[i].name == name {
			return row(i), nil
		}
	}
	if strings.Contains(name, "{") || strings.HasPrefix(name, "json:") {
		f, err := compile(name, backslash)
		if err != nil {
			return nil, fmt.Errorf("format %s: %w", name, err)
		}
		f.Name, f.About = "custom", name
		return f, nil
	}
	return nil, fmt.Errorf("format %s: want auto, one of %s, or a pattern such as '{client} - - [{time}] \"{request}\" {status} {bytes}'",
		name, strings.Join(Names(), " "))
}

// row returns the compiled format of a row, which is good: a test compiles them all.
func row(i int) *Format {
	r := &rows[i]
	f, err := compile(r.pattern, r.escape)
	if err != nil {
		panic(r.name + ": " + err.Error())
	}
	if p, ok := f.read.(*pattern); ok {
		p.begin = r.begin
	}
	f.Name, f.About = r.name, r.about
	f.Has.Host = f.Has.Host || slices.Contains(urlFormats, r.name)
	return f
}

// urlFormats are those whose request target is a URL, with a host in it.
var urlFormats = []string{"alb", "gcp"}

func compile(text string, e escape) (f *Format, err error) {
	f = new(Format)
	if members, ok := strings.CutPrefix(text, "json:"); ok {
		f.read, f.Has, err = parseObject(members)
		return f, err
	}
	f.read, f.Has, err = parsePattern(text, e)
	return f, err
}

// haproxyLine cuts off what syslog writes in front: the client stands before the first bracket that
// opens a date. HAProxy cuts a line after 1,024 bytes (len of its log directive): the request is then what
// stands of it.
func haproxyLine(text string) (string, error) {
	for from := 0; ; {
		at := strings.Index(text[from:], " [")
		if at < 0 {
			break
		}
		if at += from; len(text) > at+4 && text[at+4] == '/' {
			if !strings.HasSuffix(text, `"`) {
				text += `"`
			}
			return text[strings.LastIndexByte(text[:at], ' ')+1:], nil
		}
		from = at + 2
	}
	if strings.Contains(text, "SPOE: [") {
		return "", ErrNoRequest
	}
	return "", errShape
}

// albLine cuts off the kind of request, which begins the lines of no other format.
func albLine(text string) (string, error) {
	kind, rest, _ := strings.Cut(text, " ")
	switch kind {
	case "http", "https", "h2", "grpcs", "ws", "wss":
		return rest, nil
	}
	return "", errShape
}

// sampled is how many lines tell the format.
const sampled = 100

// Detect returns the format that takes most of the first lines of head, and of how many that is.
// It is nil if none takes half of them.
func Detect(head string) (f *Format, taken, of int) {
	lines := firstLines(head)
	for i := range rows {
		g := row(i)
		n := takes(g, lines)
		if n > taken {
			f, taken = g, n
		}
	}
	if 2*taken < len(lines) {
		return nil, taken, len(lines)
	}
	return f, taken, len(lines)
}

// takes is how many of lines are of format f. A line about no request is no proof.
func takes(f *Format, lines []string) int {
	p, n, l := NewParser(f, nil), 0, Line{}
	for _, text := range lines {
		if p.Parse(text, &l) == nil && (l.Client.IsValid() || l.Chain != "") {
			n++
		}
	}
	return n
}

// firstLines are the first whole lines of head; its last one if there is no other.
func firstLines(head string) []string {
	var lines []string
	for line := range strings.Lines(head) {
		if line = strings.TrimRight(line, "\r\n"); strings.TrimSpace(line) != "" {
			lines = append(lines, line)
		}
		if len(lines) == sampled {
			return lines
		}
	}
	if len(lines) > 1 && !strings.HasSuffix(head, "\n") {
		return lines[:len(lines)-1]
	}
	return lines
}
