package tarpit

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/weirgate/weir/bench/process"
)

// A ground is where servers run, before one backend.
type ground struct {
	dir         string
	weir, plain string
	backend     *process.Process
}

func (g *ground) run(name string, args func(at string) ([]string, error)) (*process.Process, error) {
	at, err := process.Free()
	if err != nil {
		return nil, err
	}
	command, err := args(at)
	if err != nil {
		return nil, err
	}
	return process.Launch(process.Place{}, name, at, command...)
}

func (g *ground) write(name, text string) (string, error) {
	path := filepath.Join(g.dir, name)
	return path, os.WriteFile(path, []byte(text), 0o644)
}

// A server is a way to refuse.
type server struct {
	name  string
	start func(g *ground) (*process.Process, string, error) // and the address of Weir's metrics, or nothing
	late  bool                                              // it answers late
	flood bool                                              // it is measured in the flood only
}

const (
	haproxyRefuses = "HAProxy, 429 at once"
	haproxyHolds   = "HAProxy, tarpit"
	haproxyFull    = "HAProxy, tarpit, maxconn 1000"
	weirRefuses    = "Weir, 429 at once"
	weirHolds      = "Weir, tarpit"
)

func servers() []server {
	all := []server{
		{name: weirRefuses, start: weir("reject")},
		{name: weirHolds, start: weir("tarpit"), late: true},
	}
	if process.Installed("haproxy") {
		all = append(all,
			server{name: haproxyRefuses, start: haproxy("deny", 4000)},
			server{name: haproxyHolds, start: haproxy("tarpit", 4000), late: true},
			server{name: haproxyFull, start: haproxy("tarpit", 1000), late: true, flood: true})
	}
	return all
}

// weir is Weir with an action for what is over the limit, and a tarpit as it comes.
func weir(action string) func(*ground) (*process.Process, string, error) {
	return func(g *ground) (*process.Process, string, error) {
		admin, err := process.Free()
		if err != nil {
			return nil, "", err
		}
		p, err := g.run("Weir", func(at string) ([]string, error) {
			file, err := g.write(action+".yaml", fmt.Sprintf("listen: %q\nadmin: %q\nupstream: \"http://%s\"\ndefault: {limits: []}\n"+
				"rules: [{name: attacked, path: /attacked, limits: [{rate: 2/1m, per: client}], action: %s}]\n", at, admin, g.backend.Address, action))
			return []string{g.weir, "run", "-c", file}, err
		})
		return p, admin, err
	}
}

const haproxyFile = `global
  nbthread 2
  maxconn %[1]d
defaults
  mode http
  maxconn %[1]d
  timeout connect 2s
  timeout client 30s
  timeout server 30s
  timeout tarpit 5s
backend clients
  stick-table type ip size 1m expire 60s store http_req_rate(60s)
frontend limited
  bind %[2]s
  http-request track-sc0 src table clients if { path /attacked }
  http-request %[3]s deny_status 429 if { path /attacked } { sc_http_req_rate(0) gt 2 }
  default_backend service
backend service
  http-reuse always
  server service %[4]s
`

// haproxy is HAProxy with an action for what is over the limit, and room for so many connections.
func haproxy(action string, room int) func(*ground) (*process.Process, string, error) {
	return func(g *ground) (*process.Process, string, error) {
		p, err := g.run("HAProxy", func(at string) ([]string, error) {
			file, err := g.write("haproxy.cfg", fmt.Sprintf(haproxyFile, room, at, action, g.backend.Address))
			if err != nil {
				return nil, err
			}
			program, err := exec.LookPath("haproxy")
			return []string{program, "-db", "-f", file}, err
		})
		return p, "", err
	}
}

// A peak is the most that was seen of a server.
type peak struct {
	descriptors int     // above those it had before
	resident    float64 // MB
	held        float64 // by a tarpit, as the server says
}

// watch looks at a server a few times a second, until stop is closed.
func watch(p *process.Process, metrics string, stop <-chan struct{}) (most peak) {
	before := p.Descriptors()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return most
		case <-tick.C:
			most.descriptors = max(most.descriptors, p.Descriptors()-before)
			most.resident = max(most.resident, p.Resident())
			most.held = max(most.held, heldBy(metrics))
		}
	}
}

// heldBy is how many Weir's tarpits hold, by its metrics, or 0.
func heldBy(metrics string) float64 {
	if metrics == "" {
		return 0
	}
	client := http.Client{Timeout: time.Second}
	answer, err := client.Get("http://" + metrics + "/metrics")
	if err != nil {
		return 0 // it is busy: seen the next time
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "weir_tarpit_held "); ok {
			held, _ := strconv.ParseFloat(strings.TrimSpace(value), 64) // a metric is a number
			return held
		}
	}
	return 0
}
