// Package xds takes the configuration of the rate limit service from an xDS server, as Envoy Gateway
// hands it out (CONFIG_TYPE=GRPC_XDS_SOTW): resources of the type ratelimit.config.ratelimit.v3.RateLimitConfig
// over the state-of-the-world variant of the aggregated discovery service.
package xds

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weirgate/weir/front/envoyrls/descriptors"
)

// typeURL is the type of a resource that holds one domain.
const typeURL = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"

// Options say where the server is, and who asks it.
type Options struct {
	Server   string            // HOST:PORT, or another target of grpc-go
	Node     string            // the id under which the server keeps this one's configuration; "default" where it is empty
	Metadata map[string]string // of the node
	Headers  map[string]string // sent along with every stream
	TLS      *tls.Config       // nil is none; see [ClientTLS]

	Descriptors descriptors.Options // how resources are read

	// A server that fails is tried again after Initial, and after twice as long at each further failure,
	// with a random part of it added, at most Jitter, and at most Max in sum. They are 10 s, 60 s and 0.5
	// where they are 0; a Jitter below is none.
	Initial, Max time.Duration
	Jitter       float64

	MaxMessage int // bytes of an answer of the server; 16 MiB where it is 0

	// Refused is told why a configuration was not taken. nil is nobody.
	Refused func(error)
	// Logger is told what became of each configuration and connection. nil is nobody.
	Logger *slog.Logger

	wait   func(context.Context, time.Duration) // returns after that time, or once the context is done
	random func() float64                       // from 0 up to 1
}

// pingEvery is how often a silent server is asked whether it is still there: not more often than
// grpc-go's servers put up with by default, every five minutes.
const pingEvery = 6 * time.Minute

func (o Options) withDefaults() Options {
	if o.Node == "" {
		o.Node = "default"
	}
	if o.Initial <= 0 {
		o.Initial = 10 * time.Second
	}
	if o.Max <= 0 {
		o.Max = 60 * time.Second
	}
	if o.Jitter == 0 {
		o.Jitter = 0.5
	}
	if o.MaxMessage <= 0 {
		o.MaxMessage = 16 << 20
	}
	if o.Refused == nil {
		o.Refused = func(error) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.wait == nil {
		o.wait = wait
	}
	if o.random == nil {
		o.random = rand.Float64
	}
	return o
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// Run gives apply every configuration that the server has for this node, each the whole of it, until ctx
// is done. One that is wrong, or that apply returns an error for, is refused with the reason: the server
// learns of it, and the one before stays in force. So it does while the server is away.
//
// apply is called from one goroutine. An error says that the server can never be asked.
func Run(ctx context.Context, o Options, apply func(*descriptors.Set) error) error {
	c := &client{Options: o.withDefaults(), apply: apply}
	for failures := 0; ; failures++ {
		conn, err := c.dial()
		if err != nil {
			return fmt.Errorf("xds %s: %w", o.Server, err)
		}
		heard, err := c.talk(ctx, conn)
		_ = conn.Close()
		if ctx.Err() != nil {
			return nil
		}
		if heard {
			failures = 0
		}
		pause := c.pause(failures)
		c.Logger.Warn("the xDS server went away; its configuration stays in force", "server", c.Server, "err", err, "again_in", pause)
		if c.wait(ctx, pause); ctx.Err() != nil {
			return nil
		}
	}
}

// A client is a conversation with one server, over many connections.
type client struct {
	Options
	apply   func(*descriptors.Set) error
	version string // the last that was taken

	refused string // the last that was not
	repeats int    // how often it came again since
}

// pause returns how long to wait after so many failures in a row but one.
func (c *client) pause(failures int) time.Duration {
	jitter := max(0, c.Jitter)
	most := time.Duration(float64(c.Max) / (1 + jitter)) // leaves room for the random part
	d := most
	if failures < 16 {
		d = min(most, c.Initial<<failures)
	}
	d = max(d, c.Initial)
	return min(c.Max, d+time.Duration(jitter*c.random()*float64(d)))
}

func (c *client) dial() (*grpc.ClientConn, error) {
	secure := insecure.NewCredentials()
	if c.TLS != nil {
		secure = credentials.NewTLS(c.TLS)
	}
	return grpc.NewClient(c.Server,
		grpc.WithTransportCredentials(secure),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(c.MaxMessage)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingEvery}))
}

type stream = discovery.AggregatedDiscoveryService_StreamAggregatedResourcesClient

// talk takes what the server has, until it or ctx ends that. It reports whether the server said anything.
func (c *client) talk(ctx context.Context, conn *grpc.ClientConn) (heard bool, err error) {
	for name, value := range c.Headers {
		ctx = metadata.AppendToOutgoingContext(ctx, name, value)
	}
	s, err := discovery.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return false, err
	}
	if err := c.send(s, &discovery.DiscoveryRequest{}); err != nil {
		return false, err
	}
	for ; ; heard = true {
		answer, err := s.Recv()
		if err != nil {
			return heard, err
		}
		if answer.GetTypeUrl() != typeURL {
			continue // nothing that was asked for
		}
		reply := c.take(answer)
		if c.repeats > 0 {
			c.wait(ctx, time.Duration(min(c.repeats, mostRepeats))*time.Second)
		}
		if err := c.send(s, reply); err != nil {
			return true, err
		}
	}
}

// send asks for what comes after the version that was taken last.
func (c *client) send(s stream, r *discovery.DiscoveryRequest) error {
	r.TypeUrl, r.VersionInfo, r.Node = typeURL, c.version, c.node()
	return s.Send(r)
}

func (c *client) node() *core.Node {
	n := &core.Node{Id: c.Node, UserAgentName: "weir"}
	if len(c.Metadata) > 0 {
		n.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{}}
		for k, v := range c.Metadata {
			n.Metadata.Fields[k] = structpb.NewStringValue(v)
		}
	}
	return n
}

// take applies answer, and returns what to reply: that it was taken, or why not.
func (c *client) take(answer *discovery.DiscoveryResponse) *discovery.DiscoveryRequest {
	reply := &discovery.DiscoveryRequest{ResponseNonce: answer.GetNonce()}
	set, err := c.read(answer.GetResources())
	if err == nil {
		err = c.apply(set)
	}
	if err != nil {
		c.refuse(answer.GetVersionInfo(), err)
		reply.ErrorDetail = &status.Status{Code: int32(codes.InvalidArgument), Message: err.Error()}
		return reply
	}
	c.version, c.refused, c.repeats = answer.GetVersionInfo(), "", 0
	c.Logger.Info("configuration taken", "server", c.Server, "version", c.version, "domains", len(set.Domains()), "limits", set.Limits())
	return reply
}

// mostRepeats bounds the seconds that the answer to a repeated version is held back.
const mostRepeats = 10

// refuse notes that a version was refused, and tells of it unless it was told of. A server may send one
// that was refused again at once, and for ever: its answer is then held back, a second longer each time.
func (c *client) refuse(version string, err error) {
	if version == c.refused && version != "" {
		c.repeats++
		return
	}
	c.refused, c.repeats = version, 0
	c.Logger.Warn("configuration refused", "server", c.Server, "version", version, "err", err)
	c.Refused(err)
}
