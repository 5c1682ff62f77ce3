// Package tarpit measures what late answers cost the one who gives them: Weir's, of which it gives a bounded
// number at once, and HAProxy's, which holds whoever comes.
package tarpit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/weirgate/weir/bench/process"
	"github.com/weirgate/weir/bench/report"
	"github.com/weirgate/weir/bench/rounds"
)

// Options say how long is attacked.
type Options struct {
	Flood, Scrape time.Duration
}

// barHeld is max_held as it comes.
const barHeld = 100

const note = "An attack from 64 addresses asks for a path of which each may have 2 in a minute; what is over that is answered 429, at once or " +
	"after 5 s. A flood opens 400 new connections a second, whatever becomes of those before, for %v; scrapers, one for each address, ask again as " +
	"soon as they are answered, for %v. Beside them somebody else asks for another path five times a second, and gives up after a second. Weir holds " +
	"at most 100 askers, 2 of each client, as it comes, and answers further ones at once; HAProxy holds whoever comes, up to its maxconn (4,000, and once 1,000). Connections are the descriptors of " +
	"the server's process above those before, looked at four times a second; attackers and servers share the processors."

// Tarpit measures both.
func Tarpit(o Options) (report.Section, error) {
	s := report.Section{Title: "Late answers", Note: fmt.Sprintf(note, o.Flood, o.Scrape)}
	dir, err := os.MkdirTemp("", "weir-bench-*")
	if err != nil {
		return s, err
	}
	defer os.RemoveAll(dir)
	g := &ground{dir: dir, weir: filepath.Join(dir, "weir"), plain: filepath.Join(dir, "plain")}
	if err := errors.Join(process.BuildWeir(g.weir), process.Build(context.Background(), ".", g.plain, "./plain")); err != nil {
		return s, err
	}
	if g.backend, err = g.run("backend", func(at string) ([]string, error) { return []string{g.plain, "-listen", at, "-serve", "backend"}, nil }); err != nil {
		return s, err
	}
	defer g.backend.Stop()
	if !process.Installed("haproxy") {
		s.Note += " HAProxy is not installed."
	}
	floods, scrapes, err := g.attackAll(o)
	if err != nil {
		return s, err
	}
	s.Tables = []report.Table{table("A flood.", floods), table("Scrapers.", scrapes)}
	s.Checks, s.Peers = checks(floods, scrapes), beside(floods)
	return s, nil
}

// attackAll attacks every server in both ways. The results are by the server's name.
func (g *ground) attackAll(o Options) (floods, scrapes map[string]result, err error) {
	floods, scrapes = map[string]result{}, map[string]result{}
	for _, server := range servers() {
		if floods[server.name], err = g.attacked(server, flood, o.Flood); err != nil {
			return nil, nil, err
		}
		if server.flood {
			continue
		}
		if scrapes[server.name], err = g.attacked(server, scrape, o.Scrape); err != nil {
			return nil, nil, err
		}
	}
	return floods, scrapes, nil
}

// A result is what an attack did to a server.
type result struct {
	outcome
	peak
	us float64 // of processor time, for one request of the attack
}

// attacked starts a server, attacks it and ends it.
func (g *ground) attacked(s server, a attack, long time.Duration) (result, error) {
	p, metrics, err := s.start(g)
	if err != nil {
		return result{}, fmt.Errorf("%s: %w", s.name, err)
	}
	defer p.Stop()
	stop, seen := make(chan struct{}), make(chan peak, 1)
	go func() { seen <- watch(p, metrics, stop) }()
	before := p.CPU()
	o := run(a, p.Address, long)
	used := p.CPU() - before
	close(stop)
	if !s.late && o.statuses["429"] == 0 {
		return result{}, fmt.Errorf("%s: nothing was refused: %v", s.name, o.statuses)
	}
	return result{o, <-seen, float64(used.Microseconds()) / float64(max(1, o.sent))}, nil
}

// answered is the part of the innocent's requests that were answered, in percent.
func (r *result) answered() float64 { return 100 * float64(len(r.waits)) / float64(max(1, r.asked)) }

// perSecond is how often a second the attack asked.
func (r *result) perSecond() float64 { return float64(r.sent) / r.seconds }

func table(title string, results map[string]result) report.Table {
	t := report.Table{Title: title, Head: []string{
		"server", "attack, requests/s", "connections, most", "µs per request", "resident, MB", "innocent: answered", "its median, ms",
	}}
	for _, s := range servers() {
		r, ok := results[s.name]
		if !ok {
			continue
		}
		t.Rows = append(t.Rows, []string{
			s.name, report.Figure(r.perSecond()), fmt.Sprint(r.descriptors), report.Figure(r.us), report.Figure(r.resident),
			fmt.Sprintf("%d of %d", len(r.waits), r.asked), report.Figure(rounds.Median(r.waits)),
		})
	}
	return t
}

func checks(floods, scrapes map[string]result) []report.Check {
	holds, refuses := floods[weirHolds], scrapes[weirRefuses]
	slowed := scrapes[weirHolds]
	held := report.Check{What: "held by Weir's tarpit in the flood", Measured: holds.held, Unit: "askers", Bar: fmt.Sprintf("<= %d", barHeld), Met: holds.held <= barHeld}
	connections := report.Check{What: "connections in the flood, Weir's tarpit", Measured: float64(holds.descriptors), Unit: "most"}
	if naive, ok := floods[haproxyHolds]; ok {
		connections.Beside = fmt.Sprintf("%s %d", haproxyHolds, naive.descriptors)
		connections.Ratio = float64(holds.descriptors) / float64(max(1, naive.descriptors))
	}
	return []report.Check{
		held, connections,
		{What: "innocent requests that are answered in the flood, Weir's tarpit", Measured: holds.answered(), Unit: "%", Bar: "100 %", Met: holds.answered() == 100},
		{What: "requests a second of scrapers, Weir's tarpit", Measured: slowed.perSecond(), Unit: "/s",
			Beside: fmt.Sprintf("%s %s/s", weirRefuses, report.Figure(refuses.perSecond())), Ratio: slowed.perSecond() / max(1, refuses.perSecond())},
	}
}

// beside is what HAProxy pays in the flood for what Weir does, beside what Weir pays.
func beside(floods map[string]result) (peers []report.Peer) {
	for _, pair := range []struct{ peer, weir string }{{haproxyRefuses, weirRefuses}, {haproxyHolds, weirHolds}} {
		theirs, there := floods[pair.peer]
		if !there {
			continue
		}
		ours := floods[pair.weir]
		peers = append(peers,
			report.Peer{Name: pair.peer, What: "processor time", Cost: theirs.us / ours.us},
			report.Peer{Name: pair.peer, What: "memory", Cost: theirs.resident / ours.resident},
			report.Peer{Name: pair.peer, What: "connections", Cost: float64(theirs.descriptors) / float64(max(1, ours.descriptors))})
	}
	return peers
}
