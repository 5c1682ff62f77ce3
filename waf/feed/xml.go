package feed

import (
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"strings"
)

var (
	badXML  = &Refusal{"xml", http.StatusBadRequest, "the body is not XML"}
	doctype = &Refusal{"xml_doctype", http.StatusBadRequest, "a document type is declared"}
)

// xml lists the texts and attributes of an XML document. One that declares a document type, and with it
// entities of its own, is refused.
func (f *Feed) xml(body string) *Refusal {
	d := xml.NewDecoder(strings.NewReader(body))
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil } // judged below
	depth := 0
	for {
		token, err := d.RawToken()
		if errors.Is(err, io.EOF) && depth == 0 {
			return nil
		}
		if err != nil {
			return badXML
		}
		switch token.(type) {
		case xml.StartElement:
			depth++
		case xml.EndElement:
			depth--
		}
		if depth > f.limits.Depth {
			return tooDeep
		}
		if refusal := f.xmlToken(token); refusal != nil {
			return refusal
		}
	}
}

func (f *Feed) xmlToken(token xml.Token) *Refusal {
	switch token := token.(type) {
	case xml.StartElement:
		for _, a := range token.Attr {
			if refusal := f.add(Attr, a.Name.Local, a.Value); refusal != nil {
				return refusal
			}
		}
	case xml.CharData:
		if text := strings.TrimSpace(string(token)); text != "" {
			return f.add(Element, "xml", text)
		}
	case xml.Comment:
		return f.add(Element, "xml", string(token))
	case xml.Directive:
		return doctype
	case xml.ProcInst:
		if token.Target == "xml" && !hasKnownEncoding(string(token.Inst)) {
			return badCharset
		}
	}
	return nil
}

// hasKnownEncoding reports whether an XML declaration names no encoding that is not inspected.
func hasKnownEncoding(declaration string) bool {
	_, after, found := strings.Cut(declaration, "encoding")
	if !found {
		return true
	}
	after = strings.TrimLeft(after, " =\t")
	if after == "" || after[0] != '"' && after[0] != '\'' {
		return false
	}
	name, _, ended := strings.Cut(after[1:], after[:1])
	return ended && isKnownCharset(name)
}
