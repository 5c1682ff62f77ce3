package respond

import (
	"encoding/json"
	"html"
	"strconv"
	"strings"

	"github.com/weirgate/weir"
)

// registry is where the problem types of the rate limit draft are.
const registry = "https://iana.org/assignments/http-problem-types#"

// appendProblem appends the problem document (RFC 9457).
func (r *Responder) appendProblem(b []byte, p *problem) []byte {
	b = append(b, `{"type":`...)
	b = r.appendType(b, p.name)
	b = append(b, `,"title":`...)
	b = appendJSON(b, p.title)
	b = append(b, `,"status":`...)
	b = strconv.AppendInt(b, int64(p.status), 10)
	b = append(b, `,"detail":`...)
	b = appendJSON(b, p.detail)
	if p.d != nil {
		b = appendExtensions(b, p)
	}
	return append(b, "}\n"...)
}

func (r *Responder) appendType(b []byte, name string) []byte {
	switch {
	case name == "":
		return append(b, `"about:blank"`...)
	case r.typeBase == "":
		b = append(append(b, '"'), registry...)
		return append(append(b, name...), '"')
	}
	return appendJSON(b, r.typeBase+name)
}

// appendExtensions appends what a refusal says beyond RFC 9457.
func appendExtensions(b []byte, p *problem) []byte {
	var few [8]*weir.Status
	tightest := tightestFirst(few[:0], p.d)
	if len(tightest) > 0 && !tightest[0].Allowed {
		b = append(b, `,"violated-policies":[`...)
		for i, s := range tightest {
			if s.Allowed {
				break
			}
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, s.Limit.Name)
		}
		b = append(b, `],"limit":`...)
		b = strconv.AppendInt(b, tightest[0].Limit.Max, 10)
	}
	if p.d.Rule != nil {
		b = append(b, `,"rule":`...)
		b = appendJSON(b, p.d.Rule.Name)
	}
	if incident := p.d.Inspection.Incident; incident != "" {
		b = append(b, `,"incident":`...)
		b = appendJSON(b, incident)
	}
	if p.wait > 0 {
		b = append(b, `,"retry_after":`...)
		b = strconv.AppendInt(b, p.wait, 10)
	}
	return b
}

// appendJSON appends s as a JSON string.
func appendJSON(b []byte, s string) []byte {
	if strings.IndexFunc(s, func(c rune) bool { return c < ' ' || c > '~' || c == '"' || c == '\\' }) < 0 {
		b = append(b, '"')
		b = append(b, s...)
		return append(b, '"')
	}
	quoted, _ := json.Marshal(s) // a string always can be
	return append(b, quoted...)
}

// appendPage appends the problem as a page without anything from elsewhere.
func appendPage(b []byte, p *problem) []byte {
	title := html.EscapeString(strconv.Itoa(p.status) + " " + p.title)
	b = append(b, `<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">`...)
	b = append(b, `<title>`+title+`</title></head><body><h1>`+title+`</h1><p>`...)
	b = append(b, html.EscapeString(p.detail)...)
	if p.d != nil && p.d.Inspection.Incident != "" {
		b = append(b, "</p><p>Incident "+p.d.Inspection.Incident...)
	}
	return append(b, "</p></body></html>\n"...)
}
