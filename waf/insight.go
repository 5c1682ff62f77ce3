package waf

import (
	"bytes"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirgate/weir"
)

// What a second look may cost.
const (
	insightShare = 100         // one in so many requests that passed
	insightEvery = time.Second // at most one in this time
	insightAfter = time.Minute // no look sooner after the first request: a set that is soon replaced loads no second one
	mostInsight  = 16 << 10    // the longest body that is looked at again, in bytes
)

// An Insight looks again, by stricter rules, at a few of the requests that passed, to tell what those would
// find. It refuses nothing, nobody waits for it, and at most one request is looked at at a time. It is safe
// for concurrent use.
type Insight struct {
	load   func() (Ruleset, error)
	passed atomic.Uint64

	mu      sync.Mutex
	next    time.Time // no look before
	looking bool
	closed  bool
	running sync.WaitGroup

	rules Ruleset // written and read by the one look at a time
}

// NewInsight returns one whose rules are loaded at the first look, which only does that.
func NewInsight(load func() (Ruleset, error)) *Insight { return &Insight{load: load} }

// Close waits for the look under way and frees the rules.
func (n *Insight) Close() error {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.running.Wait()
	if n.rules == nil {
		return nil
	}
	return n.rules.Close()
}

// begin reports whether there is to be a look at now, which is then to be ended.
func (n *Insight) begin(now time.Time) bool {
	if n.passed.Add(1)%insightShare != 1 {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next.IsZero() {
		n.next = now.Add(insightAfter)
	}
	if n.closed || n.looking || now.Before(n.next) {
		return false
	}
	n.looking, n.next = true, now.Add(insightEvery)
	n.running.Add(1)
	return true
}

func (n *Insight) end() {
	n.mu.Lock()
	n.looking = false
	n.mu.Unlock()
	n.running.Done()
}

// Again returns what looks again at in, on which the verdict is v, or nil if nothing is to: nearly always. The
// returned function is to be called once, and returns at once. Then tell is called with what was found, as under
// [weir.Shadow]; where the look had to load the rules, only if that failed. It keeps nothing of in.
func (w *WAF) Again(in *Input, v weir.Verdict) func(tell func(weir.Inspection)) {
	n := w.o.Insight
	if n == nil || v != weir.Clean && v != weir.Plain || len(in.Body) > mostInsight || !n.begin(in.Now) {
		return nil
	}
	if n.rules == nil {
		return func(tell func(weir.Inspection)) { go n.fetch(tell) }
	}
	if w.o.Slots != nil && !w.o.Slots.try("") {
		n.end()
		return nil
	}
	copied := *in
	copied.Mode, copied.Header, copied.Body = weir.Shadow, in.Header.Clone(), bytes.Clone(in.Body)
	return func(tell func(weir.Inspection)) {
		go func() {
			defer n.end()
			defer w.o.Slots.leave("")
			tell(w.stricter(&copied))
		}()
	}
}

// fetch loads the rules. Where they cannot be loaded there is no look any more.
func (n *Insight) fetch(tell func(weir.Inspection)) {
	defer n.end()
	rules, err := n.load()
	if err == nil {
		n.rules = rules
		return
	}
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	tell(weir.Inspection{Verdict: weir.FailedOpen, Fault: "load", Detail: err.Error()})
}

// stricter returns what the stricter rules find in in.
func (w *WAF) stricter(in *Input) weir.Inspection {
	o := w.o
	o.Rules = w.o.Insight.rules
	r := weir.Inspection{Ruleset: o.Rules.Name(), Inspected: inspected(in)}
	New(o).inspect(in, &r)
	return r
}
