// Package logs measures how fast access logs are replayed, beside GoAccess on the same file.
package logs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/weirgate/weir/bench/process"
	"github.com/weirgate/weir/bench/report"
	"github.com/weirgate/weir/bench/rounds"
)

// Options say how much is read, and how often.
type Options struct {
	Rounds int
	Lines  int
}

// Bars of the replay.
const (
	barRate   = 600_000 // lines a second
	barMemory = 300     // MB
)

// usual is a policy of the usual size: two or three counters a request.
const usual = `limits: [{name: site, rate: 600/1m, per: ip}]
rules:
  - {name: login, path: /login, limits: [{rate: 20/1m}]}
  - {name: search, path: /api/search, limits: [{rate: 10/1s, burst: 20, algorithm: token_bucket}, {rate: 5000/1h}]}
  - {name: static, path: /static/, exempt: true}
`

const note = "`weir replay --json` and GoAccess (to JSON) read the same generated file, in turns: %d lines of nginx's combined format, %d clients, of whom " +
	"some ask far more often than others. Lines a second are of the wall's clock, from the start of the process to its end, and of the quiet " +
	"quarter of the rounds; processor time is what the process used on all processors. Nothing is bound to a processor. The bar was set for two processors " +
	"that nobody else uses: see the load above."

// Replay measures reading a log.
func Replay(o Options) (report.Section, error) {
	shape := shape{lines: o.Lines, clients: 20_000, perSecond: 500}
	s := report.Section{Title: "Replaying a log", Note: fmt.Sprintf(note, shape.lines, shape.clients)}
	dir, err := os.MkdirTemp("", "weir-bench-*")
	if err != nil {
		return s, err
	}
	defer os.RemoveAll(dir)
	readers, err := readers(dir, shape)
	if err != nil {
		return s, err
	}
	costs := make([]cost, len(readers))
	for range o.Rounds {
		for i, r := range readers {
			if err := costs[i].add(r, shape.lines); err != nil {
				return s, fmt.Errorf("%s: %w", r.name, err)
			}
		}
	}
	s.Checks = checks(costs)
	s.Tables = []report.Table{table(costs)}
	if len(costs) == 1 {
		s.Note += " GoAccess is not installed."
	}
	for _, c := range costs[1:] {
		s.Peers = append(s.Peers,
			report.Peer{Name: c.name, What: "time", Cost: rounds.Ratio(c.wall, costs[0].wall)},
			report.Peer{Name: c.name, What: "processor time", Cost: rounds.Ratio(c.ns, costs[0].ns)},
			report.Peer{Name: c.name, What: "memory", Cost: c.resident / costs[0].resident})
	}
	return s, nil
}

// A reader is a program that reads the log.
type reader struct {
	name string
	args []string
}

// readers writes the log and returns who reads it: weir, and GoAccess if it is installed.
func readers(dir string, s shape) ([]reader, error) {
	weir, log, config := filepath.Join(dir, "weir"), filepath.Join(dir, "access.log"), filepath.Join(dir, "weir.yaml")
	err := errors.Join(process.BuildWeir(weir), s.write(log), os.WriteFile(config, []byte(usual), 0o600))
	if err != nil {
		return nil, err
	}
	all := []reader{{"weir replay", []string{weir, "replay", "-c", config, "--json", log}}}
	if goaccess, err := exec.LookPath("goaccess"); err == nil {
		all = append(all, reader{"GoAccess", []string{goaccess, log, "--log-format=COMBINED", "--no-progress", "-o", filepath.Join(dir, "report.json")}})
	}
	return all, nil
}

// A cost is what one reader took, a figure for each round.
type cost struct {
	name     string
	wall, ns []float64 // ns per line, on the wall's clock and of processor time
	resident float64   // MB, the most
}

// add has r read the log once.
func (c *cost) add(r reader, lines int) error {
	cmd := exec.Command(r.args[0], r.args[1:]...)
	var said strings.Builder
	cmd.Stderr = &said
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, said.String())
	}
	took, state := time.Since(began), cmd.ProcessState
	c.name = r.name
	c.wall = append(c.wall, float64(took.Nanoseconds())/float64(lines))
	c.ns = append(c.ns, float64((state.UserTime()+state.SystemTime()).Nanoseconds())/float64(lines))
	if used, ok := state.SysUsage().(*syscall.Rusage); ok {
		c.resident = max(c.resident, float64(used.Maxrss)/1024)
	}
	return nil
}

// rate is lines a second in a quiet round.
func (c *cost) rate() float64 { return float64(time.Second) / rounds.Quiet(c.wall) }

// checks holds the first of costs to the bars, and beside the second if it is there.
func checks(costs []cost) []report.Check {
	weir := costs[0]
	rate := weir.rate()
	all := []report.Check{
		{What: "lines a second", Measured: rate, Unit: "/s", Bar: fmt.Sprintf(">= %d /s", barRate), Met: rate >= barRate},
		{What: "resident", Measured: weir.resident, Unit: "MB", Bar: fmt.Sprintf("< %d MB", barMemory), Met: weir.resident < barMemory},
	}
	for _, other := range costs[1:] {
		faster, cheaper := rounds.Ratio(other.wall, weir.wall), rounds.Ratio(other.ns, weir.ns)
		all = append(all,
			report.Check{What: "lines a second, ahead of " + other.name, Measured: rate, Unit: "/s", Beside: fmt.Sprintf("%s %s /s", other.name, report.Figure(other.rate())),
				Ratio: faster, Bar: "> 1", Met: faster > 1},
			report.Check{What: "lines per processor second, ahead of " + other.name, Measured: float64(time.Second) / rounds.Quiet(weir.ns), Unit: "/s",
				Beside: fmt.Sprintf("%s %s /s", other.name, report.Figure(float64(time.Second)/rounds.Quiet(other.ns))), Ratio: cheaper, Bar: "> 1", Met: cheaper > 1})
	}
	return all
}

func table(costs []cost) report.Table {
	t := report.Table{Title: "Readers.", Head: []string{"process", "lines/s", "processor time per line, ns", "resident, MB"}}
	for _, c := range costs {
		t.Rows = append(t.Rows, []string{c.name, report.Figure(c.rate()), report.Figure(rounds.Quiet(c.ns)), report.Figure(c.resident)})
	}
	return t
}
