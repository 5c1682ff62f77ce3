package respond

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
)

// A blocked asker is told an incident and nothing of what matched; one whose request cannot be inspected is told
// which bound was not kept.
func TestBlocks(t *testing.T) {
	match := weir.Match{Rule: "942100", Class: "sqli", Location: "query", Name: "q", Fragment: "1' OR", Score: 5}
	tests := []struct {
		reason weir.Reason
		status int
		found  weir.Inspection
		detail string
		close  bool
	}{
		{weir.AttackFound, 403, weir.Inspection{Verdict: weir.Blocked, Matches: []weir.Match{match}, Incident: "ABC"},
			"The request looks like an attack. If it is none, tell the service's operator the incident.", false},
		{weir.Uninspectable, 400, weir.Inspection{Verdict: weir.Blocked, Refused: "max_depth", Detail: "nested too deep", Incident: "ABC"},
			"The request cannot be inspected: max_depth: nested too deep.", false},
		{weir.NoInspector, 503, weir.Inspection{Verdict: weir.Blocked, Fault: "saturated"}, "The request cannot be inspected at the moment.", false},
		{weir.BodyTooLarge, 413, weir.Inspection{}, "The request body is larger than the service takes.", false},
		{weir.BodyTooSlow, 408, weir.Inspection{}, "The request body came too slowly.", true},
		{weir.BodyBroken, 400, weir.Inspection{}, "The request body is broken, or not as long as it said.", false},
	}
	for _, test := range tests {
		d := &weir.Decision{Inspection: test.found}
		d.Refuse(test.reason, test.status)
		a := refusal(t, Options{}, get(), d)
		body := a.Body.(map[string]any)
		incident, _ := body["incident"].(string)
		if a.Status != test.status || body["detail"] != test.detail || incident != test.found.Incident || (a.Header.Get("Connection") == "close") != test.close {
			t.Errorf("%s: got %+v", test.reason, a)
		}
		page, _ := refusal(t, Options{HTML: true}, get("Accept", "text/html"), d).Body.(string)
		if strings.Contains(page, "942100") || strings.Contains(page, "Incident "+test.found.Incident) != (test.found.Incident != "") {
			t.Errorf("%s: page %s", test.reason, page)
		}
	}
}

func TestViewOfAnInspection(t *testing.T) {
	d := &weir.Decision{Inspection: weir.Inspection{Verdict: weir.Detected, Ruleset: "crs", Inspected: "url+headers", Refused: "max_body", Incident: "ABC",
		Matches: []weir.Match{{Rule: "1"}, {Rule: "2"}, {Rule: "1"}}}}
	of := func(s string) *string { return &s }
	want := WAF{Verdict: "detect", Ruleset: of("crs"), Inspected: of("url+headers"), Rules: []string{"max_body", "1", "2"}, Incident: of("ABC")}
	if diff := cmp.Diff(want, View(d).WAF); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
