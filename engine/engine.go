// Package engine is the one straight road of a request, and the place where a new configuration
// takes the place of the old.
package engine

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/credential"
	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/policy"
	"github.com/weirgate/weir/respond"
	"github.com/weirgate/weir/waf"
)

// A Snapshot is everything that a configuration decides, swapped as one. It is never changed.
type Snapshot struct {
	Policy  *policy.Policy
	Store   Store
	Respond *respond.Responder
	// Upstreams are what the proxy front forwards to: one per route of the configuration, in its
	// order, then the upstream of everything else (nil if there is none).
	Upstreams []*Upstream
	// Firewalls inspect: one for each of [policy.Policy.Firewalls], in its order. None: nothing is inspected.
	Firewalls []*waf.WAF
	// Whoami is set if askers may ask what was resolved for them.
	Whoami bool
	// Tracer follows requests on the HTTP road. Nil: nobody does.
	Tracer Tracer
	// Verifier proves API keys and tokens; nil: none are read.
	Verifier Verifier
	// Secrets are where requests bear API keys that are taken off what passes; nil: nothing is.
	Secrets *credential.Places
	// Bans tell who is kept out; nil: nobody.
	Bans Bans
	// Penalties are told of every answer; nil: nobody is banned by himself.
	Penalties Penalties
}

// A Verifier looks for the API key or token of d.Request. It fills Credential of d.Client, and APIKey, Plan
// and Scopes where it is verified. It is safe for concurrent use, and ctx bounds its wait.
type Verifier interface {
	Verify(ctx context.Context, d *weir.Decision)
}

// Bans find the ban that holds at a moment, or nil: for a client, by its address or its API key, or for all of a
// network.
type Bans interface {
	Find(now time.Time, c *weir.Client) *weir.Ban
	Around(now time.Time, n netip.Prefix) *weir.Ban
}

// Penalties learn of a decision and what became of it, before it is recorded, and keep nothing of it.
type Penalties interface {
	Note(now time.Time, d *weir.Decision, o weir.Outcome)
}

// An Upstream is a service behind Weir, and the connections to it.
type Upstream struct {
	URL       *url.URL
	Transport http.RoundTripper
}

// A Store counts hits, takes back what it granted, and answers without counting.
type Store interface {
	weir.Store
	weir.Releaser
	weir.Peeker
}

// Peeking returns s with a store that counts nothing: to decide under it is to explain.
func (s *Snapshot) Peeking() *Snapshot {
	peeking := *s
	peeking.Store = peeker{s.Store}
	peeking.Verifier = peekingVerifier(s.Verifier)
	return &peeking
}

// A peeker is a store whose Take is a Peek.
type peeker struct{ Store }

func (p peeker) Take(ctx context.Context, now time.Time, hits []weir.Hit, out []weir.Status) error {
	return p.Peek(ctx, now, hits, out)
}

// An Engine decides requests. It is safe for concurrent use.
type Engine struct {
	current   atomic.Pointer[Snapshot]
	journal   *journal.Journal
	now       func() time.Time
	leases    atomic.Uint64
	decisions sync.Pool
	inputs    sync.Pool
	watch     watch
}

// New returns an engine that decides by s, tells j, and reads the time from now.
func New(s *Snapshot, j *journal.Journal, now func() time.Time) *Engine {
	e := &Engine{journal: j, now: now}
	e.leases.Store(rand.Uint64()) // replicas of one store must not hold each other's leases
	e.decisions.New = func() any { return new(weir.Decision) }
	e.inputs.New = func() any { return new(waf.Input) }
	e.current.Store(s)
	return e
}

// Current returns the snapshot in force. A front reads it once per request.
func (e *Engine) Current() *Snapshot { return e.current.Load() }

// Swap puts s in force and returns the snapshot that it displaced.
func (e *Engine) Swap(s *Snapshot) *Snapshot { return e.current.Swap(s) }

// Decide returns the answer to req under s. It must be given to Record exactly once, when the answer
// ended, and not be used afterwards.
func (e *Engine) Decide(ctx context.Context, s *Snapshot, req weir.Request) *weir.Decision {
	d := e.begin(&req)
	s.Policy.Identify(d)
	e.watch.look(s, d)
	if s.bans(ctx, d) {
		return d
	}
	rule := s.Policy.Match(d)
	if rule == nil {
		return d // decided without counting
	}
	rule.Hits(d)
	err := e.Charge(ctx, s, d)
	rule.Decide(d, err)
	return d
}

// Begin returns the empty decision about req, made now, for a front that finds the hits by itself. It
// must be given to Record, as that of Decide.
func (e *Engine) Begin(req weir.Request) *weir.Decision { return e.begin(&req) }

// begin copies req, which is large, once.
func (e *Engine) begin(req *weir.Request) *weir.Decision {
	d := e.decisions.Get().(*weir.Decision)
	d.Request, d.At = *req, e.now()
	return d
}

// Charge asks the store of s for the hits of d, of which d.Statuses has as many. An error means that it
// could not answer.
func (e *Engine) Charge(ctx context.Context, s *Snapshot, d *weir.Decision) error {
	e.lease(d)
	return s.Store.Take(ctx, d.At, d.Hits, d.Statuses)
}

// Record notes what became of d under s: it charges the limits that depend on the answer's HTTP
// status, gives back what was in flight, and tells the journal.
func (e *Engine) Record(s *Snapshot, d *weir.Decision, o weir.Outcome) {
	// The asker may have gone; what is owed to the store is not his to cancel.
	ctx, now := context.Background(), e.now()
	if len(d.Deferred) > 0 && !d.Refused() && slices.Contains(d.OnlyStatuses, o.HTTP) {
		for i := range d.Deferred {
			chargeLate(ctx, now, s.Store, d.Deferred[i:i+1])
		}
	}
	if holdsLease(d) {
		_ = s.Store.Release(ctx, now, d.Hits)
	}
	o.Duration = now.Sub(d.At)
	if s.Penalties != nil {
		s.Penalties.Note(now, d, o)
	}
	e.journal.Record(d, o)
	d.Reset()
	e.decisions.Put(d)
}

// chargeLate charges one hit for a request that has passed already: as much of it as there is left, so
// that what is over the limit fills it.
func chargeLate(ctx context.Context, now time.Time, store Store, hit []weir.Hit) {
	var status [1]weir.Status
	err := store.Take(ctx, now, hit, status[:])
	if left := status[0].Remaining; err == nil && !status[0].Allowed && left > 0 {
		hit[0].N = left
		_ = store.Take(ctx, now, hit, status[:]) // nobody waits for it
	}
}

// lease gives every hit of d the lease under which it may be given back, if one of them is to be.
func (e *Engine) lease(d *weir.Decision) {
	if !inFlight(d.Hits) {
		return // requests do not contend for a number that nobody reads
	}
	id := e.leases.Add(1)
	for i := range d.Hits {
		d.Hits[i].Lease = id
	}
}

// holdsLease reports whether the store granted d something that must be given back. Where an
// enforcing limit refused, nothing was charged.
func holdsLease(d *weir.Decision) bool { return inFlight(d.Hits) && !d.Over() }

// inFlight reports whether one of hits is on a limit of what is in flight.
func inFlight(hits []weir.Hit) bool {
	for i := range hits {
		if hits[i].Limit.Algorithm == weir.Concurrency {
			return true
		}
	}
	return false
}
