package fronttest

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/weirgate/weir/front/extauthz"
	"github.com/weirgate/weir/front/forwardauth"
	"github.com/weirgate/weir/front/spoe"
	"github.com/weirgate/weir/front/spoe/spop"
	"github.com/weirgate/weir/grpcmw"
	"github.com/weirgate/weir/middleware"
)

// A door is a way in: what the operator's proxy, or nobody, does with a request on its way to Weir.
type door struct {
	name  string
	takes func(*request) bool // nil: any
	// open opens it before h. What it returns sends a request, from one goroutine at a time.
	open func(t testing.TB, h *house) func(*request) answer
}

var doors = []door{
	{"middleware", nil, openMiddleware},
	{"proxy", nil, openProxy},
	{"forward_auth nginx", nil, openNginx},
	{"forward_auth caddy", nil, openForwarded("/auth/caddy")},
	{"forward_auth traefik", nil, openForwarded("/auth/traefik")},
	{"spoe", nil, openSPOE},
	{"ext_authz", nil, openExtAuthz},
	{"grpc", isCall, openGRPC},
}

// isCall reports whether r could be a gRPC call.
func isCall(r *request) bool {
	return r.method == "POST" && r.query == "" && strings.Count(strings.Trim(r.path, "/"), "/") > 0 && !strings.HasSuffix(r.path, "/")
}

// read reads the fields of an HTTP answer.
func read(status int, h http.Header) answer {
	return answer{status, h.Get("RateLimit-Policy"), h.Get("RateLimit"), h.Get("Retry-After")}
}

// header is that of r as the operator's proxy sends it on.
func (r *request) header() http.Header {
	h := http.Header{"X-Forwarded-For": {r.appended()}}
	if r.tenant != "" {
		h.Set("X-Tenant", r.tenant)
	}
	if r.kind != "" {
		h.Set("Content-Type", r.kind)
	}
	return h
}

func openMiddleware(_ testing.TB, h *house) func(*request) answer {
	handler := middleware.New(h.engine, middleware.Options{}).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	return func(r *request) answer {
		hr := httptest.NewRequest(r.method, r.target(), nil)
		hr.Host, hr.RemoteAddr, hr.Header = r.host, "127.0.0.1:1", r.header()
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, hr)
		return read(w.Code, w.Header())
	}
}

func openProxy(t testing.TB, h *house) func(*request) answer {
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(upstream.Close)
	client := openHTTP(t)
	base := "http://" + serveProxy(t, h, upstream.URL)
	return func(r *request) answer { return client(r.method, base+r.target(), r.host, r.header()) }
}

// openHTTP returns a client that sends a request and reads the answer's header.
func openHTTP(t testing.TB) func(method, url, host string, header http.Header) answer {
	transport := &http.Transport{MaxIdleConnsPerHost: 1}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
	return func(method, url, host string, header http.Header) answer {
		hr, err := http.NewRequest(method, url, nil)
		if err != nil {
			t.Error(err)
			return answer{}
		}
		hr.Host, hr.Header = host, header
		got, err := client.Do(hr)
		if err != nil {
			t.Error(err)
			return answer{}
		}
		_, _ = io.Copy(io.Discard, got.Body)
		got.Body.Close()
		return read(got.StatusCode, got.Header)
	}
}

func forwardAuth(t testing.TB, h *house) string {
	return "http://" + serve(t, forwardauth.New(h.engine, forwardauth.Options{HeaderTimeout: 10 * time.Second, IdleTimeout: 10 * time.Second, MaxHeader: 16 << 10}))
}

// requestIDs are nginx's names of requests.
var requestIDs atomic.Int64

