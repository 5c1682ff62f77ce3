// Package timed keeps tests from judging by the clock, but where it was asked for: a machine with other things to
// do is late, and says nothing about what is tested. `make timed` asks, on a machine that is quiet.
package timed

import (
	"os"
	"testing"
	"time"
)

// Asks is the variable that is 1 where tests are to judge times.
const Asks = "WEIR_TIMED"

// patience is how long a promise is waited for where nobody judges how soon it is kept.
const patience = time.Minute

// Only skips a test that proves nothing but a speed.
func Only(t testing.TB) {
	t.Helper()
	if os.Getenv(Asks) != "1" {
		t.Skip("judges by the clock: make timed runs it, and so does " + Asks + "=1")
	}
}

// Bound is bound where times are judged, and otherwise long enough for any machine: what is promised has to happen
// all the same.
func Bound(bound time.Duration) time.Duration {
	if os.Getenv(Asks) != "1" {
		return max(bound, patience)
	}
	return bound
}
