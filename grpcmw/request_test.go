package grpcmw

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/test/bufconn"

	"github.com/weirgate/weir"
)

// A call is what the reverse proxy would have seen of it.
func TestRequest(t *testing.T) {
	tcp := &net.TCPAddr{IP: net.ParseIP("::ffff:198.51.100.7"), Port: 1234}
	tests := map[string]struct {
		peer     *peer.Peer
		incoming metadata.MD
		want     weir.Request
	}{
		"nothing known": {nil, nil, weir.Request{Scheme: "http"}},
		"over TCP": {
			&peer.Peer{Addr: tcp},
			metadata.MD{":authority": {"api.example:443"}, "user-agent": {"x"}, "x_real.ip": {"odd"}, "x-trace-bin": {"\x00\xff"}, "x-forwarded-for": {"a", "b"}},
			weir.Request{
				Peer: netip.MustParseAddr("198.51.100.7"), Host: "api.example:443", Scheme: "http",
				Header: http.Header{"User-Agent": {"x"}, "X_real.ip": {"odd"}, "X-Forwarded-For": {"a", "b"}},
			},
		},
		"over TLS": {
			&peer.Peer{Addr: &net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0"}, AuthInfo: credentials.TLSInfo{State: tls.ConnectionState{}}}, nil,
			weir.Request{Peer: netip.MustParseAddr("fe80::1"), Scheme: "https"},
		},
		"over a unix socket": {&peer.Peer{Addr: &net.UnixAddr{Name: "", Net: "unix"}}, nil, weir.Request{Unix: true, Scheme: "http"}},
		"within the process": {&peer.Peer{Addr: bufconn.Listen(1).Addr()}, nil, weir.Request{Scheme: "http"}},
		"without an address": {&peer.Peer{}, nil, weir.Request{Scheme: "http"}},
		"through net/http":   {&peer.Peer{Addr: text("203.0.113.9:80")}, nil, weir.Request{Peer: netip.MustParseAddr("203.0.113.9"), Scheme: "http"}},
	}
	for name, test := range tests {
		ctx := context.Background()
		if test.peer != nil {
			ctx = peer.NewContext(ctx, test.peer)
		}
		test.want.Front, test.want.Method, test.want.Path = "grpc", "POST", check
		if test.want.Header == nil {
			test.want.Header = http.Header{}
		}
		if diff := cmp.Diff(test.want, request(ctx, check, test.incoming), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// text is an address as grpc-go's handler for net/http gives it.
type text string

func (text) Network() string  { return "tcp" }
func (a text) String() string { return string(a) }

// The connection's other end is known over a unix socket and within the process, too, as far as there is one;
// a proxy there is believed only if the configuration says so.
func TestPeerOfRealConnections(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	tests := map[string]struct{ yaml, network, want string }{
		"tcp":             {"client: {from_right: 1, peers: [loopback]}", "tcp", "203.0.113.7/32"},
		"unix":            {"client: {from_right: 1, peers: [unix]}", "unix", "203.0.113.7/32"},
		"unix, not named": {"client: {from_right: 1, peers: [loopback]}", "unix", "unresolved:unix"},
		"in process":      {"client: {from_right: 1, peers: [loopback, unix]}", "bufconn", "unresolved:none"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := build(t, test.yaml)
			o := grpc.ChainUnaryInterceptor(h.UnaryServerInterceptor)
			var c healthpb.HealthClient
			switch test.network {
			case "tcp":
				c = connect(t, "tcp", serve(t, "tcp", "127.0.0.1:0", new(service), o))
			case "unix":
				c = connect(t, "unix", serve(t, "unix", socket, new(service), o))
			default:
				c = inProcess(t, o)
			}
			ctx := metadata.AppendToOutgoingContext(within(t), "x-forwarded-for", "6.6.6.6, 203.0.113.7")
			if _, err := c.Check(ctx, &healthpb.HealthCheckRequest{}); err != nil {
				t.Fatal(err)
			}
			if got := h.records(1)[0]; got.Client != test.want || got.Host != "service.test" {
				t.Errorf("recorded %+v, want %s", got, test.want)
			}
		})
	}
}

// inProcess serves without a network.
func inProcess(t *testing.T, o grpc.ServerOption) healthpb.HealthClient {
	t.Helper()
	l := bufconn.Listen(1 << 16)
	server := grpc.NewServer(o)
	healthpb.RegisterHealthServer(server, new(service))
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() { server.Stop(); <-done })
	return connect(t, "", "", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
}
