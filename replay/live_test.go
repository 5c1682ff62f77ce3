package replay_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/internal/proctest"
	"github.com/weirgate/weir/policy"
	"github.com/weirgate/weir/replay"
	"github.com/weirgate/weir/replay/accesslog"
)

// livePolicy has a rule for each way to count. PROXY is the client section's.
const livePolicy = `
client: {path: [PROXY]}
limits: [{name: site, rate: 60/1h, per: ip, algorithm: sliding_log}]
rules:
  - {name: window, path: /window, limits: [{rate: 3/8s, algorithm: fixed_window}]}
  - {name: bucket, path: /bucket/, limits: [{rate: 4/1h, burst: 4, algorithm: token_bucket}]}
  - {name: sliding, path: /sliding, cost: 2, limits: [{rate: 9/1h}]}
  - {name: failures, path: /login, methods: [POST], count: {only_statuses: [401]}, limits: [{rate: 2/1h}]}
  - {name: trial, path: /trial, mode: shadow, limits: [{rate: 3/1h}]}
  - {name: tenant, path: /tenant, limits: [{name: tenants, rate: 3/1h, per: "header:X-Tenant"}]}
  - {name: free, path: /free, exempt: true}
default: {limits: [{rate: 7/1h, per: [client, path]}]}
`

// A server is a real proxy before Weir that writes a log.
type server struct {
	program string
	name    string // of its preset
	format  string // of its log
	files   func(dir, listen, next string) map[string]string
	args    []string
	output  bool // the log is what it writes to standard output
	headers bool // the log has the requests' headers
	shadow  bool // the policy refuses nothing, and says what it would
}

// policy is livePolicy with that client section.
func (s *server) policy(client string) string {
	text := strings.Replace(livePolicy, "path: [PROXY]", client, 1)
	if s.shadow {
		text = strings.ReplaceAll(text, "limits: [{", "limits: [{mode: shadow, ")
	}
	return text
}

var servers = map[string]server{
	"nginx combined":       {program: "nginx", name: "nginx", format: "auto", files: nginxFiles("combined"), args: []string{"-e", "stderr", "-c", "nginx.conf", "-p", "."}},
	"nginx, all in shadow": {program: "nginx", name: "nginx", format: "auto", shadow: true, files: nginxFiles("combined"), args: []string{"-e", "stderr", "-c", "nginx.conf", "-p", "."}},
	"nginx with times": {program: "nginx", name: "nginx", format: `{client} {time} {duration} "{request}" {status}`, files: nginxFiles("timed"),
		args: []string{"-e", "stderr", "-c", "nginx.conf", "-p", "."}},
	"haproxy": {program: "haproxy", name: "haproxy", format: "auto", output: true, args: []string{"-db", "-f", "haproxy.cfg"},
		files: func(_, listen, next string) map[string]string {
			return map[string]string{"haproxy.cfg": "global\n nbthread 1\n log stdout format raw local0\ndefaults\n mode http\n log global\n option httplog\n" +
				" timeout connect 3s\n timeout client 60s\n timeout server 60s\nfrontend f\n bind " + listen +
				"\n option forwardfor\n default_backend b\nbackend b\n server weir " + next + "\n"}
		}},
	"caddy": {program: "caddy", name: "caddy", format: "auto", headers: true, args: []string{"run", "--config", "Caddyfile", "--adapter", "caddyfile"},
		files: func(dir, listen, next string) map[string]string {
			host, port, _ := net.SplitHostPort(listen)
			return map[string]string{"Caddyfile": "{\n\tadmin off\n\tauto_https off\n}\n:" + port + " {\n\tbind " + host +
				"\n\tlog {\n\t\toutput file " + filepath.Join(dir, "access.log") + "\n\t\tformat json\n\t}\n\treverse_proxy " + next + "\n}\n"}
		}},
}

func nginxFiles(format string) func(dir, listen, next string) map[string]string {
	return func(dir, listen, next string) map[string]string {
		var temp strings.Builder
		for _, what := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
			fmt.Fprintf(&temp, "%s_temp_path %s;\n", what, filepath.Join(dir, what))
		}
		return map[string]string{"nginx.conf": "daemon off;\nmaster_process off;\npid " + filepath.Join(dir, "pid") +
			";\nerror_log stderr warn;\nevents { worker_connections 512; }\nhttp {\n" + temp.String() +
			"log_format timed '$remote_addr $msec $request_time \"$request\" $status';\naccess_log " + filepath.Join(dir, "access.log") + " " + format +
			";\nserver { listen " + listen + "; location / { proxy_pass http://" + next +
			"; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; } }\n}\n"}
	}
}

// shadowed is how the service answers what Weir says is over a shadow limit.
const shadowed = 299

// The replay of a log that a real proxy wrote refuses, request by request, what Weir behind that proxy
// refused live, and finds the same over shadow limits.
//
// Ties. Lines of one time stamp are decided in the order in which they stand; the load asks one at a
// time, so that they stand in the order in which Weir saw them. A log says when a request came to its
// clock's resolution, at worst a whole second; the load keeps 1.2 s away from the turn of the only
// window that is shorter than an hour, so no request's window depends on less than that.
func TestReplayEqualsLive(t *testing.T) {
	if testing.Short() {
		t.Skip("starts servers")
	}
	weir := proctest.Weir(t)
	for name, s := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := s.record(t, weir)
			for _, peer := range []string{"", "127.0.0.1"} {
				s.compare(t, log, peer)
			}
		})
	}
}

