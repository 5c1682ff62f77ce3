package spoe

import (
	"net/http"
	"net/netip"
	"net/textproto"
	"strings"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/front/spoe/spop"
)

// Caps are the lengths, in bytes, at which HAProxy's configuration cuts an argument. One that came with
// that length or more was cut. Where a cap is 0 it is that of the files that are shipped.
type Caps struct {
	Method int // 32
	Path   int // 2048
	Query  int // 2048
	Host   int // 256
	Key    int // 256
	XFF    int // 128, of each
	Header int // 1024, of each hdr.NAME
}

func (c Caps) withDefaults() Caps {
	shipped := Caps{Method: 32, Path: 2048, Query: 2048, Host: 256, Key: 256, XFF: 128, Header: 1024}
	for _, pair := range []struct{ is, otherwise *int }{
		{&c.Method, &shipped.Method}, {&c.Path, &shipped.Path}, {&c.Query, &shipped.Query},
		{&c.Host, &shipped.Host}, {&c.Key, &shipped.Key}, {&c.XFF, &shipped.XFF}, {&c.Header, &shipped.Header},
	} {
		if *pair.is <= 0 {
			*pair.is = *pair.otherwise
		}
	}
	return c
}

// cutMark ends a value that was cut. No HTTP message holds it, so that nothing takes the value for a
// whole one: the path and the host are refused, the last entry of a chain is no address, a key is nobody's.
const cutMark = "\x00"

// messageName is the one message that is answered.
const messageName = "weir-check"

// An argumentReader turns messages into requests.
type argumentReader struct {
	caps      Caps
	keyHeader string // canonical
}

func newArgumentReader(o Options) argumentReader {
	return argumentReader{o.Caps, textproto.CanonicalMIMEHeaderKey(o.KeyHeader)}
}

// read fills req, whose header is an empty map, with the message among those of a payload, and returns
// who is connected to HAProxy. It reports whether there was such a message.
func (r *argumentReader) read(payload string, req *weir.Request) (src netip.Addr, asked bool, err error) {
	d := spop.Decode(payload)
	for d.More() {
		name := d.Text()
		asked = asked || name == messageName
		for range d.Byte() {
			argument, value := d.Text(), d.Value()
			if name != messageName {
				continue
			}
			if argument == "src" {
				src = weir.Canonical(value.Addr())
				continue
			}
			r.set(req, argument, value)
		}
	}
	complete(req)
	return src, asked, d.Err()
}

// set puts one argument where it belongs. Those that are not known are passed over, and those that are
// NULL were not in the request.
func (r *argumentReader) set(req *weir.Request, name string, v spop.Value) {
	if v.Kind == spop.Null {
		return
	}
	switch name {
	case "method":
		req.Method = whole(v.Text, r.caps.Method)
	case "path":
		req.Path = whole(v.Text, r.caps.Path)
	case "query":
		req.Query = whole(v.Text, r.caps.Query)
	case "host":
		req.Host = whole(v.Text, r.caps.Host)
	case "ssl":
		if v.Number == 1 {
			req.Scheme = "https"
		}
	case "xff":
		addLine(req.Header, "X-Forwarded-For", whole(v.Text, r.caps.XFF))
	case "key":
		addLine(req.Header, r.keyHeader, whole(v.Text, r.caps.Key))
	default:
		if header, ok := strings.CutPrefix(name, "hdr."); ok {
			addLine(req.Header, textproto.CanonicalMIMEHeaderKey(header), whole(v.Text, r.caps.Header))
		}
	}
}

// whole returns s, with the mark of a cut one if it is as long as its cap.
func whole(s string, limit int) string {
	if len(s) < limit {
		return s
	}
	return s + cutMark
}

// addLine adds a line to a header. A line that an empty header gets costs no memory but the map's.
func addLine(h http.Header, name, value string) {
	h[name] = append(h[name], value)
}

// complete gives a request without a path the one that it stands for: HAProxy finds none in the
// asterisk-form and the authority-form of a target (RFC 9112, section 3.2).
func complete(req *weir.Request) {
	switch {
	case req.Path != "":
	case req.Method == http.MethodOptions:
		req.Path = "*"
	default:
		req.Path = "/"
	}
}
