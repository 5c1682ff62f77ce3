package forwardauth

import (
	"bytes"
	"net/http"
	"strconv"
)

// A spelled answer is one for nginx, which understands 200, 401 and 403 alone and hands on no other part
// of an answer: a pass is a 200 and anything else a 403, with the answer spelled out in header fields
// from which nginx builds its own.
type spelled struct {
	http.ResponseWriter
	status int
	body   []byte
}

// WriteHeader keeps the status until send.
func (s *spelled) WriteHeader(status int) { s.status = status }

// Write keeps the body until send.
func (s *spelled) Write(b []byte) (int, error) {
	s.body = append(s.body, b...)
	return len(b), nil
}

const (
	// maxSpelled is how long a field may be, in bytes, and maxProblem the one that holds the body: nginx
	// takes a header of at most 4 KiB, and what is longer for a fault of Weir's.
	maxSpelled = 512
	maxProblem = 1 << 10
)

// spellings are fields under the names that nginx reads them by, so that a field of the same name from
// elsewhere is never taken for Weir's.
var spellings = [...]struct{ from, to string }{
	{"Retry-After", "X-Weir-Retry-After"},
	{"Ratelimit", "X-Weir-Ratelimit"},
	{"Ratelimit-Policy", "X-Weir-Ratelimit-Policy"},
}

// shorten cuts fields that are too long. What would mean something else when cut is left out.
func (s *spelled) shorten(h http.Header) {
	for name, lines := range h {
		switch {
		case len(lines) == 0 || len(lines[0]) <= maxSpelled:
		case name == "Ratelimit" || name == "Ratelimit-Policy":
			delete(h, name)
		default:
			lines[0] = lines[0][:maxSpelled]
		}
	}
}

// send writes the answer.
func (s *spelled) send() {
	h := s.Header()
	s.shorten(h)
	for _, n := range spellings {
		if lines := h[n.from]; lines != nil {
			h[n.to] = lines
		}
	}
	h["X-Weir-Status"] = []string{strconv.Itoa(s.status)}
	if s.status == http.StatusOK {
		s.ResponseWriter.WriteHeader(http.StatusOK)
		return
	}
	if problem := bytes.TrimSpace(s.body); len(problem) <= maxProblem {
		h["X-Weir-Problem"] = []string{string(problem)}
	}
	s.ResponseWriter.WriteHeader(http.StatusForbidden)
	_, _ = s.ResponseWriter.Write(s.body) // a proxy that is gone needs no answer
}
