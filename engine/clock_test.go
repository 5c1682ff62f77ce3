package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/internal/racing"
)

// The clock says what time.Now says, by the wall and by what has passed, just before it looks at the wall again,
// just then, and long afterwards.
func TestClockIsTimeNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, began := engine.Clock(), time.Now()
		for _, wait := range []time.Duration{0, 1, time.Second - 2, 1, 1, time.Second, time.Hour} {
			time.Sleep(wait)
			now, want := clock(), time.Now()
			if !now.Round(0).Equal(want.Round(0)) || now.Sub(began) != want.Sub(began) {
				t.Errorf("after a further %v it is %v, want %v", wait, now, want)
			}
		}
	})
}

// Callers at once, some of whom look at the wall, are told one time.
func TestClockForManyCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := engine.Clock()
		time.Sleep(time.Second)
		want, told := time.Now(), make(chan time.Time)
		for range 8 {
			go func() { told <- clock() }()
		}
		for range 8 {
			if got := <-told; !got.Equal(want) {
				t.Errorf("told %v, want %v", got, want)
			}
		}
	})
}

func TestClockAllocatesNothing(t *testing.T) {
	if racing.On {
		t.Skip("the race detector allocates")
	}
	clock := engine.Clock()
	if got := testing.AllocsPerRun(1000, func() { clock() }); got != 0 {
		t.Errorf("%v allocations, want 0", got)
	}
}

func BenchmarkClock(b *testing.B) {
	for name, now := range map[string]func() time.Time{"time.Now": time.Now, "Clock": engine.Clock()} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				now()
			}
		})
	}
}
