package grpcmw

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// A call that passes carries the rate limit fields in the header, before its answer.
func TestAdmitted(t *testing.T) {
	for name, call := range map[string]func(testing.TB, healthpb.HealthClient, ...grpc.CallOption) error{"unary": ask, "stream": askStream} {
		t.Run(name, func(t *testing.T) {
			h := build(t, "headers: both\nrules: [{name: health, path: /grpc.health.v1.Health, methods: [POST], limits: [{rate: 5/1h, per: client, algorithm: token_bucket}]}]")
			c := h.serve(new(service))
			var header, trailer metadata.MD
			if err := call(t, c, grpc.Header(&header), grpc.Trailer(&trailer)); err != nil && err != io.EOF {
				t.Fatal(err)
			}
			delete(header, "content-type")
			want := metadata.MD{
				"ratelimit-policy": {`"health";q=5;w=3600`}, "ratelimit": {`"health";r=4;t=720`},
				"x-ratelimit-limit": {"5"}, "x-ratelimit-remaining": {"4"}, "x-ratelimit-reset": {"720"},
			}
			if diff := cmp.Diff(want, header); diff != "" || len(trailer) != 0 {
				t.Errorf("trailer %v, header (-want +got):\n%s", trailer, diff)
			}
			got := h.records(1)[0]
			if got.Method != "POST" || got.Client != "127.0.0.1/32" || got.Rule != "health" || got.Status != 200 || got.Action != "pass" {
				t.Errorf("recorded %+v", got)
			}
		})
	}
}

// Where nothing is counted, and where Weir is turned off, an answer is what it was.
func TestUntouched(t *testing.T) {
	for _, yaml := range []string{"default: {limits: []}\n", "enabled: false\ndefault: {limits: [{rate: 0/1h}]}\n"} {
		h := build(t, yaml)
		var seen metadata.MD
		c := h.serve(&service{check: func(ctx context.Context) error { seen, _ = metadata.FromIncomingContext(ctx); return nil }})
		var header metadata.MD
		ctx := metadata.AppendToOutgoingContext(within(t), "x-weir-tag", "mine")
		if _, err := c.Check(ctx, &healthpb.HealthCheckRequest{}, grpc.Header(&header)); err != nil {
			t.Fatal(err)
		}
		delete(header, "content-type")
		disabled := h.engine.Current().Policy.Disabled
		if len(header) != 0 || len(seen["x-weir-tag"]) == 1 != disabled {
			t.Errorf("%s: header %v, the handler saw %v", yaml, header, seen["x-weir-tag"])
		}
		h.records(1)
	}
}

// Handlers know who called and why the call passed, for as long as they run.
func TestFromContext(t *testing.T) {
	h := build(t, ``)
	var kept context.Context
	c := h.serve(&service{
		check: func(ctx context.Context) error { kept = ctx; return told(ctx) },
		watch: func(s healthpb.Health_WatchServer) error { return told(s.Context()) },
	})
	const want = "127.0.0.1 default within limits"
	if got := status.Convert(ask(t, c)).Message(); got != want {
		t.Errorf("unary: got %q, want %q", got, want)
	}
	if got := status.Convert(askStream(t, c)).Message(); got != want {
		t.Errorf("stream: got %q, want %q", got, want)
	}
	h.records(2)
	if FromContext(kept) != nil || FromContext(t.Context()) != nil {
		t.Error("there is a decision where no call is")
	}
}

func told(ctx context.Context) error {
	d := FromContext(ctx)
	return status.Errorf(codes.Aborted, "%s %s %s", d.Client.Addr, d.Rule.Name, d.Reason)
}

