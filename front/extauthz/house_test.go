package extauthz

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/internal/enginetest"
	"github.com/weirgate/weir/internal/leaktest"
	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/store/memory"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// noon is when all that is asked happens, so that what is told of seconds is to the second.
func noon() time.Time { return time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC) }

// A house is a server with everything behind it, and a client: the Envoy that asks.
type house struct {
	*Server
	t       testing.TB
	address string
	envoy   *grpc.ClientConn
	journal *journal.Journal
}

// build returns the running house that a configuration describes.
func build(t testing.TB, yaml string) *house {
	t.Helper()
	store := memory.New(memory.Options{MaxKeys: 10_000})
	t.Cleanup(store.Close)
	return over(t, enginetest.Snapshot(t, yaml, store))
}

// over returns the running house over s.
func over(t testing.TB, s *engine.Snapshot) *house {
	t.Helper()
	j := journal.New(journal.Options{Recent: 5000, Rules: s.Policy.Names()})
	h := &house{Server: New(engine.New(s, j, noon), Options{}), t: t, journal: j}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.address = l.Addr().String()
	done := make(chan error, 1)
	go func() { done <- h.Serve(l) }()
	if h.envoy, err = grpc.NewClient("passthrough:///"+h.address, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.envoy.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := h.Drain(ctx); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return h
}

// ask asks as Envoy does.
func (h *house) ask(q *authpb.CheckRequest) *authpb.CheckResponse {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	answer, err := authpb.NewAuthorizationClient(h.envoy).Check(ctx, q)
	if err != nil {
		h.t.Fatal(err)
	}
	return answer
}

// records returns the n decisions that are recorded, the newest first, and fails if there are more. A decision
// is recorded before its answer is sent.
func (h *house) records(n int) []journal.Entry {
	h.t.Helper()
	got := h.journal.Recent(n + 1)
	if len(got) != n {
		h.t.Fatalf("%d decisions are recorded, want %d", len(got), n)
	}
	return got
}

// question is what Envoy asks about a request from src: header are names and values.
func question(src, method, path string, header ...string) *authpb.CheckRequest {
	told := &authpb.AttributeContext_HttpRequest{
		Method: method, Path: path, Host: "api.example", Scheme: "https", Protocol: "HTTP/2",
		Headers: map[string]string{":authority": "api.example", ":method": method, ":path": path, ":scheme": "https"},
	}
	for i := 0; i < len(header); i += 2 {
		told.Headers[strings.ToLower(header[i])] = header[i+1]
	}
	return &authpb.CheckRequest{Attributes: &authpb.AttributeContext{
		Source:  &authpb.AttributeContext_Peer{Address: socket(src)},
		Request: &authpb.AttributeContext_Request{Http: told},
	}}
}

func socket(address string) *corepb.Address {
	return &corepb.Address{Address: &corepb.Address_SocketAddress{SocketAddress: &corepb.SocketAddress{
		Address: address, PortSpecifier: &corepb.SocketAddress_PortValue{PortValue: 4711},
	}}}
}

// fields are the header fields that an answer names.
func fields(list []*corepb.HeaderValueOption) map[string]string {
	got := map[string]string{}
	for _, o := range list {
		got[o.Header.Key] = o.Header.Value
	}
	return got
}
