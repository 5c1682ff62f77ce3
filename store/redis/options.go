package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// Options say where the server is and how it is spoken to.
type Options struct {
	// URL is redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE], rediss:// for TLS, or unix://PATH;
	// several, separated by commas, name the nodes of a Cluster, or with SentinelMaster the Sentinels.
	// One node of a Cluster is enough: that it is one is recognised.
	URL string
	// Timeout is how long an answer is waited for; 15 ms where it is 0.
	Timeout time.Duration
	// Prefix is what every key begins with, before a colon; weir where it is empty. No braces.
	Prefix string
	// Username and Password are used where the URL names none. With SentinelMaster they are the
	// master's, and the URL's are the Sentinels'; where only one of the two is given it is for both.
	Username, Password string
	// TLS is what is spoken, also under redis://. A rediss:// URL without it verifies the host.
	TLS *tls.Config
	// SentinelMaster is the name of the master that the Sentinels at URL watch.
	SentinelMaster string
}

const (
	defaultTimeout = 15 * time.Millisecond
	defaultPrefix  = "weir"

	poolSize    = 4               // connections to a server: two that flush, and room for strays
	dialTimeout = 2 * time.Second // a dial goes on in the background when nobody waits for it any more
	dialJitter  = 250 * time.Millisecond
)

// silence keeps the client library from writing to stderr what it also returns. It is called before
// the first client is made, for the library's logger is one for the whole program.
var silence = sync.OnceFunc(func() { goredis.SetLogger(quiet{}) })

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// Check reports what is wrong with o. It asks no server.
func (o Options) Check() error {
	_, err := o.parse()
	return err
}

// A target is Options as the client library wants them.
type target struct {
	client goredis.Options
	dialer *dialer
	addrs  []string
	master string

	sentinelUser, sentinelPassword string
}

// parse returns what o names, or what is wrong with it.
func (o *Options) parse() (*target, error) {
	if strings.ContainsAny(o.Prefix, "{}") {
		return nil, fmt.Errorf("redis prefix %q: want no braces, which are the hash tag's", o.Prefix)
	}
	t := &target{master: o.SentinelMaster}
	for i, text := range strings.Split(o.URL, ",") {
		u, err := goredis.ParseURL(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("redis url: want redis://HOST:PORT or rediss://HOST:PORT: %w", withoutSecret(err))
		}
		if i == 0 {
			t.client = *u
		}
		t.addrs = append(t.addrs, u.Addr)
	}
	if len(t.addrs) > 1 && t.master == "" && t.client.DB != 0 {
		return nil, errors.New("redis url: a Cluster has no databases")
	}
	t.sentinelUser, t.sentinelPassword = t.client.Username, t.client.Password
	t.dialer = &dialer{secure: o.secure(t.client.TLSConfig)}
	o.apply(&t.client)
	if t.sentinelPassword == "" {
		t.sentinelUser, t.sentinelPassword = t.client.Username, t.client.Password
	}
	t.client.Dialer = t.dialer.dial
	return t, nil
}

// withoutSecret is err without the URL that it quotes, which may hold a password.
func withoutSecret(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// apply completes what the first URL said. A command is sent once: what may have been executed is
// never sent again.
func (o *Options) apply(c *goredis.Options) {
	if c.Username == "" && c.Password == "" || o.SentinelMaster != "" && o.Password != "" {
		c.Username, c.Password = o.Username, o.Password
	}
	c.TLSConfig = nil // the dialer sees to it
	c.OnConnect = ask
	c.Protocol = 2
	c.DisableIdentity = true
	c.MaxRetries = -1
	c.ContextTimeoutEnabled = true
	c.DialTimeout, c.DialerRetries = dialTimeout, 1
	c.ReadTimeout, c.WriteTimeout, c.PoolTimeout = o.Timeout, o.Timeout, o.Timeout
	c.PoolSize, c.PipelinePoolSize = poolSize, -1
	c.ConnMaxIdleTime = -1
}

// secure returns the TLS settings: none where neither o nor the URL, which has its own, asks for TLS.
// The name to verify is that of the server that is dialled, unless o says another.
func (o *Options) secure(byURL *tls.Config) *tls.Config {
	switch {
	case o.TLS != nil:
		return o.TLS.Clone()
	case byURL != nil:
		return &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return nil
}

// ask makes sure, on a new connection, that it may be used: a server that wants a password says so.
func ask(ctx context.Context, c *goredis.Conn) error { return c.Ping(ctx).Err() }

// single returns a client of the one server, or of the one that the Sentinels name.
func (t *target) single() *goredis.Client {
	if t.master == "" {
		c := t.client
		return goredis.NewClient(&c)
	}
	return goredis.NewFailoverClient(&goredis.FailoverOptions{
		MasterName: t.master, SentinelAddrs: t.addrs,
		SentinelUsername: t.sentinelUser, SentinelPassword: t.sentinelPassword,
		Username: t.client.Username, Password: t.client.Password, DB: t.client.DB,
		Dialer: t.client.Dialer, OnConnect: ask, Protocol: 2, DisableIdentity: true,
		MaxRetries: -1, ContextTimeoutEnabled: true, DialTimeout: dialTimeout, DialerRetries: 1,
		ReadTimeout: t.client.ReadTimeout, WriteTimeout: t.client.WriteTimeout, PoolTimeout: t.client.PoolTimeout,
		PoolSize: poolSize, PipelinePoolSize: -1, ConnMaxIdleTime: -1,
	})
}

// cluster returns a client that knows which node holds which slot, and tells made of the client of
// each node.
func (t *target) cluster(made func(addr string, c *goredis.Client)) *goredis.ClusterClient {
	return goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs:    t.addrs,
		Username: t.client.Username, Password: t.client.Password,
		Dialer: t.client.Dialer, OnConnect: ask, Protocol: 2, DisableIdentity: true,
		MaxRedirects: -1, MaxRetries: -1, ContextTimeoutEnabled: true, DialTimeout: dialTimeout, DialerRetries: 1,
		ReadTimeout: t.client.ReadTimeout, WriteTimeout: t.client.WriteTimeout, PoolTimeout: t.client.PoolTimeout,
		PoolSize: poolSize, PipelinePoolSize: -1, ConnMaxIdleTime: -1,
		NewClient: func(o *goredis.Options) *goredis.Client {
			c := goredis.NewClient(o)
			made(o.Addr, c)
			return c
		},
	})
}

// A dialer connects, and after a failure waits a random while first, so that the replicas do not
// come back all at once. The client's pool lets one at a time try once it has seen a few fail.
type dialer struct {
	secure *tls.Config
	failed atomic.Pointer[error] // by what the last one failed, or nil
}

func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if d.failed.Load() != nil {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(rand.N(dialJitter)):
		}
	}
	conn, err := d.connect(ctx, network, addr)
	if err != nil {
		d.failed.Store(&err)
		return nil, err
	}
	d.failed.Store(nil)
	return conn, nil
}

func (d *dialer) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext(ctx, network, addr)
	if err != nil || d.secure == nil {
		return conn, err
	}
	secure := d.secure.Clone()
	if secure.ServerName == "" {
		secure.ServerName, _, _ = net.SplitHostPort(addr) // a unix socket has no name to verify
	}
	over := tls.Client(conn, secure)
	if err := over.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, fmt.Errorf("tls: %w", err)
	}
	return over, nil
}
