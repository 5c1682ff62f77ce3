// Package feed turns a request into the list of texts that rules inspect. It reads every body by
// parsers of its own or the standard library's, under bounds that are checked before anything is
// read deeper, and says by name which bound or form a request does not keep.
package feed

import (
	"net/http"
	"strings"
)

// A Part is where in a request a text was found.
type Part uint8

const (
	Path      Part = iota // the decoded path
	Query                 // a parameter of the query
	Header                // a header field
	Cookie                // one cookie
	Form                  // a parameter of a form, or a field of a multipart body
	JSON                  // a string in JSON
	Key                   // an object's key in JSON: the leaf's Name, without a value
	Text                  // a body that is text
	Literal               // a string or comment in a GraphQL document
	Element               // text in XML
	Attr                  // an attribute's value in XML
	File                  // the name of a file in a multipart body
	PartField             // a header field of a part of a multipart body, whole
)

var partNames = [...]string{"path", "query", "header", "cookie", "form", "json", "json", "text", "graphql", "xml", "xml", "file", "part"}

func (p Part) String() string { return partNames[p] }

// A Leaf is one text to inspect. Name is what the asker called it, and is to be inspected as well.
type Leaf struct {
	Part  Part
	Name  string
	Value string
}

// A Kind is what a body was read as.
type Kind uint8

const (
	NoBody    Kind = iota
	FormBody       // application/x-www-form-urlencoded
	JSONBody       // JSON
	JSONLines      // one JSON text after another
	MultiBody      // multipart
	XMLBody
	TextBody
	GraphBody // a GraphQL document alone
	Binary    // nothing of it was read
)

// Limits bound what one request may hold. A request past one is refused by the limit's name.
type Limits struct {
	Depth    int // of JSON, XML and GraphQL; multipart nests three deep whatever it says
	Values   int // pairs of a query or form, fields, and the strings in JSON that are to be inspected
	Bytes    int // of all leaves together: max_body for the fast rules, 128 KiB for the core rule set
	Inflated int // bytes of a compressed body
	// Thorough also lists what no rule at the lowest paranoia can match: numbers, short words, base64.
	Thorough bool
}

// A Source is a request to read. Body is as it was sent; compressed bodies are inflated here.
type Source struct {
	Path   string // as sent
	Query  string // as sent, without the question mark
	Header http.Header
	Body   []byte
}

// A Refusal says why a request cannot be inspected whole. The asker is at fault, never we.
type Refusal struct {
	Name   string // of the limit, or of the form that is not kept
	HTTP   int    // the status that answers it
	Detail string // bounded, and without a piece of the request
}

func (r *Refusal) Error() string { return r.Name + ": " + r.Detail }

// A Feed is what was read of one request. The zero Feed is ready; Reset makes it so again.
type Feed struct {
	Leaves []Leaf // of the body
	Kind   Kind
	Body   string // the body as inflated, if it is a form

	limits Limits
	values int
	bytes  int
	path   []byte // the name of the place in JSON or XML
	nested int    // JSON in strings of JSON
}

// Reset empties f and keeps its memory.
func (f *Feed) Reset() {
	clear(f.Leaves)
	*f = Feed{Leaves: f.Leaves[:0], path: f.path[:0]}
}

// Read fills f with the leaves of the request's body. After a refusal f holds those that came before.
func (f *Feed) Read(src *Source, limits Limits) *Refusal {
	f.limits = limits
	if refusal := countHead(src, limits.Values); refusal != nil {
		return refusal
	}
	if len(src.Body) == 0 {
		return nil
	}
	media, refusal := parseMedia(src.Header["Content-Type"])
	if refusal != nil {
		return refusal
	}
	body, refusal := inflate(src, media, limits.Inflated)
	if refusal != nil {
		return refusal
	}
	return f.read(media, body)
}

// maxFields bounds the lines of a header.
const maxFields = 500

// countHead counts the pairs of the query, the cookies and the header's lines.
func countHead(src *Source, most int) *Refusal {
	fields, cookies := 0, 0
	for _, lines := range src.Header {
		fields += len(lines)
	}
	for _, line := range src.Header["Cookie"] {
		cookies += 1 + strings.Count(line, ";")
	}
	switch {
	case fields > maxFields:
		return tooManyFields
	case cookies > most || strings.Count(src.Query, "&")+strings.Count(src.Query, ";") >= most:
		return tooMany
	}
	return nil
}

// read reads a body that is in the clear.
func (f *Feed) read(m media, body string) *Refusal {
	switch f.Kind = m.kind; m.kind {
	case FormBody:
		f.Body = body
		return f.form(Form, body)
	case JSONBody:
		return f.jsonText(body)
	case JSONLines:
		return f.jsonTexts(body)
	case MultiBody:
		return f.multipart(m.boundary, body, 1)
	case XMLBody:
		return f.xml(body)
	case GraphBody:
		if f.graphQL(body) {
			return nil
		}
		return f.add(Text, "body", body)
	case Binary:
		return f.sniff(body)
	}
	return f.text(body)
}

// text reads a body that is text, or JSON that nobody calls so.
func (f *Feed) text(body string) *Refusal {
	if looksLikeJSON(body) {
		before := *f
		if f.jsonTexts(body) == nil {
			f.Kind = JSONLines
			return nil
		}
		*f = before
	}
	if !isText(body) {
		f.Kind = Binary
		return nil
	}
	return f.add(Text, "body", body)
}

// sniff reads JSON that is called something else, and leaves everything else alone.
func (f *Feed) sniff(body string) *Refusal {
	if !looksLikeJSON(body) {
		return nil
	}
	before := *f
	if f.jsonText(body) != nil {
		*f = before
		return nil
	}
	f.Kind = JSONBody
	return nil
}

var (
	tooMany       = &Refusal{"max_values", http.StatusRequestEntityTooLarge, "more values than are inspected"}
	tooManyFields = &Refusal{"max_fields", http.StatusRequestHeaderFieldsTooLarge, "more header fields than are inspected"}
	tooLong       = &Refusal{"inspect_bytes", http.StatusRequestEntityTooLarge, "more text than is inspected"}
	tooDeep       = &Refusal{"max_depth", http.StatusBadRequest, "nested too deep"}
)

// add lists a leaf, unless no rule can match it.
func (f *Feed) add(part Part, name, value string) *Refusal {
	if f.skips(value) && (part != Form || f.skips(name)) {
		return nil
	}
	return f.list(part, name, value)
}

// skips reports whether text is left out.
func (f *Feed) skips(text string) bool { return !f.limits.Thorough && Plain(text) }

// list lists a leaf within the limits.
func (f *Feed) list(part Part, name, value string) *Refusal {
	f.values++
	f.bytes += len(value)
	if part == Form || part == Key {
		f.bytes += len(name)
	}
	switch {
	case f.values > f.limits.Values:
		return tooMany
	case f.bytes > f.limits.Bytes:
		return tooLong
	}
	f.Leaves = append(f.Leaves, Leaf{part, name, value})
	return nil
}