func openNginx(t testing.TB, h *house) func(*request) answer {
	transport := &http.Transport{MaxIdleConnsPerHost: 1}
	t.Cleanup(transport.CloseIdleConnections)
	url := forwardAuth(t, h) + "/auth/nginx"
	return func(r *request) answer {
		hr, err := http.NewRequest("GET", url, nil)
		if err != nil {
			t.Error(err)
			return answer{}
		}
		hr.Header = r.header()
		hr.Header.Set("X-Original-Method", r.method)
		hr.Header.Set("X-Original-Uri", r.target())
		hr.Header.Set("X-Original-Host", r.host)
		hr.Header.Set("X-Forwarded-Proto", "http")
		hr.Header.Set("X-Weir-Request-Id", fmt.Sprintf("%032x", requestIDs.Add(1)))
		got, err := transport.RoundTrip(hr)
		if err != nil {
			t.Error(err)
			return answer{}
		}
		_, _ = io.Copy(io.Discard, got.Body)
		got.Body.Close()
		status, _ := strconv.Atoi(got.Header.Get("X-Weir-Status"))
		return answer{status, got.Header.Get("X-Weir-RateLimit-Policy"), got.Header.Get("X-Weir-RateLimit"), got.Header.Get("X-Weir-Retry-After")}
	}
}

// openForwarded asks as Caddy and Traefik do, in the header fields that both have.
func openForwarded(path string) func(testing.TB, *house) func(*request) answer {
	return func(t testing.TB, h *house) func(*request) answer {
		client, url := openHTTP(t), forwardAuth(t, h)+path
		return func(r *request) answer {
			header := r.header()
			header.Set("X-Forwarded-Method", r.method)
			header.Set("X-Forwarded-Uri", r.target())
			header.Set("X-Forwarded-Host", r.host)
			header.Set("X-Forwarded-Proto", "http")
			return client("GET", url, "auth.internal", header)
		}
	}
}

