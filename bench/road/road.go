// Package road measures the way of a request inside Weir, without the wire: who is asking, which rule,
// and the whole decision.
package road

import (
	"fmt"
	"strings"
	"time"

	"github.com/weirgate/weir/bench/report"
	"github.com/weirgate/weir/bench/rounds"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/policy"
)

// Options say how long to measure.
type Options struct {
	Rounds int
	Slot   time.Duration // of one contender in one round
}

func (o Options) run(c []rounds.Contender) []rounds.Timing { return rounds.Run(o.Rounds, o.Slot, c) }

// parse reads a configuration.
func parse(text string) (*config.Config, error) {
	c, problems := config.Parse("bench", []byte(text), nil)
	return c, faults(problems)
}

func compile(text string) (*policy.Policy, error) {
	c, err := parse(text)
	if err != nil {
		return nil, err
	}
	p, problems := policy.Compile(c)
	return p, faults(problems)
}

func faults(problems []config.Problem) error {
	if !config.HasErrors(problems) {
		return nil
	}
	var all []string
	for _, p := range problems {
		all = append(all, p.String())
	}
	return fmt.Errorf("configuration: %s", strings.Join(all, "; "))
}

// check says whether a timing keeps to a bar in nanoseconds, and allocates nothing.
func check(what string, t, beside rounds.Timing, bar float64) report.Check {
	c := report.Check{What: what + beyond(t), Measured: t.NS, Unit: "ns", Bar: fmt.Sprintf("<= %v ns, 0 allocations", bar), Met: t.NS <= bar && t.Allocs == 0}
	if beside.Name != "" {
		c.Beside = fmt.Sprintf("%s %s ns", beside.Name, report.Figure(beside.NS))
		c.Ratio = rounds.Ratio(t.Rounds, beside.Rounds)
	}
	return c
}

func beyond(t rounds.Timing) string { return fmt.Sprintf(" (%s allocations)", report.Figure(t.Allocs)) }
