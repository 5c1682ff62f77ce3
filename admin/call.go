package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/weirgate/weir/internal/plain"
)

// A call is one request to the API.
type call struct {
	w     http.ResponseWriter
	r     *http.Request
	who   token
	query map[string]string // checked, with defaults filled in
}

// mostBody is the largest body of a request, in bytes.
const mostBody = 64 << 10

// operation serves one route.
func (s *Server) operation(rt *route) http.Handler {
	status := rt.status
	if status == 0 {
		status = http.StatusOK
	}
	return s.guarded(func(c *call) (any, error) {
		if rt.access == changes {
			if err := s.mayChange(c); err != nil {
				return nil, err
			}
		}
		err := rt.check(c.r)
		if err != nil {
			return nil, err
		}
		if c.query, err = rt.parse(c.r); err != nil {
			return nil, err
		}
		answer, err := rt.serve(s, c)
		if answer == nil || err != nil {
			return nil, err
		}
		writeJSON(c.w, status, answer)
		return nil, nil
	})
}

// guarded lets those through who may read, and answers for what they do not get.
func (s *Server) guarded(serve func(*call) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, mostBody)
		c := &call{w: w, r: r}
		err := s.admit(c)
		if err == nil {
			_, err = serve(c)
		}
		if err != nil {
			s.refuse(c, err)
		}
	})
}

// refuse answers with a problem document.
func (s *Server) refuse(c *call, err error) {
	var p *Problem
	if !errors.As(err, &p) {
		s.o.Log.Error("admin", "path", c.r.URL.Path, "err", err)
		p = problem(http.StatusInternalServerError, "failed", err.Error())
	}
	if p.Status == http.StatusUnauthorized {
		c.w.Header().Set("WWW-Authenticate", "Bearer")
	}
	c.w.Header().Set("Content-Type", "application/problem+json")
	writeJSON(c.w, p.Status, p)
}

func writeJSON(w http.ResponseWriter, status int, answer any) {
	h := w.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(plain.JSONTo(w)).Encode(answer) // whoever has gone needs no answer
}

func problem(status int, code, detail string) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Code: code}
}

func (p *Problem) Error() string { return p.Detail }

func notFound(detail string) error { return problem(http.StatusNotFound, "not_found", detail) }

func badRequest(format string, values ...any) error {
	return problem(http.StatusBadRequest, "bad_request", fmt.Sprintf(format, values...))
}

// check returns what is wrong with a request, its query and body apart. A body that is not said to be JSON is one that
// the form of a page could send.
func (rt *route) check(r *http.Request) error {
	kind := r.Header.Get("Content-Type")
	if kind != "" && r.Method != http.MethodGet && r.Method != http.MethodHead && !isJSON(kind) {
		return wantsJSON()
	}
	for _, name := range rt.names() {
		if !isText(r.PathValue(name)) {
			return badRequest("%s: %s", name, wantText)
		}
	}
	return nil
}

func isJSON(kind string) bool {
	kind, _, err := mime.ParseMediaType(kind)
	return err == nil && kind == "application/json"
}

func wantsJSON() error {
	return problem(http.StatusUnsupportedMediaType, "bad_request", "want Content-Type: application/json")
}

// isText reports whether a value can be kept, shown and asked a database for.
func isText(value string) bool {
	return utf8.ValidString(value) && !strings.ContainsFunc(value, unicode.IsControl)
}

const wantText = "want text in UTF-8 without control characters"

// parse returns the query with defaults filled in. What is not known is an error.
func (rt *route) parse(r *http.Request) (map[string]string, error) {
	given, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badRequest("query: %s", cut(err.Error()))
	}
	query := map[string]string{}
	for _, p := range rt.query {
		value, err := p.value(given[p.name])
		if err != nil {
			return nil, err
		}
		query[p.name] = value
		delete(given, p.name)
	}
	for name := range given {
		return nil, badRequest("%s: no such parameter", cut(name))
	}
	return query, nil
}

// value returns what was given, or the default.
func (p *parameter) value(given []string) (string, error) {
	switch {
	case len(given) > 1:
		return "", badRequest("%s: given %d times", p.name, len(given))
	case len(given) == 0 && p.enum != nil:
		return p.enum[0], nil
	case len(given) == 0 && p.number != nil:
		return strconv.Itoa(p.number.otherwise), nil
	case len(given) == 0:
		return "", nil
	case p.enum != nil && !slices.Contains(p.enum, given[0]):
		return "", badRequest("%s: %s: want one of %s", p.name, cut(given[0]), strings.Join(p.enum, ", "))
	case p.number != nil:
		if n, err := strconv.Atoi(given[0]); err != nil || n < p.number.least || n > p.number.most {
			return "", badRequest("%s: %s: want %d to %d", p.name, cut(given[0]), p.number.least, p.number.most)
		}
	case len(given[0]) > mostText:
		return "", badRequest("%s: longer than %d bytes", p.name, mostText)
	case !isText(given[0]):
		return "", badRequest("%s: %s", p.name, wantText)
	}
	return given[0], nil
}

// mostText is the longest text of a query, in bytes.
const mostText = 200

// number returns a parameter that is one.
func (c *call) number(name string) int {
	n, _ := strconv.Atoi(c.query[name]) // it was checked
	return n
}

// read decodes the body, strictly. Without a body v stays what it is.
func (c *call) read(v any) error {
	if c.r.ContentLength == 0 {
		return nil
	}
	if !isJSON(c.r.Header.Get("Content-Type")) {
		return wantsJSON()
	}
	text, err := io.ReadAll(c.r.Body)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return problem(http.StatusRequestEntityTooLarge, "too_large", fmt.Sprintf("want at most %d bytes", mostBody))
	case err == nil:
		err = decode(text, v)
	}
	if err != nil {
		return badRequest("body: %s", cut(err.Error()))
	}
	return nil
}

// cut returns the beginning of a stranger's text.
func cut(text string) string { return strings.ToValidUTF8(text[:min(len(text), mostText)], "\uFFFD") }
