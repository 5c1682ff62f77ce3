// Package replay feeds an access log through a policy: the engine of live traffic over a memory store,
// with the log's clock. What the log does not have is told and never guessed.
package replay

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/policy"
	"github.com/weirgate/weir/replay/accesslog"
)

// DefaultWindow is how far a line may be behind those before it.
const DefaultWindow = time.Minute

// mostInWindow is how many lines wait for earlier ones at most, some 70 MB.
const mostInWindow = 1 << 17

// A Policy is one that is replayed.
type Policy struct {
	Name    string
	Policy  *policy.Policy
	MaxKeys int // counters kept; 0 is the store's default
}

// Options say what is replayed, and how.
type Options struct {
	Policy  Policy
	Against *Policy // to compare with; nil: nothing

	// Peer is the address from which the server that wrote the log connects to Weir. Each request is
	// then what Weir would get from it, and the policies find the client in the header that it writes.
	// The zero Addr: whom the log calls the client is the peer, and policies that take the peer for
	// the client find the log's.
	Peer netip.Addr

	Window time.Duration // for lines out of order; 0 is DefaultWindow
	Strict bool          // a line that cannot be read ends the replay
	Has    accesslog.Has // what all logs have

	// Decided, if it is there, is told of every request that was decided, in the order of time.
	Decided func(*accesslog.Line, Verdict)

	byUse bool // see use
}

// A Verdict is what became of a request.
type Verdict uint8

const (
	Admitted Verdict = iota
	Shadowed         // admitted, and over a shadow limit
	Refused
)

// A Replay goes on from log to log. It must be closed, and is for one goroutine.
type Replay struct {
	o       Options
	tried   *side
	against *side // nil: none
	window  window
	report  Report
	counted Lines
	compare Comparison
}

// New returns a replay that has read nothing yet.
func New(o Options) *Replay {
	if o.Window == 0 {
		o.Window = DefaultWindow
	}
	seed := maphash.MakeSeed() // both sides know a client by one hash
	r := &Replay{o: o, report: Report{Broken: []BrokenLine{}}}
	t := newTally(seed)
	t.byUse = o.byUse
	r.tried = newSide(o.Policy, &o.Has, t)
	if o.Against != nil {
		r.against = newSide(*o.Against, &o.Has, newTally(seed))
	}
	r.window = window{span: int64(o.Window), most: mostInWindow, emit: r.decide}
	return r
}

// Close frees what the replay holds.
func (r *Replay) Close() {
	r.tried.close()
	if r.against != nil {
		r.against.close()
	}
}

// ErrBroken is a line that cannot be read, where none may be.
var ErrBroken = errors.New("a line that cannot be read")

// mostBroken is how many broken lines are shown.
const mostBroken = 20

// Read replays logs, merged by time, after those that were read before. It ends early, with the reason,
// when ctx is done; the report is then that of what was read.
func (r *Replay) Read(ctx context.Context, logs ...*accesslog.Log) error {
	for _, l := range logs {
		r.report.Logs = append(r.report.Logs, LogReport{Name: l.Name, Format: l.Format.Name, Writer: l.Format.About, Auto: l.Auto, Ends: !l.Format.Has.Start})
	}
	m := merger{ctx: ctx, early: int64(r.o.Window), waiting: byFirst(logs), arrived: r.arrived, take: r.window.add}
	defer m.close()
	return m.run()
}

// arrived counts lines before they are taken one by one.
func (r *Replay) arrived(log string, b *accesslog.Batch) error {
	r.counted.Read += b.Read
	r.counted.NoRequest += b.NoRequest
	r.counted.Broken += b.BrokenAll
	if len(b.Broken) > 0 {
		return r.broken(log, b.Broken)
	}
	return nil
}

// broken notes lines that could not be read.
func (r *Replay) broken(log string, lines []accesslog.Broken) error {
	for _, b := range lines[:min(len(lines), mostBroken-len(r.report.Broken))] {
		r.report.Broken = append(r.report.Broken, BrokenLine{Log: log, Broken: b})
	}
	if r.o.Strict {
		return fmt.Errorf("%s:%d: %w: %s", log, lines[0].Number, ErrBroken, lines[0].Why)
	}
	return nil
}

// decide decides a line on every side, unless one of them cannot. Lines come in the order of time.
func (r *Replay) decide(l *accesslog.Line) {
	if !l.Client.IsValid() {
		r.counted.NoClient++
		return
	}
	req := r.request(l, r.tried)
	if r.undecided(req, r.tried) {
		return
	}
	var before weir.Request
	if r.against != nil {
		if before = r.request(l, r.against); r.undecided(before, r.against) {
			return
		}
	}
	if r.counted.Decided == 0 {
		r.report.From = time.Unix(0, l.At).UTC()
	}
	r.counted.Decided++
	r.report.To = time.Unix(0, l.At).UTC()
	v := r.tried.decide(req, l)
	if r.against != nil {
		r.compare.add(v == Refused, r.against.decide(before, l) == Refused)
	}
	if r.o.Decided != nil {
		r.o.Decided(l, v)
	}
}

// undecided reports whether what the log lacks could change the rule of req, and counts it.
func (r *Replay) undecided(req weir.Request, s *side) bool {
	switch {
	case s.prober.lacksHost(req):
		r.counted.LacksHost++
	case s.prober.lacksHeaders(req):
		r.counted.LacksHeaders++
	default:
		return false
	}
	return true
}

// chainHeader is the header in which a log's chain was passed on.
const chainHeader = "X-Forwarded-For"

// request returns what a front would have seen of the request, under the policy of s.
func (r *Replay) request(l *accesslog.Line, s *side) weir.Request {
	req := weir.Request{Front: "replay", Peer: l.Client, Method: l.Method, Host: l.Host, Path: l.Path, Query: l.Query, Header: l.Header}
	if !r.o.Peer.IsValid() {
		return req
	}
	req.Peer, req.Header = r.o.Peer, http.Header{}
	for name, lines := range l.Header {
		req.Header[name] = slices.Clone(lines)
	}
	if l.Chain != "" {
		req.Header[chainHeader] = []string{l.Chain}
		return req
	}
	s.policy.Resolver().Behind(&req, l.From)
	return req
}
