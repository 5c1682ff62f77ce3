package forwardauth

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/weirgate/weir/internal/proctest"
)

// A road is a real proxy, with the configuration that we ship, before a service, and Weir beside it.
type road struct {
	*house
	weir    string // where Weir is asked
	service *service
	proxy   *proctest.Process
	entry   string // where clients connect to
	clients atomic.Int32
}

// few is the policy on most roads: three a minute for each client, in a log so that no turn of a window is
// ever in sight; below /shut and at shut.example nothing, below /open everything.
const few = `
default: {limits: [{name: few, rate: 3/1m, algorithm: sliding_log}]}
rules:
  - {name: open, path: /open, exempt: true}
  - {name: shut, path: /shut, limits: [{name: shut, rate: 0/1m}]}
  - {name: posts, path: /shut, methods: [POST], limits: [{name: posts, rate: 100/1m, algorithm: sliding_log}]}
  - {name: shut_host, host: shut.example, limits: [{rate: 0/1m}]}
`

// A service is what the proxy passes requests on to. It answers with what it saw.
type service struct {
	*httptest.Server
	count atomic.Int64
}

// A sighting is what the service saw of a request.
type sighting struct {
	Method, Target, Body string
	Header               http.Header
}

func newService(t *testing.T) *service {
	s := new(service)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.count.Add(1)
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/missing":
			w.WriteHeader(http.StatusNotFound)
		case "/forbidden":
			w.WriteHeader(http.StatusForbidden)
			io.WriteString(w, "the service's own word")
			return
		}
		json.NewEncoder(w).Encode(sighting{r.Method, r.RequestURI, string(body), r.Header})
	}))
	t.Cleanup(s.Close)
	return s
}

// A plan says what of a shipped configuration is another on a road.
type plan struct {
	yaml   string              // of Weir, without the client section
	client string              // that section; empty: the proxy, alone
	edit   func(string) string // of the proxy's configuration
	weir   string              // where the proxy asks, in place of Weir
	// hasty waits for Weir as long as is shipped, 300 ms, and not for so long that a machine which tests other
	// things at the same time makes no difference.
	hasty bool
}

// patiently has a proxy wait for Weir.
var patiently = strings.NewReplacer("_timeout 200ms", "_timeout 20s", "_timeout 300ms", "_timeout 20s")

// shipped are the files that a user copies.
var shipped = map[string]struct{ file, listen string }{
	"nginx": {"forward-auth-nginx.conf", "listen 80;"},
	"caddy": {"Caddyfile.forward-auth", ":80 {"},
}

// open carries p out with a proxy of that kind. Everything ends with the test.
func open(t *testing.T, kind string, p plan) *road {
	t.Helper()
	if testing.Short() {
		t.Skip("no real servers in short mode")
	}
	program := proctest.Need(t, kind)
	if p.yaml == "" {
		p.yaml = few
	}
	if p.client == "" {
		p.client = "{path: [" + kind + "]}"
	}
	r := &road{house: build(t, p.yaml+"client: "+p.client+"\n"), service: newService(t)}
	r.weir = p.weir
	if r.weir == "" {
		r.weir = r.serve()
	}
	var err error
	for range 3 { // somebody may take a port that was free
		if err = r.start(kind, program, p); err == nil {
			return r
		}
	}
	t.Fatal(err)
	return nil
}

func (r *road) start(kind, program string, p plan) error {
	dir := r.t.TempDir()
	var err error
	if r.entry, err = proctest.FreeAddress(); err != nil {
		return err
	}
	config, err := r.configuration(kind, p)
	if err != nil {
		return err
	}
	if r.proxy, err = run(kind, program, dir, config); err != nil {
		return err
	}
	proxy := r.proxy
	r.t.Cleanup(func() { _ = proxy.End(syscall.SIGKILL) }) // how does not matter
	return proctest.Await(proctest.Patience, func() error { return proxy.Listening(r.entry) })
}

