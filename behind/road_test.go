// Package behind_test puts real proxies in front of a real Weir, with the configurations that we
// ship, and asks what becomes of a client's address on the way.
package behind_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/weirgate/weir/internal/proctest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", "8") // the tests wait for others most of the time
	m.Run()
}

// A plan says what stands between the clients and the upstream.
type plan struct {
	proxies []proxy // in travel order; the last one connects to Weir
	client  string  // the client section, in one line of YAML; empty: none
	more    string  // more lines of configuration
	unix    bool    // Weir listens on a unix socket
	bare    bool    // there is no Weir: the last proxy connects to the upstream
	public  bool    // clients have public addresses; the first proxy is one that hears of them
}

// policy is the same for all: three a minute for each client, in a log so that no turn of a window
// is ever in sight; below /open/ everything, below /shut/ and at shut.example nothing.
const policy = `
waf: {mode: detect} # targets with dots in them are to pass
default: {limits: [{name: few, rate: 3/1m, per: client, algorithm: sliding_log}]}
rules:
  - {name: open, path: /open/, exempt: true}
  - {name: shut, path: /shut/, limits: [{rate: 0/1m, per: client}]}
  - {name: shut_host, host: shut.example, limits: [{rate: 0/1m, per: client}]}
`

// A road is a plan carried out.
type road struct {
	t        *testing.T
	upstream *upstream
	entry    string // where clients connect to
	public   bool   // clients have public addresses
	weir     *proctest.Process
	direct   string // where Weir listens
	admin    string
	running  []*proctest.Process // front last
	clients  atomic.Int32
}

// attempts is how often a road is built if somebody takes a port that was free.
const attempts = 3

// open carries p out. Everything ends with the test.
func open(t *testing.T, p plan) *road {
	t.Helper()
	if testing.Short() {
		t.Skip("no real servers in short mode")
	}
	needLoopback(t)
	t.TempDir() // so that it is deleted after everything in it has ended
	r := &road{t: t, upstream: newUpstream(t), public: p.public}
	t.Cleanup(r.close)
	var err error
	for range attempts {
		if err = r.build(p); err == nil {
			return r
		}
		r.close()
	}
	t.Fatal(err)
	return nil
}

// needLoopback skips the test where clients cannot have loopback addresses of their own.
func needLoopback(t *testing.T) {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.2:0")
	if err != nil {
		t.Skipf("%v: the loopback interface needs all of 127.0.0.0/8, as on Linux", err)
	}
	c.Close()
}

func (r *road) build(p plan) error {
	next := r.upstream.Listener.Addr().String()
	if !p.bare {
		if err := r.startWeir(p); err != nil {
			return err
		}
		next = r.direct
	}
	for i := range p.proxies {
		at := p.proxies[len(p.proxies)-1-i]
		running, listen, err := at.start(r.t, r.t.TempDir(), next)
		if running != nil {
			r.running = append(r.running, running)
		}
		if err != nil {
			return err
		}
		next = listen
	}
	r.entry = next
	return proctest.Await(patience, r.arrives)
}

// arrives returns nil if a request that clients send arrives at the upstream of this very road.
func (r *road) arrives() error {
	c := r.clientAt("127.0.0.254")
	if r.public {
		c = r.clientAt(publicNetwork + "254")
	}
	res, err := c.http.Get("http://" + r.entry + "/open/arrives")
	if err != nil {
		return err
	}
	drop(res.Body)
	c.http.CloseIdleConnections()
	if res.StatusCode != http.StatusOK || res.Header.Get("X-Upstream") != r.upstream.URL {
		return fmt.Errorf("%w: %s from %s: %w\n%s", errNotYet, res.Status, r.entry, r.ended(), r.logs())
	}
	return nil
}

func (r *road) ended() error {
	var errs []error
	for _, p := range r.running {
		errs = append(errs, p.Gone())
	}
	return errors.Join(errs...)
}

func (r *road) logs() string {
	var all strings.Builder
	for _, p := range r.running {
		fmt.Fprintf(&all, "--- %s\n%s", p.Name, p.Log())
	}
	return all.String()
}

// startWeir starts Weir, which says itself where it listens.
func (r *road) startWeir(p plan) error {
	dir := r.t.TempDir()
	listen := "127.0.0.1:0"
	if p.unix {
		listen = "unix:" + filepath.Join(dir, "weir")
	}
	config := fmt.Sprintf("listen: %q\nadmin: \"127.0.0.2:0\"\nupstream: %q\n", listen, r.upstream.URL) + p.more + policy
	if p.client != "" {
		config += "client: " + p.client + "\n"
	}
	if err := writeAll(dir, map[string]string{"weir.yaml": config}); err != nil {
		return err
	}
	weir, err := proctest.Start("weir", dir, proctest.Weir(r.t), "run", "-c", "weir.yaml")
	if err != nil {
		return err
	}
	r.weir, r.running = weir, append(r.running, weir)
	return proctest.Await(patience, func() error { return r.announced(p.unix, listen) })
}

// announced reads the addresses from the line that says that Weir is running.
func (r *road) announced(unix bool, listen string) error {
	if err := r.weir.Gone(); err != nil {
		return err
	}
	var line struct{ Msg, Listen, Admin string }
	lines := bufio.NewScanner(strings.NewReader(r.weir.Log()))
	for lines.Scan() {
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "weir is running" {
			r.direct, r.admin = line.Listen, line.Admin
			if unix {
				r.direct = listen
			}
			return nil
		}
	}
	return fmt.Errorf("%w: weir: %s", errNotYet, r.weir.Log())
}

// close ends the proxies, which have nothing to tidy up, and then Weir, which must end well.
func (r *road) close() {
	for len(r.running) > 0 {
		last := len(r.running) - 1
		p := r.running[last]
		r.running = r.running[:last]
		if p != r.weir {
			p.End(syscall.SIGKILL)
			continue
		}
		if err := p.End(syscall.SIGTERM); err != nil || strings.Contains(p.Log(), "panic") {
			r.t.Errorf("weir: %v\n%s", err, p.Log())
		}
	}
}
