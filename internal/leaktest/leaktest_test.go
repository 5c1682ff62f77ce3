package leaktest

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// What ends later than the library's own check waits for is no leak.
func TestWhatEndsSoonIsNotLeft(t *testing.T) {
	before := goleak.IgnoreCurrent()
	go time.Sleep(time.Second)
	if code := judge(func() error { return goleak.Find(before) }); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}
