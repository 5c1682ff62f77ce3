// Package mark tells the service behind Weir what was decided about a request that passed, by header
// fields, and finds what poses as such a field.
package mark

import (
	"strings"
	"unicode"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/respond"
)

// A Field is a header field with one value.
type Field struct{ Name, Value string }

const (
	shadowName = "X-Weir-Shadow"
	keyName    = "X-Weir-Key-Id"
	planName   = "X-Weir-Plan"
	ownPrefix  = "x-weir-"
)

// Fields returns what the service is told of d: whose API key or token the request bears and its plan, which
// shadow limits would have refused, and the rule's tag. There is nothing to tell of most.
func Fields(d *weir.Decision) []Field {
	var fields []Field
	for _, f := range [...]Field{{keyName, d.Client.APIKey}, {planName, d.Client.Plan}} {
		if f.Value != "" && isPrintable(f.Value) {
			fields = append(fields, f)
		}
	}
	if shadow := respond.ShadowRefusals(d); shadow != nil {
		fields = append(fields, Field{shadowName, strings.Join(shadow, ", ")})
	}
	if d.Action == weir.Tag && tagName(d) != "" {
		fields = append(fields, Field{tagName(d), tag(d)})
	}
	return fields
}

// isPrintable reports whether a value, which the claim of a token may be, can stand in a field (RFC 9110 section
// 5.5).
func isPrintable(value string) bool {
	return strings.IndexFunc(value, unicode.IsControl) < 0
}

// tag returns the limits that were passed, or the reason where there is none.
func tag(d *weir.Decision) string {
	var names []string
	for i := range d.Statuses {
		if s := &d.Statuses[i]; !s.Allowed && s.Limit.Mode == weir.Enforce {
			names = append(names, s.Limit.Name)
		}
	}
	if names == nil {
		return string(d.Reason)
	}
	return strings.Join(names, ", ")
}

func tagName(d *weir.Decision) string {
	if d.Rule == nil {
		return ""
	}
	return d.Rule.TagHeader
}

// Posers returns the names in header that some servers read as X-Weir-… or as the tag of d's rule: in any
// case, and with '_' or '.' for '-'.
func Posers(header map[string][]string, d *weir.Decision) []string {
	var names []string
	for name := range header {
		if poses(name, tagName(d)) {
			names = append(names, name)
		}
	}
	return names
}

func poses(name, tag string) bool {
	return len(name) >= len(ownPrefix) && weir.SameField(name[:len(ownPrefix)], ownPrefix) || tag != "" && weir.SameField(name, tag)
}
