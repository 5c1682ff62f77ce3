package main

import (
	"net"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// The null service lets pass what it is asked, and every call is told of.
func TestAsk(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	pb.RegisterRateLimitServiceServer(s, nullService{})
	go func() { _ = s.Serve(l) }() // until Stop
	defer s.Stop()
	a, err := questions{addr: l.Addr().String(), key: "k", clients: 3, callers: 4, long: 50 * time.Millisecond}.ask()
	if err != nil || a.Calls < 4 || a.Refused != 0 || a.P50 <= 0 || a.P99 < a.P50 || a.Seconds <= 0 {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestRefused(t *testing.T) {
	for code, want := range map[pb.RateLimitResponse_Code]bool{pb.RateLimitResponse_OK: false, pb.RateLimitResponse_OVER_LIMIT: true, pb.RateLimitResponse_UNKNOWN: false} {
		answer, err := proto.Marshal(&pb.RateLimitResponse{OverallCode: code})
		if err != nil {
			t.Fatal(err)
		}
		if got := refused(answer); got != want {
			t.Errorf("%v: %v, want %v", code, got, want)
		}
	}
}