// openSPOE speaks as HAProxy does, which tells who is connected to it apart from the chain.
func openSPOE(t testing.TB, h *house) func(*request) answer {
	conn, err := net.Dial("tcp", serve(t, spoe.New(h.engine, spoe.Options{})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	in := bufio.NewReader(conn)
	ask := func(frame []byte) string {
		var head [spop.LengthSize]byte
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := conn.Write(frame); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadFull(in, head[:]); err != nil {
			t.Error(err)
			return ""
		}
		b := make([]byte, binary.BigEndian.Uint32(head[:]))
		if _, err := io.ReadFull(in, b); err != nil {
			t.Error(err)
		}
		f, err := spop.ParseFrame(string(b))
		if err != nil {
			t.Error(err)
		}
		return f.Payload
	}
	hello := spop.BeginFrame(nil, spop.HAProxyHello, 0, 0)
	for _, a := range [][2]string{{"supported-versions", "2.0"}, {"capabilities", "pipelining"}} {
		hello = spop.AppendValue(spop.AppendText(hello, a[0]), spop.Text(a[1]))
	}
	hello = spop.AppendValue(spop.AppendText(hello, "max-frame-size"), spop.Number(16380))
	ask(spop.EndFrame(hello, 0))
	return func(r *request) answer { return readAck(t, ask(notify(r))) }
}

// notify is HAProxy's message about r.
func notify(r *request) []byte {
	src := netip.MustParseAddr(r.src)
	kind := spop.IPv6
	if src.Is4() {
		kind = spop.IPv4
	}
	list := []struct {
		name  string
		value spop.Value
	}{
		{"src", spop.Value{Kind: kind, Text: string(src.AsSlice())}},
		{"method", spop.Text(r.method)}, {"path", spop.Text(r.path)}, {"query", orNull(r.query)}, {"host", spop.Text(r.host)},
		{"xff", orNull(r.chain)}, {"hdr.x-tenant", orNull(r.tenant)},
	}
	b := append(spop.AppendText(spop.BeginFrame(nil, spop.Notify, 1, 1), "weir-check"), byte(len(list)))
	for _, a := range list {
		b = spop.AppendValue(spop.AppendText(b, a.name), a.value)
	}
	return spop.EndFrame(b, 0)
}

// orNull is what HAProxy sends of what is not there.
func orNull(s string) spop.Value {
	if s == "" {
		return spop.Value{}
	}
	return spop.Text(s)
}

// readAck reads the variables that an acknowledgement sets.
func readAck(t testing.TB, payload string) answer {
	set := map[string]spop.Value{}
	d := spop.Decode(payload)
	for d.More() {
		d.Byte() // set a variable
		d.Byte() // by three arguments
		d.Byte() // of the transaction
		name := d.Text()
		set[name] = d.Value()
	}
	if d.Err() != nil {
		t.Error(d.Err())
	}
	return answer{int(set["status"].Number), set["ratelimit_policy"].Text, set["ratelimit"].Text, set["retry_after"].Text}
}

// openExtAuthz asks as Envoy does under use_remote_address: with the chain appended to already.
func openExtAuthz(t testing.TB, h *house) func(*request) answer {
	client := authpb.NewAuthorizationClient(dial(t, serve(t, extauthz.New(h.engine, extauthz.Options{})), ""))
	return func(r *request) answer {
		headers := map[string]string{":path": r.target(), ":method": r.method, ":authority": r.host}
		for name, lines := range r.header() {
			headers[strings.ToLower(name)] = lines[0]
		}
		got, err := client.Check(context.Background(), &authpb.CheckRequest{Attributes: &authpb.AttributeContext{
			Source: &authpb.AttributeContext_Peer{Address: &corepb.Address{Address: &corepb.Address_SocketAddress{
				SocketAddress: &corepb.SocketAddress{Address: r.src},
			}}},
			Request: &authpb.AttributeContext_Request{Http: &authpb.AttributeContext_HttpRequest{
				Method: r.method, Path: r.target(), Host: r.host, Scheme: "http", Headers: headers,
			}},
		}})
		if err != nil {
			t.Error(err)
			return answer{}
		}
		status, list := 200, got.GetOkResponse().GetResponseHeadersToAdd()
		if d := got.GetDeniedResponse(); d != nil {
			status, list = int(d.Status.Code), d.Headers
		}
		fields := http.Header{}
		for _, o := range list {
			fields.Set(o.Header.Key, o.Header.Value)
		}
		return read(status, fields)
	}
}

// dial returns a connection to a gRPC server, by the name host if it is not empty.
func dial(t testing.TB, address, host string) *grpc.ClientConn {
	t.Helper()
	o := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(eager)}
	if host != "" {
		o = append(o, grpc.WithAuthority(host))
	}
	conn, err := grpc.NewClient("passthrough:///"+address, o...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// openGRPC calls methods that a server does not know, which pass its limiter all the same.
func openGRPC(t testing.TB, h *house) func(*request) answer {
	limiter := grpcmw.New(h.engine)
	address := serve(t, &grpcServer{grpc.NewServer(
		grpc.ChainStreamInterceptor(limiter.StreamServerInterceptor),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error { return stream.SendMsg(&emptypb.Empty{}) }),
	)})
	conns := map[string]*grpc.ClientConn{} // by host
	return func(r *request) answer {
		if conns[r.host] == nil {
			conns[r.host] = dial(t, address, r.host)
		}
		ctx := context.Background()
		for name, lines := range r.header() {
			if name != "Content-Type" {
				ctx = metadata.AppendToOutgoingContext(ctx, name, lines[0])
			}
		}
		var header, trailer metadata.MD
		err := conns[r.host].Invoke(ctx, r.path, &emptypb.Empty{}, &emptypb.Empty{}, grpc.Header(&header), grpc.Trailer(&trailer))
		return readCall(t, err, metadata.Join(header, trailer))
	}
}

// readCall reads the answer to a call as the HTTP answer that it stands for.
func readCall(t testing.TB, err error, fields metadata.MD) answer {
	s := status.Convert(err)
	to, ok := map[codes.Code]int{codes.OK: 200, codes.ResourceExhausted: 429, codes.InvalidArgument: 400, codes.PermissionDenied: 403}[s.Code()]
	if !ok {
		t.Error(err)
	}
	got := answer{Status: to, Policy: strings.Join(fields["ratelimit-policy"], ""), RateLimit: strings.Join(fields["ratelimit"], "")}
	for _, d := range s.Details() {
		if retry, ok := d.(*errdetails.RetryInfo); ok {
			got.RetryAfter = fmt.Sprint(retry.RetryDelay.Seconds)
		}
	}
	return got
}

// A grpcServer is a server with a drain.
type grpcServer struct{ *grpc.Server }

func (s *grpcServer) Drain(context.Context) error {
	s.Stop()
	return nil
}
