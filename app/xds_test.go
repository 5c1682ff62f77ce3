package app

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	controlplane "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// A control is a go-control-plane server, and the reasons for which its configurations were refused.
type control struct {
	t     *testing.T
	addr  string
	cache cache.SnapshotCache

	mu      sync.Mutex
	refused []string
}

// startControl runs a control plane until the test ends.
func startControl(t *testing.T) *control {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &control{t: t, addr: l.Addr().String(), cache: cache.NewSnapshotCache(true, cache.IDHash{}, nil)}
	ctx, cancel := context.WithCancel(context.Background())
	s := grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(s, controlplane.NewServer(ctx, c.cache, controlplane.CallbackFuncs{
		StreamRequestFunc: func(_ int64, r *discovery.DiscoveryRequest) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			if r.ErrorDetail != nil {
				c.refused = append(c.refused, r.ErrorDetail.Message)
			}
			return nil
		},
	}))
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		cancel()
		s.Stop()
		<-done
	})
	return c
}

// push hands out domain d, in which key a has a limit per unit, to the node gateway.
func (c *control) push(version string, unit ratelimit.RateLimitUnit, perUnit uint32) {
	c.t.Helper()
	config := &ratelimit.RateLimitConfig{Name: "r", Domain: "d", Descriptors: []*ratelimit.RateLimitDescriptor{
		{Key: "a", RateLimit: &ratelimit.RateLimitPolicy{Unit: unit, RequestsPerUnit: perUnit}},
	}}
	s, err := cache.NewSnapshot(version, map[resource.Type][]types.Resource{resource.RateLimitConfigType: {config}})
	if err == nil {
		err = c.cache.SetSnapshot(context.Background(), "gateway", s)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// refusals are the reasons so far.
func (c *control) refusals() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.refused...)
}

// freePort returns the port of a loopback address that nobody listens on.
func freePort(t *testing.T) string {
	_, port, _ := net.SplitHostPort(free(t))
	return port
}

// With CONFIG_TYPE=GRPC_XDS_SOTW, as Envoy Gateway deploys envoyproxy/ratelimit, the limits are those of the control
// plane: none and no good health before the first, then what it pushes; a push that is wrong is refused with the
// reason, and what was in force stays.
func TestDescriptorsOfAControlPlane(t *testing.T) {
	c := startControl(t)
	written := new(logs)
	o := Options{Log: written, Version: "test", Env: []string{
		"CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_NODE_ID=gateway", "CONFIG_GRPC_XDS_SERVER_URL=" + c.addr,
		"GRPC_HOST=127.0.0.1", "GRPC_PORT=" + freePort(t), "HOST=127.0.0.1", "PORT=" + freePort(t), "DEBUG_PORT=" + freePort(t), "WEIR_LOG_LEVEL=info",
	}}
	a, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	h := run(t, a, o, written)
	conn := h.dial("rls.listen")
	rls := pb.NewRateLimitServiceClient(conn)
	limit := func() string {
		a, err := rls.ShouldRateLimit(t.Context(), oneOf("x"))
		if err != nil {
			return status.Code(err).String()
		}
		return fmt.Sprint(a.Statuses[0].GetCurrentLimit().GetRequestsPerUnit())
	}
	healthy := func() bool {
		a, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "ratelimit"})
		return err == nil && a.Status == grpc_health_v1.HealthCheckResponse_SERVING
	}
	if got := limit(); got != codes.FailedPrecondition.String() || healthy() {
		t.Errorf("before the first push: %s, healthy %v", got, healthy())
	}
	c.push("1", ratelimit.RateLimitUnit_DAY, 3)
	eventually(t, "the first limit", func() bool { return limit() == "3" && healthy() })
	if got := h.metric(`weir_decisions_total{action="pass",front="rls",rule="rls:d"}`); got < 1 {
		t.Errorf("%v decisions are recorded under the domain", got)
	}
	c.push("2", ratelimit.RateLimitUnit_UNKNOWN, 9)
	eventually(t, "the refusal", func() bool { return len(c.refusals()) > 0 })
	if got := c.refusals()[0]; !strings.Contains(got, "descriptors[0].rate_limit.unit") || limit() != "3" {
		t.Errorf("refused with %q, limit %s; want the place, and 3", got, limit())
	}
	c.push("3", ratelimit.RateLimitUnit_HOUR, 7)
	eventually(t, "what is right again", func() bool { return limit() == "7" })
}
