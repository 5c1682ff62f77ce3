package replay

import (
	"container/heap"
	"context"
	"slices"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/engine"
	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/policy"
	"github.com/weirgate/weir/replay/accesslog"
	"github.com/weirgate/weir/store/memory"
)

// A side is one policy under replay: the engine of live traffic over a memory store, with the log's
// clock.
type side struct {
	name     string
	policy   *policy.Policy
	store    *memory.Store
	engine   *engine.Engine
	snapshot *engine.Snapshot
	now      int64 // the log's clock, in Unix nanoseconds
	held     held
	lacks    []Lack
	prober   *prober
	tally    *tally
	scribe   *scribe // writes the tally
}

// newSide returns one that has decided nothing. It must be closed.
func newSide(p Policy, has *accesslog.Has, t *tally) *side {
	keyless := p.Policy.WithoutKeys()
	s := &side{name: p.Name, policy: keyless, store: memory.New(memory.Options{MaxKeys: p.MaxKeys}), prober: newProber(keyless, has), tally: t}
	lacks, without := lacks(keyless, has)
	s.lacks = lacks
	s.snapshot = &engine.Snapshot{Policy: keyless, Store: s.store}
	if len(without) > 0 {
		s.snapshot.Store = &partial{s.store, without}
	}
	t.without = without
	s.scribe = newScribe(t)
	s.engine = engine.New(s.snapshot, journal.Discard(), func() time.Time { return time.Unix(0, s.now) })
	return s
}

func (s *side) close() {
	s.scribe.close()
	s.store.Close()
}

// decide decides a request of the log, at the log's time. What lasts is recorded at its end, before
// anything that begins then.
func (s *side) decide(req weir.Request, l *accesslog.Line) Verdict {
	s.end(l.At)
	s.now = l.At
	d := s.engine.Decide(context.Background(), s.snapshot, req)
	v := verdict(d)
	s.scribe.note(d, l, v)
	if l.Took > 0 && v != Refused && lasts(d) {
		heap.Push(&s.held, ending{l.At + int64(l.Took), d, l.Status})
		return v
	}
	s.engine.Record(s.snapshot, d, weir.Outcome{HTTP: l.Status})
	return v
}

func verdict(d *weir.Decision) Verdict {
	if d.Refused() {
		return Refused
	}
	for i := range d.Statuses {
		if st := &d.Statuses[i]; !st.Allowed && st.Limit.Mode == weir.Shadow {
			return Shadowed
		}
	}
	return Admitted
}

// lasts reports whether something is owed to the store when the answer to d ends.
func lasts(d *weir.Decision) bool {
	return len(d.Deferred) > 0 || slices.ContainsFunc(d.Hits, func(h weir.Hit) bool { return h.Limit.Algorithm == weir.Concurrency })
}

// mostHeld is how many requests are under way at most. Of more, those that end first end early.
const mostHeld = 1 << 16

// end records what ended by then.
func (s *side) end(by int64) {
	for len(s.held) > 0 && (s.held[0].at <= by || len(s.held) >= mostHeld) {
		e := heap.Pop(&s.held).(ending)
		s.now = min(e.at, by)
		s.engine.Record(s.snapshot, e.d, weir.Outcome{HTTP: e.status})
	}
}

// An ending is a request under way.
type ending struct {
	at     int64
	d      *weir.Decision
	status int
}

// held is a heap (container/heap), what ends first on top.
type held []ending

func (h held) Len() int           { return len(h) }
func (h held) Less(i, j int) bool { return h[i].at < h[j].at }
func (h held) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *held) Push(x any)        { *h = append(*h, x.(ending)) }
func (h *held) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = ending{}
	*h = (*h)[:last]
	return e
}
