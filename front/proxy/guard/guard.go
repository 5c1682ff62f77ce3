// Package guard refuses HTTP/1 requests that two parsers could read differently, before net/http
// sees them whole.
//
// net/http accepts a bare LF as a line end, folded header lines, Content-Length beside chunked and
// equal repeats of Content-Length. A more literal upstream, or a proxy in front, may find another end
// of such a request, and the bytes behind it are then a request that nobody counted. A [Conn] follows
// the framing of every request on a connection (RFC 9112 sections 2 to 7) as strictly as the grammar
// allows, in place, and keeps back whatever is ambiguous. Where net/http itself refuses what is left,
// it answers in its place, so that every refusal is a problem document.
//
// HTTP/2 frames have one reading only; there it sees to it alone that a client does not send too many that
// bring nothing. It turns itself off once a connection has changed to another protocol.
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
	Invalid     // in the eyes of the server behind, which reads targets and hosts
	Expectation // other than 100-continue
	FrameFlood  // of HTTP/2; the connection is closed without an answer
)

var faults = [...]struct{ name, text string }{
	None:             {"none", "nothing"},
	BadRequestLine:   {"bad_request_line", "the request line is not METHOD TARGET HTTP/1.0 or HTTP/1.1"},
	BareLF:           {"bare_lf", "a line ends with LF alone"},
	BareCR:           {"bare_cr", "a CR stands without LF"},
	Folded:           {"folded", "a header line is folded"},
	BadFieldName:     {"bad_field_name", "a field name has a character that names cannot have, or none at all"},
	BadFieldValue:    {"bad_field_value", "a field value has a control character"},
	RepeatedLength:   {"repeated_length", "Content-Length is repeated"},
	BadLength:        {"bad_length", "Content-Length is not a number"},
	RepeatedCoding:   {"repeated_coding", "Transfer-Encoding is repeated"},
	BadCoding:        {"bad_coding", "Transfer-Encoding is not chunked"},
	LengthAndCoding:  {"length_and_coding", "Content-Length stands beside Transfer-Encoding"},
	CodingInHTTP10:   {"coding_in_http10", "Transfer-Encoding stands in an HTTP/1.0 request"},
	FramingInTrailer: {"framing_in_trailer", "a trailer field frames the message"},
	BadChunk:         {"bad_chunk", "a chunk is malformed"},
	HeaderTooLarge:   {"header_too_large", "the header is too large"},
	HeaderTooSlow:    {"header_too_slow", "the header came too slowly"},
	Invalid:          {"invalid", "the target is not valid, or there is not one valid Host"},
	Expectation:      {"expectation", "the expectation is not 100-continue"},
	FrameFlood:       {"frame_flood", "too many frames bring nothing"},
}

func (f Fault) String() string { return faults[f].text }

// Name returns f in one word, for metrics and logs.
func (f Fault) Name() string { return faults[f].name }

// Names returns the names of all faults.
func Names() []string {
	var names []string
	for _, f := range faults[None+1:] {
		names = append(names, f.name)
	}
	return names
}

// Status returns the HTTP status that f is answered with.
func (f Fault) Status() int {
	switch f {
	case HeaderTooLarge:
		return http.StatusRequestHeaderFieldsTooLarge
	case HeaderTooSlow:
		return http.StatusRequestTimeout
	case Expectation:
		return http.StatusExpectationFailed
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
