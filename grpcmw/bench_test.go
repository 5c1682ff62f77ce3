package grpcmw

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// incoming is a call as grpc-go hands it over: what every client sends.
func incoming() context.Context {
	ctx := peer.NewContext(context.Background(), &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}})
	ctx = metadata.NewIncomingContext(ctx, metadata.MD{
		":authority": {"service.test"}, "content-type": {"application/grpc"}, "user-agent": {"grpc-go/1.85.0"}, "x-request-id": {"abc"},
	})
	return grpc.NewContextWithServerTransportStream(ctx, sink{})
}

// sink takes what an interceptor sends.
type sink struct{}

func (sink) Method() string               { return check }
func (sink) SetHeader(metadata.MD) error  { return nil }
func (sink) SendHeader(metadata.MD) error { return nil }
func (sink) SetTrailer(metadata.MD) error { return nil }

// once calls the interceptor without a network.
func (h *house) once(ctx context.Context) error {
	_, err := h.UnaryServerInterceptor(ctx, nil, &grpc.UnaryServerInfo{FullMethod: check}, func(context.Context, any) (any, error) { return nil, nil })
	return err
}

// What the interceptor itself allocates stays small: grpc-go needs some 150 per call.
func TestAllocations(t *testing.T) {
	tests := map[string]struct {
		yaml string
		most float64
	}{
		"admitted": {`default: {limits: [{rate: 1000000000/1h, per: client}]}`, 20},
		"refused":  {`default: {limits: [{rate: 0/1h, per: client}]}`, 75},
	}
	for name, test := range tests {
		h, ctx := build(t, test.yaml), incoming()
		if got := testing.AllocsPerRun(200, func() { _ = h.once(ctx) }); got > test.most {
			t.Errorf("%s: %v allocations, want at most %v", name, got, test.most)
		} else {
			t.Logf("%s: %v allocations", name, got)
		}
	}
}

func BenchmarkInterceptor(b *testing.B) {
	for name, yaml := range map[string]string{
		"admitted": `default: {limits: [{rate: 1000000000/1h, per: client}]}`,
		"refused":  `default: {limits: [{rate: 0/1h, per: client}]}`,
	} {
		b.Run(name, func(b *testing.B) {
			h, ctx := build(b, yaml), incoming()
			b.ReportAllocs()
			for b.Loop() {
				_ = h.once(ctx)
			}
		})
	}
}

// BenchmarkCall is a whole call on the loopback: a bare server's, and one behind Weir.
func BenchmarkCall(b *testing.B) {
	h := build(b, `default: {limits: [{rate: 1000000000/1h, per: client}]}`)
	for name, o := range map[string][]grpc.ServerOption{
		"bare": nil, "weir": {grpc.ChainUnaryInterceptor(h.UnaryServerInterceptor)},
	} {
		b.Run(name, func(b *testing.B) {
			c := connect(b, "tcp", serve(b, "tcp", "127.0.0.1:0", new(service), o...))
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Check(ctx, &healthpb.HealthCheckRequest{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
