package grpcmw

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/internal/enginetest"
	"github.com/weirgate/weir/internal/leaktest"
	"github.com/weirgate/weir/internal/proctest"
	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/store/memory"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const (
	check = "/grpc.health.v1.Health/Check" // one answer
	watch = "/grpc.health.v1.Health/Watch" // a stream
)

// A house is a limiter with everything behind it.
type house struct {
	*Limiter
	t       testing.TB
	journal *journal.Journal
}

// build returns the house that a configuration file describes.
func build(t testing.TB, yaml string) *house {
	t.Helper()
	store := memory.New(memory.Options{MaxKeys: 10_000})
	t.Cleanup(store.Close)
	s := enginetest.Snapshot(t, yaml, store)
	j := journal.New(journal.Options{Recent: 2000, Rules: s.Policy.Names()})
	return &house{New(engine.New(s, j, time.Now)), t, j}
}

// A service answers calls as a test says, and counts them.
type service struct {
	healthpb.UnimplementedHealthServer
	check func(context.Context) error
	watch func(healthpb.Health_WatchServer) error
	calls atomic.Int64
}

func (s *service) Check(ctx context.Context, _ *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	s.calls.Add(1)
	if s.check != nil {
		if err := s.check(ctx); err != nil {
			return nil, err
		}
	}
	return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil
}

func (s *service) Watch(_ *healthpb.HealthCheckRequest, stream healthpb.Health_WatchServer) error {
	s.calls.Add(1)
	if s.watch != nil {
		return s.watch(stream)
	}
	return stream.Send(&healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING})
}

// serve runs s behind the limiter on a free port, and returns a client.
func (h *house) serve(s *service, o ...grpc.ServerOption) healthpb.HealthClient {
	h.t.Helper()
	o = append(o, grpc.ChainUnaryInterceptor(h.UnaryServerInterceptor), grpc.ChainStreamInterceptor(h.StreamServerInterceptor))
	return connect(h.t, "tcp", serve(h.t, "tcp", "127.0.0.1:0", s, o...))
}

// serve runs s on a free port, or a unix socket, and returns its address.
func serve(t testing.TB, network, address string, s *service, o ...grpc.ServerOption) string {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(o...)
	healthpb.RegisterHealthServer(server, s)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// eager is how clients are set up that try again up to three times, also after what nobody should.
const eager = `{"methodConfig": [{"name": [{}], "retryPolicy": {
	"maxAttempts": 4, "initialBackoff": "0.01s", "maxBackoff": "0.01s", "backoffMultiplier": 1,
	"retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED"]}}]}`

// connect returns an eager client of the server at address.
func connect(t testing.TB, network, address string, o ...grpc.DialOption) healthpb.HealthClient {
	t.Helper()
	o = append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(eager),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		}),
	}, o...)
	conn, err := grpc.NewClient("passthrough:///service.test", o...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return healthpb.NewHealthClient(conn)
}

// within bounds a call of a test.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// ask calls Check, and returns its error.
func ask(t testing.TB, c healthpb.HealthClient, o ...grpc.CallOption) error {
	t.Helper()
	_, err := c.Check(within(t), &healthpb.HealthCheckRequest{}, o...)
	return err
}

// askStream calls Watch, and returns how the stream ended: io.EOF if well.
func askStream(t testing.TB, c healthpb.HealthClient, o ...grpc.CallOption) error {
	t.Helper()
	stream, err := c.Watch(within(t), &healthpb.HealthCheckRequest{}, o...)
	for err == nil {
		_, err = stream.Recv()
	}
	return err
}

// records waits until n decisions are recorded, and fails if there are more. The newest is the first.
func (h *house) records(n int) []journal.Entry {
	h.t.Helper()
	proctest.Eventually(h.t, "records", func() bool { return len(h.journal.Recent(n)) >= n })
	got := h.journal.Recent(n + 1)
	if len(got) != n {
		h.t.Fatalf("%d decisions are recorded, want %d", len(got), n)
	}
	return got
}

// dial returns a bare connection to address.
func dial(t testing.TB, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(eager))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// broken is a store that does not answer.
type broken struct{ engine.Store }

func (broken) Take(context.Context, time.Time, []weir.Hit, []weir.Status) error {
	return errors.New("away")
}
