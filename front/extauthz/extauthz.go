// Package extauthz answers Envoy's external authorization filter over gRPC (envoy.service.auth.v3): Envoy
// holds a request, tells of it, and lets it pass or answers it as told. It is for those who want rules by
// host, path and method; for Envoy's own descriptors there is the rate limit service.
//
// Every question that can be read gets a decision, which is recorded once. Actions drop and tarpit act as
// reject. What a request has in flight is given back at once, since the end of the answer is not seen; for
// the same reason limits that count only some HTTP statuses count nothing.
package extauthz

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	authpb "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/engine"
)

// Options say how a server runs.
type Options struct {
	// Log is told of what went wrong in the server itself. Nil: nobody is.
	Log *slog.Logger
}

// A Server is the service that Envoy asks, with gRPC's health service beside it.
type Server struct {
	authpb.UnimplementedAuthorizationServer
	engine   *engine.Engine
	log      *slog.Logger
	grpc     *grpc.Server
	health   *health.Server
	inFlight atomic.Int64
}

const (
	// maxCalls is how many calls one connection may have under way. Envoy opens a further connection beyond.
	maxCalls = 1000
	// maxQuestion is the longest question, in bytes: a longer one is an error, and so may pass. Envoy takes
	// no header above 8 MiB, and sends no body unless told to.
	maxQuestion = 16 << 20
	// maxHeader is how many bytes the header of a call has at most. Envoy sends some hundred.
	maxHeader = 64 << 10
	// pings is how often Envoy may ask whether a connection still holds; grpc-go takes more for an attack.
	pings = time.Second
	// greeting is how long a new connection may take to say that it speaks HTTP/2.
	greeting = 10 * time.Second
)

// New returns a server that asks e.
func New(e *engine.Engine, o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{engine: e, log: o.Log, health: health.NewServer()}
	s.grpc = grpc.NewServer(
		grpc.MaxConcurrentStreams(maxCalls), grpc.MaxRecvMsgSize(maxQuestion), grpc.MaxHeaderListSize(maxHeader), grpc.ConnectionTimeout(greeting),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pings, PermitWithoutStream: true}),
	)
	authpb.RegisterAuthorizationServer(s.grpc, s)
	healthpb.RegisterHealthServer(s.grpc, s.health)
	s.health.SetServingStatus(authpb.Authorization_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_SERVING)
	return s
}

// Serve answers on l until Drain, and then returns nil.
func (s *Server) Serve(l net.Listener) error {
	if err := s.grpc.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("ext_authz %s: %w", l.Addr(), err)
	}
	return nil
}

// Drain stops accepting, and lets the calls under way end until ctx is done. Then it cuts off the rest, and
// says how many there were.
func (s *Server) Drain(ctx context.Context) error {
	s.health.Shutdown()
	ended := make(chan struct{})
	go func() { defer close(ended); s.grpc.GracefulStop() }()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	cut := s.inFlight.Load()
	s.grpc.Stop()
	<-ended // with the last call, whose decision is bounded by the store's time-out
	if cut > 0 {
		return fmt.Errorf("ext_authz: %d calls cut off", cut)
	}
	return nil
}

// Check answers one question of Envoy's. A fault of ours is INTERNAL, which Envoy treats as
// failure_mode_allow says; nothing else is an error.
func (s *Server) Check(ctx context.Context, question *authpb.CheckRequest) (answer *authpb.CheckResponse, err error) {
	s.inFlight.Add(1)
	defer s.inFlight.Add(-1)
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("ext_authz: panic", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			answer, err = nil, status.Error(codes.Internal, "fault of weir's")
		}
	}()
	return s.decide(ctx, question), nil
}

// decide answers question by a decision, and records it.
func (s *Server) decide(ctx context.Context, question *authpb.CheckRequest) *authpb.CheckResponse {
	snapshot := s.engine.Current()
	d := s.engine.Decide(ctx, snapshot, request(ctx, snapshot.Policy.Resolver(), question.GetAttributes()))
	d.Deferred = d.Deferred[:0] // what the service answers is never known here
	s.engine.Inspect(ctx, snapshot, d, engine.Content{Absent: true})
	o := weir.Outcome{HTTP: http.StatusOK}
	defer func() { s.engine.Record(snapshot, d, o) }()
	if d.Refused() {
		d.Action = weir.Reject // nothing is dropped or held in the name of a proxy
		o.HTTP = refusedStatus(d)
		return denied(snapshot.Respond, d)
	}
	return passed(snapshot, d)
}
