package respond

import (
	"strings"
	"testing"
)

func TestPrefersHTML(t *testing.T) {
	tests := []struct {
		accept []string
		want   bool
	}{
		{nil, false},
		{[]string{"*/*"}, false},
		{[]string{"text/html"}, true},
		{[]string{"TEXT/HTML"}, true},
		{[]string{"text/*"}, true},
		{[]string{"text/html", "application/json"}, false}, // the same weight, in two lines
		{[]string{"text/html, application/json;q=0.9"}, true},
		{[]string{"text/html;q=0.5, application/json"}, false},
		{[]string{"text/html;q=0.5, application/problem+json;q=0.6"}, false},
		{[]string{"text/html;level=1;q=0.9, */*;q=0.8"}, true},
		{[]string{"text/html;q=0, */*"}, false},
		{[]string{"text/*;q=0.1, text/html;q=0.9, */*;q=0.5"}, true}, // the most specific range counts
		{[]string{"text/html;q=0.9, text/*;q=0.1, */*;q=0.5"}, true}, // wherever it stands
		{[]string{"application/*;q=0.2, text/html;q=0.3"}, true},
		{[]string{"text/html;q=nonsense, application/json"}, false},
		{[]string{"text/html;q=9"}, true}, // not a weight
		{[]string{",;,=,/"}, false},
	}
	for _, test := range tests {
		if got := prefersHTML(test.accept); got != test.want {
			t.Errorf("%q: got %v, want %v", test.accept, got, test.want)
		}
	}
}

// Adding anything that takes all document types at full weight never makes a page of an answer.
func FuzzPrefersHTML(f *testing.F) {
	f.Add("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")
	f.Add("a/b;q=;;,,text/html")
	f.Fuzz(func(t *testing.T, accept string) {
		with := strings.ReplaceAll(accept, "problem+json", "x") + ",application/problem+json;q=1"
		if prefersHTML([]string{with}) {
			t.Errorf("%q: page preferred", with)
		}
	})
}
