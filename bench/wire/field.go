package wire

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirgate/weir/bench/process"
)

// The processes that are measured.
const (
	weirPass      = "Weir, passing"
	weirBarePass  = "Weir, passing, no firewall"
	plainPass     = "plain ReverseProxy"
	caddyPass     = "Caddy, passing"
	nginxPass     = "nginx limit_req, passing"
	haproxyPass   = "HAProxy stick table, passing"
	weirRefuse    = "Weir, refusing"
	emptyAnswer   = "empty handler"
	fixedAnswer   = "the same refusal, fixed"
	caddyRefuse   = "Caddy, refusing"
	nginxRefuse   = "nginx limit_req, refusing"
	haproxyRefuse = "HAProxy stick table, refusing"
)

// programs are the paths of what is measured.
type programs struct {
	weir, plain string
	caddy       string // empty: there is none
	caddyLimits bool   // it has a limiter
	caddyNote   string
}

// caddyBuild is how long building Caddy may take, with its modules fetched.
const caddyBuild = 4 * time.Minute

// build builds what is measured into dir.
func build(dir string) (*programs, error) {
	p := &programs{weir: filepath.Join(dir, "weir"), plain: filepath.Join(dir, "plain"), caddy: filepath.Join(dir, "caddy")}
	if err := process.BuildWeir(p.weir); err != nil {
		return nil, err
	}
	if err := process.Build(context.Background(), ".", p.plain, "./plain"); err != nil {
		return nil, err
	}
	p.findCaddy()
	return p, nil
}

// findCaddy builds Caddy with the least limiter, or else takes the system's, which has none.
func (p *programs) findCaddy() {
	ctx, cancel := context.WithTimeout(context.Background(), caddyBuild)
	defer cancel()
	err := process.Build(ctx, "caddy", p.caddy, ".")
	if err == nil {
		p.caddyLimits = true
		p.caddyNote = "Caddy: built here with the least limiter of `caddy/`, cheaper than mholt/caddy-ratelimit, which the module proxy does not serve."
		return
	}
	p.caddy, _ = exec.LookPath("caddy")
	p.caddyNote = "Caddy: the system's, without any limiter (its refusal is a fixed answer), since the one of `caddy/` could not be built."
	if p.caddy == "" {
		p.caddyNote = "Caddy: not measured, none could be had."
	}
}

// A runner is a process in the race.
type runner struct {
	process *process.Process
	refuses bool
}

// A field is all that runs.
type field struct {
	dir         string
	front, back process.Place
	backend     *process.Process
	runners     []runner
}

// open starts the backend and every proxy.
func open(p *programs, dir string, front, back process.Place) (*field, error) {
	f := &field{dir: dir, front: front, back: back}
	if err := f.openBackend(p); err != nil {
		return f, err
	}
	url := "http://" + f.backend.Address
	err := errors.Join(
		f.run(false, weirPass, func(at string) ([]string, error) { return f.weir(p, at, url, roomy) }),
		f.run(false, weirBarePass, func(at string) ([]string, error) { return f.weir(p, at, url, roomy+"\nwaf: {enabled: false}") }),
		f.run(false, plainPass, func(at string) ([]string, error) {
			return []string{p.plain, "-listen", at, "-serve", "proxy", "-backend", url}, nil
		}),
		f.run(true, weirRefuse, func(at string) ([]string, error) { return f.weir(p, at, url, used) }),
		f.run(false, emptyAnswer, func(at string) ([]string, error) { return []string{p.plain, "-listen", at, "-serve", "empty"}, nil }),
		f.run(true, fixedAnswer, func(at string) ([]string, error) { return []string{p.plain, "-listen", at, "-serve", "refusal"}, nil }),
	)
	if err != nil {
		return f, err
	}
	return f, f.openPeers(p)
}

