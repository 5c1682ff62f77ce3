package asked

import (
	"fmt"
	"os/exec"

	"github.com/weirgate/weir/bench/process"
	"github.com/weirgate/weir/bench/report"
	"github.com/weirgate/weir/bench/rounds"
)

// barNginx is how much of the requests remains that nginx serves with an empty decider.
const barNginx = 0.95

const nginxMain = `worker_processes 1;
daemon off;
pid %[1]s/nginx.pid;
events { worker_connections 1024; }
http {
  access_log off;
  keepalive_requests 1000000000;
  client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi; uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
  server {
    listen %[2]s;
    keepalive_requests 1000000000;
    location / { default_type text/plain; return 200 "%0100d"; }
  }
  include %[1]s/weir.conf;
}
`

// nginx measures the shipped configuration for auth_request with Weir and with a decider that lets everything
// pass, on two nginx that are otherwise the same.
func nginx(h *house, o Options, s *report.Section) error {
	if program := missing("nginx", "wrk"); program != "" {
		s.Note += " nginx: not measured, " + program + " is not installed."
		return nil
	}
	weir, err := h.runWeir("Weir", "forward_auth: {listen: %q}\nclient: {path: [nginx]}\ndefault: {limits: [{rate: 1000000000/1m, per: client}]}\n")
	if err != nil {
		return err
	}
	empty, err := h.run("empty decider", func(at string) ([]string, error) { return []string{h.plain, "-listen", at, "-serve", "empty"}, nil })
	if err != nil {
		return err
	}
	var contenders []contender
	for _, decider := range []*process.Process{weir, empty} {
		proxy, err := h.runNginx(decider)
		if err != nil {
			return err
		}
		contenders = append(contenders, contender{name: decider.Name, process: decider, proxy: proxy, ask: wrk(proxy.Address)})
	}
	costs, err := o.race(contenders)
	if err != nil {
		return err
	}
	s.Checks = append(s.Checks, nginxChecks(costs[0], costs[1])...)
	table := report.Table{
		Title: "nginx with deploy/forward-auth-nginx.conf, one worker, 64 connections of wrk.",
		Head:  []string{"asked", "requests/s", "to empty", "µs per ask", "µs per request with nginx's own"},
	}
	for _, c := range costs {
		table.Rows = append(table.Rows, []string{c.name, report.Figure(c.fast()), fmt.Sprintf("%.2f", rounds.Ratio(c.rate, costs[1].rate)), report.Figure(rounds.Quiet(c.us)), report.Figure(rounds.Quiet(c.both))})
	}
	s.Tables = append(s.Tables, table)
	return nil
}

// nginxChecks sets Weir beside the empty decider. Where strangers use the processors, too, the time that nginx and
// decider use tells better than the rate what would remain of it.
func nginxChecks(weir, empty cost) []report.Check {
	both := report.Check{
		What: "nginx that asks Weir: a request, with nginx's own time", Measured: rounds.Quiet(weir.both), Unit: "µs",
		Beside: fmt.Sprintf("%s %s µs", empty.name, report.Figure(rounds.Quiet(empty.both))), Ratio: rounds.Ratio(weir.both, empty.both),
		Bar: fmt.Sprintf("<= %.2f x", 1/barNginx),
	}
	both.Met = both.Ratio <= 1/barNginx
	return []report.Check{perSecond("nginx that asks Weir: requests", weir, empty, barNginx), both, processorTime("nginx that asks Weir: an ask", weir, empty, 0)}
}

// runNginx starts an nginx that asks decider, before a service of its own.
func (h *house) runNginx(decider *process.Process) (*process.Process, error) {
	return h.run("nginx", func(at string) ([]string, error) {
		service, err := process.Free()
		if err != nil {
			return nil, err
		}
		inner := &house{dir: h.dir + "/nginx-" + decider.Name[:4]}
		config, err := shipped("forward-auth-nginx.conf", "listen 80;", "listen "+at+";", "server 127.0.0.1:8080;", "server "+decider.Address+";", "http://127.0.0.1:3000", "http://"+service,
			"_timeout 200ms;", "_timeout 5s;", "_timeout 300ms;", "_timeout 5s;") // strangers may have the processors for so long
		if err != nil {
			return nil, err
		}
		if _, err := inner.write("weir.conf", config); err != nil {
			return nil, err
		}
		main, err := inner.write("nginx.conf", fmt.Sprintf(nginxMain, inner.dir, service, 0))
		if err != nil {
			return nil, err
		}
		program, err := exec.LookPath("nginx")
		return []string{program, "-c", main, "-e", "stderr"}, err
	})
}
