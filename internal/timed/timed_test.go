package timed

import (
	"testing"
	"time"
)

// Where nobody asks, a test of a speed is skipped and every bound is generous; where somebody does, neither.
func TestAsked(t *testing.T) {
	for _, c := range []struct {
		asks    string
		skipped bool
		short   time.Duration // what a second becomes
		long    time.Duration // what an hour becomes
	}{
		{"", true, patience, time.Hour},
		{"0", true, patience, time.Hour},
		{"1", false, time.Second, time.Hour},
	} {
		t.Run("asks="+c.asks, func(t *testing.T) {
			t.Setenv(Asks, c.asks)
			skipped := false
			t.Run("only", func(t *testing.T) {
				defer func() { skipped = t.Skipped() }()
				Only(t)
			})
			if skipped != c.skipped || Bound(time.Second) != c.short || Bound(time.Hour) != c.long {
				t.Errorf("skipped %v, a second becomes %v, an hour %v", skipped, Bound(time.Second), Bound(time.Hour))
			}
		})
	}
}
