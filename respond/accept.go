package respond

import (
	"strconv"
	"strings"
)

// prefersHTML reports whether the Accept lines give a page more weight than a problem document (RFC
// 9110, section 12.5.1). An asker that takes anything gets the document.
func prefersHTML(accept []string) bool {
	page := weight{kind: "text", sub: "html"}
	document := weight{kind: "application", sub: "problem+json"}
	plain := weight{kind: "application", sub: "json"}
	for _, line := range accept {
		for len(line) > 0 {
			var item string
			item, line, _ = strings.Cut(line, ",")
			kind, sub, q := mediaRange(item)
			page.see(kind, sub, q)
			document.see(kind, sub, q)
			plain.see(kind, sub, q)
		}
	}
	return page.q > max(document.q, plain.q)
}

// A weight is what the most specific media range says of one media type.
type weight struct {
	kind, sub   string
	specificity int // 1: any type, 2: any subtype, 3: this very type
	q           float64
}

func (w *weight) see(kind, sub string, q float64) {
	specificity := 0
	switch {
	case strings.EqualFold(kind, w.kind) && strings.EqualFold(sub, w.sub):
		specificity = 3
	case strings.EqualFold(kind, w.kind) && sub == "*":
		specificity = 2
	case kind == "*" && sub == "*":
		specificity = 1
	}
	if specificity > w.specificity {
		w.specificity, w.q = specificity, q
	}
}

// mediaRange reads type/subtype;parameters;q=weight. What is not a weight counts as 1.
func mediaRange(item string) (kind, sub string, q float64) {
	name, parameters, _ := strings.Cut(item, ";")
	kind, sub, _ = strings.Cut(strings.TrimSpace(name), "/")
	q = 1
	for len(parameters) > 0 {
		var parameter string
		parameter, parameters, _ = strings.Cut(parameters, ";")
		key, value, _ := strings.Cut(strings.TrimSpace(parameter), "=")
		if !strings.EqualFold(key, "q") {
			continue
		}
		if n, err := strconv.ParseFloat(value, 64); err == nil && n >= 0 && n <= 1 {
			q = n
		}
	}
	return kind, sub, q
}
