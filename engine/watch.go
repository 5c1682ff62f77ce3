package engine

import (
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/clientip"
)

// NonceHeader is the header field of a request that is watched for. It is one of Weir's own and never
// reaches a service.
const NonceHeader = "X-Weir-Verify"

const (
	// NonceLife is how long a request is watched for, and how long afterwards it can be asked for.
	NonceLife = time.Minute

	mostWatched = 16  // requests at a time
	mostLines   = 64  // header lines that are kept of one
	mostOfALine = 512 // bytes of a value, its last
)

// A Sighting is how a watched request arrived at its front.
type Sighting struct {
	At     time.Time
	Front  string
	Peer   weir.Hop // who connected
	Client weir.Client
	Lines  []Line // the header lines that may name a client or tell of a connection, at most 64
}

// A Line is one line of a header: of its value the last 512 bytes, which proxies append.
type Line struct{ Name, Value string }

// A watch is the requests that are watched for. While there are none, it costs a request one load.
type watch struct {
	waiting atomic.Int32 // how many are
	mu      sync.Mutex
	nonces  map[string]*watched
}

type watched struct {
	until time.Time
	seen  *Sighting // nil: not yet
}

// ErrTooManyWatched is why no further request is watched for.
var ErrTooManyWatched = errors.New("16 requests are watched for already: wait a minute")

// Watch returns a nonce. How the first request arrives that bears it in [NonceHeader] can be asked of
// [Engine.Sighting], for a minute; it is decided, counted and answered like any other.
func (e *Engine) Watch() (nonce string, err error) {
	w, now := &e.watch, e.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for n, seen := range w.nonces {
		if now.After(seen.until) {
			w.forget(n)
		}
	}
	if len(w.nonces) >= mostWatched {
		return "", ErrTooManyWatched
	}
	if w.nonces == nil {
		w.nonces = make(map[string]*watched, mostWatched)
	}
	nonce = rand.Text()
	w.nonces[nonce] = &watched{until: now.Add(NonceLife)}
	w.waiting.Add(1)
	return nonce, nil
}

// forget holds mu.
func (w *watch) forget(nonce string) {
	if w.nonces[nonce].seen == nil {
		w.waiting.Add(-1)
	}
	delete(w.nonces, nonce)
}

// Sighting returns how the request with the nonce arrived: nil if it did not yet. known is false if the
// nonce is none, or its time is over.
func (e *Engine) Sighting(nonce string) (seen *Sighting, known bool) {
	e.watch.mu.Lock()
	defer e.watch.mu.Unlock()
	n := e.watch.nonces[nonce]
	if n == nil || e.now().After(n.until) {
		return nil, false
	}
	return n.seen, true
}

// look notes how d's request arrived if it is watched for.
func (w *watch) look(s *Snapshot, d *weir.Decision) {
	if w.waiting.Load() == 0 {
		return
	}
	lines := d.Request.Header[NonceHeader]
	if len(lines) != 1 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.nonces[lines[0]]
	if n == nil || n.seen != nil || d.At.After(n.until) {
		return
	}
	n.seen = sight(s, d)
	w.waiting.Add(-1)
}

// sight resolves the client of d once more, with every step.
func sight(s *Snapshot, d *weir.Decision) *Sighting {
	traced := weir.Decision{Request: d.Request}
	traced.Request.Trace = true
	s.Policy.Identify(&traced)
	peer := "unix"
	if d.Request.Peer.IsValid() {
		peer = d.Request.Peer.String()
	}
	resolver := s.Policy.Resolver()
	return &Sighting{
		At: d.At, Front: d.Request.Front, Client: traced.Client, Lines: tellingLines(resolver, d.Request.Header),
		Peer: weir.Hop{Address: peer, Trusted: resolver.Believes(d.Request.Peer, d.Request.Unix), By: "peer"},
	}
}

// tellingLines returns the lines that may name a client, and those by which proxies give themselves away.
func tellingLines(r *clientip.Resolver, header map[string][]string) []Line {
	var names []string
	for name := range header {
		if r.IsIdentity(name) || name == "Via" || name == "Connection" || strings.HasPrefix(name, "X-Forwarded-") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var lines []Line
	for _, name := range names {
		for _, value := range header[name] {
			if len(lines) == mostLines {
				return lines
			}
			lines = append(lines, Line{name, value[max(0, len(value)-mostOfALine):]})
		}
	}
	return lines
}
