// Package envoyrls is the rate limit service that Envoy asks: envoy.service.ratelimit.v3 over gRPC, and the
// same over HTTP under /json.
//
//	descriptors ─▶ []Hit ─▶ Store.Take ─▶ []Status ─▶ one status per descriptor, overall code, headers
//
// A request's descriptors are found in a [descriptors.Set], the configuration of envoyproxy/ratelimit. With
// [Compat] they are counted as that program counts, under its keys; with [Own] by Weir's store: all or
// nothing, in sliding windows.
//
// Nothing that a proxy asks can stop the process, make it allocate without bound, or be answered with
// code UNKNOWN, which Envoy takes for a pass.
package envoyrls

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/front/envoyrls/descriptors"
	"github.com/weirgate/weir/internal/farewell"
	"github.com/weirgate/weir/internal/noise"
)

// A Counting is whose way to count is followed.
type Counting uint8

const (
	// Compat is that of envoyproxy/ratelimit: windows aligned by the caller's clock, a counter for each
	// descriptor, and a refused hit is counted.
	Compat Counting = iota
	// Own is Weir's, in the store of the engine's snapshot: all hits of a request or none, and a
	// sliding window unless the limit names another algorithm.
	Own
)

// Options are what a server may be told. The zero Options are the defaults.
type Options struct {
	Counting Counting
	// Store holds the counters of Compat: [Memory], or what counts in Redis, with what answers in its
	// place. nil is a Memory of the default size. Own does not use it.
	Store weir.Store
	// OnFailure says what becomes of a request that the store cannot count.
	OnFailure weir.OnFailure
	Settings  Settings

	TLS *tls.Config // of the gRPC listener; nil is none. See [ServerTLS].
	// MaxConnectionAge is how long a gRPC connection is used; 24 h. Calls under way then have
	// MaxConnectionGrace, an hour, to end.
	MaxConnectionAge, MaxConnectionGrace time.Duration

	// Logger is told of panics. nil is none.
	Logger *slog.Logger
}

// Settings are what envoyproxy/ratelimit is told by its environment. The zero Settings are its defaults.
type Settings struct {
	NearLimitRatio float64 // NEAR_LIMIT_RATIO; from which part of a limit hits are near it; 0.8
	KeyPrefix      string  // CACHE_KEY_PREFIX; what a store key begins with, with Compat
	Shadow         bool    // SHADOW_MODE: the overall code is always OK
	Quota          bool    // QUOTA_MODE: every descriptor is a quota
	// Headers are the response headers of Compat (LIMIT_RESPONSE_HEADERS_ENABLED); nil is none.
	Headers *HeaderNames
	// DynamicMetadata adds what was asked and what passed to the answer (RESPONSE_DYNAMIC_METADATA).
	DynamicMetadata bool
}

// HeaderNames are the names of the response headers. An empty one is upstream's default: RateLimit-Limit,
// RateLimit-Remaining, RateLimit-Reset.
type HeaderNames struct {
	Limit, Remaining, Reset string // LIMIT_LIMIT_HEADER, LIMIT_REMAINING_HEADER, LIMIT_RESET_HEADER
}

const (
	defaultNearLimitRatio     = 0.8
	defaultMaxConnectionAge   = 24 * time.Hour
	defaultMaxConnectionGrace = time.Hour

	// mostStreams is how many calls of one connection are under way at once.
	mostStreams = 4096
	// maxHeader is how many bytes the header of a call has at most. Envoy sends some hundred.
	maxHeader = 64 << 10
	// pingEvery is how often a proxy may ping an idle connection; grpc-go's own default, five minutes,
	// ends those of an Envoy with keepalive.
	pingEvery = time.Second
	// answerTimeout is how long an answer over HTTP may take, from the request's header to its end.
	answerTimeout = 30 * time.Second
)

