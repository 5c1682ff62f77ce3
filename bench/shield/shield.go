// Package shield measures what it costs to inspect a request: by either of Weir's rule sets, and by Coraza
// with the OWASP Core Rule Set as they come.
package shield

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/bench/report"
	"github.com/weirgate/weir/bench/rounds"
)

// Options say how long to measure.
type Options struct {
	Rounds int
	Slot   time.Duration // of one contender in one round
}

// workers is how many ask at once where requests per second are measured.
const workers = 2

const note = "One request inspected in this process: bytes of a body read, texts taken out, rules asked. The verdict is checked: all pass. " +
	"Stock is Coraza with the Core Rule Set as they come, request side only, without a server around it; it inspects in memory. `fast` is another rule set, that finds less: its ratio says what it costs, not that it does the same. " +
	"Processor time of one core (collection of garbage included), the quiet quarter of the rounds; with two workers the wall's, the best round. Ratios say how many times stock takes Weir's time, or how many times its requests Weir inspects: the median of the rounds'."

// Inspection measures both rule sets beside stock.
func Inspection(o Options) (report.Section, error) {
	s := report.Section{Title: "Inspecting one request", Note: note}
	b, err := newBench() // stock first, see there
	if err != nil {
		return s, err
	}
	defer b.close()
	for _, bar := range []struct {
		set  string
		what string
		us   float64
	}{
		{"fast", "plain GET", 10}, {"fast", "1 KB of JSON", 60},
		{"crs", "plain GET", 10}, {"crs", "other GET", 700}, {"crs", "1 KB of JSON", 1500}, {"crs", "100 KB of JSON", 60_000},
	} {
		t := rounds.Run(o.Rounds, o.Slot, []rounds.Contender{b.weir(bar.set, bar.what), b.stock(bar.what)})
		us := t[0].NS / 1000
		s.Checks = append(s.Checks, report.Check{What: bar.set + ", " + bar.what, Measured: us, Unit: "µs", Beside: "stock " + report.Figure(t[1].NS/1000) + " µs",
			Ratio: rounds.Ratio(t[1].Rounds, t[0].Rounds), Bar: fmt.Sprintf("<= %v µs", bar.us), Met: us <= bar.us})
	}
	s.Checks = append(s.Checks, b.atOnce(o, "crs", 5), b.atOnce(o, "fast", 0))
	for _, c := range s.Checks {
		s.Peers = append(s.Peers, report.Peer{Name: "stock", What: c.What, Cost: c.Ratio})
	}
	return s, nil
}

// atOnce measures how many requests of 1 KB of JSON workers get through. least is how many times stock's
// rate is wanted; 0: no bar was set.
func (b *bench) atOnce(o Options, set string, least float64) report.Check {
	const what = "1 KB of JSON"
	var ours, theirs []float64
	for range o.Rounds {
		ours = append(ours, rate(o.Slot, b.weir(set, what)))
		theirs = append(theirs, rate(o.Slot, b.stock(what)))
	}
	c := report.Check{What: fmt.Sprintf("%s, %s, %d workers", set, what, workers), Measured: best(ours), Unit: "requests/s",
		Beside: "stock " + report.Figure(best(theirs)) + " requests/s", Ratio: rounds.Ratio(ours, theirs)}
	if least > 0 {
		c.Bar, c.Met = fmt.Sprintf(">= %v × stock", least), c.Ratio >= least
	}
	return c
}

func best(rates []float64) float64 {
	most := 0.0
	for _, r := range rates {
		most = max(most, r)
	}
	return most
}

// rate returns how often per second workers do it, each for at least the length of a slot.
func rate(slot time.Duration, c rounds.Contender) float64 {
	var done atomic.Int64
	var working sync.WaitGroup
	began := time.Now()
	for range workers {
		working.Go(func() {
			for time.Since(began) < slot {
				c.Do(1)
				done.Add(1)
			}
		})
	}
	working.Wait()
	return float64(done.Load()) / time.Since(began).Seconds()
}

// weir asks one of Weir's rule sets.
func (b *bench) weir(set, what string) rounds.Contender {
	in, w := b.requests[what], b.sets[set]
	return rounds.Contender{Name: set, Do: func(n int) {
		var r weir.Inspection
		for range n {
			if w.Inspect(context.Background(), &in, &r); r.Verdict != weir.Clean && r.Verdict != weir.Plain {
				panic(fmt.Sprintf("%s, %s: %+v", set, what, r))
			}
		}
	}}
}
