package road

import (
	"testing"
	"time"

	"github.com/weirgate/weir/bench/report"
)

// Each section measures what it says: a fault in it panics or is an error.
func TestSectionsMeasure(t *testing.T) {
	for name, measure := range map[string]func(Options) (report.Section, error){"decision": Decision, "client": Client, "policy": Policy} {
		s, err := measure(Options{Rounds: 1, Slot: time.Millisecond})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, c := range s.Checks {
			if c.Measured <= 0 {
				t.Errorf("%s: %s: %v %s", name, c.What, c.Measured, c.Unit)
			}
		}
	}
}
