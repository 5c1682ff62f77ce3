package asked

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirgate/weir/bench/process"
	"github.com/weirgate/weir/bench/report"
	"github.com/weirgate/weir/bench/rounds"
)

// Bars of the rate limit service.
const (
	barMemory = 1.5 // over the null service
	barRedis  = 2.0
	barCalls  = 18_000 // per second, of 64 callers
	barSilent = 0.01   // commands of Redis for a call that is refused
)

const limits = `domain: bench
descriptors:
  - {key: client, rate_limit: {unit: hour, requests_per_unit: 1000000000}}
  - {key: hot, rate_limit: {unit: day, requests_per_unit: 10}}
`

const rlsYAML = "rls: {listen: %%q, config: %q}\nstore: {redis: {url: %q, timeout: 1s}}\n"

// The processes that are asked. Weir is asked for clients that have room, and for one that has not.
const (
	nullName   = "null grpc-go"
	weirPrefix = "Weir"
	memoryName = weirPrefix + ", memory"
	redisName  = weirPrefix + ", Redis"
	overSuffix = ", over its limit"
)

// rls measures the rate limit service, with the count in memory and in Redis.
func rls(h *house, o Options, s *report.Section) error {
	contenders, redis, err := h.services()
	if err != nil {
		return err
	}
	table := report.Table{
		Title: "Envoy's rate limit service: one descriptor, 50,000 clients in turn or one that is over its limit, two connections.",
		Head:  []string{"", "callers", "µs per call", "to null", "to Weir", "calls/s", "p99, µs"},
	}
	for _, callers := range []int{1, 64} {
		costs, err := o.race(contenders(callers))
		if err != nil {
			return err
		}
		for _, c := range costs {
			table.Rows = append(table.Rows, []string{
				c.name, strconv.Itoa(callers), report.Figure(rounds.Quiet(c.us)), fmt.Sprintf("%.2f", rounds.Ratio(c.us, costs[0].us)),
				toWeir(c, costs), report.Figure(c.fast()), report.Figure(rounds.Quiet(c.p99)),
			})
		}
		s.Checks = append(s.Checks, rlsChecks(callers, costs)...)
		s.Peers = append(s.Peers, beside(callers, costs)...)
	}
	s.Tables = append(s.Tables, table)
	if redis == nil {
		s.Note += " Redis: not measured, redis-server is not installed."
		return nil
	}
	silent, err := silence(redis.Address, hot(contenders(64)))
	s.Checks = append(s.Checks, silent)
	return err
}

// rlsChecks sets Weir beside the null service, which is the first.
func rlsChecks(callers int, costs []cost) (checks []report.Check) {
	for _, c := range costs[1:] {
		if !strings.HasPrefix(c.name, weirPrefix) {
			continue
		}
		bar := barMemory
		if c.name == redisName { // what is over its limit does not go there
			bar = barRedis
		}
		what := fmt.Sprintf("%s: a call, %d at once", c.name, callers)
		checks = append(checks, processorTime(what, c, costs[0], bar))
		if callers == 64 {
			checks = append(checks, perSecond(fmt.Sprintf("%s: calls, %d at once", c.name, callers), c, costs[0], barCalls))
		}
	}
	return checks
}

// services starts what is asked, and returns the contenders for a number of callers. The server is nil where
// none is installed.
func (h *house) services() (contenders func(callers int) []contender, redis *process.Process, err error) {
	config, err := h.write(filepath.Join("descriptors", "bench.yaml"), limits)
	if err != nil {
		return nil, nil, err
	}
	null, err := h.run(nullName, func(at string) ([]string, error) { return []string{h.rls, "-serve", at}, nil })
	if err != nil {
		return nil, nil, err
	}
	memory, err := h.runWeir(memoryName, fmt.Sprintf(rlsYAML, filepath.Dir(config), ""))
	if err != nil {
		return nil, nil, err
	}
	weirs := []*process.Process{memory}
	if missing("redis-server") == "" {
		if redis, err = h.runRedis(); err != nil {
			return nil, nil, err
		}
		shared, err := h.runWeir(redisName, fmt.Sprintf(rlsYAML, filepath.Dir(config), "redis://"+redis.Address))
		if err != nil {
			return nil, nil, err
		}
		weirs = append(weirs, shared)
	}
	peers, err := h.runPeers(redis)
	if err != nil {
		return nil, nil, err
	}
	return func(callers int) []contender {
		all := []contender{{name: nullName, process: null, ask: h.callers(null, "client", callers)}}
		for _, w := range weirs {
			all = append(all, contender{name: w.Name, process: w, ask: h.callers(w, "client", callers)},
				contender{name: w.Name + overSuffix, process: w, refuses: true, ask: h.callers(w, "hot", callers)})
		}
		return append(all, peers(callers)...)
	}, redis, nil
}

func (h *house) runRedis() (*process.Process, error) {
	return h.run("redis-server", func(at string) ([]string, error) {
		_, port, err := net.SplitHostPort(at)
		return []string{"redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", h.dir}, err
	})
}

// callers returns what asks p about the clients of key.
func (h *house) callers(p *process.Process, key string, callers int) func(time.Duration) (load, error) {
	clients := 50_000
	if key == "hot" {
		clients = 1
	}
	api := "envoy"
	if p.Name == gubernatorName {
		api = "gubernator"
	}
	return func(slot time.Duration) (load, error) {
		ctx, cancel := context.WithTimeout(context.Background(), slot+30*time.Second)
		defer cancel()
		out, err := anywhere.Command(ctx, h.rls, "-ask", p.Address, "-api", api, "-key", key, "-clients", strconv.Itoa(clients),
			"-callers", strconv.Itoa(callers), "-for", slot.String()).Output()
		if err != nil {
			return load{}, said(err)
		}
		var a struct {
			Calls   int     `json:"calls"`
			Refused int     `json:"refused"`
			Seconds float64 `json:"seconds"`
			P99     float64 `json:"p99_us"`
		}
		err = json.Unmarshal(out, &a)
		return load{a.Calls, a.Refused, time.Duration(a.Seconds * float64(time.Second)), a.P99}, err
	}
}

// said adds to err what the program wrote to its error output.
func said(err error) error {
	if exit, ok := err.(*exec.ExitError); ok {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}

// hot is the contender that asks Weir with Redis about what is over its limit.
func hot(all []contender) contender {
	return all[slices.IndexFunc(all, func(c contender) bool { return c.name == redisName+overSuffix })]
}

// silence counts the commands that Redis gets for calls that are refused.
func silence(addr string, hot contender) (report.Check, error) {
	client := goredis.NewClient(&goredis.Options{Addr: addr, Protocol: 2})
	defer client.Close()
	commands := func() float64 {
		for l := range strings.Lines(client.Info(context.Background(), "stats").Val()) {
			if n, ok := strings.CutPrefix(strings.TrimSpace(l), "total_commands_processed:"); ok {
				v, _ := strconv.ParseFloat(n, 64) // INFO writes numbers
				return v
			}
		}
		return 0
	}
	before := commands()
	l, err := hot.ask(time.Second)
	if err != nil {
		return report.Check{}, err
	}
	each := (commands() - before) / float64(l.questions)
	return report.Check{
		What: "commands of Redis for a refused call", Measured: each, Unit: "each", Bar: fmt.Sprintf("<= %.2f", barSilent), Met: each <= barSilent,
	}, client.Ping(context.Background()).Err()
}