// openPeers starts the proxies of others that are there.
func (f *field) openPeers(p *programs) error {
	for _, peer := range []struct {
		there           bool
		passes, refuses string
		command         func(at string, refuse bool) ([]string, error)
	}{
		{p.caddy != "", caddyPass, caddyRefuse, func(at string, refuse bool) ([]string, error) { return f.caddy(p, at, refuse) }},
		{process.Installed("nginx"), nginxPass, nginxRefuse, f.nginx},
		{process.Installed("haproxy"), haproxyPass, haproxyRefuse, f.haproxy},
	} {
		if !peer.there {
			continue
		}
		err := errors.Join(
			f.run(false, peer.passes, func(at string) ([]string, error) { return peer.command(at, false) }),
			f.run(true, peer.refuses, func(at string) ([]string, error) { return peer.command(at, true) }),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// run starts a proxy. command returns how, given the address where it shall listen.
func (f *field) run(refuses bool, name string, command func(at string) ([]string, error)) error {
	at, err := process.Free()
	if err != nil {
		return err
	}
	args, err := command(at)
	if err != nil {
		return err
	}
	p, err := process.Launch(f.front, name, at, args...)
	if err == nil {
		f.runners = append(f.runners, runner{p, refuses})
	}
	return err
}

// stop ends everything.
func (f *field) stop() {
	for _, r := range f.runners {
		r.process.Stop()
	}
	if f.backend != nil {
		f.backend.Stop()
	}
}

func (f *field) write(name, format string, args ...any) (string, error) {
	path := filepath.Join(f.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, fmt.Appendf(nil, format, args...), 0o644)
}

const nginxFile = `worker_processes 1;
daemon off;
pid %[1]s/nginx.pid;
error_log stderr crit;
events { worker_connections 1024; }
http {
  access_log off;
  keepalive_requests 1000000000;
  client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi; uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
  server {
    listen %[2]s backlog=1024;
    location / { default_type text/plain; return 200 "%[3]s"; }
  }
}
`

// openBackend starts nginx, or where there is none the plain program's backend.
func (f *field) openBackend(p *programs) error {
	at, err := process.Free()
	if err != nil {
		return err
	}
	args := []string{p.plain, "-listen", at, "-serve", "backend"}
	if nginx, err := exec.LookPath("nginx"); err == nil {
		file, err := f.write("nginx.conf", nginxFile, f.dir, at, strings.Repeat("x", 100))
		if err != nil {
			return err
		}
		args = []string{nginx, "-c", file, "-e", "stderr"}
	}
	f.backend, err = process.Launch(f.back, "backend", at, args...)
	return err
}

// Policies of Weir: a limit that is never reached, and one that is used up at once.
const (
	roomy = "default: {limits: [{rate: 1000000000/1m, per: client}]}"
	used  = "default: {limits: [{rate: 10/30d, per: client}]}"
)

func (f *field) weir(p *programs, at, upstream, policy string) ([]string, error) {
	admin, err := process.Free()
	if err != nil {
		return nil, err
	}
	file, err := f.write("weir-"+strings.ReplaceAll(at, ":", "-")+".yaml",
		"listen: %q\nadmin: %q\nupstream: %q\n%s\n", at, admin, upstream, policy)
	return []string{p.weir, "run", "-c", file}, err
}

const caddyFile = `{
	admin off
	auto_https off
	persist_config off
	log {
		level ERROR
	}
}
http://%s {
	%s
	reverse_proxy %s
}
`

func (f *field) caddy(p *programs, at string, refuse bool) ([]string, error) {
	directive := ""
	switch {
	case p.caddyLimits && refuse:
		directive = "least_limit 0"
	case p.caddyLimits:
		directive = "least_limit 1000000000"
	case refuse:
		directive = "respond 429"
	}
	file, err := f.write("Caddyfile-"+strings.ReplaceAll(at, ":", "-"), caddyFile, at, directive, f.backend.Address)
	return []string{p.caddy, "run", "--config", file, "--adapter", "caddyfile"}, err
}
