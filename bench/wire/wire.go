// Package wire measures proxies as processes: what processor time a request costs them under wrk.
package wire

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/weirgate/weir/bench/process"
	"github.com/weirgate/weir/bench/report"
	"github.com/weirgate/weir/bench/rounds"
)

// Options say how long to measure.
type Options struct {
	Rounds   int
	Slot     time.Duration // of one proxy in one round, in whole seconds
	Unpinned bool          // once more with no process bound to a processor
}

// Bars of the proxy.
const (
	barPass   = 1.15 // over a tuned ReverseProxy
	barRefuse = 1.30 // over an empty handler
	barMemory = 40   // MB
)

// mostPassed is one of how many requests a proxy that refuses may pass: nginx's least rate is one a minute.
const mostPassed = 1000

const proxyNote = "Processor time of the proxy's process per request (`/proc/PID/stat`), 64 keep-alive connections of wrk, an answer of 100 bytes. " +
	"The proxies are asked in turns; the figure is the quiet quarter of the rounds, the ratio the median of the rounds' ratios. Weir: `weir run` " +
	"with one limit per client, memory store, metrics and journal on, and the firewall as it comes (`fast`) or off. Plain: net/http and httputil.ReverseProxy with a tuned " +
	"transport, without any limit. Empty: a net/http handler that does nothing. Fixed: a handler that sends the header and body of Weir's refusal and decides " +
	"nothing, to tell what the answer itself costs. nginx and HAProxy limit each address, with one worker or thread. Refusals are 429 for everything."

// Proxies measures passing and refusing.
func Proxies(o Options) (report.Section, error) {
	s := report.Section{Title: "The proxy", Note: proxyNote}
	dir, err := os.MkdirTemp("", "weir-bench-*")
	if err != nil {
		return s, err
	}
	defer os.RemoveAll(dir)
	programs, err := build(dir)
	if err != nil {
		return s, err
	}
	s.Note += " " + programs.caddyNote
	for _, pins := range pinning(o) {
		costs, err := race(programs, dir, pins, o)
		if err != nil {
			return s, err
		}
		title := "With no process bound to a processor."
		if pins {
			title = "The proxy bound to one processor with GOMAXPROCS 1, wrk and the backend to the other."
		}
		s.Tables = append(s.Tables, table(title, costs))
		if s.Checks == nil {
			s.Checks, s.Peers = checks(costs), beside(costs)
		}
	}
	return s, nil
}

func pinning(o Options) []bool {
	switch {
	case !process.Pinnable():
		return []bool{false}
	case o.Unpinned:
		return []bool{true, false}
	}
	return []bool{true}
}

// A cost is what one proxy took.
type cost struct {
	name     string
	us       []float64 // of processor time per request, for each round
	rate     []float64 // requests per second
	resident float64   // MB at 64 connections, the most seen
}

// race lets wrk ask the proxies in turns.
func race(programs *programs, dir string, pins bool, o Options) ([]cost, error) {
	front, back := process.Place{CPU: 0, Pins: pins}, process.Place{CPU: 1, Pins: pins}
	field, err := open(programs, dir, front, back)
	defer field.stop()
	if err != nil {
		return nil, err
	}
	costs := make([]cost, len(field.runners))
	for round := range o.Rounds + 1 {
		for i, r := range field.runners {
			if err := costs[i].add(r, back, round, o.Slot); err != nil {
				return nil, err
			}
		}
	}
	return costs, nil
}

// add measures one round, but for the first, which warms up and uses up what may pass.
func (c *cost) add(r runner, at process.Place, round int, slot time.Duration) error {
	if round == 0 {
		slot = time.Second
	}
	watching := watch(r.process)
	before, began := r.process.CPU(), time.Now()
	l, err := process.Wrk(at, r.process.Address, slot)
	used, took := r.process.CPU()-before, time.Since(began)
	resident := <-watching()
	if err != nil {
		return fmt.Errorf("%s: %w", r.process.Name, err)
	}
	c.name = r.process.Name
	if round == 0 {
		return nil
	}
	if passed := l.Requests - l.Refused; r.refuses && passed*mostPassed > l.Requests || !r.refuses && l.Refused > 0 {
		return fmt.Errorf("%s: %d of %d requests were refused", c.name, l.Refused, l.Requests)
	}
	c.us = append(c.us, float64(used.Microseconds())/float64(l.Requests))
	c.rate = append(c.rate, float64(l.Requests)/took.Seconds())
	c.resident = max(c.resident, resident)
	return nil
}

