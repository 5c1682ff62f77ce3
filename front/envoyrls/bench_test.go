package envoyrls

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"

	"github.com/weirgate/weir/internal/racing"
	"github.com/weirgate/weir/internal/redistest"
)

const benchLimits = `domain: d
descriptors:
  - {key: hot, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: client, rate_limit: {unit: hour, requests_per_unit: 1000000000}}
`

// What a call without a wire allocates is its answer: the response, its statuses, their resets, and with headers
// three of them. Own adds the header fields.
func TestCallAllocates(t *testing.T) {
	if racing.On {
		t.Skip("allocations say nothing")
	}
	for name, c := range map[string]struct {
		options Options
		most    float64
	}{
		"compat":              {Options{}, 6},
		"compat with headers": {Options{Settings: Settings{Headers: &HeaderNames{}}}, 14},
		"own":                 {Options{Counting: Own}, 20},
	} {
		h := build(t, plan{yaml: benchLimits, options: c.options})
		ask := request(descriptor("client", "10.0.0.1"))
		n := testing.AllocsPerRun(200, func() { _, _ = h.ShouldRateLimit(context.Background(), ask) })
		if n > c.most {
			t.Errorf("%s: %v allocations, want at most %v", name, n, c.most)
		}
	}
}

// BenchmarkCall is the service alone, without a wire.
func BenchmarkCall(b *testing.B) {
	for _, key := range []string{"client", "hot"} {
		b.Run(key, func(b *testing.B) {
			h := build(b, plan{yaml: benchLimits})
			ask := request(descriptor(key, "10.0.0.1"))
			b.ReportAllocs()
			for b.Loop() {
				_, _ = h.ShouldRateLimit(context.Background(), ask)
			}
		})
	}
}

// BenchmarkGRPC is the service over the loopback, with 64 callers, beside a service that does nothing.
func BenchmarkGRPC(b *testing.B) {
	b.Run("null", func(b *testing.B) {
		h := build(b, plan{})
		h.grpc = grpc.NewServer()
		pb.RegisterRateLimitServiceServer(h.grpc, null{})
		callOver(b, h.dial(b))
	})
	b.Run("memory", func(b *testing.B) { callOver(b, build(b, plan{yaml: benchLimits}).dial(b)) })
	b.Run("own", func(b *testing.B) {
		callOver(b, build(b, plan{yaml: benchLimits, options: Options{Counting: Own}}).dial(b))
	})
	b.Run("redis", func(b *testing.B) { callOver(b, onRedis(b, redistest.Start(b), Options{}, benchLimits).dial(b)) })
}

func callOver(b *testing.B, client pb.RateLimitServiceClient) {
	var failed atomic.Int64
	b.SetParallelism(32)
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			ask := request(descriptor("client", fmt.Sprint("10.0.0.", rand.IntN(100_000))))
			if _, err := client.ShouldRateLimit(context.Background(), ask); err != nil {
				failed.Add(1)
			}
		}
	})
	if n := failed.Load(); n > 0 {
		b.Errorf("%d calls failed", n)
	}
}

// null is the least that a service on grpc-go can do.
type null struct {
	pb.UnimplementedRateLimitServiceServer
}

func (null) ShouldRateLimit(_ context.Context, r *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	a := &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OK}
	for range r.Descriptors {
		a.Statuses = append(a.Statuses, &pb.RateLimitResponse_DescriptorStatus{Code: pb.RateLimitResponse_OK})
	}
	return a, nil
}
