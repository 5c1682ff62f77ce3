package limiters

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/weirgate/weir/bench/report"
	"github.com/weirgate/weir/bench/rounds"
)

// Options say how long to measure.
type Options struct {
	Rounds  int
	Slot    time.Duration // of one contender in one round
	Expire  time.Duration // how long keys are watched expiring
	Repeats int           // of what is watched
}

// A load is a way to ask.
type load struct {
	name string
	cpus int
}

func (l load) String() string { return fmt.Sprintf("%s, %d CPU", l.name, l.cpus) }

// figure is what is shown of x.
func (l load) figure(x speeds) float64 {
	if l.cpus == 1 {
		return rounds.Quiet(x.ns)
	}
	return slices.Min(x.ns)
}

func (l load) ratio(a, b speeds) float64 {
	if l.cpus == 1 {
		return rounds.Ratio(a.ns, b.ns)
	}
	return l.figure(a) / l.figure(b)
}

// loads returns the loads of the machine, those of one key first.
func loads() (all []load) {
	for _, name := range []string{"hot", "refused", "uniform", "zipf"} {
		for cpus := 1; cpus <= min(2, runtime.NumCPU()); cpus++ {
			all = append(all, load{name, cpus})
		}
	}
	return all
}

// Speed measures the time of one decision.
func Speed(o Options) (report.Section, error) {
	s := report.Section{Title: "One decision in this process", Note: speedNote}
	children, err := startAll(names())
	defer func() {
		for _, c := range children {
			c.stop()
		}
	}()
	if err != nil {
		return s, err
	}
	times := map[load][]speeds{}
	for _, l := range loads() {
		if times[l], err = race(children, l, o); err != nil {
			return s, err
		}
	}
	s.Tables, s.Peers = []report.Table{speedTable(times)}, speedPeers(times)
	s.Checks = slices.Concat(absoluteChecks(times), aheadChecks(times, weirName))
	return s, nil
}

const speedNote = "Nanoseconds per decision of a store or limiter alone: processor time with one caller, wall time over the " +
	"decisions of all callers with two, whose figure is the quietest round, since strangers may take a processor any time. One client's key under its limit (hot) or over it (refused), or 1,000,000 clients' keys. " +
	"Peers read the clock themselves: most by time.Now, as `" + wallName + "` does; go-limiter by the runtime's monotonic " +
	"clock alone. `" + weirName + "` is compared, which reads it as Weir's engine does (engine.Clock). With one caller a figure is the quiet quarter of the rounds and the ratio the median of the rounds' ratios; " +
	"ratios are to Weir's. \"Nothing\" is what reading the keys costs, " +
	"and is part of every row."

func startAll(names []string) (children []*child, err error) {
	for _, name := range names {
		c, err := start(name)
		if err != nil {
			return children, err
		}
		children = append(children, c)
	}
	return children, nil
}

// speeds are one limiter's under one load, a figure for each round.
type speeds struct {
	ns     []float64
	allocs float64
	passed float64
}

// race lets the children decide in turns.
func race(children []*child, l load, o Options) ([]speeds, error) {
	for _, c := range children {
		if _, err := c.ask(job{What: "open", Load: l.name, CPUs: 2}); err != nil {
			return nil, err
		}
	}
	all := make([]speeds, len(children))
	for round := range o.Rounds + 1 {
		for i, c := range children {
			r, err := c.ask(job{What: "speed", CPUs: l.cpus, For: o.Slot})
			if err != nil {
				return nil, err
			}
			if round > 0 { // the first warms up
				all[i].ns = append(all[i].ns, r.NS)
				all[i].allocs, all[i].passed = r.Allocs, r.Passed
			}
		}
	}
	return all, nil
}

func speedTable(times map[load][]speeds) report.Table {
	t := report.Table{Head: []string{"limiter"}}
	for _, l := range loads() {
		t.Head = append(t.Head, l.String())
	}
	t.Head = append(t.Head, "allocations")
	for i, name := range names() {
		row := []string{name}
		allocs := 0.0
		for _, l := range loads() {
			x := times[l][i]
			row = append(row, fmt.Sprintf("%s (%.2f)", report.Figure(l.figure(x)), l.ratio(x, times[l][0])))
			allocs = max(allocs, x.allocs)
		}
		t.Rows = append(t.Rows, append(row, report.Figure(allocs)))
	}
	return t
}

// speedPeers are the peers beside Weir with the clock read.
func speedPeers(times map[load][]speeds) (peers []report.Peer) {
	for i, name := range names() {
		if i < len(ours()) {
			continue
		}
		for _, l := range loads() {
			peers = append(peers, report.Peer{Name: name, What: l.String(), Cost: l.ratio(times[l][i], times[l][0])})
		}
	}
	return peers
}

// Bars of the store's Take, in nanoseconds.
const (
	barClock  = 100 // with the clock read
	barPassed = 45  // with the time passed in
)

func absoluteChecks(times map[load][]speeds) (checks []report.Check) {
	hot, allocs := load{"hot", 1}, 0.0
	bars := map[string]float64{weirName: barClock, passedName: barPassed, wallName: barClock}
	for i, l := range ours() {
		bar, ok := bars[l.name]
		if !ok {
			continue
		}
		ns := hot.figure(times[hot][i])
		checks = append(checks, report.Check{What: "Take, hot key: " + l.name, Measured: ns, Unit: "ns", Bar: fmt.Sprintf("<= %v ns", bar), Met: ns <= bar})
		for _, x := range times {
			allocs = max(allocs, x[i].allocs)
		}
	}
	return append(checks, report.Check{What: "Take, any load: allocations", Measured: allocs, Bar: "0", Met: allocs == 0})
}

// aheadChecks compare a row of Weir's with the best peer under each load.
func aheadChecks(times map[load][]speeds, name string) (checks []report.Check) {
	row := slices.Index(names(), name)
	for _, l := range loads() {
		x, best := times[l], len(ours())
		for i := best; i < len(x); i++ {
			if l.figure(x[i]) < l.figure(x[best]) {
				best = i
			}
		}
		ratio := l.ratio(x[row], x[best])
		checks = append(checks, report.Check{
			What: name + ", ahead of every peer: " + l.String(), Measured: l.figure(x[row]), Unit: "ns",
			Beside: fmt.Sprintf("%s %s ns", names()[best], report.Figure(l.figure(x[best]))),
			Ratio:  ratio, Bar: "< 1", Met: ratio < 1,
		})
	}
	return checks
}
