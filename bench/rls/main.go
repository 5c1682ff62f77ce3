// Command rls is what Weir's rate limit service is compared with, the least that grpc-go with generated
// messages can do, and what asks both.
//
//	rls -serve ADDR
//	rls -ask ADDR -api envoy -key KEY -clients 50000 -callers 64 -for 2s
package main

import (
	"context"
	"encoding/json"
	"flag"
	"log"
	"net"
	"os"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
)

func main() {
	serve := flag.String("serve", "", "address where nothing is counted and everything passes")
	var q questions
	flag.StringVar(&q.addr, "ask", "", "address of the service to ask")
	flag.StringVar(&q.api, "api", "envoy", "how it is asked: envoy, gubernator")
	flag.StringVar(&q.key, "key", "client", "key of the descriptor; hot: over its limit")
	flag.IntVar(&q.clients, "clients", 1, "values of the descriptor")
	flag.IntVar(&q.callers, "callers", 1, "how many ask at once")
	flag.DurationVar(&q.long, "for", time.Second, "how long they ask")
	flag.Parse()
	if *serve != "" {
		log.Fatal(null(*serve))
	}
	answers, err := q.ask()
	if err != nil {
		log.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		log.Fatal(err)
	}
}

type nullService struct {
	pb.UnimplementedRateLimitServiceServer
}

func (nullService) ShouldRateLimit(_ context.Context, r *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	statuses := make([]*pb.RateLimitResponse_DescriptorStatus, len(r.Descriptors))
	for i := range statuses {
		statuses[i] = &pb.RateLimitResponse_DescriptorStatus{Code: pb.RateLimitResponse_OK, LimitRemaining: 1}
	}
	return &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OK, Statuses: statuses}, nil
}

// null serves at addr for ever.
func null(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	pb.RegisterRateLimitServiceServer(s, nullService{})
	return s.Serve(l)
}
