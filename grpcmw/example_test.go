package grpcmw_test

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/grpcmw"
)

// A server limits its calls by the configuration file that a reverse proxy would read.
func ExampleOpen() {
	limiter, stop, err := grpcmw.Open("testdata/weir.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(limiter.UnaryServerInterceptor),
		grpc.ChainStreamInterceptor(limiter.StreamServerInterceptor),
	)
	callThrice(server)
	// Output:
	// hello 127.0.0.1
	// hello 127.0.0.1
	// ResourceExhausted: retry after 30m0s
}

// The same from Go values, without a file.
func ExampleOpenConfig() {
	cfg := config.Default()
	cfg.Rules = []config.Rule{{Name: "health", Path: "/grpc.health.v1.Health", Limits: []config.Limit{
		{Rate: &config.Rate{N: 2, Window: time.Hour}, Algorithm: "token_bucket"},
	}}}
	limiter, stop, err := grpcmw.OpenConfig(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	callThrice(grpc.NewServer(grpc.UnaryInterceptor(limiter.UnaryServerInterceptor)))
	// Output:
	// hello 127.0.0.1
	// hello 127.0.0.1
	// ResourceExhausted: retry after 30m0s
}

// greeter says hello to whom Weir found.
type greeter struct {
	healthpb.UnimplementedHealthServer
}

func (greeter) Check(ctx context.Context, _ *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	fmt.Println("hello", grpcmw.FromContext(ctx).Client.Addr)
	return &healthpb.HealthCheckResponse{}, nil
}

// callThrice serves on a free port, and calls.
func callThrice(server *grpc.Server) {
	healthpb.RegisterHealthServer(server, greeter{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	defer func() { server.Stop(); <-done }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	for range 3 {
		_, err := healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{})
		for _, d := range status.Convert(err).Details() {
			if retry, ok := d.(*errdetails.RetryInfo); ok {
				wait := retry.RetryDelay.AsDuration().Round(time.Minute) // so that this example says the same on any machine
				fmt.Printf("%s: retry after %s\n", status.Code(err), wait)
			}
		}
	}
}
