package accesslog

import (
	"errors"
	"fmt"
	"strings"
)

// A pattern is a line with named fields: {client} - {-} [{time}] "{request}". A field reaches to the
// next place where the text that follows it stands; in quotes, to the first quote that is not
// escaped. Nothing may be left at the end.
type pattern struct {
	lead   string // before the first field
	steps  []step
	escape escape
	begin  func(string) (string, error) // finds where the line begins; nil: at its start
}

// A step is a field and the text that ends it.
type step struct {
	field  field
	header string // its name, if field is header
	until  string // empty: the end of the line
	quoted bool
}

var errShape = errors.New("not of this format")

func (p *pattern) read(text string, s *scratch) (err error) {
	if p.begin != nil {
		if text, err = p.begin(text); err != nil {
			return err
		}
	}
	rest, ok := strings.CutPrefix(text, p.lead)
	if !ok {
		return errShape
	}
	s.escape = p.escape
	for i := range p.steps {
		st := &p.steps[i]
		at := st.ends(rest)
		if at < 0 {
			return errShape
		}
		value := rest[:at]
		rest = rest[at+len(st.until):]
		if st.field == header {
			s.setHeader(st.header, s.escape.undo(value))
		} else if err := s.set(st.field, value); err != nil {
			return err
		}
	}
	if rest != "" {
		return errShape
	}
	return nil
}

// ends returns where the field that text begins with ends, or -1.
func (st *step) ends(text string) int {
	switch {
	case st.until == "":
		return len(text)
	case st.quoted:
		return endOfQuoted(text, st.until)
	case len(st.until) == 1:
		return strings.IndexByte(text, st.until[0])
	}
	return strings.Index(text, st.until)
}

// endOfQuoted returns where until, which begins with a quote, stands and the quote is not escaped. An
// unescaped quote that something else follows belongs to the field: not every server escapes them.
func endOfQuoted(text, until string) int {
	for from := 0; ; {
		at := strings.IndexByte(text[from:], '"')
		if at < 0 {
			return -1
		}
		at += from
		if !escapedAt(text, at) && strings.HasPrefix(text[at:], until) && (len(until) > 1 || at+1 == len(text)) {
			return at
		}
		from = at + 1
	}
}

// escapedAt reports whether an odd number of backslashes stands before text[at].
func escapedAt(text string, at int) bool {
	n := 0
	for at > n && text[at-n-1] == '\\' {
		n++
	}
	return n%2 == 1
}

// parsePattern compiles a pattern and says what its lines have.
func parsePattern(text string, e escape) (*pattern, Has, error) {
	p, has := &pattern{escape: e}, Has{}
	before, rest, more := strings.Cut(text, "{")
	p.lead = before
	for more {
		name, tail, closed := strings.Cut(rest, "}")
		if !closed {
			return nil, has, fmt.Errorf("a field is not closed by a brace in %q", rest)
		}
		f, head, err := fieldOf(name)
		if err != nil {
			return nil, has, err
		}
		st := step{field: f, header: head}
		st.until, rest, more = strings.Cut(tail, "{")
		st.quoted = strings.HasSuffix(before, `"`) && strings.HasPrefix(st.until, `"`)
		before = st.until
		if more && st.until == "" {
			return nil, has, fmt.Errorf("nothing stands between {%s} and the next field", name)
		}
		p.steps = append(p.steps, st)
		has.add(f, head)
	}
	return p, has, has.enough()
}

// fieldOf returns the field of that name, and of header:NAME the canonical name.
func fieldOf(name string) (f field, head string, err error) {
	if head, ok := strings.CutPrefix(name, "header:"); ok && head != "" {
		return header, canonical(head), nil
	}
	f, ok := names[name]
	if !ok {
		return skip, "", fmt.Errorf("{%s} is no field: want one of %s, or {-} for what is not needed", name, fieldNames)
	}
	return f, "", nil
}

const fieldNames = "{client} {from} {chain} {time} {start} {duration} {duration_ms} {duration_us} {duration_ns} " +
	"{request} {method} {path} {query} {host} {status} {bytes} {header:NAME}"

// add notes that f is one of the fields.
func (h *Has) add(f field, head string) {
	switch f {
	case start:
		h.Start = true
	case seconds, latency, millis, micros, nanos, timers:
		h.Duration = true
	case host:
		h.Host = true
	case status:
		h.Status = true
	case header:
		h.Headers = append(h.Headers, head)
	}
	h.seen |= 1 << f
}

// enough returns what is missing in a format that can be replayed.
func (h *Has) enough() error {
	one := func(fields ...field) bool {
		for _, f := range fields {
			if h.seen&(1<<f) != 0 {
				return true
			}
		}
		return false
	}
	switch {
	case !one(client, clientPort, from, chain):
		return errors.New("the format has no {client}")
	case !one(start, end):
		return errors.New("the format has no {time} and no {start}")
	case !one(request) && !(one(method) && one(target)):
		return errors.New("the format has no {request}, nor {method} and {path}")
	}
	if one(end) && (h.Duration || h.Start) {
		h.Duration, h.Start = true, true
	}
	return nil
}
