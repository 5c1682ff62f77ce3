package redis

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A deadline ends when its time is up and not before, however often it began and ended in time.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d deadline
		for range 3 {
			d.begin(15 * time.Millisecond)
			if at, ok := d.Deadline(); !ok || at != time.Now().Add(15*time.Millisecond) {
				t.Errorf("it ends at %v, want in 15 ms", at)
			}
			time.Sleep(15*time.Millisecond - 1)
			if err := d.Err(); err != nil {
				t.Errorf("a nanosecond before: %v", err)
			}
			if !d.again() {
				t.Error("it ended before its time")
			}
			time.Sleep(time.Second)
		}
		d.begin(15 * time.Millisecond)
		<-d.Done()
		if at, _ := d.Deadline(); at != time.Now() {
			t.Errorf("it ended at %v, want %v", time.Now(), at)
		}
		if d.again() || d.Err() != context.DeadlineExceeded {
			t.Errorf("%v after its end, want it to stay so", d.Err())
		}
	})
}

// A call that is answered in time costs no memory for its deadline.
func TestDeadlineCostsNothing(t *testing.T) {
	var d deadline
	d.begin(time.Minute)
	defer d.again()
	if n := testing.AllocsPerRun(100, func() {
		if !d.again() {
			t.Error("it ended")
		}
		d.begin(time.Minute)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
