package main

import (
	"net"
	"slices"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
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
	a, err := questions{addr: l.Addr().String(), api: "envoy", key: "k", clients: 3, callers: 4, long: 50 * time.Millisecond}.ask()
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
		if got, err := overLimit(answer); got != want || err != nil {
			t.Errorf("%v: %v, %v, want %v", code, got, err, want)
		}
	}
}

// An answer of gubernator has one limit with its status, and an error that makes the status void.
func TestGubernatorRefused(t *testing.T) {
	field := func(number protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), v)
	}
	answer := func(fields ...[]byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), slices.Concat(fields...))
	}
	failed := protowire.AppendString(protowire.AppendTag(nil, gubernatorError, protowire.BytesType), "pool is empty")
	for name, test := range map[string]struct {
		answer  []byte
		refused bool
		failed  bool
	}{
		"room":        {answer(field(2, 10), field(3, 9)), false, false},
		"over":        {answer(field(gubernatorStatus, 1), field(2, 10)), true, false},
		"error":       {answer(field(2, 10), failed), false, true},
		"no limit":    {nil, false, true},
		"cut":         {answer(field(2, 10))[:3], false, true},
		"broken":      {answer([]byte{0xff}), false, true},
		"half a part": {answer([]byte{0x08}), false, true},
	} {
		refused, err := gubernatorRefused(test.answer)
		if refused != test.refused || (err != nil) != test.failed {
			t.Errorf("%s: %v, %v, want %v, failed %v", name, refused, err, test.refused, test.failed)
		}
	}
}