// configuration is the shipped file, edited, with the road's addresses in place of its own.
func (r *road) configuration(kind string, p plan) (string, error) {
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", shipped[kind].file))
	if err != nil {
		return "", err
	}
	head, config, _ := strings.Cut(string(text), "\n\n")
	if p.edit != nil {
		edited := p.edit(config)
		if edited == config {
			return "", fmt.Errorf("deploy/%s: the edit changes nothing", shipped[kind].file)
		}
		config = edited
	}
	if !p.hasty {
		config = patiently.Replace(config)
	}
	listen := "listen " + r.entry + ";"
	if kind == "caddy" {
		host, port, _ := net.SplitHostPort(r.entry)
		listen = ":" + port + " {\n\tbind " + host
	}
	for _, replace := range [][2]string{{shipped[kind].listen, listen}, {"127.0.0.1:8080", r.weir}, {"127.0.0.1:3000", r.service.Listener.Addr().String()}} {
		if !strings.Contains(config, replace[0]) {
			return "", fmt.Errorf("deploy/%s has no %q", shipped[kind].file, replace[0])
		}
		config = strings.ReplaceAll(config, replace[0], replace[1])
	}
	return head + "\n\n" + config, nil
}

// run runs a proxy in the foreground, as the user who runs the tests.
func run(kind, program, dir, config string) (*proctest.Process, error) {
	if kind == "caddy" {
		config = "{\n\tadmin off\n\tauto_https off\n}\n\n" + config
		if err := os.WriteFile(filepath.Join(dir, "Caddyfile"), []byte(config), 0o600); err != nil {
			return nil, err
		}
		return proctest.Start(kind, dir, program, "run", "--config", "Caddyfile", "--adapter", "caddyfile")
	}
	main := "daemon off;\nmaster_process off;\npid pid;\nerror_log stderr warn;\nevents { worker_connections 512; }\nhttp {\naccess_log off;\n"
	for _, what := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		main += what + "_temp_path " + filepath.Join(dir, what) + ";\n"
	}
	for name, text := range map[string]string{"nginx.conf": main + "include weir.conf;\n}\n", "weir.conf": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	return proctest.Start(kind, dir, program, "-e", "stderr", "-p", dir, "-c", filepath.Join(dir, "nginx.conf"))
}

// A client asks from an address of its own.
type client struct {
	road *road
	http *http.Client
}

// client returns a client that nobody else on the road is.
func (r *road) client() *client {
	d := net.Dialer{Timeout: proctest.Patience, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+r.clients.Add(1)))}}
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		return d.DialContext(ctx, network, address)
	}}
	r.t.Cleanup(transport.CloseIdleConnections)
	return &client{r, &http.Client{Transport: transport, Timeout: proctest.Patience}}
}

// An answer is what a client got.
type answer struct {
	status int
	header http.Header
	body   string
	seen   sighting // by the service, if the request came that far
}

func (c *client) get(target string, fields ...string) answer {
	c.road.t.Helper()
	return c.do(http.MethodGet, target, "", fields...)
}

// do sends a request with these header fields, name by value.
func (c *client) do(method, target, body string, fields ...string) answer {
	c.road.t.Helper()
	req, err := http.NewRequest(method, "http://"+c.road.entry+target, strings.NewReader(body))
	if err != nil {
		c.road.t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		if fields[i] == "Host" {
			req.Host = fields[i+1]
		}
		req.Header[fields[i]] = append(req.Header[fields[i]], fields[i+1])
	}
	res, err := c.http.Do(req)
	if err != nil {
		c.road.t.Fatalf("%v\n%s", err, c.road.proxy.Log())
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		c.road.t.Fatal(err)
	}
	a := answer{status: res.StatusCode, header: res.Header, body: string(text)}
	_ = json.Unmarshal(text, &a.seen) // a refusal is none
	return a
}

// statuses asks n times and returns the HTTP statuses.
func (c *client) statuses(n int, target string, fields ...string) []int {
	c.road.t.Helper()
	var list []int
	for range n {
		list = append(list, c.get(target, fields...).status)
	}
	return list
}
