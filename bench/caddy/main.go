// Command caddy is Caddy with the least rate limiter that one can write for it, to be measured beside
// Weir. It is a module of its own, for it brings more dependencies than everything else here together.
//
// The limiter stands in for github.com/mholt/caddy-ratelimit, which the module proxy does not serve: a
// counter per client address under one lock, and a 429 with Retry-After. That module does more per
// request (a ring of time stamps, a header, a sweep), so its Caddy costs at least what this one costs.
package main

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
)

func main() {
	caddy.RegisterModule(new(limiter))
	httpcaddyfile.RegisterHandlerDirective("least_limit", parse)
	httpcaddyfile.RegisterDirectiveOrder("least_limit", httpcaddyfile.Before, "reverse_proxy")
	caddycmd.Main()
}

// A limiter counts requests per client and minute.
type limiter struct {
	Events int `json:"events"` // a minute and client

	mu     sync.Mutex
	window int64
	counts map[string]int
}

// CaddyModule implements caddy.Module.
func (*limiter) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.least_limit", New: func() caddy.Module { return new(limiter) }}
}

func parse(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	l := new(limiter)
	return l, l.UnmarshalCaddyfile(h.Dispenser)
}

// UnmarshalCaddyfile reads least_limit N.
func (l *limiter) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	var text string
	if !d.Args(&text) {
		return d.ArgErr()
	}
	var err error
	l.Events, err = strconv.Atoi(text)
	return err
}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (l *limiter) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	client, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	if wait, ok := l.take(client, time.Now().Unix()); !ok {
		w.Header().Set("Retry-After", strconv.FormatInt(wait, 10))
		return caddyhttp.Error(http.StatusTooManyRequests, nil)
	}
	return next.ServeHTTP(w, r)
}

// take counts a request of client at a Unix second, and says how long to wait if it is one too many.
func (l *limiter) take(client string, now int64) (wait int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.window != now/60 {
		l.window, l.counts = now/60, map[string]int{}
	}
	if l.counts[client] >= l.Events {
		return 60 - now%60, false
	}
	l.counts[client]++
	return 0, true
}
