package shield

import (
	"testing"
	"time"
)

// The section measures what it says: a verdict that is not a pass panics.
func TestInspectionMeasures(t *testing.T) {
	s, err := Inspection(Options{Rounds: 1, Slot: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range s.Checks {
		if c.Measured <= 0 || c.Ratio <= 0 || c.Beside == "" {
			t.Errorf("%+v", c)
		}
	}
	if len(s.Checks) != 8 {
		t.Errorf("%d checks", len(s.Checks))
	}
}