// A handler sees what Weir has to tell, and nothing that a client wrote in Weir's name.
func TestMarked(t *testing.T) {
	h := build(t, `
rules:
  - {name: tagged, path: "=`+check+`", action: tag, tag_header: X-Over, limits: [{name: own, rate: 0/1h}, {name: trial, rate: 0/1h, per: ip, mode: shadow}]}
`)
	var got metadata.MD
	c := h.serve(&service{check: func(ctx context.Context) error { got, _ = metadata.FromIncomingContext(ctx); return nil }})
	ctx := metadata.AppendToOutgoingContext(within(t), "x-weir-key-id", "forged", "x_weir_plan", "forged", "x-over", "forged", "x_over", "forged", "mine", "kept")
	if _, err := c.Check(ctx, &healthpb.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{":authority", "content-type", "user-agent", "grpc-accept-encoding"} {
		delete(got, name)
	}
	want := metadata.MD{"x-over": {"own"}, "x-weir-shadow": {"trial"}, "mine": {"kept"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	if got := h.records(1)[0]; got.Action != "tag" {
		t.Errorf("recorded %+v", got)
	}
}

// Limits that count only some HTTP statuses go by what the handler answers, as google/rpc/code.proto gives it.
func TestOnlyStatuses(t *testing.T) {
	h := build(t, `default: {limits: []}
rules: [{name: login, path: /grpc.health.v1.Health, count: {only_statuses: [401]}, limits: [{rate: 1/1h, per: client}]}]`)
	answers := []error{nil, status.Error(codes.Internal, ""), status.Error(codes.Unauthenticated, ""), nil}
	want := []codes.Code{codes.OK, codes.Internal, codes.Unauthenticated, codes.ResourceExhausted}
	i := 0
	c := h.serve(&service{check: func(context.Context) error { return answers[i] }})
	for ; i < len(answers); i++ {
		if got := status.Code(ask(t, c)); got != want[i] {
			t.Errorf("call %d: got %v, want %v", i, got, want[i])
		}
	}
}

func TestHTTPStatus(t *testing.T) {
	got := map[string]int{}
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		got[code.String()] = httpStatus(status.Error(code, ""))
	}
	want := map[string]int{
		"OK": 200, "Canceled": 499, "Unknown": 500, "InvalidArgument": 400, "DeadlineExceeded": 504, "NotFound": 404,
		"AlreadyExists": 409, "PermissionDenied": 403, "ResourceExhausted": 429, "FailedPrecondition": 400, "Aborted": 409,
		"OutOfRange": 400, "Unimplemented": 501, "Internal": 500, "Unavailable": 503, "DataLoss": 500, "Unauthenticated": 401,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for err, want := range map[error]int{errors.New("x"): 500, context.Canceled: 499, context.DeadlineExceeded: 504, status.Error(77, ""): 500} {
		if got := httpStatus(err); got != want {
			t.Errorf("%v: got %d, want %d", err, got, want)
		}
	}
}

// fili#288: a slot of an in-flight limit was never given back when the request died without an answer. Whatever
// end a call takes, it is recorded once, and its slot is free again.
func TestASlotIsGivenBackOnEveryEnd(t *testing.T) {
	ends := map[string]func(context.Context) error{
		"an answer":         func(context.Context) error { return nil },
		"an error":          func(context.Context) error { return status.Error(codes.NotFound, "") },
		"the client leaves": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"a panic":           func(context.Context) error { panic("a handler's") },
	}
	for name, end := range ends {
		for _, streams := range []bool{false, true} {
			t.Run(fmt.Sprint(name, "/streams ", streams), func(t *testing.T) {
				h := build(t, `default: {limits: [{in_flight: 1, per: client}]}`)
				inside := make(chan struct{}, 1)
				s := &service{check: func(ctx context.Context) error { inside <- struct{}{}; return end(ctx) }}
				s.watch = func(stream healthpb.Health_WatchServer) error { return s.check(stream.Context()) }
				c := h.serve(s, grpc.ChainUnaryInterceptor(recoverUnary), grpc.ChainStreamInterceptor(recoverStream))
				for i := range 3 { // the second would be refused if the first had kept its slot
					leaveOnce(t, c, streams, inside, name == "the client leaves")
					h.records(i + 1)
				}
				for _, got := range h.records(3) {
					if got.Action != "pass" || name == "a panic" && got.Status != 0 {
						t.Errorf("recorded %+v", got)
					}
				}
			})
		}
	}
}

// leaveOnce makes a call whose answer is of no interest, and waits until its handler has begun and its
// client knows of its end.
func leaveOnce(t *testing.T, c healthpb.HealthClient, streams bool, inside <-chan struct{}, leaves bool) {
	t.Helper()
	ctx, leave := context.WithCancel(within(t))
	defer leave()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if !streams {
			_, _ = c.Check(ctx, &healthpb.HealthCheckRequest{})
			return
		}
		stream, err := c.Watch(ctx, &healthpb.HealthCheckRequest{})
		for err == nil {
			_, err = stream.Recv()
		}
	}()
	if leaves {
		select {
		case <-inside:
		case <-ctx.Done():
			t.Fatal("the call did not come: the one before kept its slot")
		}
		leave()
		<-ended
		return
	}
	<-ended
	select {
	case <-inside:
	default:
		t.Fatal("the call was refused: the one before kept its slot")
	}
}

// Weir stands outside of what recovers panics as well as inside of it.
func recoverUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (_ any, err error) {
	defer recovered(&err)
	return handler(ctx, req)
}

func recoverStream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	defer recovered(&err)
	return handler(srv, stream)
}

func recovered(err *error) {
	if p := recover(); p != nil {
		*err = status.Errorf(codes.Internal, "panic: %v", p)
	}
}

// A stream is one call however many messages it has, and in flight until it ends.
func TestAStreamIsOneCall(t *testing.T) {
	h := build(t, `default: {limits: [{in_flight: 1, per: client}, {rate: 2/1h, per: client}]}`)
	more := make(chan struct{})
	c := h.serve(&service{watch: func(stream healthpb.Health_WatchServer) error {
		for range more {
			if err := stream.Send(&healthpb.HealthCheckResponse{}); err != nil {
				return err
			}
		}
		return nil
	}})
	stream, err := c.Watch(within(t), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		more <- struct{}{}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	if err := ask(t, c); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("beside a stream: got %v, want RESOURCE_EXHAUSTED", err)
	}
	close(more)
	if _, err := stream.Recv(); err != io.EOF {
		t.Fatal(err)
	}
	if err := ask(t, c); err != nil {
		t.Errorf("after the stream, which was one of two: got %v", err)
	}
	h.records(3)
}

// The journal of a limiter that was built by hand is somebody else's.
func TestMetricsOfALimiterThatWasNotOpened(t *testing.T) {
	w := httptest.NewRecorder()
	New(nil).Metrics().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 404 {
		t.Errorf("got %d, want 404", w.Code)
	}
}
