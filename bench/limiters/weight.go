package limiters

import (
	"fmt"

	"github.com/weirgate/weir/bench/report"
)

// Bars of a million keys.
const (
	barBytes   = 64 // per key
	barGC      = 5  // ms of a full collection over one without keys
	barLongest = 1  // ms of a call while keys expire
)

const weightNote = "1,000,000 clients' keys, each limiter alone in a process. A collection is a forced full one with both CPUs, " +
	"the quietest of 15. For the longest call the keys' window is a second: one key that is always there and new ones are " +
	"asked for in turns while the million expires, 256 calls between two breaths; the least of the repeats is shown, since what a limiter does " +
	"itself comes back in each. The same loop without the limiter (\"nothing\") shows what the machine does."

// Weight measures what a million keys cost.
func Weight(o Options) (report.Section, error) {
	s := report.Section{Title: "A million keys", Note: weightNote}
	t := report.Table{Head: []string{"limiter", "bytes/key", "objects/key", "full GC, ms", "empty GC, ms", "over empty, ms",
		"longest call, ms", "calls over 1 ms", "longest of nothing, ms"}}
	var weir weight
	for _, l := range all() {
		if l.name == nothing || l.name == passedName || l.name == wallName {
			continue
		}
		x, err := weigh(l, o)
		if err != nil {
			return s, err
		}
		if l.name == weirName {
			weir = x
		} else {
			s.Peers = append(s.Peers, x.beside(l, weir)...)
		}
		t.Rows = append(t.Rows, x.cells(l))
	}
	s.Tables, s.Checks = []report.Table{t}, weir.checks()
	return s, nil
}

// A weight is what the keys of one limiter cost.
type weight struct {
	heap   result
	expire result // of the repeat with the least longest call
}

func weigh(l limiter, o Options) (w weight, err error) {
	c, err := start(l.name)
	if err != nil {
		return w, err
	}
	defer c.stop()
	if w.heap, err = c.ask(job{What: "heap", CPUs: 2}); err != nil || !l.expires {
		return w, err
	}
	for i := range o.Repeats {
		r, err := c.ask(job{What: "expire", CPUs: 2, For: o.Expire})
		if err != nil {
			return w, err
		}
		if i == 0 || r.Longest < w.expire.Longest {
			w.expire = r
		}
	}
	return w, nil
}

func (w *weight) cells(l limiter) []string {
	h, e := w.heap, w.expire
	cells := []string{l.name, report.Figure(h.Bytes), fmt.Sprintf("%.3f", h.Objects), report.Figure(h.Full), report.Figure(h.Empty), report.Figure(h.Full - h.Empty)}
	if !l.expires {
		return append(cells, "forgets nothing", "", "")
	}
	return append(cells, report.Figure(e.Longest), fmt.Sprintf("%d of %d", e.Over, e.Calls), report.Figure(e.Gap))
}

// beside is what the keys of a peer cost beside Weir's.
func (w *weight) beside(l limiter, weir weight) []report.Peer {
	peers := []report.Peer{{Name: l.name, What: "bytes per key", Cost: w.heap.Bytes / weir.heap.Bytes}}
	if l.expires {
		peers = append(peers, report.Peer{Name: l.name, What: "longest call", Cost: w.expire.Longest / weir.expire.Longest})
	}
	return peers
}

func (w *weight) checks() []report.Check {
	h, e := w.heap, w.expire
	return []report.Check{
		{What: "bytes per key", Measured: h.Bytes, Unit: "B", Bar: fmt.Sprintf("<= %d B", barBytes), Met: h.Bytes <= barBytes},
		{What: "full collection over an empty heap's", Measured: h.Full - h.Empty, Unit: "ms", Beside: "empty " + report.Figure(h.Empty) + " ms",
			Ratio: h.Full / h.Empty, Bar: fmt.Sprintf("<= %d ms", barGC), Met: h.Full-h.Empty <= barGC},
		{What: "longest call while a million keys expire", Measured: e.Longest, Unit: "ms", Beside: "nothing " + report.Figure(e.Gap) + " ms",
			Bar: fmt.Sprintf("<= %d ms", barLongest), Met: e.Longest <= barLongest},
	}
}
