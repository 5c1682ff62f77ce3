package behind_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weirgate/weir/internal/proctest"
)

// A proxy is one that stands in front of Weir, with the configuration that we ship, or an edit of it.
type proxy struct {
	kind string // nginx, haproxy or caddy
	edit func(string) string
	unix bool // listens on a unix socket
	// main replaces nginx's main file, and with it what is shipped; nil does not.
	main func(dir, listen, next string) string
}

// shipped are the files that a user copies, and what the tests replace in them.
var shipped = map[string]struct{ file, listen string }{
	"nginx":   {"nginx.conf", "listen 80;"},
	"haproxy": {"haproxy.cfg", "bind :80\n"},
	"caddy":   {"Caddyfile", ":80 {"},
}

const shippedNext = "127.0.0.1:8080"

// configuration returns p's shipped configuration with these addresses in place of its own.
func (p proxy) configuration(listen, next string) (string, error) {
	s := shipped[p.kind]
	text, err := os.ReadFile(filepath.Join("..", "deploy", s.file))
	if err != nil {
		return "", err
	}
	head, config, ok := cutComment(string(text))
	if !ok || strings.Count(config, s.listen) != 1 || strings.Count(config, shippedNext) != 1 {
		return "", fmt.Errorf("deploy/%s: want a comment, and %q and %q once each below it", s.file, s.listen, shippedNext)
	}
	config = strings.Replace(config, s.listen, p.listens(listen), 1)
	config = strings.Replace(config, shippedNext, p.connects(next), 1)
	if p.edit != nil {
		edited := p.edit(config)
		if edited == config {
			return "", fmt.Errorf("deploy/%s: the edit changes nothing", s.file)
		}
		config = edited
	}
	return head + config, nil
}

// cutComment cuts the comment that a file begins with.
func cutComment(text string) (head, rest string, ok bool) {
	head, rest, ok = strings.Cut(text, "\n\n")
	return head + "\n\n", rest, ok
}

// listens is how p says that it listens at an address, which is host:port or unix:PATH.
func (p proxy) listens(addr string) string {
	switch p.kind {
	case "nginx":
		return "listen " + addr + ";"
	case "haproxy":
		return "bind " + p.connects(addr) + "\n"
	}
	host, port, _ := net.SplitHostPort(addr)
	return ":" + port + " {\n\tbind " + host
}

// connects is how p names the next hop.
func (p proxy) connects(addr string) string {
	path, unix := strings.CutPrefix(addr, "unix:")
	switch {
	case unix && p.kind == "haproxy":
		return "unix@" + path
	case unix && p.kind == "caddy":
		return "unix/" + path
	}
	return addr
}

// start starts p in dir, listening at an address that it returns.
func (p proxy) start(t *testing.T, dir, next string) (*proctest.Process, string, error) {
	program := proctest.Need(t, p.kind)
	listen, err := proctest.FreeAddress()
	if err != nil {
		return nil, "", err
	}
	if p.unix {
		listen = "unix:" + filepath.Join(dir, p.kind)
	}
	config, err := p.configuration(listen, next)
	if err != nil {
		return nil, "", err
	}
	main := nginxMain(dir)
	if p.main != nil {
		main = p.main(dir, listen, next)
	}
	running, err := p.run(dir, program, config, main)
	if err != nil {
		return nil, "", err
	}
	return running, listen, proctest.Await(patience, func() error { return running.Listening(listen) })
}

// run runs a proxy in the foreground, as the user who runs the tests. main is for nginx alone.
func (p proxy) run(dir, program, config, main string) (*proctest.Process, error) {
	switch p.kind {
	case "nginx":
		if err := writeAll(dir, map[string]string{"weir.conf": config, "nginx.conf": main}); err != nil {
			return nil, err
		}
		return proctest.Start("nginx", dir, program, "-e", "stderr", "-p", dir, "-c", filepath.Join(dir, "nginx.conf"))
	case "haproxy":
		if err := writeAll(dir, map[string]string{"main.cfg": haproxyMain, "haproxy.cfg": config}); err != nil {
			return nil, err
		}
		return proctest.Start("haproxy", dir, program, "-db", "-q", "-f", "main.cfg", "-f", "haproxy.cfg")
	}
	if err := writeAll(dir, map[string]string{"Caddyfile": caddyMain + config}); err != nil {
		return nil, err
	}
	return proctest.Start("caddy", dir, program, "run", "--config", "Caddyfile", "--adapter", "caddyfile")
}

// nginxMain is the file that includes ours, as nginx.conf does on a machine of a user's.
func nginxMain(dir string) string {
	var temp strings.Builder
	for _, what := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&temp, "    %s_temp_path %s;\n", what, filepath.Join(dir, what))
	}
	return "daemon off;\nmaster_process off;\npid " + filepath.Join(dir, "pid") + ";\nlock_file " + filepath.Join(dir, "lock") + ";\n" +
		"error_log stderr warn;\nevents { worker_connections 512; }\nhttp {\n    access_log off;\n" + temp.String() +
		"    include weir.conf;\n}\n"
}

const haproxyMain = "global\n    maxconn 512\n    nbthread 1\n\n"

// caddyMain keeps Caddy from its admin API and from certificates, and lets clients speak HTTP/2 to
// it without TLS.
const caddyMain = `{
	admin off
	auto_https off
	servers {
		protocols h1 h2 h2c
	}
}

`

func writeAll(dir string, files map[string]string) error {
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// without deletes the lines that hold text.
func without(text string) func(string) string {
	return func(config string) string {
		var kept []string
		for line := range strings.Lines(config) {
			if !strings.Contains(line, text) {
				kept = append(kept, line)
			}
		}
		return strings.Join(kept, "")
	}
}

// replacing replaces text by other.
func replacing(text, other string) func(string) string {
	return func(config string) string { return strings.Replace(config, text, other, 1) }
}

// behindAnother makes Caddy trust the proxy in front of it, as its comment says.
var behindAnother = replacing("# trusted_proxies 192.0.2.1/32", "trusted_proxies 127.0.0.1/32")

// hearing returns a first proxy that hears in the PROXY protocol who its clients are.
func hearing(kind string) proxy {
	if kind == "haproxy" {
		return proxy{kind: kind, edit: func(config string) string { return bindLine.ReplaceAllString(config, "$0 accept-proxy") }}
	}
	return proxy{kind: kind, edit: func(config string) string {
		return listenLine.ReplaceAllString(config, "$1 proxy_protocol; set_real_ip_from 127.0.0.1; real_ip_header proxy_protocol;")
	}}
}

var (
	bindLine   = regexp.MustCompile(`(?m)^ +bind .*$`)
	listenLine = regexp.MustCompile(`(?m)^( +listen .*);$`)
)
