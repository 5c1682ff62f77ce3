package clientip

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Listed returns what the configuration lists in path, trusted_proxies or peers, each item as it is
// written in a YAML list. It serves the diagnosis, whose lines to paste hold what is there already.
func (r *Resolver) Listed() []string { return slices.Clone(r.listed) }

// text writes the hop as in a path.
func (h *Hop) text() string {
	if len(h.CIDRs) == 0 && h.Appends == nil && h.Header == "" {
		return scalar(h.Name)
	}
	fields := []string{"name: " + scalar(h.Name)}
	if len(h.CIDRs) > 0 {
		fields = append(fields, "cidrs: ["+strings.Join(scalars(h.CIDRs), ", ")+"]")
	}
	if h.Appends != nil {
		fields = append(fields, fmt.Sprintf("appends: %d", *h.Appends))
	}
	if h.Header != "" {
		fields = append(fields, "header: "+scalar(h.Header))
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

// plain is what YAML takes for a text without quotes.
var plain = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9-]*|[0-9]+(\.[0-9]+){3}(/[0-9]+)?)$`)

// scalar writes text as YAML reads it again.
func scalar(text string) string {
	if plain.MatchString(text) {
		return text
	}
	return strconv.Quote(text)
}

// scalars writes texts as items of a YAML list.
func scalars(texts []string) []string {
	list := make([]string, len(texts))
	for i, text := range texts {
		list[i] = scalar(text)
	}
	return list
}
