package asked

import (
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/weirgate/weir/bench/process"
	"github.com/weirgate/weir/bench/report"
	"github.com/weirgate/weir/bench/rounds"
)

// barChecks is how many requests a second an HAProxy asks about.
const barChecks = 12_000

// haproxy measures the shipped configuration for HAProxy, asking and not asking. HAProxy answers what passes by
// itself, so that no service is part of what is measured.
func haproxy(h *house, o Options, s *report.Section) error {
	if program := missing("haproxy", "wrk"); program != "" {
		s.Note += " HAProxy: not measured, " + program + " is not installed."
		return nil
	}
	weir, err := h.runWeir("Weir", "spoe: {listen: %q}\nclient: {path: [haproxy]}\ndefault: {limits: [{rate: 1000000000/1m, per: client}]}\n")
	if err != nil {
		return err
	}
	asking, err := h.runHAProxy("HAProxy that asks", weir)
	if err != nil {
		return err
	}
	alone, err := h.runHAProxy("HAProxy alone", weir, "    filter spoe", "    #filter spoe")
	if err != nil {
		return err
	}
	costs, err := o.race([]contender{
		{name: asking.Name, process: weir, ask: wrk(asking.Address)},
		{name: alone.Name, process: weir, ask: wrk(alone.Address)},
	})
	if err != nil {
		return err
	}
	s.Checks = append(s.Checks, perSecond("HAProxy that asks Weir: checks", costs[0], costs[1], barChecks),
		report.Check{What: "HAProxy that asks Weir: a check", Measured: rounds.Quiet(costs[0].us), Unit: "µs"})
	table := report.Table{
		Title: "HAProxy with deploy/haproxy-spoe.cfg, 64 connections of wrk.",
		Head:  []string{"", "requests/s", "to alone", "Weir, µs per request"},
	}
	for _, c := range costs {
		table.Rows = append(table.Rows, []string{c.name, report.Figure(c.fast()), fmt.Sprintf("%.2f", rounds.Ratio(c.rate, costs[1].rate)), report.Figure(rounds.Quiet(c.us))})
	}
	s.Tables = append(s.Tables, table)
	return nil
}

// runHAProxy starts an HAProxy whose agent is weir, with further changes of the shipped file. A request that
// Weir does not decide is no check: it is answered 503.
func (h *house) runHAProxy(name string, weir *process.Process, changes ...string) (*process.Process, error) {
	return h.run(name, func(at string) ([]string, error) {
		questions, err := shipped("weir-spoe.conf", "timeout processing 50ms", "timeout processing 5s")
		if err != nil {
			return nil, err
		}
		asks, err := h.write("weir-spoe.conf", questions)
		if err != nil {
			return nil, err
		}
		decided := ""
		if len(changes) == 0 {
			decided = " if { var(txn.weir.action) -m str allow }\n    http-request return status 503"
		}
		config, err := shipped("haproxy-spoe.cfg", append([]string{
			"bind :80\n", "bind " + at + "\n", "/etc/haproxy/weir-spoe.conf", asks, "server weir1 127.0.0.1:9091", "server weir1 " + weir.Address,
			"    default_backend app\n", "    http-request return status 200 content-type text/plain string ok" + decided + "\n",
		}, changes...)...)
		if err != nil {
			return nil, err
		}
		file, err := h.write(filepath.Base(name)+".cfg", config)
		if err != nil {
			return nil, err
		}
		program, err := exec.LookPath("haproxy")
		return []string{program, "-db", "-f", file}, err
	})
}
