// Package admin is how an operator sees what a running Weir does, and steps in: the JSON API, its OpenAPI
// document, and the audit log of every change.
//
// What it shows comes from the journal and the snapshot in force; it has no state of its own but who
// listens to events. GET changes nothing. Everything it is sent and everything it answers is bounded.
package admin

import (
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/apikey"
	"github.com/weirgate/weir/ban"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/journal"
)

// Options are what a server shows, and whom it obeys. Every function must be safe for concurrent use.
type Options struct {
	Engine  *engine.Engine
	Journal *journal.Journal
	Now     func() time.Time // nil: time.Now
	Log     *slog.Logger     // nil: nothing is logged

	// AdminToken may do everything, ReadToken change nothing. Without either, everybody may do everything
	// whom Local lets in.
	AdminToken, ReadToken config.Secret
	// Local is set where only this machine can connect: at a loopback address or a unix socket.
	Local Local

	Version string
	Started time.Time
	Ready   func() error // why no requests should be sent here, or nil
	Fronts  []FrontPlace
	Backend string // what the store is: memory or redis
	Gauges  journal.Gauges

	Config    func() InForce          // the configuration in force: what is asked of Keys needs no more of it than plans
	Reload    func() (InForce, error) // puts the file in force; an error left everything as it was
	NeedStart func() []string         // settings of the file that take effect at the next start only
	Problems  func(error) []string    // the problems of a configuration that Reload refused, a line each
	Trail     *Trail                  // nil: no change is possible
	Bans      *ban.Bans               // nil: nobody can be banned
	Blocked   func(n int) Blocked     // what the firewall found, at most the last n of each kind; nil: there is no firewall
	Keys      func() *apikey.Keys     // the API keys that requests are asked for; nil, or returning nil: none

	// Page serves everything that is not the API, without a token. Nil: nothing does.
	Page http.Handler
}

// InForce is a configuration that is in force.
type InForce struct {
	File    string // where it was read; defaults if there is none
	Hash    string
	Config  *config.Config
	Since   time.Time
	Refused *Refused // what the last reload was refused for; nil: it was not
}

// Local says how near a caller has to be.
type Local uint8

const (
	Anywhere Local = iota
	Loopback       // the address is this machine's own: a browser here may have been sent by anybody
	Socket         // no browser comes here
)

// A Server answers the API. It is safe for concurrent use.
type Server struct {
	o         Options
	tokens    tokens
	guesses   guesses
	handler   http.Handler
	document  []byte
	listeners chan struct{} // holds one for each who listens to events
}

// mostListeners is how many may listen to events at once; more are answered 503.
const mostListeners = 32

// New returns a server of the API at /api/v1/, and of the page at everything else.
func New(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{o: o, tokens: newTokens(o.AdminToken, o.ReadToken), document: Document(), listeners: make(chan struct{}, mostListeners)}
	s.o.AdminToken, s.o.ReadToken = "", "" // their sums are all that is needed
	mux := http.NewServeMux()
	allowed := map[string][]string{}
	for _, rt := range routes() {
		mux.Handle(rt.method+" "+rt.pattern(), s.operation(&rt))
		allowed[rt.pattern()] = append(allowed[rt.pattern()], rt.method)
	}
	for path, methods := range allowed {
		mux.Handle(path, s.guarded(func(c *call) (any, error) {
			c.w.Header().Set("Allow", strings.Join(methods, ", "))
			return nil, problem(http.StatusMethodNotAllowed, "bad_request", "want "+strings.Join(methods, " or "))
		}))
	}
	mux.Handle("/api/", s.guarded(func(*call) (any, error) { return nil, notFound("there is no such operation: see /api/v1/openapi.json") }))
	if o.Page != nil {
		mux.Handle("/", o.Page)
	}
	s.handler = safe(mux)
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Protect returns next for those alone who may read the API.
func (s *Server) Protect(next http.Handler) http.Handler {
	return safe(s.guarded(func(c *call) (any, error) { next.ServeHTTP(c.w, c.r); return nil, nil }))
}

// safe sets the header fields that keep browsers from guessing, framing and telling. A page that needs
// other ones sets them itself.
func safe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		next.ServeHTTP(w, r)
	})
}

// snapshot is the one in force.
func (s *Server) snapshot() *engine.Snapshot { return s.o.Engine.Current() }

// resetter returns what forgets counters, or why nothing does.
func (s *Server) resetter() (weir.Resetter, error) {
	if r, ok := s.snapshot().Store.(weir.Resetter); ok {
		return r, nil
	}
	return nil, problem(http.StatusNotImplemented, "not_in_this_version", "the store forgets nothing")
}
