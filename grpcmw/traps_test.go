package grpcmw

import (
	"context"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// What follows are ways to use the library wrongly, one a test: what happens then, beside what is right.

// A server has two chains: without the second interceptor, streams are not limited.
func TestTrapStreamsForgotten(t *testing.T) {
	h := build(t, `default: {limits: [{rate: 0/1h, per: client}]}`)
	half := connect(t, "tcp", serve(t, "tcp", "127.0.0.1:0", new(service), grpc.ChainUnaryInterceptor(h.UnaryServerInterceptor)))
	if err := askStream(t, half); err != io.EOF {
		t.Errorf("a stream of half a limiter: %v, want what this test warns of", err)
	}
	if err := askStream(t, h.serve(new(service))); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a stream: %v", err)
	}
}

// Weir belongs outside of authentication: inside of it, calls that fail there are not counted, and passwords are
// tried without a limit.
func TestTrapOrder(t *testing.T) {
	authenticate := func(_ context.Context, _ any, _ *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
		return nil, status.Error(codes.Unauthenticated, "wrong password")
	}
	for _, test := range []struct {
		weirFirst bool
		want      codes.Code
	}{{true, codes.ResourceExhausted}, {false, codes.Unauthenticated}} {
		h := build(t, `default: {limits: [{rate: 2/1h, per: client}]}`)
		order := []grpc.UnaryServerInterceptor{authenticate, h.UnaryServerInterceptor}
		if test.weirFirst {
			order = []grpc.UnaryServerInterceptor{h.UnaryServerInterceptor, authenticate}
		}
		c := connect(t, "tcp", serve(t, "tcp", "127.0.0.1:0", new(service), grpc.ChainUnaryInterceptor(order...)))
		var err error
		for range 3 {
			err = ask(t, c)
		}
		if status.Code(err) != test.want {
			t.Errorf("Weir first %v: the third guess is answered %v, want %v", test.weirFirst, err, test.want)
		}
	}
}

// Two interceptors in one chain count twice.
func TestTrapChainedTwice(t *testing.T) {
	h := build(t, `default: {limits: [{rate: 2/1h, per: client}]}`)
	c := h.serve(new(service), grpc.ChainUnaryInterceptor(h.UnaryServerInterceptor))
	if first, second := ask(t, c), ask(t, c); first != nil || status.Code(second) != codes.ResourceExhausted {
		t.Errorf("got %v and %v, want what this test warns of", first, second)
	}
}

// Metadata is what the client wrote. Whom a call is from is in its decision.
func TestTrapMetadata(t *testing.T) {
	h := build(t, "client: {from_right: 1, peers: [loopback]}")
	var written, client string
	c := h.serve(&service{check: func(ctx context.Context) error {
		incoming, _ := metadata.FromIncomingContext(ctx)
		written, client = incoming.Get("x-forwarded-for")[0], FromContext(ctx).Client.Addr.String()
		return nil
	}})
	ctx := metadata.AppendToOutgoingContext(within(t), "x-forwarded-for", "6.6.6.6, 203.0.113.7")
	if _, err := c.Check(ctx, &healthpb.HealthCheckRequest{}); err != nil || written != "6.6.6.6, 203.0.113.7" || client != "203.0.113.7" {
		t.Errorf("written %q, client %q, %v", written, client, err)
	}
}
