// Package asked measures Weir where a proxy holds the request and asks: Envoy's rate limit service, nginx's
// auth_request and HAProxy's agent, each as a process beside the least that could stand in its place.
package asked

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/weirgate/weir/bench/process"
	"github.com/weirgate/weir/bench/report"
	"github.com/weirgate/weir/bench/rounds"
)

// Options say how long to measure.
type Options struct {
	Rounds int
	Slot   time.Duration // of one contender in one round; wrk takes whole seconds
}

const note = "Processor time of the process that is asked (`/proc/PID/stat`) per question, and questions per second; contenders take turns, " +
	"figures are of the quiet quarter of the rounds, ratios the median of the rounds' ratios. No process is bound to a processor, and all Go programs " +
	"have the same GOMAXPROCS: who asks, the proxy and the service behind it share the processors with what is asked. The bars of processor time " +
	"were set where the null service took 30 µs: 45 µs and 60 µs are 1.5 and 2 times that."

// Fronts measures all three. What is not installed is not measured, and the section says so.
func Fronts(o Options) (report.Section, error) {
	s := report.Section{Title: "Asked by a proxy", Note: note}
	dir, err := os.MkdirTemp("", "weir-bench-*")
	if err != nil {
		return s, err
	}
	defer os.RemoveAll(dir)
	h := &house{dir: dir, weir: filepath.Join(dir, "weir"), plain: filepath.Join(dir, "plain"), rls: filepath.Join(dir, "rls")}
	if err := h.build(); err != nil {
		return s, err
	}
	s.Note += h.buildPeers()
	for _, measure := range []func(*house, Options, *report.Section) error{rls, nginx, haproxy} {
		err := measure(h, o, &s)
		h.stop()
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

// A load is what was asked in one slot.
type load struct {
	questions, refused int
	took               time.Duration
	p99                float64 // µs; 0: not known
}

// A contender is a process that is asked.
type contender struct {
	name    string
	process *process.Process
	proxy   *process.Process // that holds the request; nil: none, or it is not measured
	refuses bool
	ask     func(slot time.Duration) (load, error)
}

// A cost is what one contender took, a figure for each round.
type cost struct {
	name      string
	us        []float64 // of processor time per question
	both      []float64 // the same, with the proxy's
	rate, p99 []float64 // questions per second; µs
}

// race has the contenders take turns, forwards and backwards. The first round warms up, and uses up what may
// pass.
func (o Options) race(contenders []contender) ([]cost, error) {
	costs := make([]cost, len(contenders))
	for round := range o.Rounds + 1 {
		for i := range contenders {
			if round%2 == 1 {
				i = len(contenders) - 1 - i
			}
			c := contenders[i]
			before, proxy := c.process.CPU(), c.ofProxy()
			l, err := c.ask(o.Slot)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			if round == 0 {
				continue
			}
			if want := map[bool]int{true: l.questions}[c.refuses]; l.refused != want {
				return nil, fmt.Errorf("%s: %d of %d questions were refused", c.name, l.refused, l.questions)
			}
			costs[i].add(l, c.process.CPU()-before, c.ofProxy()-proxy)
			costs[i].name = c.name
		}
	}
	return costs, nil
}

// ofProxy is the processor time that the proxy has used.
func (c *contender) ofProxy() time.Duration {
	if c.proxy == nil {
		return 0
	}
	return c.proxy.CPU()
}

func (c *cost) add(l load, used, byProxy time.Duration) {
	c.us = append(c.us, float64(used.Microseconds())/float64(l.questions))
	c.both = append(c.both, float64((used+byProxy).Microseconds())/float64(l.questions))
	c.rate = append(c.rate, float64(l.questions)/l.took.Seconds())
	c.p99 = append(c.p99, l.p99)
}

// fast is the rate of a quiet round: the upper quartile.
func (c *cost) fast() float64 {
	took := make([]float64, len(c.rate))
	for i, rate := range c.rate {
		took[i] = 1 / rate
	}
	return 1 / rounds.Quiet(took)
}

// processorTime sets what a question costs a beside b. A bar of 0 is none.
func processorTime(what string, a, b cost, bar float64) report.Check {
	c := report.Check{
		What: what, Measured: rounds.Quiet(a.us), Unit: "µs", Ratio: rounds.Ratio(a.us, b.us),
		Beside: fmt.Sprintf("%s %s µs", b.name, report.Figure(rounds.Quiet(b.us))),
	}
	if bar > 0 {
		c.Bar, c.Met = fmt.Sprintf("<= %.2f x", bar), c.Ratio <= bar
	}
	return c
}

// perSecond sets how often a is asked beside b. A bar below 2 is for the ratio, any other for the rate.
func perSecond(what string, a, b cost, bar float64) report.Check {
	c := report.Check{
		What: what, Measured: a.fast(), Unit: "/s", Ratio: rounds.Ratio(a.rate, b.rate),
		Beside: fmt.Sprintf("%s %s/s", b.name, report.Figure(b.fast())),
	}
	if bar < 2 {
		c.Bar, c.Met = fmt.Sprintf(">= %.2f x", bar), c.Ratio >= bar
	} else {
		c.Bar, c.Met = fmt.Sprintf(">= %.0f/s", bar), c.Measured >= bar
	}
	return c
}