// watch looks at the memory of a process until the returned function is called, and then returns the
// most that it saw.
func watch(p *process.Process) (end func() <-chan float64) {
	stop, most := make(chan struct{}), make(chan float64, 1)
	go func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		seen := 0.0
		for {
			select {
			case <-tick.C:
				seen = max(seen, p.Resident())
			case <-stop:
				most <- seen
				return
			}
		}
	}()
	return func() <-chan float64 { close(stop); return most }
}

func table(title string, costs []cost) report.Table {
	t := report.Table{Title: title, Head: []string{"process", "µs per request", "to Weir", "to plain", "to empty", "requests/s", "resident, MB"}}
	plain, empty := find(costs, plainPass), find(costs, emptyAnswer)
	for _, c := range costs {
		t.Rows = append(t.Rows, []string{
			c.name, report.Figure(rounds.Quiet(c.us)), fmt.Sprintf("%.2f", rounds.Ratio(c.us, find(costs, ofWeir(c.name)).us)),
			fmt.Sprintf("%.2f", rounds.Ratio(c.us, plain.us)), fmt.Sprintf("%.2f", rounds.Ratio(c.us, empty.us)),
			report.Figure(rounds.Median(c.rate)), report.Figure(c.resident),
		})
	}
	return t
}

// ofWeir is what of Weir's does the same.
func ofWeir(name string) string {
	if name == plainPass || strings.Contains(name, "passing") {
		return weirPass
	}
	return weirRefuse
}

// beside is what the others take of a processor and of memory, beside Weir with everything on.
func beside(costs []cost) (peers []report.Peer) {
	for _, c := range costs {
		weir := find(costs, ofWeir(c.name))
		if strings.HasPrefix(c.name, "Weir") || c.name == emptyAnswer || c.name == fixedAnswer { // no limiters
			continue
		}
		peers = append(peers, report.Peer{Name: c.name, What: "processor time", Cost: rounds.Ratio(c.us, weir.us)},
			report.Peer{Name: c.name, What: "memory", Cost: c.resident / weir.resident})
	}
	return peers
}

func find(costs []cost, name string) cost {
	for _, c := range costs {
		if c.name == name {
			return c
		}
	}
	return cost{}
}

func checks(costs []cost) []report.Check {
	pass, refuse := find(costs, weirPass), find(costs, weirRefuse)
	resident := max(pass.resident, refuse.resident)
	all := []report.Check{
		compare("passing, over a tuned ReverseProxy", pass, find(costs, plainPass), barPass),
		compare("refusing, over an empty handler", refuse, find(costs, emptyAnswer), barRefuse),
		compare("refusing, over the same refusal, fixed", refuse, find(costs, fixedAnswer), 0),
		{What: "resident at 64 connections", Measured: resident, Unit: "MB", Bar: fmt.Sprintf("< %d MB", barMemory), Met: resident < barMemory},
	}
	if find(costs, caddyPass).us != nil {
		all = append(all, compare("passing, ahead of Caddy", pass, find(costs, caddyPass), 1), compare("refusing, ahead of Caddy", refuse, find(costs, caddyRefuse), 1))
	}
	return all
}

// compare sets a beside b. A bar of 0 is none.
func compare(what string, a, b cost, bar float64) report.Check {
	ratio := rounds.Ratio(a.us, b.us)
	c := report.Check{What: what, Measured: rounds.Quiet(a.us), Unit: "µs", Beside: fmt.Sprintf("%s %s µs", b.name, report.Figure(rounds.Quiet(b.us))),
		Ratio: ratio}
	if bar > 0 {
		c.Bar, c.Met = fmt.Sprintf("<= %.2f", bar), ratio <= bar
	}
	return c
}
