package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/front/proxy/guard"
	"github.com/weirgate/weir/internal/farewell"
	"github.com/weirgate/weir/internal/noise"
	"github.com/weirgate/weir/middleware"
)

// Options say how a proxy listens. Every bound has to be given.
type Options struct {
	Cert, Key     string         // files of the certificate and its key; both empty: no TLS
	ProxyProtocol []netip.Prefix // peers that must begin with a PROXY protocol header
	HeaderTimeout time.Duration  // for a whole request header; 408 afterwards
	IdleTimeout   time.Duration  // before an unused connection is closed, and for a reader that takes nothing
	MaxHeader     int            // bytes of a request header; 431 above
	MaxOpen       int            // connections of clients; 0: no bound
	Logger        *slog.Logger
	// Refused is told of connections that are ended for a fault without a decision, and of requests for which
	// there is NoLink: one of [Faults], and the peer, which is the zero Addr at a unix socket. Nil: nobody is.
	Refused func(fault string, peer netip.Addr)
}

// noHeader is the fault of a connection that does not begin with the PROXY protocol as it must.
const noHeader = "no_proxy_header"

// Faults returns every fault that [Options.Refused] is told of.
func Faults() []string { return append(guard.Names(), noHeader, Crowded, NoLink) }

// A Proxy is the reverse-proxy front. It is safe for concurrent use.
type Proxy struct {
	options     Options
	engine      *engine.Engine
	middleware  *middleware.Middleware
	next        func(http.ResponseWriter, *http.Request, *middleware.Call)
	server      http.Server
	farewell    *farewell.Farewell
	certificate *certificate // nil: no TLS
	inFlight    atomic.Int64
	room        room
	stop        context.CancelFunc // ends every request
}

// New returns a proxy that asks e, whose snapshots have what [NewUpstreams] returned.
func New(e *engine.Engine, o Options) (*Proxy, error) {
	p := &Proxy{options: o, engine: e}
	p.room = room{most: o.MaxOpen, proxy: p, guests: make(map[*guest]struct{})}
	if o.Cert != "" || o.Key != "" {
		c, err := newCertificate(o.Cert, o.Key, o.Logger)
		if err != nil {
			return nil, err
		}
		p.certificate = c
	}
	p.middleware = middleware.New(e, middleware.Options{Front: "proxy"})
	p.next = p.forward
	p.prepare()
	return p, nil
}

// headerSlack is how much later than the guard net/http finds a header too large: the guard's answer
// is the better one.
const headerSlack = 4 << 10

// prepare sets the server up. It has no time-outs for bodies: those would end streams.
func (p *Proxy) prepare() {
	var base context.Context
	base, p.stop = context.WithCancel(context.Background())
	p.server = http.Server{
		Handler:                      http.HandlerFunc(p.receive),
		DisableGeneralOptionsHandler: true, // OPTIONS * is decided like any other
		ReadHeaderTimeout:            p.options.HeaderTimeout,
		IdleTimeout:                  p.options.IdleTimeout,
		MaxHeaderBytes:               p.options.MaxHeader + headerSlack,
		ConnState:                    follow,
		ConnContext:                  guard.WithConn,
		BaseContext:                  func(net.Listener) context.Context { return base },
		ErrorLog:                     noise.Log(p.options.Logger),
		Protocols:                    new(http.Protocols),
	}
	p.server.Protocols.SetHTTP1(true)
	// HTTP/2 is recognized by its preface, below TLS or not: net/http cannot see TLS through the guard.
	p.server.Protocols.SetUnencryptedHTTP2(true)
	p.farewell = farewell.To(&p.server)
}

// Serve answers the connections of l until Drain is called. The listener is closed then.
func (p *Proxy) Serve(l net.Listener) error {
	if err := p.farewell.Serve(p.guarded(l)); err != nil {
		return fmt.Errorf("proxy %s: %w", l.Addr(), err)
	}
	return nil
}

// InFlight is how many requests are being answered, upgraded connections included.
func (p *Proxy) InFlight() int { return int(p.inFlight.Load()) }

// Held is how many askers the tarpit holds at this moment.
func (p *Proxy) Held() int { return p.middleware.Held() }

// receive is where a request comes in from net/http.
func (p *Proxy) receive(w http.ResponseWriter, r *http.Request) {
	p.inFlight.Add(1)
	defer p.inFlight.Add(-1)
	conn := guard.From(r.Context())
	conn.Handle()
	if p.certificate != nil {
		r.TLS = conn.TLS()
	}
	if r.ContentLength < 0 && r.Trailer == nil {
		r.Trailer = make(http.Header) // trailer fields may come unannounced, after r was copied
	}
	p.middleware.Serve(w, r, p.next)
}

// Drain takes leave of the clients (package farewell) and waits for requests to end, at most until ctx ends.
// What is left then, upgraded connections among it, is cut off, and an error says so.
func (p *Proxy) Drain(ctx context.Context) error {
	err := p.farewell.Drain(ctx)
	if err == nil {
		err = p.wait(ctx) // connections that were upgraded
	}
	left := p.InFlight()
	p.stop()
	p.server.Close()
	p.cut()
	CloseIdle(p.engine.Current().Upstreams, nil)
	if err != nil {
		return fmt.Errorf("proxy: drain: %d requests cut off: %w", left, err)
	}
	return nil
}

const (
	waitStep = 5 * time.Millisecond
	cutTime  = 2 * time.Second // for requests that were cut off to notice
)

// wait returns once nothing is in flight, or ctx's error.
func (p *Proxy) wait(ctx context.Context) error {
	tick := time.NewTicker(waitStep)
	defer tick.Stop()
	for p.InFlight() > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// cut waits for requests whose context was ended.
func (p *Proxy) cut() {
	ctx, cancel := context.WithTimeout(context.Background(), cutTime)
	defer cancel()
	_ = p.wait(ctx) // a handler that does not end is not ours
}
