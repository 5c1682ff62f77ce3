package replay

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// After a settlement the tally has every decision so far, however full the sheet is, and its limits have what
// their own requests asked.
func TestSettled(t *testing.T) {
	s := newTestSide(t, `
rules:
  - {name: two, path: /two, limits: [{name: m, rate: 1000/1m}, {name: h, rate: 1000/1h}]}
default: {limits: []}`)
	asked := map[string]int64{"m": 0, "h": 0}
	made := int64(0)
	for _, n := range []int{0, 1, sheetNotes - 1, 1, sheetNotes, 0, sheets*sheetNotes + 3} {
		for range n {
			path := "/"
			if made++; made%3 == 0 {
				path = "/two"
				asked["m"]++
				asked["h"]++
			}
			decideOne(t, s, fmt.Sprintf("10.0.%d.%d", made>>8, made&255), path, 200, made)
		}
		s.scribe.settle()
		if s.tally.total.Requests != made || int64(s.tally.clients.n) != made {
			t.Errorf("after %d: %d requests of %d clients", made, s.tally.total.Requests, s.tally.clients.n)
		}
	}
	got := map[string]int64{}
	for l, u := range s.tally.limits {
		got[l.Name] = u.asked
	}
	if diff := cmp.Diff(asked, got); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

// A note keeps nothing of a decision, which is used again: clients are called by their own names, refusals are theirs.
func TestNotesAreCopies(t *testing.T) {
	s := newTestSide(t, "default: {limits: [{rate: 1/1h}]}")
	for i := range 6 {
		decideOne(t, s, fmt.Sprintf("10.9.0.%d", i%3), "/", 200, int64(i))
	}
	var got []string
	for _, h := range s.report().Clients.List {
		got = append(got, fmt.Sprintf("%s %s %d at %d", h.Client, h.Rule, h.Refused, h.First.Unix()))
	}
	want := []string{"10.9.0.0/32 default 1 at 3", "10.9.0.1/32 default 1 at 4", "10.9.0.2/32 default 1 at 5"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
