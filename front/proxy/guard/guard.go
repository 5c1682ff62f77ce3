// Package guard refuses HTTP/1 requests that two parsers could read differently, before net/http
// sees them whole.
//
// net/http accepts a bare LF as a line end, folded header lines, Content-Length beside chunked and
// equal repeats of Content-Length. A more literal upstream, or a proxy in front, may find another end
// of such a request, and the bytes behind it are then a request that nobody counted. A [Conn] follows
// the framing of every request on a connection (RFC 9112 sections 2 to 7) as strictly as the grammar
// allows, in place, and keeps back whatever is ambiguous.
//
// It turns itself off for HTTP/2, whose frames have one reading only, and once a connection has
// changed to another protocol.
package guard

import (
	"fmt"
	"net/http"
)

// A Fault is what is wrong with the bytes of a request.
type Fault uint8

const (
	None Fault = iota
	BadRequestLine
	BareLF
	BareCR
	Folded
	BadFieldName
	BadFieldValue
	RepeatedLength
	BadLength
	RepeatedCoding
	BadCoding
	LengthAndCoding
	CodingInHTTP10
	FramingInTrailer
	BadChunk
	HeaderTooLarge
	HeaderTooSlow
)

var faultNames = [...]string{
	"nothing",
	"the request line is not METHOD TARGET HTTP/1.0 or HTTP/1.1",
	"a line ends with LF alone",
	"a CR stands without LF",
	"a header line is folded",
	"a field name has a character that names cannot have, or none at all",
	"a field value has a control character",
	"Content-Length is repeated",
	"Content-Length is not a number",
	"Transfer-Encoding is repeated",
	"Transfer-Encoding is not chunked",
	"Content-Length stands beside Transfer-Encoding",
	"Transfer-Encoding stands in an HTTP/1.0 request",
	"a trailer field frames the message",
	"a chunk is malformed",
	"the header is too large",
	"the header came too slowly",
}

func (f Fault) String() string { return faultNames[f] }

// Status returns the HTTP status that f is answered with.
func (f Fault) Status() int {
	switch f {
	case HeaderTooLarge:
		return http.StatusRequestHeaderFieldsTooLarge
	case HeaderTooSlow:
		return http.StatusRequestTimeout
	}
	return http.StatusBadRequest
}

// An Error is a fault found in a request body whose header had passed already. The reader of the body
// gets it.
type Error struct{ Fault Fault }

func (e *Error) Error() string { return "request body: " + e.Fault.String() }

// answer returns the whole HTTP/1 answer to f: a problem document (RFC 9457).
func answer(f Fault) []byte {
	status := f.Status()
	body := fmt.Sprintf(`{"type":"about:blank","title":%q,"status":%d,"detail":%q}`+"\n", http.StatusText(status), status, f)
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\n"+
		"Cache-Control: no-store\r\nConnection: close\r\n\r\n%s", status, http.StatusText(status), len(body), body)
}
