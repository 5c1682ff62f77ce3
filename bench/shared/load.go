package shared

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirgate/weir/bench/rounds"
)

// A contender makes decisions through a server.
type contender struct {
	name   string
	decide func(i int) error // the i-th
}

// A figure is what a decision costs in the quiet quarter of the rounds, in microseconds.
type figure struct {
	wall, p50, p99, cpu float64
	walls               []float64 // of every round, in order
}

// perSecond is how many decisions a second those are.
func (f figure) perSecond() float64 { return 1e6 / f.wall }

// take has the contenders take turns, with that many callers at once.
func (o Options) take(cpu func() float64, callers int, contenders []contender) ([]figure, error) {
	samples := make([][4][]float64, len(contenders))
	for round := range o.Rounds + 1 {
		for i, c := range contenders {
			sample, err := load(cpu, callers, o.Slot, c.decide)
			if err != nil {
				return nil, err
			}
			for k := range sample {
				if round > 0 { // the first one warms up
					samples[i][k] = append(samples[i][k], sample[k])
				}
			}
		}
	}
	figures := make([]figure, len(contenders))
	for i, x := range samples {
		figures[i] = figure{rounds.Quiet(x[0]), rounds.Quiet(x[1]), rounds.Quiet(x[2]), rounds.Quiet(x[3]), x[0]}
	}
	return figures, nil
}

// load has callers decide for the time of slot. It returns, in microseconds, the wall's time for one
// decision, the median and the 99th percentile of the waits, and the server's processor time for one, of
// which cpu tells the sum in seconds.
func load(cpu func() float64, callers int, slot time.Duration, decide func(i int) error) (sample [4]float64, err error) {
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var group sync.WaitGroup
	waits := make([][]float64, callers)
	used, began := cpu(), time.Now()
	for c := range callers {
		group.Go(func() {
			for now := time.Now(); now.Sub(began) < slot; {
				if err := decide(int(next.Add(1))); err != nil {
					failed.Store(&err)
					return
				}
				end := time.Now()
				waits[c] = append(waits[c], float64(end.Sub(now).Nanoseconds())/1e3)
				now = end
			}
		})
	}
	group.Wait()
	took := time.Since(began)
	if e := failed.Load(); e != nil {
		return sample, *e
	}
	all := slices.Concat(waits...)
	slices.Sort(all)
	n := float64(len(all))
	return [4]float64{took.Seconds() * 1e6 / n, all[len(all)/2], all[len(all)*99/100], (cpu() - used) * 1e6 / n}, nil
}
