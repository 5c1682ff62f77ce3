// Command bench measures what Weir costs beside its peers, on this machine and in one run, and says
// which of the bars that were set are met. See README.md.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/weirgate/weir/bench/asked"
	"github.com/weirgate/weir/bench/limiters"
	"github.com/weirgate/weir/bench/logs"
	"github.com/weirgate/weir/bench/report"
	"github.com/weirgate/weir/bench/road"
	"github.com/weirgate/weir/bench/shared"
	"github.com/weirgate/weir/bench/shield"
	"github.com/weirgate/weir/bench/tarpit"
	"github.com/weirgate/weir/bench/wire"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == limiters.ChildCommand {
		exit(limiters.Child(os.Args[2], os.Stdin, os.Stdout))
	}
	long := flag.Bool("long", false, "measure longer, for figures to be kept")
	page := flag.Bool("page", false, "measure nothing: write "+pagePath+" anew from "+results+"/latest.json")
	only := flag.String("only", "", "sections to run, comma-separated: "+strings.Join(names(), ", "))
	out := flag.String("out", "", "folder for latest.md and latest.json; as a rule "+results+", with the page, and for a part of the sections nowhere")
	flag.Parse()
	if *page {
		exit(writePage(results))
	}
	if *out == "" && *only == "" {
		*out = results
	}
	exit(run(plan(*long), *only, *out))
}

const (
	results  = "results"
	pagePath = "../docs/benchmarks.md"
)

// writePage writes the page of users from the run in dir.
func writePage(dir string) error {
	r, err := report.Load(dir)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	r.Page(&b)
	return os.WriteFile(pagePath, b.Bytes(), 0o644)
}

// keep saves a run in out, if that is anywhere; the one that is kept in results is also the page's.
func keep(r *report.Report, out string) error {
	if out == "" {
		return nil
	}
	if err := r.Save(out); err != nil || out != results {
		return err
	}
	return writePage(results)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A length is how long each subject is measured.
type length struct {
	limiters limiters.Options
	road     road.Options
	shared   shared.Options
	wire     wire.Options
	asked    asked.Options
	tarpit   tarpit.Options
	shield   shield.Options
	logs     logs.Options
}

func plan(long bool) length {
	if long {
		return length{
			limiters.Options{Rounds: 21, Slot: 200 * time.Millisecond, Expire: 6 * time.Second, Repeats: 5},
			road.Options{Rounds: 41, Slot: 50 * time.Millisecond},
			shared.Options{Rounds: 11, Slot: time.Second},
			wire.Options{Rounds: 11, Slot: 4 * time.Second, Unpinned: true},
			asked.Options{Rounds: 11, Slot: 3 * time.Second},
			tarpit.Options{Flood: 15 * time.Second, Scrape: 15 * time.Second},
			shield.Options{Rounds: 15, Slot: 100 * time.Millisecond},
			logs.Options{Rounds: 9, Lines: 3_000_000},
		}
	}
	return length{
		limiters.Options{Rounds: 9, Slot: 60 * time.Millisecond, Expire: 2500 * time.Millisecond, Repeats: 2},
		road.Options{Rounds: 15, Slot: 20 * time.Millisecond},
		shared.Options{Rounds: 5, Slot: 400 * time.Millisecond},
		wire.Options{Rounds: 6, Slot: time.Second},
		asked.Options{Rounds: 5, Slot: 700 * time.Millisecond},
		tarpit.Options{Flood: 7 * time.Second, Scrape: 4 * time.Second},
		shield.Options{Rounds: 7, Slot: 40 * time.Millisecond},
		logs.Options{Rounds: 3, Lines: 300_000},
	}
}

// A subject is a section of the report.
type subject struct {
	name    string
	measure func(length) (report.Section, error)
}

func subjects() []subject {
	return []subject{
		{"speed", func(l length) (report.Section, error) { return limiters.Speed(l.limiters) }},
		{"weight", func(l length) (report.Section, error) { return limiters.Weight(l.limiters) }},
		{"decision", func(l length) (report.Section, error) { return road.Decision(l.road) }},
		{"client", func(l length) (report.Section, error) { return road.Client(l.road) }},
		{"policy", func(l length) (report.Section, error) { return road.Policy(l.road) }},
		{"redis", func(l length) (report.Section, error) { return shared.Redis(l.shared) }},
		{"proxy", func(l length) (report.Section, error) { return wire.Proxies(l.wire) }},
		{"asked", func(l length) (report.Section, error) { return asked.Fronts(l.asked) }},
		{"tarpit", func(l length) (report.Section, error) { return tarpit.Tarpit(l.tarpit) }},
		{"inspection", func(l length) (report.Section, error) { return shield.Inspection(l.shield) }},
		{"replay", func(l length) (report.Section, error) { return logs.Replay(l.logs) }},
	}
}

func names() (all []string) {
	for _, s := range subjects() {
		all = append(all, s.name)
	}
	return all
}

// command is what is typed to get the same again.
func command(args []string) string {
	if len(args) == 0 {
		return "make bench"
	}
	return fmt.Sprintf("make bench BENCH=%q", strings.Join(args, " "))
}

func run(l length, only, out string) error {
	r := &report.Report{
		Date: time.Now().UTC().Format(time.RFC3339), Command: command(os.Args[1:]),
		Machine: machine(), Versions: versions(),
	}
	for _, s := range subjects() {
		if only != "" && !strings.Contains(","+only+",", ","+s.name+",") {
			continue
		}
		began := time.Now()
		section, err := s.measure(l)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintf(os.Stderr, "%s: %.0f s\n", s.name, time.Since(began).Seconds())
		r.Sections = append(r.Sections, section)
	}
	r.Machine = append(r.Machine, report.Fact{Name: "load after", Value: line("/proc/loadavg")})
	if err := keep(r, out); err != nil {
		return err
	}
	r.Markdown(os.Stdout)
	for _, c := range r.Missed() {
		fmt.Fprintf(os.Stderr, "missed: %s: %s %s, want %s (ratio %.2f)\n", c.What, report.Figure(c.Measured), c.Unit, c.Bar, c.Ratio)
	}
	return nil
}
