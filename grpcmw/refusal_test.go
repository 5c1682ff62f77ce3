package grpcmw

import (
	"context"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
)

// hypothesis: a client that tries again after UNAVAILABLE and RESOURCE_EXHAUSTED turns one refusal into four.
// A refused call is made once, whether it streams or not; and this client would.
func TestARefusalIsNotRetried(t *testing.T) {
	refuse := func() error { return status.Error(codes.ResourceExhausted, "no") }
	bare := &service{
		check: func(context.Context) error { return refuse() },
		watch: func(healthpb.Health_WatchServer) error { return refuse() },
	}
	c := connect(t, "tcp", serve(t, "tcp", "127.0.0.1:0", bare))
	if err := ask(t, c); status.Code(err) != codes.ResourceExhausted || bare.calls.Load() != 4 {
		t.Fatalf("without Weir: %v after %d calls, want 4", err, bare.calls.Load())
	}
	if err := askStream(t, c); status.Code(err) != codes.ResourceExhausted || bare.calls.Load() != 8 {
		t.Fatalf("without Weir: %v after %d calls, want 8", err, bare.calls.Load())
	}
	for _, action := range []string{"reject", "drop", "tarpit"} { // outside of HTTP they are one
		for name, call := range map[string]func(testing.TB, healthpb.HealthClient, ...grpc.CallOption) error{"unary": ask, "stream": askStream} {
			t.Run(action+"/"+name, func(t *testing.T) {
				h := build(t, `default: {action: `+action+`, limits: [{rate: 1/1h, per: client}]}`)
				s := new(service)
				c := h.serve(s)
				if err := call(t, c); err != nil && err != io.EOF {
					t.Fatal(err)
				}
				if err := call(t, c); status.Code(err) != codes.ResourceExhausted {
					t.Errorf("got %v, want RESOURCE_EXHAUSTED", err)
				}
				h.records(2)
				if n := s.calls.Load(); n != 1 {
					t.Errorf("%d calls reached the service, want 1", n)
				}
			})
		}
	}
}

// What a refused client gets is what the reverse proxy sends: code, words, how long to wait, which limit,
// and the rate limit fields; and nothing else.
func TestRefusal(t *testing.T) {
	for name, call := range map[string]func(testing.TB, healthpb.HealthClient, ...grpc.CallOption) error{"unary": ask, "stream": askStream} {
		t.Run(name, func(t *testing.T) {
			h := build(t, `default: {limits: [{name: site, rate: 0/1h, per: client}]}`)
			c := h.serve(new(service))
			var header, trailer metadata.MD
			err := call(t, c, grpc.Header(&header), grpc.Trailer(&trailer))
			s := status.Convert(err)
			if s.Code() != codes.ResourceExhausted || s.Message() != "The limit site (0/1h) is below what one such request costs." {
				t.Errorf("got %v", err)
			}
			want := []any{&errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{Subject: "site", Description: "0/1h"}}}}
			if diff := cmp.Diff(want, s.Details(), protocmp.Transform()); diff != "" {
				t.Errorf("details (-want +got):\n%s", diff)
			}
			delete(trailer, "content-type")
			wantTrailer := metadata.MD{
				"grpc-retry-pushback-ms": {"-1"}, "cache-control": {"no-store"},
				"ratelimit": {`"site";r=0`}, "ratelimit-policy": {`"site";q=0;w=3600`},
				"grpc-status-details-bin": trailer["grpc-status-details-bin"],
			}
			if diff := cmp.Diff(wantTrailer, trailer); diff != "" || len(header) != 0 {
				t.Errorf("header %v, trailer (-want +got):\n%s", header, diff)
			}
		})
	}
}

// HDR-10: the wait is in RetryInfo, in whole seconds, at least one.
func TestRetryInfo(t *testing.T) {
	h := build(t, `default: {limits: [{in_flight: 1, per: global}]}`)
	inside, leave := make(chan struct{}), make(chan struct{})
	c := h.serve(&service{check: func(context.Context) error { close(inside); <-leave; return nil }})
	first := make(chan error, 1)
	go func() { first <- ask(t, c) }()
	<-inside
	s := status.Convert(ask(t, c))
	want := []any{
		&errdetails.RetryInfo{RetryDelay: durationpb.New(1e9)},
		&errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{Subject: "default", Description: "1 in flight"}}},
	}
	if diff := cmp.Diff(want, s.Details(), protocmp.Transform()); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
	close(leave)
	if err := <-first; err != nil {
		t.Error(err)
	}
}

// No refusal is UNKNOWN, whatever it is for, nor does any tempt a client to try again.
func TestOtherRefusals(t *testing.T) {
	tests := []struct {
		name, yaml string
		code       codes.Code
		status     int
	}{
		{"unresolved", "client: {from_right: 2, peers: [loopback], unresolved: reject}\n", codes.PermissionDenied, 403},
		{"ambiguous path", "matching: {ambiguous_paths: reject}\n", codes.InvalidArgument, 400},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := build(t, test.yaml)
			conn := dial(t, serve(t, "tcp", "127.0.0.1:0", new(service), grpc.ChainUnaryInterceptor(h.UnaryServerInterceptor),
				grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error { return nil }), grpc.ChainStreamInterceptor(h.StreamServerInterceptor)))
			var trailer metadata.MD
			ctx := metadata.AppendToOutgoingContext(within(t), "x-forwarded-for", "203.0.113.7")
			err := conn.Invoke(ctx, "/a%2fb/C", &healthpb.HealthCheckRequest{}, &healthpb.HealthCheckResponse{}, grpc.Trailer(&trailer))
			if status.Code(err) != test.code || !cmp.Equal(trailer["grpc-retry-pushback-ms"], []string{"-1"}) {
				t.Errorf("got %v with %v, want %v", err, trailer, test.code)
			}
			if got := h.records(1)[0]; got.Status != test.status || got.Action != "reject" {
				t.Errorf("recorded %+v, want %d", got, test.status)
			}
		})
	}
}

// A store that is away under on_failure: deny is UNAVAILABLE, and yet not retried at once.
func TestStoreFailed(t *testing.T) {
	h := build(t, "store: {on_failure: deny}\n")
	s := *h.engine.Current()
	s.Store = broken{s.Store}
	h.engine.Swap(&s)
	err := ask(t, h.serve(new(service)))
	if status.Code(err) != codes.Unavailable {
		t.Errorf("got %v, want UNAVAILABLE", err)
	}
	if got := h.records(1)[0]; got.Status != 503 || !got.Degraded {
		t.Errorf("recorded %+v, want a degraded 503", got)
	}
}