// record runs the load through the proxy and Weir, and returns where the log is.
func (s *server) record(t *testing.T, weir string) string {
	t.Helper()
	service := httptest.NewServer(http.HandlerFunc(answer))
	t.Cleanup(service.Close)
	dir := t.TempDir()
	next, listen := proctest.Free(t), proctest.Free(t)
	write(t, dir, map[string]string{"weir.yaml": "listen: \"" + next + "\"\nadmin: \"\"\nwaf: {enabled: false}\nupstream: \"" + service.URL + "\"" +
		s.policy("path: ["+s.name+"]")})
	write(t, dir, s.files(dir, listen, next))
	start(t, dir, next, weir, "run", "-c", "weir.yaml")
	proxy := start(t, dir, listen, proctest.Need(t, s.program), s.args...)
	load(t, "http://"+listen)
	if err := proxy.End(syscall.SIGTERM); err != nil && s.program == "caddy" {
		t.Fatal(err) // the others may end by the signal
	}
	path := filepath.Join(dir, "access.log")
	if s.output {
		write(t, dir, map[string]string{"access.log": proxy.Log()})
	}
	return path
}

// answer is the service: it finds every password wrong, and says so of what is over a shadow limit.
func answer(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Header.Get("X-Weir-Shadow") != "":
		w.WriteHeader(shadowed)
	case r.URL.Path == "/login":
		w.WriteHeader(http.StatusUnauthorized)
	}
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// start starts a program that listens at addr.
func start(t *testing.T, dir, addr, program string, args ...string) *proctest.Process {
	t.Helper()
	p, err := proctest.Start(filepath.Base(program), dir, program, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.End(syscall.SIGTERM) }) // it may have ended
	if err := proctest.Await(proctest.Patience, func() error { return p.Listening(addr) }); err != nil {
		t.Fatal(err)
	}
	return p
}

const clients = 3

// load asks one at a time, as several clients, in two rounds that lie in different windows of 8 s. What is counted in
// these is asked first.
func load(t *testing.T, url string) {
	type question struct{ method, path string }
	asks := []question{
		{"GET", "/bucket/1?a=b"}, {"GET", "/sliding"}, {"POST", "/login"}, {"GET", "/trial"}, {"GET", "/free/x"}, {"GET", "/other%20place"},
		{"GET", "/tenant"},
	}
	transports := make([]http.RoundTripper, clients)
	for i := range transports {
		from := &net.TCPAddr{IP: net.IPv4(127, 1, 0, byte(1+i))}
		transport := &http.Transport{DialContext: (&net.Dialer{LocalAddr: from}).DialContext}
		t.Cleanup(transport.CloseIdleConnections)
		transports[i] = transport
	}
	round := func(asks ...question) {
		for n := range 5 {
			for _, a := range asks {
				for _, tr := range transports[:1+(n+len(a.path))%clients] {
					ask(t, tr, a.method, url+a.path)
				}
			}
		}
	}
	for range 2 {
		awaitPhase()
		round(question{"GET", "/window"})
		round(asks...)
	}
}

// awaitPhase returns 1.2 s after the next turn of the window of 8 s. The ten requests that are counted in it take far
// less than the 5.6 s that are left then, also on a busy machine.
func awaitPhase() {
	const window, quiet = 8 * time.Second, 1200 * time.Millisecond
	now := time.Now()
	time.Sleep(now.Truncate(window).Add(window + quiet).Sub(now))
}

func ask(t *testing.T, tr http.RoundTripper, method, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), proctest.Patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
}

// compare replays the log and holds it to the statuses that stand in it.
func (s *server) compare(t *testing.T, path, peer string) {
	t.Helper()
	logs, err := accesslog.OpenAll([]string{path}, accesslog.OpenOptions{Format: s.format})
	if err != nil {
		t.Fatal(err)
	}
	defer accesslog.CloseAll(logs)
	o := replay.Options{Has: accesslog.Common(logs), Strict: true}
	section := "path: [" + s.name + "]"
	if peer == "" {
		section = "path: []"
	} else {
		o.Peer = netip.MustParseAddr(peer)
	}
	o.Policy = replay.Policy{Name: "live", Policy: compilePolicy(t, s.policy(section))}
	seen := map[replay.Verdict]int{}
	o.Decided = func(l *accesslog.Line, v replay.Verdict) {
		live := map[int]replay.Verdict{http.StatusTooManyRequests: replay.Refused, shadowed: replay.Shadowed}[l.Status]
		seen[v]++
		if v != live && (l.Path != "/tenant" || s.headers) {
			t.Errorf("peer %q: line %d: %s %s %s: replay says %d, live %d", peer, l.Number, l.Client, l.Method, l.Path, v, live)
		}
	}
	r := replay.New(o)
	defer r.Close()
	if err := r.Read(t.Context(), logs[0]); err != nil {
		t.Fatal(err)
	}
	report := r.Report(false)
	least := map[bool][2]int{false: {20, 5}, true: {0, 25}}[s.shadow]
	if seen[replay.Refused] < least[0] || seen[replay.Shadowed] < least[1] || seen[replay.Admitted] < 50 || s.shadow && seen[replay.Refused] > 0 {
		t.Errorf("the load shows too little: %v", seen)
	}
	want := []replay.Lack{{Rule: "tenant", Limit: "tenants", Why: "it counts per header:X-Tenant, which the log does not have"}}
	if s.headers {
		want = []replay.Lack{}
	}
	if diff := cmp.Diff(want, report.Policy.NotReplayable); diff != "" {
		t.Errorf("not replayable (-want +got):\n%s", diff)
	}
}

func compilePolicy(t testing.TB, text string) *policy.Policy {
	t.Helper()
	c, problems := config.Parse("test.yaml", []byte(text), nil)
	if config.HasErrors(problems) {
		t.Fatal(problems)
	}
	p, problems := policy.Compile(c)
	if config.HasErrors(problems) {
		t.Fatal(problems)
	}
	return p
}
