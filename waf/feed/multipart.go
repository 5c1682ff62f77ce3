package feed

import (
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strings"
)

// maxMultipart is how deep multipart bodies may nest.
const maxMultipart = 3

var (
	badMultipart  = &Refusal{"multipart", http.StatusBadRequest, "the body is not multipart as declared"}
	ambiguousPart = &Refusal{"multipart_header", http.StatusBadRequest, "a part's header has more than one reading"}
)

// multipart lists the fields of a multipart body, the names of its files in every reading, and the
// parts' header fields. What is in a file is not read.
func (f *Feed) multipart(boundary, body string, depth int) *Refusal {
	if depth > maxMultipart {
		return tooDeep
	}
	if !isFramed(boundary, body) {
		return badMultipart
	}
	r := multipart.NewReader(strings.NewReader(body), boundary)
	for {
		p, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return badMultipart
		}
		if refusal := f.part(p, depth); refusal != nil {
			return refusal
		}
	}
}

// isFramed reports whether body begins with its boundary and ends with the first closing one: what stands
// before or after is read by some and passed by others. PHP reads the parts after the closing one.
func isFramed(boundary, body string) bool {
	body = strings.Trim(body, " \t\r\n")
	end := "\n--" + boundary + "--"
	return boundary != "" && strings.HasPrefix(body, "--"+boundary) && strings.Index(body, end) == len(body)-len(end) || body == end[1:]
}

func (f *Feed) part(p *multipart.Part, depth int) *Refusal {
	for _, lines := range p.Header {
		if len(lines) > 1 {
			return ambiguousPart
		}
	}
	d, refusal := parseDisposition(p.Header)
	if refusal != nil {
		return refusal
	}
	for field, lines := range p.Header {
		if refusal := f.list(PartField, d.name, field+": "+lines[0]); refusal != nil {
			return refusal
		}
	}
	for _, name := range d.files {
		if refusal := f.list(File, d.name, name); refusal != nil {
			return refusal
		}
	}
	m, refusal := parseMedia(p.Header["Content-Type"])
	switch {
	case d.isFile && (refusal == nil || refusal == badCharset):
		return nil // the reader passes what is in it
	case refusal != nil:
		return refusal
	}
	var content strings.Builder
	if _, err := io.Copy(&content, p); err != nil {
		return badMultipart
	}
	if d.name == "" && m.kind == Binary && !isText(content.String()) {
		return nil // of multipart/related: no form has a field without a name
	}
	return f.field(d.name, m, content.String(), depth)
}

// field lists the content of a part that is no file.
func (f *Feed) field(name string, m media, content string, depth int) *Refusal {
	if name == "_charset_" && !isKnownCharset(content) {
		return badCharset // RFC 7578 section 4.6
	}
	switch m.kind {
	case MultiBody:
		return f.multipart(m.boundary, content, depth+1)
	case JSONBody:
		f.path = f.path[:0]
		f.enter(name)
		return f.jsonText(content)
	case XMLBody:
		return f.xml(content)
	}
	return f.list(Form, name, content)
}

// A disposition is how a part calls itself.
type disposition struct {
	name   string
	files  []string // every reading of the file's name
	isFile bool     // in every reading
}

// parseDisposition reads a part's Content-Disposition (RFC 7578 section 4.2, RFC 6266), and refuses what
// readers differ about: parameters given twice, continuations (RFC 2231), encoded content.
func parseDisposition(h textproto.MIMEHeader) (disposition, *Refusal) {
	switch strings.ToLower(strings.TrimSpace(h.Get("Content-Transfer-Encoding"))) {
	case "", "7bit", "8bit", "binary":
	default:
		return disposition{}, ambiguousPart
	}
	line := h.Get("Content-Disposition")
	if line == "" {
		return disposition{}, nil
	}
	params, ok := rawParams(line)
	if !ok {
		return disposition{}, ambiguousPart
	}
	d := disposition{name: params["name"]}
	if star, has := params["name*"]; has && d.name == "" {
		d.name = star
	}
	plain, hasPlain := params["filename"]
	star, hasStar := params["filename*"]
	d.isFile = hasPlain && plain != ""
	if hasPlain {
		d.files = append(d.files, plain)
	}
	if hasStar {
		_, encoded, _ := strings.Cut(star, "'")
		_, encoded, _ = strings.Cut(encoded, "'")
		d.files = append(d.files, Unescape(encoded))
	}
	return d, nil
}

// rawParams returns the parameters of a header field by their names in lower case, without decoding what
// RFC 2231 encodes; ok is false if a name comes twice or something cannot be read.
func rawParams(line string) (params map[string]string, ok bool) {
	params = map[string]string{}
	_, rest, _ := strings.Cut(line, ";")
	for rest = strings.TrimLeft(rest, " \t"); rest != ""; rest = strings.TrimLeft(rest, " \t") {
		name, after, found := strings.Cut(rest, "=")
		name = strings.ToLower(strings.TrimSpace(name))
		if _, twice := params[name]; twice || !found || strings.ContainsAny(name, "\"; ") || isContinuation(name) {
			return nil, false
		}
		value, after, ok := paramValue(strings.TrimLeft(after, " \t"))
		if !ok {
			return nil, false
		}
		params[name], rest = value, after
	}
	return params, true
}

// isContinuation reports whether name is one piece of a parameter (RFC 2231 section 3).
func isContinuation(name string) bool {
	_, piece, found := strings.Cut(name, "*")
	return found && piece != ""
}

// paramValue reads a token or quoted string and the semicolon after it.
func paramValue(text string) (value, rest string, ok bool) {
	if !strings.HasPrefix(text, `"`) {
		value, rest, _ = strings.Cut(text, ";")
		return strings.TrimSpace(value), rest, true
	}
	out := []byte{}
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			// Browsers send \ as it is and " as %22; others escape. Either way the next byte is not the end.
			if out = append(out, '\\'); i+1 < len(text) && text[i+1] == '"' {
				out[len(out)-1] = '"'
				i++
			}
		case '"':
			rest = strings.TrimLeft(text[i+1:], " \t")
			after, separated := strings.CutPrefix(rest, ";")
			return string(out), after, separated || rest == ""
		default:
			out = append(out, text[i])
		}
	}
	return "", "", false
}
