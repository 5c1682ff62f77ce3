package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
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
	// Logger is told what should be changed about the servers, and once of each: see Finding. nil is
	// nobody, and they are not looked at.
	Logger *slog.Logger
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
	met    chan struct{} // told when a connection was made

	sentinelUser, sentinelPassword string
}

// parse returns what o names, or what is wrong with it.
func (o *Options) parse() (*target, error) {
	if strings.ContainsAny(o.Prefix, "{}") {
		return nil, fmt.Errorf("redis prefix %q: want no braces, which are the hash tag's", o.Prefix)
	}
	t := &target{master: o.SentinelMaster, met: make(chan struct{}, 1)}
	for i, text := range strings.Split(o.URL, ",") {
		u, err := parseURL(strings.TrimSpace(text))
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
	t.client.Dialer, t.client.OnConnect = t.dialer.dial, t.ask
	if isLone(t.client.Username, t.client.Password) || isLone(t.sentinelUser, t.sentinelPassword) {
		return nil, errLoneUser
	}
	return t, nil
}

// parseURL reads one URL, and refuses what the client library takes for another server or database.
func parseURL(text string) (*goredis.Options, error) {
	o, err := goredis.ParseURL(text)
	if err != nil {
		return nil, err
	}
	switch u, err := url.Parse(text); {
	case err != nil:
		return nil, err
	case strings.Count(u.Host, ":") > 1 && u.Host[0] != '[':
		return nil, errors.New("an IPv6 address stands in brackets, as in redis://[::1]:6379")
	case strings.Contains(u.Host, "$"):
		return nil, errors.New("a variable is written ${NAME}")
	case o.DB < 0:
		return nil, errors.New("databases are counted from 0")
	}
	return o, nil
}

// errLoneUser is what the client library passes over in silence: it then is nobody, or the default user.
var errLoneUser = errors.New("redis: a user without a password: write redis://USER:PASSWORD@HOST, or redis://:PASSWORD@HOST if it was meant for the password")

// isLone reports whether a user is named who would not be logged in. The default user needs no password.
func isLone(user, password string) bool { return user != "" && user != "default" && password == "" }

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
	} else if c.Password == "" {
		c.Password = o.Password // a user may stand in the URL, and his password where secrets are
	}
	c.TLSConfig = nil // the dialer sees to it
	c.Protocol = 2
	c.DisableIdentity = true
	c.MaxRetries = -1
	c.ContextTimeoutEnabled = true
	c.DialTimeout, c.DialerRetries = dialTimeout, 1
	c.ReadTimeout, c.WriteTimeout = o.Timeout, o.Timeout
	c.PoolTimeout = 2 * o.Timeout // never: a caller's time ends first, which tells more
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
func (t *target) ask(ctx context.Context, c *goredis.Conn) error {
	err := c.Ping(ctx).Err()
	if err == nil {
		t.connected()
	}
	return err
}

// connected has the servers looked at.
func (t *target) connected() {
	select {
	case t.met <- struct{}{}:
	default: // they are about to be
	}
}

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
		Dialer: t.client.Dialer, OnConnect: t.ask, Protocol: 2, DisableIdentity: true,
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
		Dialer: t.client.Dialer, OnConnect: t.ask, Protocol: 2, DisableIdentity: true,
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
	again  atomic.Bool           // the last one failed
	failed atomic.Pointer[error] // by what, or what is not there yet; nil if nothing is missing
}

func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if d.again.Load() {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(rand.N(dialJitter)):
		}
	}
	conn, err := d.connect(ctx, network, addr)
	d.again.Store(err != nil)
	if err != nil {
		d.failed.Store(&err)
		return nil, err
	}
	d.failed.Store(nil)
	return conn, nil
}

// errNoHandshake is what is known of a server that may not speak TLS: it waits for more of a command.
var errNoHandshake = errors.New("the TLS handshake is not answered: does the server speak TLS (rediss://), or not (redis://)?")

func (d *dialer) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if d.secure == nil {
		if tcp, ok := conn.(*net.TCPConn); ok {
			return &plainConn{TCPConn: tcp}, nil
		}
		return conn, nil
	}
	secure := d.secure.Clone()
	if secure.ServerName == "" {
		secure.ServerName, _, _ = net.SplitHostPort(addr) // a unix socket has no name to verify
	}
	d.failed.Store(&errNoHandshake) // requests give up long before the handshake does
	over := tls.Client(conn, secure)
	if err = over.HandshakeContext(ctx); err == nil {
		return over, nil
	}
	conn.Close()
	if _, plain := errors.AsType[tls.RecordHeaderError](err); plain || ctx.Err() != nil {
		err = errNoHandshake
	}
	return nil, fmt.Errorf("tls: %w", err)
}

// A plainConn is a connection without TLS. That of a server that speaks nothing else ends with the
// first word.
type plainConn struct {
	*net.TCPConn
	heard bool
}

// Read implements net.Conn.
func (c *plainConn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	if c.heard {
		return n, err
	}
	c.heard = n > 0
	if isAlert(p[:n]) || err == io.EOF || errors.Is(err, syscall.ECONNRESET) {
		// The client library hands on what an error wraps, and not the error.
		return 0, fmt.Errorf("the server ended a new connection, as one does that speaks TLS only (rediss://): %v", cmp.Or(err, io.EOF))
	}
	return n, err
}

// isAlert reports whether text is how a TLS server says that it was not spoken to in TLS (RFC 8446, 6).
func isAlert(text []byte) bool { return len(text) > 1 && text[0] == 21 && text[1] == 3 }
