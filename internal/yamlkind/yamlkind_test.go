package yamlkind

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// Every kind has its words, and only true and false stand in them.
func TestOf(t *testing.T) {
	tests := map[string]string{
		"{a: b}":      "found a mapping",
		"[a]":         "found a list",
		"~":           "found no value",
		"true":        "found true",
		"17":          "found a number",
		"1.5":         "found a number",
		"secret":      "found text",
		`"17"`:        "found text",
		"2026-03-04":  "found text",
		"!mine value": "found the tag !MINE",
	}
	for text, want := range tests {
		var document yaml.Node
		if err := yaml.Unmarshal([]byte(text), &document); err != nil {
			t.Fatal(err)
		}
		if got := Of(document.Content[0], strings.ToUpper); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
