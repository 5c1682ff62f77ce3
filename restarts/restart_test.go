package restarts_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weirgate/weir/internal/redistest"
)

const (
	between = 100 // requests at least that pass from one restart to the next
	quota   = 1_000_000
)

// The places of the sockets that a Weir of these tests is handed.
const (
	front = iota
	admin
	auth
	authz
	rls
	agent // a unix socket
)

// A site is one Weir after the other at the same sockets, under load.
type site struct {
	*load
	*sockets
	service *service
	config  string
}

// build returns a site without a Weir. Whatever comes through any front is counted in one quota; more is
// added to the configuration.
func build(t *testing.T, more string) *site {
	t.Helper()
	s := &site{load: newLoad(t), sockets: open(t, agent), service: startService(t)}
	dir := t.TempDir()
	s.config = filepath.Join(dir, "weir.yaml")
	descriptors := filepath.Join(dir, "descriptors.yaml")
	write(t, descriptors, "domain: d\ndescriptors: [{key: a, rate_limit: {unit: minute, requests_per_unit: 1}}]\n")
	write(t, s.config, fmt.Sprintf(`
listen: %q
admin: %q
forward_auth: {listen: %q}
ext_authz: {listen: %q}
rls: {listen: %q, config: %q}
spoe: {listen: %q}
upstream: %q
data_dir: %q
server: {drain: 8s}
client: {path: [{name: edge, cidrs: [127.0.0.0/8]}]}
default: {limits: [{name: all, quota: %d/month, per: global}]}
%s`, s.addrs[front], s.addrs[admin], s.addrs[auth], s.addrs[authz], s.addrs[rls], descriptors, s.addrs[agent],
		s.service.URL, filepath.Join(dir, "data"), quota, more))
	return s
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// begin begins the load: on connections that are kept, some with slow answers, on new ones, over HTTP/2, of proxies that
// ask, and at the admin address.
func (s *site) begin() {
	for range 8 {
		s.keep("kept", newLine(s.addrs[front], "/"), &s.passed)
	}
	for range 2 {
		s.fresh("new", newLine(s.addrs[front], "/"), &s.passed)
		s.keep("slow", newLine(s.addrs[front], slowPath), &s.passed)
	}
	s.streams(s.addrs[front], 4)
	s.keep("asks", newLine(s.addrs[auth], "/auth/caddy", "X-Forwarded-For: 203.0.113.7", "X-Forwarded-Method: GET",
		"X-Forwarded-Uri: /", "X-Forwarded-Host: a.example", "X-Forwarded-Proto: https"), &s.asked)
	var alive atomic.Int64
	s.keep("admin", newLine(s.addrs[admin], "/livez"), &alive)
	s.calls(s.addrs[authz])
	s.calls(s.addrs[rls])
}

// calls makes calls over gRPC, to the health service, which every server of its has.
func (s *site) calls(addr string) {
	c, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
	if err != nil {
		s.t.Fatal(err)
	}
	s.repeat("gRPC", func() { c.Close() }, func() error {
		_, err := grpc_health_v1.NewHealthClient(c).Check(context.Background(), new(grpc_health_v1.HealthCheckRequest))
		return err
	})
}

// more waits until some more requests have passed.
func (s *site) more() {
	s.t.Helper()
	until := time.Now().Add(patience)
	for want := s.passed.Load() + between; s.passed.Load() < want && !s.t.Failed(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			s.t.Fatalf("no more than %d requests have passed", s.passed.Load())
		}
	}
}

var left = regexp.MustCompile(`;r=(\d+)`)

// exact ends the load and compares what was answered with what the service saw and what the quota has left.
func (s *site) exact() {
	s.t.Helper()
	s.end()
	last := newLine(s.addrs[front], "/")
	defer last.close()
	res, err := last.ask()
	if err != nil {
		s.t.Fatal(err)
	}
	answered := s.passed.Load() + 1
	if got := s.service.served.Load(); got != answered {
		s.t.Errorf("%d requests were answered, the service saw %d", answered, got)
	}
	want := strconv.FormatInt(quota-answered-s.asked.Load(), 10)
	if found := left.FindStringSubmatch(res.Header.Get("RateLimit")); found == nil || found[1] != want {
		s.t.Errorf("the quota says %q, want %s left", res.Header.Get("RateLimit"), want)
	}
	s.t.Logf("%d requests and %d asks", answered, s.asked.Load())
}

// One Weir ends, then the next begins: the sockets hold those who connect in between. Counts of a quota that
// are kept in data_dir go on to the last.
func TestOneAfterTheOther(t *testing.T) {
	t.Parallel()
	s := build(t, "")
	p := s.start(t, s.config)
	s.begin()
	for range 8 {
		p.serves()
		s.more()
		p.stop()
		p = s.start(t, s.config)
	}
	s.exact()
	p.stop()
}

// The next begins before the one before ends, and both count in one Redis.
func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	s := build(t, fmt.Sprintf("store: {redis: {url: %q, timeout: 5s}}\n", redistest.Start(t).URL()))
	p := s.start(t, s.config)
	s.begin()
	for range 20 {
		p.serves()
		s.more()
		next := s.start(t, s.config)
		p.stop()
		p = next
	}
	s.exact()
	p.stop()
}
