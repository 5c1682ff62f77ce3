package spoe

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// retrying is how gRPC clients are configured as a rule.
const retrying = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.01s", "maxBackoff": "0.1s",
"backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED"]}}]}`

// A plain 429 becomes UNAVAILABLE, which clients ask again for at once. Refused in gRPC's own form, a
// retrying client makes one call.
func TestGRPCIsRefusedOnce(t *testing.T) {
	h := open(t, "client: {path: [haproxy]}\ndefault: {limits: [{rate: 0/1h}]}", Options{})
	s := plan{agents: []*house{h}}.start(t)
	c, err := grpc.NewClient(strings.TrimPrefix(s.url, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(retrying))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err = c.Invoke(ctx, "/shop.Cart/Add", &emptypb.Empty{}, &emptypb.Empty{})
	if got := status.Code(err); got != codes.ResourceExhausted {
		t.Errorf("%v, want %v", err, codes.ResourceExhausted)
	}
	eventually(t, "record", func() bool { return h.requests() > 0 })
	if n := h.requests(); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
}
