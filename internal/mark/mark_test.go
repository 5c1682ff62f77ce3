package mark

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir"
)

func limit(name string, m weir.Mode) *weir.Limit { return &weir.Limit{Name: name, Mode: m} }

func TestFields(t *testing.T) {
	rule := &weir.Rule{TagHeader: "X-Over"}
	over := []weir.Status{{Limit: limit("a", weir.Enforce)}, {Limit: limit("b", weir.Enforce), Allowed: true}, {Limit: limit("c", weir.Enforce)}}
	shadows := []weir.Status{{Limit: limit("s", weir.Shadow)}, {Limit: limit("t", weir.Shadow)}, {Limit: limit("u", weir.Shadow), Allowed: true}}
	tests := map[string]struct {
		decision weir.Decision
		want     []Field
	}{
		"a pass":         {weir.Decision{Rule: rule}, nil},
		"a tag":          {weir.Decision{Rule: rule, Action: weir.Tag, Statuses: over}, []Field{{"X-Over", "a, c"}}},
		"a reason":       {weir.Decision{Rule: rule, Action: weir.Tag, Reason: weir.StoreFailed}, []Field{{"X-Over", "store failed"}}},
		"shadows":        {weir.Decision{Rule: rule, Statuses: shadows}, []Field{{"X-Weir-Shadow", "s, t"}}},
		"both":           {weir.Decision{Rule: rule, Action: weir.Tag, Statuses: slices.Concat(over, shadows)}, []Field{{"X-Weir-Shadow", "s, t"}, {"X-Over", "a, c"}}},
		"without a rule": {weir.Decision{Action: weir.Tag}, nil},
	}
	for name, test := range tests {
		if diff := cmp.Diff(test.want, Fields(&test.decision)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// CGI servers read '_' and '.' as '-', and know no case: what they would take for ours poses as it.
func TestPosers(t *testing.T) {
	header := map[string][]string{
		"X-Weir-Plan": nil, "x_weir_plan": nil, "X.Weir.": nil, "x-over": nil, "X_Over": nil, // posers
		"X-Weir": nil, "X-Weird": nil, "X-Overt": nil, "User-Agent": nil, "": nil,
	}
	for tag, want := range map[string][]string{
		"X-Over": {"X-Weir-Plan", "X.Weir.", "X_Over", "x-over", "x_weir_plan"},
		"":       {"X-Weir-Plan", "X.Weir.", "x_weir_plan"},
	} {
		got := Posers(header, &weir.Decision{Rule: &weir.Rule{TagHeader: tag}})
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("tag %q (-want +got):\n%s", tag, diff)
		}
	}
}

// Most requests bear nothing of the kind: then nothing is allocated.
func TestAllocations(t *testing.T) {
	d := weir.Decision{Rule: &weir.Rule{TagHeader: "X-Over"}, Statuses: []weir.Status{{Limit: limit("a", weir.Enforce), Allowed: true}}}
	header := map[string][]string{"User-Agent": nil, "Accept": nil}
	if n := testing.AllocsPerRun(100, func() { _, _ = Fields(&d), Posers(header, &d) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
