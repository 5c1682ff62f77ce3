package spoe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/front/spoe/spop"
	"github.com/weirgate/weir/internal/noise"
)

// A check is one NOTIFY frame on its way to its acknowledgement. Its memory is used again.
type check struct {
	server *Server
	run    func() // k.wait, made once

	conn     *conn
	frame    spop.Frame
	request  weir.Request
	snapshot *engine.Snapshot
	decision *weir.Decision // not recorded yet, or nil
	sent     int            // the HTTP status that HAProxy is to answer with; 0: none
	ack      []byte
	refusal  refusal
}

// check returns an empty check.
func (s *Server) check() *check {
	if k, ok := s.checks.Get().(*check); ok {
		return k
	}
	k := &check{server: s, refusal: newRefusal()}
	k.request.Header = http.Header{}
	k.run = k.wait
	return k
}

// wait serves a check that holds one of the server's places.
func (k *check) wait() {
	s := k.server
	defer func() { <-s.pending }()
	k.serve(s.engine.Current())
}

// serve acknowledges the frame, as s decides, and gives k back. What the decision owes to the store is
// done when HAProxy has its answer.
func (k *check) serve(s *engine.Snapshot) {
	defer k.release()
	k.snapshot = s
	k.decide()
	k.conn.send(k.ack)
	k.conn.unanswered.Done()
	k.record()
}

// release empties k for another frame.
func (k *check) release() {
	k.conn.pending.Done()
	header := k.request.Header
	clear(header)
	k.request = weir.Request{Header: header}
	k.conn, k.frame, k.snapshot, k.decision, k.sent = nil, spop.Frame{}, nil, nil, 0
	k.server.checks.Put(k)
}

// decide makes the acknowledgement. It sets no action where nothing could be decided.
func (k *check) decide() {
	defer func() {
		if p := recover(); p != nil {
			k.panicked(p)
			k.mourn()
			k.undecided()
		}
	}()
	src, asked, err := k.server.reader.read(k.frame.Payload, k.open())
	if err != nil || !asked {
		k.unread(err)
		k.undecided()
		return
	}
	k.snapshot.Policy.Resolver().Behind(&k.request, src)
	k.decision = k.server.engine.Decide(context.Background(), k.snapshot, k.request)
	k.decision.Deferred = k.decision.Deferred[:0] // what the service answers is never known here
	k.server.engine.Inspect(context.Background(), k.snapshot, k.decision, engine.Content{Absent: true})
	if k.decision.Refused() {
		k.decision.Action = weir.Reject // nothing is dropped or held in the name of a proxy
	}
	k.answer()
}

// open returns the request that the frame is about, as far as the connection tells.
func (k *check) open() *weir.Request {
	k.request.Front, k.request.Scheme = "spoe", "http"
	k.request.Peer, k.request.Unix = k.conn.peer, k.conn.unix
	return &k.request
}

// mourn has a request that there is no decision about recorded as one that was not held back.
func (k *check) mourn() {
	if k.decision == nil {
		k.decision = k.server.engine.Begin(k.request)
		k.decision.Action, k.decision.Reason, k.decision.HTTP, k.decision.Degraded = weir.Pass, weir.FaultOfOurs, http.StatusOK, true
	}
}

// undecided makes an acknowledgement that leaves it to HAProxy's configuration what follows.
func (k *check) undecided() {
	k.sent = 0
	k.begin()
	k.set("degraded", spop.Truth(true))
	k.end()
}

// record tells the journal of the decision, if there is one. A passing one has no HTTP status: what the
// service answers is not known here.
func (k *check) record() {
	defer func() {
		if p := recover(); p != nil {
			k.panicked(p)
		}
	}()
	if d := k.decision; d != nil {
		k.decision = nil
		k.server.engine.Record(k.snapshot, d, weir.Outcome{HTTP: k.sent})
	}
}

// errNoMessage is what is wrong with a frame that asks nothing of us.
var errNoMessage = errors.New("want a message named " + messageName)

// unread tells of a frame that could not be read, once a minute.
func (k *check) unread(err error) {
	if err == nil {
		err = errNoMessage
	}
	s, now := k.server, time.Now()
	next := s.tell.Load()
	if now.UnixNano() < next || !s.tell.CompareAndSwap(next, now.Add(time.Minute).UnixNano()) {
		return
	}
	s.options.Log.Warn("spoe: HAProxy's message is not understood", "peer", noise.Peer(k.conn.peer, k.conn.unix), "err", err)
}

// panicked tells of a fault of ours.
func (k *check) panicked(p any) {
	k.server.options.Log.LogAttrs(context.Background(), slog.LevelError, "spoe: panic",
		slog.String("panic", fmt.Sprint(p)), slog.String("stack", string(debug.Stack())))
}

// uncounted returns s with a store that does not answer: what follows then is for each rule to say.
func uncounted(s *engine.Snapshot) *engine.Snapshot {
	without := *s
	without.Store = away{s.Store}
	return &without
}

// away is a store that is not asked.
type away struct{ engine.Store }

var errOverload = errors.New("spoe: too many checks wait for the store")

func (away) Take(context.Context, time.Time, []weir.Hit, []weir.Status) error { return errOverload }

func (away) Release(context.Context, time.Time, []weir.Hit) error { return nil } // nothing was granted
