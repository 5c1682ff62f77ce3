package policy

import (
	"net/http"
	"slices"
	"time"

	"github.com/weirgate/weir"
)

// A request that a front may be asked about more than once bears an ID. With its hits goes one more,
// on a counter of this request's own that lets one pass in 5 seconds. All hits are charged or none:
// where that one refuses, the request was charged before; where a limit refuses, that one stays free,
// and the next ask is judged afresh. The store alone holds it, so any replica may be asked. Nobody but
// the store sees it: [Rule.Decide] takes it away again.

// once is the limit of that counter. A limit of a configuration has a name.
var once = weir.Limit{Rate: "1/5s", Algorithm: weir.TokenBucket, Max: 1, Burst: 1, Window: 5 * time.Second}

var onceLabel = label(&once)

// hitOnce appends that hit, if d is charged anything. Its key begins with the client's tag whatever the
// rule is: an ask after an error page may come under another method.
func (r *Rule) hitOnce(d *weir.Decision) {
	if !slices.ContainsFunc(d.Hits, func(h weir.Hit) bool { return h.N > 0 }) {
		return
	}
	w := keyWriter{d: d, rule: r}
	k := w.keyOnce()
	d.Hits = append(d.Hits, weir.Hit{Limit: &once, Key: k.text, TagLen: k.tag, N: 1, OnFailure: r.OnFailure})
}

// keyOnce appends the key of the counter that the request has for itself.
func (w *keyWriter) keyOnce() key {
	start := len(w.d.Keys)
	b, _ := w.appendTag(w.d.Keys, &byClient, w.d.Client.APIKey == "")
	tag := len(b) - start
	return w.keep(appendValue(append(b, onceLabel...), w.d.Request.ID), start, tag)
}

// byClient is counted per client.
var byClient = counter{per: []part{{kind: perClient}}}

// takeOnce removes what hitOnce appended, with its status, and reports whether that refused.
func takeOnce(d *weir.Decision) (paid bool) {
	last := len(d.Hits) - 1
	if last < 0 || d.Hits[last].Limit != &once {
		return false
	}
	paid = !d.Statuses[last].Allowed
	d.Hits, d.Statuses = d.Hits[:last], d.Statuses[:last]
	return paid
}

// passAgain lets a request pass that was charged before. What its limits have left is told, and that
// they took this request: what they say of another one like it, shadows too, is not about this one.
func passAgain(d *weir.Decision) {
	for i := range d.Statuses {
		d.Statuses[i].Allowed, d.Statuses[i].RetryAfter = true, 0
	}
	settle(d, weir.Pass, weir.AskedBefore, http.StatusOK)
}
