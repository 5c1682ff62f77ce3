package fronttest

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/weirgate/weir/front/proxy"
	"github.com/weirgate/weir/grpcmw"
)

// eager is how clients are set up that try again up to three times, also after what nobody should.
const eager = `{"methodConfig": [{"name": [{}], "retryPolicy": {
	"maxAttempts": 4, "initialBackoff": "0.01s", "maxBackoff": "0.01s", "backoffMultiplier": 1,
	"retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED"]}}]}`

// once lets one call pass.
const once = `default: {limits: [{name: site, rate: 1/1h, per: client, algorithm: token_bucket}]}`

// A service counts its calls. It streams three messages, and ends with words of its own.
type service struct {
	healthpb.UnimplementedHealthServer
	calls atomic.Int64
}

func (s *service) Check(context.Context, *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	s.calls.Add(1)
	return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil
}

func (s *service) Watch(_ *healthpb.HealthCheckRequest, stream healthpb.Health_WatchServer) error {
	s.calls.Add(1)
	for range 3 {
		if err := stream.Send(&healthpb.HealthCheckResponse{}); err != nil {
			return err
		}
	}
	stream.SetTrailer(metadata.Pairs("mine", "kept"))
	return status.Error(codes.Aborted, "that is all")
}

func (s *service) serve(t testing.TB, o ...grpc.ServerOption) string {
	server := grpc.NewServer(o...)
	healthpb.RegisterHealthServer(server, s)
	return serve(t, &grpcServer{server})
}

// serveProxy puts the reverse proxy of h before an upstream, and returns its address.
func serveProxy(t testing.TB, h *house, upstream string) string {
	t.Helper()
	h.before(t, upstream)
	p, err := proxy.New(h.engine, proxy.Options{
		HeaderTimeout: 10 * time.Second, IdleTimeout: 10 * time.Second, MaxHeader: 16 << 10, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, p)
}

// ways are how a gRPC client meets Weir: in the service itself, or in the proxy before it over HTTP/2.
var ways = map[string]func(testing.TB, *house, *service) string{
	"grpcmw": func(t testing.TB, h *house, s *service) string {
		l := grpcmw.New(h.engine)
		return s.serve(t, grpc.ChainUnaryInterceptor(l.UnaryServerInterceptor), grpc.ChainStreamInterceptor(l.StreamServerInterceptor))
	},
	"proxy": func(t testing.TB, h *house, s *service) string { return serveProxy(t, h, "h2c://"+s.serve(t)) },
}

// A refusal is what a gRPC client gets to know.
type refusal struct {
	Code            codes.Code
	Message         string
	Details         []any
	Header, Trailer metadata.MD
}

func unary(ctx context.Context, c healthpb.HealthClient, o ...grpc.CallOption) error {
	_, err := c.Check(ctx, &healthpb.HealthCheckRequest{}, o...)
	return err
}

func stream(ctx context.Context, c healthpb.HealthClient, o ...grpc.CallOption) error {
	s, err := c.Watch(ctx, &healthpb.HealthCheckRequest{}, o...)
	for err == nil {
		_, err = s.Recv()
	}
	return err
}

// hypothesis: a plain 429 is UNAVAILABLE to a gRPC client, which calls four times in place of once. A client that
// tries again whatever happens makes exactly one call when it is refused; in the service and in the proxy before it
// it is told the same.
func TestARefusedCallIsMadeOnce(t *testing.T) {
	for kind, call := range map[string]func(context.Context, healthpb.HealthClient, ...grpc.CallOption) error{"unary": unary, "stream": stream} {
		var told []refusal
		for name, way := range ways {
			h, s := alone(t, once), new(service)
			c := healthpb.NewHealthClient(dial(t, way(t, h, s), "service.test"))
			if err := call(atMost(t), c); kind == "unary" && err != nil || kind == "stream" && status.Convert(err).Message() != "that is all" {
				t.Fatalf("%s, %s: the first call: %v", name, kind, err)
			}
			var r refusal
			got := status.Convert(call(atMost(t), c, grpc.Header(&r.Header), grpc.Trailer(&r.Trailer)))
			h.recorded(t, 2)
			if n := s.calls.Load(); n != 1 {
				t.Errorf("%s, %s: the service was called %d times", name, kind, n)
			}
			r.Code, r.Message, r.Details = got.Code(), got.Message(), got.Details()
			delete(r.Trailer, "date") // these are an HTTP server's
			delete(r.Trailer, "content-length")
			told = append(told, r)
		}
		if diff := cmp.Diff(told[0], told[1], protocmp.Transform()); diff != "" || told[0].Code != codes.ResourceExhausted {
			t.Errorf("%s: got %v; one way and the other:\n%s", kind, told[0].Code, diff)
		}
		if retry, ok := told[0].Details[0].(*errdetails.RetryInfo); !ok || retry.RetryDelay.Seconds != 3600 {
			t.Errorf("%s: details %v", kind, told[0].Details)
		}
	}
}

// PRX-19: what passes is not changed: messages, trailers and the code of a stream that fails arrive.
func TestAStreamArrives(t *testing.T) {
	for name, way := range ways {
		c := healthpb.NewHealthClient(dial(t, way(t, alone(t, once), new(service)), "service.test"))
		s, err := c.Watch(atMost(t), &healthpb.HealthCheckRequest{})
		messages := 0
		for ; err == nil; messages++ {
			_, err = s.Recv()
		}
		header, _ := s.Header()
		if messages-1 != 3 || status.Code(err) != codes.Aborted || !cmp.Equal(s.Trailer()["mine"], []string{"kept"}) || !cmp.Equal(header["ratelimit"], []string{`"site";r=0;t=3600`}) {
			t.Errorf("%s: %d messages, %v, trailer %v, header %v", name, messages-1, err, s.Trailer(), header)
		}
	}
}

// gRPC-Web passes as it is, byte for byte, and is refused in its own framing.
func TestGRPCWeb(t *testing.T) {
	frame := "\x00\x00\x00\x00\x02\x08\x01\x80\x00\x00\x00\x0fgrpc-status:0\r\n"
	var sent bytes.Buffer
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(&sent, r.Body)
		w.Header().Set("Content-Type", "application/grpc-web+proto")
		_, _ = io.WriteString(w, frame)
	}))
	t.Cleanup(upstream.Close)
	h := alone(t, once)
	url := "http://" + serveProxy(t, h, upstream.URL) + "/svc/Method"
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	ask := func() (*http.Response, string) {
		answer, err := (&http.Client{Transport: transport}).Post(url, "application/grpc-web+proto", strings.NewReader("\x00\x00\x00\x00\x00"))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer, string(body)
	}
	if answer, body := ask(); answer.StatusCode != 200 || body != frame || sent.String() != "\x00\x00\x00\x00\x00" || answer.Header.Get("Content-Type") != "application/grpc-web+proto" {
		t.Errorf("got %v, %q, and the service %q", answer, body, sent.String())
	}
	answer, body := ask()
	if answer.StatusCode != 200 || len(body) < 5 || body[0] != 0x80 || int(binary.BigEndian.Uint32([]byte(body[1:5]))) != len(body)-5 || !strings.Contains(body, "grpc-status:8\r\n") {
		t.Errorf("refused: %v, %q", answer, body)
	}
	h.recorded(t, 2)
}
