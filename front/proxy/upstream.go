package proxy

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/middleware"
)

// UpstreamOptions name the services behind the proxy, and what they are told.
type UpstreamOptions struct {
	Routes  []string // URLs in the order of the configuration's routes: http, https or h2c, host, base path
	Default string   // URL for what no route takes, or empty

	Connect        time.Duration // for a connection
	ResponseHeader time.Duration // for the header of an answer; 504 afterwards
	Idle           time.Duration // before an unused connection is closed

	Links *Links // bounds the connections to all upstreams, of every table; nil: no bound

	Forward Forward
	// Tags are the names of the header fields that rules set. None passes on from outside.
	Tags []string
}

// A Forward says what X-Forwarded-For tells the upstream.
type Forward uint8

const (
	Replace Forward = iota // the client alone
	Append                 // the client, and the trusted proxies that it came through
)

// An upstream is one service, the connections to it, and what it is told.
type upstream struct {
	service
	headers *headers
	buffers *bufferPool
}

// RoundTrip sends a request as it is: it makes an upstream the Transport of an [engine.Upstream].
func (up *upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	return up.transport.RoundTrip(r)
}

// A service is where requests are sent, through connections of its own.
type service struct {
	key       serviceKey
	url       *url.URL // as configured
	scheme    string   // http or https
	path      string   // is put before a request's, as it is
	transport *http.Transport
}

// A serviceKey is what two configurations may differ in without breaking connections.
type serviceKey struct {
	url                           string
	connect, responseHeader, idle time.Duration
}

// NewUpstreams returns the [engine.Snapshot.Upstreams] that o describes, for a proxy of this package
// only. What o has in common with prev, which may be nil, goes on using its connections.
func NewUpstreams(o UpstreamOptions, prev []*engine.Upstream) ([]*engine.Upstream, error) {
	b := builder{options: o, headers: newHeaders(o), buffers: new(bufferPool), services: make(map[serviceKey]service)}
	for _, up := range ours(prev) {
		b.services[up.key] = up.service
	}
	var all []*engine.Upstream
	for i, text := range o.Routes {
		up, err := b.upstream(text)
		if err != nil {
			return nil, fmt.Errorf("routes[%d]: %w", i, err)
		}
		all = append(all, up)
	}
	if o.Default == "" {
		return append(all, nil), nil
	}
	up, err := b.upstream(o.Default)
	if err != nil {
		return nil, err
	}
	return append(all, up), nil
}

// CloseIdle closes the unused connections of prev that next does not share. Requests that are under way
// keep theirs until they end.
func CloseIdle(prev, next []*engine.Upstream) {
	kept := make(map[*http.Transport]bool)
	for _, up := range ours(next) {
		kept[up.transport] = true
	}
	for _, up := range ours(prev) {
		if !kept[up.transport] {
			up.transport.CloseIdleConnections()
		}
	}
}

// ours returns what NewUpstreams put into all.
func ours(all []*engine.Upstream) (ups []*upstream) {
	for _, u := range all {
		if up := ourOwn(u); up != nil {
			ups = append(ups, up)
		}
	}
	return ups
}

func ourOwn(u *engine.Upstream) *upstream {
	if u == nil {
		return nil
	}
	up, _ := u.Transport.(*upstream)
	return up
}

// pick returns the upstream of c, or nil if the configuration has none for it.
func pick(c *middleware.Call) *upstream {
	all := c.Snapshot.Upstreams
	i := c.Snapshot.Policy.Upstream(c.Decision)
	if i < 0 {
		i = len(all) - 1
	}
	if i < 0 || i >= len(all) {
		return nil
	}
	return ourOwn(all[i])
}

// A builder makes the upstreams of one table.
type builder struct {
	options  UpstreamOptions
	headers  *headers
	buffers  *bufferPool
	services map[serviceKey]service
}

func (b *builder) upstream(text string) (*engine.Upstream, error) {
	s, err := b.service(text)
	if err != nil {
		return nil, err
	}
	up := &upstream{service: s, headers: b.headers, buffers: b.buffers}
	return &engine.Upstream{URL: s.url, Transport: up}, nil
}

func (b *builder) service(text string) (service, error) {
	key := serviceKey{text, b.options.Connect, b.options.ResponseHeader, b.options.Idle}
	if s, ok := b.services[key]; ok {
		return s, nil
	}
	u, err := parseUpstream(text)
	if err != nil {
		return service{}, err
	}
	s := service{key: key, url: u, scheme: u.Scheme, path: strings.TrimSuffix(u.EscapedPath(), "/"), transport: b.transport(u.Scheme)}
	if u.Scheme == "h2c" {
		s.scheme = "http"
	}
	b.services[key] = s
	return s, nil
}

// parseUpstream reads the URL of an upstream.
func parseUpstream(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("upstream: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "h2c":
		return nil, fmt.Errorf("upstream %q: want http://, https:// or h2c://", text)
	case u.Host == "":
		return nil, fmt.Errorf("upstream %q: no host", text)
	case u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return nil, fmt.Errorf("upstream %q: want scheme, host and path only", text)
	}
	return u, nil
}

const (
	maxIdle      = 1024             // unused connections to one upstream
	continueWait = time.Second      // for an upstream that does not answer Expect: 100-continue
	pingAfter    = 30 * time.Second // of silence on an HTTP/2 connection
	keepAlive    = 30 * time.Second
)

// transport returns connections of a scheme. Nothing about them comes from the environment, and
// bodies pass as they are encoded.
func (b *builder) transport(scheme string) *http.Transport {
	dialer := net.Dialer{Timeout: b.options.Connect, KeepAlive: keepAlive}
	t := &http.Transport{
		DialContext:           b.options.Links.bound(dialer.DialContext),
		TLSHandshakeTimeout:   b.options.Connect,
		ResponseHeaderTimeout: b.options.ResponseHeader,
		IdleConnTimeout:       b.options.Idle,
		ExpectContinueTimeout: continueWait,
		MaxIdleConnsPerHost:   b.options.Links.idle(),
		DisableCompression:    true,
		Protocols:             new(http.Protocols),
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: pingAfter},
	}
	switch scheme {
	case "h2c":
		t.Protocols.SetUnencryptedHTTP2(true)
	case "https":
		t.Protocols.SetHTTP1(true)
		t.Protocols.SetHTTP2(true)
	default:
		t.Protocols.SetHTTP1(true)
	}
	return t
}

const bufferSize = 32 << 10

// A bufferPool holds what bodies are copied through.
type bufferPool struct{ pool sync.Pool }

func (b *bufferPool) get() *[bufferSize]byte {
	if p, ok := b.pool.Get().(*[bufferSize]byte); ok {
		return p
	}
	return new([bufferSize]byte)
}

func (b *bufferPool) put(p *[bufferSize]byte) { b.pool.Put(p) }
