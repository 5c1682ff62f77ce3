package xds

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/weirgate/weir/front/envoyrls/descriptors"
	"github.com/weirgate/weir/internal/leaktest"
	"github.com/weirgate/weir/internal/proctest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const bound = 20 * time.Second // for what takes a moment on an idle machine

// A control is a go-control-plane server, and what it was asked.
type control struct {
	cache cache.SnapshotCache
	grpc  *grpc.Server

	mu      sync.Mutex
	asked   []*discovery.DiscoveryRequest
	headers metadata.MD
}

// start runs a server on l until it is stopped or the test ends.
func start(t *testing.T, l net.Listener, secure *tls.Config) *control {
	t.Helper()
	c := &control{cache: cache.NewSnapshotCache(true, cache.IDHash{}, nil)}
	ctx, cancel := context.WithCancel(t.Context())
	var options []grpc.ServerOption
	if secure != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(secure)))
	}
	c.grpc = grpc.NewServer(options...)
	discovery.RegisterAggregatedDiscoveryServiceServer(c.grpc, server.NewServer(ctx, c.cache, server.CallbackFuncs{
		StreamOpenFunc: func(ctx context.Context, _ int64, _ string) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.headers, _ = metadata.FromIncomingContext(ctx)
			return nil
		},
		StreamRequestFunc: func(_ int64, r *discovery.DiscoveryRequest) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.asked = append(c.asked, proto.Clone(r).(*discovery.DiscoveryRequest))
			return nil
		},
	}))
	done := make(chan error)
	go func() { done <- c.grpc.Serve(l) }()
	t.Cleanup(func() {
		cancel()
		c.grpc.Stop()
		<-done
	})
	return c
}

// push hands out configurations under a version.
func (c *control) push(t *testing.T, version string, all ...*ratelimit.RateLimitConfig) {
	t.Helper()
	resources := make([]types.Resource, len(all))
	for i, r := range all {
		resources[i] = r
	}
	s, err := cache.NewSnapshot(version, map[resource.Type][]types.Resource{resource.RateLimitConfigType: resources})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cache.SetSnapshot(context.Background(), "gateway", s); err != nil {
		t.Fatal(err)
	}
}

// last returns the last request, if there are at least n.
func (c *control) last(n int) *discovery.DiscoveryRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.asked) < n {
		return nil
	}
	return c.asked[len(c.asked)-1]
}

// first returns the first request.
func (c *control) first() *discovery.DiscoveryRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked[0]
}

// replies waits for the request n, and returns it.
func (c *control) replies(t *testing.T, n int) *discovery.DiscoveryRequest {
	t.Helper()
	var r *discovery.DiscoveryRequest
	proctest.Eventually(t, "a reply", func() bool { r = c.last(n); return r != nil })
	return r
}

func listen(t *testing.T, addr string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A taker is a client under test: what is in force for it, and how long it was told to wait.
type taker struct {
	mu      sync.Mutex
	inForce *descriptors.Set
	taken   int
	refused []string
	reject  error // what apply returns

	pauses chan time.Duration
	again  chan bool // ends a pause
}

// run starts a client, which ends with the test.
func run(t *testing.T, o Options) *taker {
	t.Helper()
	k := &taker{pauses: make(chan time.Duration), again: make(chan bool)}
	ctx, cancel := context.WithCancel(t.Context())
	o.Node = "gateway"
	o.random = func() float64 { return 0.5 }
	o.Refused = func(err error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.refused = append(k.refused, err.Error())
	}
	o.wait = func(ctx context.Context, d time.Duration) {
		select {
		case k.pauses <- d:
		case <-ctx.Done():
			return
		}
		select {
		case <-k.again:
		case <-ctx.Done():
		}
	}
	done := make(chan error)
	go func() { done <- Run(ctx, o, k.apply) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return k
}

func (k *taker) apply(s *descriptors.Set) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.reject != nil {
		return k.reject
	}
	k.inForce, k.taken = s, k.taken+1
	return nil
}

// limit returns the number of the limit for key k of a domain in force: -1 without a limit, -2 without
// the domain, -3 without any configuration.
func (k *taker) limit(domain string) int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.inForce == nil {
		return -3
	}
	var m descriptors.Match
	k.inForce.Find(domain, []descriptors.Entry{{Key: "k", Value: "v"}}, &m)
	switch {
	case !m.Domain:
		return -2
	case m.Limit == nil:
		return -1
	}
	return int64(m.Limit.PerUnit)
}

// paused waits for the next pause, and returns how long it is to be.
func (k *taker) paused(t *testing.T) time.Duration {
	t.Helper()
	select {
	case d := <-k.pauses:
		return d
	case <-time.After(bound):
		t.Fatal("no pause")
		return 0
	}
}

// domain is a configuration with one limit for key k.
func domain(name string, limit uint32) *ratelimit.RateLimitConfig {
	return &ratelimit.RateLimitConfig{Name: "r-" + name, Domain: name, Descriptors: []*ratelimit.RateLimitDescriptor{{
		Key: "k", RateLimit: &ratelimit.RateLimitPolicy{Unit: ratelimit.RateLimitUnit_HOUR, RequestsPerUnit: limit},
	}}}
}

// wantReply compares the parts of a request that answer a configuration.
func wantReply(t *testing.T, r *discovery.DiscoveryRequest, version, reason string) {
	t.Helper()
	if r.GetVersionInfo() != version || r.GetErrorDetail().GetMessage() != reason || r.GetTypeUrl() != typeURL {
		t.Errorf("version %q, reason %q of %s; want %q, %q", r.GetVersionInfo(), r.GetErrorDetail().GetMessage(), r.GetTypeUrl(), version, reason)
	}
	if (r.GetErrorDetail().GetCode() != 0) != (reason != "") {
		t.Errorf("code %d", r.GetErrorDetail().GetCode())
	}
}
