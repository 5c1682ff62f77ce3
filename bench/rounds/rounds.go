// Package rounds times contenders in turns, so that what else the machine does meets all of them alike.
package rounds

import (
	"math"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// A Contender is something that is done many times.
type Contender struct {
	Name string
	Do   func(n int) // n times
}

// A Timing is what one time of it costs.
type Timing struct {
	Name   string
	NS     float64   // of processor time: that of a quiet round
	Allocs float64   // objects
	Rounds []float64 // NS of every round, in order
}

// Run gives each contender a slot of about the given length in every round. One round before them warms
// up and finds how often each fits into its slot.
func Run(rounds int, slot time.Duration, contenders []Contender) []Timing {
	timings := make([]Timing, len(contenders))
	times := make([]int, len(contenders))
	for i, c := range contenders {
		times[i] = fit(c.Do, slot)
		timings[i].Name = c.Name
	}
	objects := make([]uint64, len(contenders))
	for range rounds {
		for i, c := range contenders {
			before, began := mallocs(), CPU()
			c.Do(times[i])
			timings[i].Rounds = append(timings[i].Rounds, float64(CPU()-began)/float64(times[i]))
			objects[i] += mallocs() - before
		}
	}
	for i := range timings {
		timings[i].NS = Quiet(timings[i].Rounds)
		timings[i].Allocs = Objects(objects[i], rounds*times[i])
	}
	return timings
}

// fit returns how many times of do fill the slot.
func fit(do func(int), slot time.Duration) int {
	for n := 1; ; n *= 2 {
		began := CPU()
		do(n)
		if took := CPU() - began; took > slot/4 {
			return max(1, int(float64(n)*float64(slot)/float64(took)))
		}
	}
}

// Objects returns how many there are per time. A few of the runtime's own come and go, so that less than
// a hundredth counts as none.
func Objects(objects uint64, times int) float64 {
	return math.Round(100*float64(objects)/float64(times)) / 100
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// CPU is the processor time that this process has used. Unlike the wall's it does not run while others
// have the processor.
func CPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it cannot fail for oneself
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Quiet returns the lower quartile: what a round shows in which strangers were quiet.
func Quiet(x []float64) float64 { return at(x, 4) }

// Median returns the middle one.
func Median(x []float64) float64 { return at(x, 2) }

func at(x []float64, part int) float64 {
	if len(x) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(x))
	return sorted[(len(sorted)-1)/part]
}

// Ratio returns the median of the rounds' ratios of a to b: both saw the same noise in a round.
func Ratio(a, b []float64) float64 {
	ratios := make([]float64, min(len(a), len(b)))
	for i := range ratios {
		ratios[i] = a[i] / b[i]
	}
	return Median(ratios)
}