func (o Options) withDefaults() Options {
	if o.Settings.NearLimitRatio <= 0 {
		o.Settings.NearLimitRatio = defaultNearLimitRatio
	}
	if o.MaxConnectionAge <= 0 {
		o.MaxConnectionAge = defaultMaxConnectionAge
	}
	if o.MaxConnectionGrace <= 0 {
		o.MaxConnectionGrace = defaultMaxConnectionGrace
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Store == nil && o.Counting == Compat {
		o.Store = NewMemory(MemoryOptions{})
	}
	if h := o.Settings.Headers; h != nil {
		o.Settings.Headers = h.withDefaults()
	}
	return o
}

// A Server answers Envoy. It is safe for concurrent use.
type Server struct {
	pb.UnimplementedRateLimitServiceServer

	engine  *engine.Engine
	options Options
	current atomic.Pointer[rules] // nil until there is a configuration
	metrics *metrics
	calls   callPool
	grpc    *grpc.Server
	web     http.Server
	leave   *farewell.Farewell // of web
	health  *health.Server
	under   atomic.Int64 // calls under way
	drained atomic.Bool
}

// serviceName is what health checks ask for.
const serviceName = "ratelimit"

// New returns a server that has no configuration yet: until Set, every call is an error.
func New(e *engine.Engine, o Options) *Server {
	o = o.withDefaults()
	s := &Server{engine: e, options: o, metrics: newMetrics(), health: health.NewServer()}
	s.grpc = grpc.NewServer(s.grpcOptions()...)
	pb.RegisterRateLimitServiceServer(s.grpc, s)
	grpc_health_v1.RegisterHealthServer(s.grpc, s.health)
	mux := http.NewServeMux()
	mux.Handle("/", s.HTTP())
	mux.Handle("GET /metrics", s.Metrics())
	s.web = http.Server{
		Handler: mux, MaxHeaderBytes: 16 << 10, ErrorLog: noise.Log(o.Logger),
		ReadHeaderTimeout: helloTimeout, ReadTimeout: 2 * helloTimeout, WriteTimeout: answerTimeout, IdleTimeout: time.Minute,
	}
	s.leave = farewell.To(&s.web)
	s.tellHealth()
	return s
}

func (s *Server) grpcOptions() []grpc.ServerOption {
	o := []grpc.ServerOption{
		grpc.MaxConcurrentStreams(mostStreams), grpc.MaxHeaderListSize(maxHeader), grpc.ConnectionTimeout(helloTimeout),
		grpc.WaitForHandlers(true), // a store may be closed after the drain
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge: s.options.MaxConnectionAge, MaxConnectionAgeGrace: s.options.MaxConnectionGrace,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingEvery, PermitWithoutStream: true}),
	}
	if s.options.TLS != nil {
		o = append(o, grpc.Creds(credentials.NewTLS(s.options.TLS)))
	}
	return o
}

// Set puts a configuration in force. A call that has begun ends under the one before.
func (s *Server) Set(set *descriptors.Set) {
	s.current.Store(newRules(set, s))
	s.metrics.loads.Add(1)
	s.tellHealth()
}

// Rules returns the names of the rules that decisions are recorded under, one for each domain.
func (s *Server) Rules() []string {
	current := s.current.Load()
	if current == nil {
		return nil
	}
	names := current.set.Domains()
	for i, domain := range names {
		names[i] = ruleOf(domain)
	}
	return names
}

// SetFailed notes for the metrics that a new configuration was refused, and the old one stays.
func (s *Server) SetFailed() { s.metrics.loadFailures.Add(1) }

// Serve answers calls over gRPC on l, and over HTTP/1 what HTTP and Metrics serve, until Drain, and returns nil
// then.
func (s *Server) Serve(l net.Listener) error {
	halves := newSplit(l)
	var serving sync.WaitGroup
	defer serving.Wait()
	serving.Go(func() { _ = s.leave.Serve(halves.http1) }) // it ends with the listener, as gRPC's half does
	serving.Go(func() { _ = halves.serve() })
	if err := s.grpc.Serve(halves.other); err != nil && !s.drained.Load() {
		s.web.Close()
		return fmt.Errorf("rls %v: %w", l.Addr(), err)
	}
	return nil
}

// Drain says that the service goes away and lets calls under way end until ctx is done. What is left then is
// cut off, and the error says how many calls that were.
func (s *Server) Drain(ctx context.Context) error {
	s.drained.Store(true)
	s.tellHealth()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.grpc.GracefulStop()
	}()
	defer s.web.Close()
	_ = s.leave.Drain(ctx) // what is left is cut off; its calls are among those under way
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	cut := s.under.Load()
	s.grpc.Stop()
	<-ended
	if cut > 0 {
		return fmt.Errorf("rls: %d calls cut off", cut)
	}
	return nil
}

// healthy reports whether health checks are answered well: never without a configuration, for Envoy lets pass
// what is answered with an error.
func (s *Server) healthy() bool { return !s.drained.Load() && s.current.Load() != nil }

// tellHealth tells the gRPC health service. The empty name stands for the process: it serves.
func (s *Server) tellHealth() {
	status := grpc_health_v1.HealthCheckResponse_NOT_SERVING
	if s.healthy() {
		status = grpc_health_v1.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus(serviceName, status)
}

// Metrics serves the numbers that envoyproxy/ratelimit's dashboards show, in the Prometheus text format.
func (s *Server) Metrics() http.Handler { return s.metrics.handler() }
