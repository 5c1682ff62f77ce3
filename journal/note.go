package journal

import (
	"context"
	"errors"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/internal/chain"
	"github.com/weirgate/weir/internal/topk"
)

// What is kept of the parts that an asker chooses, in bytes.
const (
	maxMethod = 16
	maxHost   = 128
	maxPath   = 128
)

// maxShadow is how many shadow limits' names are kept of one decision.
const maxShadow = 8

// A note is one decision and what became of it, copied: it points to nothing of the request. Rules and the names of
// limits are the configuration's.
type note struct {
	number uint64 // counted from 1 since the start; 0 if nothing is noted
	at     time.Time
	ended  int64 // the second of the Unix epoch in which the answer ended

	duration, upstream, inspected time.Duration

	rule            *weir.Rule
	limit           string // the tightest's name; empty if there is none
	remaining       int64  // of that limit
	retry           time.Duration
	reason          weir.Reason
	status          int
	hits, responses int32 // asked of the store, and answered

	front, class, ruleset uint8 // places in frontNames, counts.answers and rulesets; none: their number
	action                weir.Action
	verdict               weir.Verdict
	source                weir.Source
	entries               uint8 // of the client's chain

	again, refused, degraded bool
	failed                   bool // the upstream did
	known                    bool // somebody looked for the client
	seen                     bool // by the chain diagnosis

	client     clientKey // if it is known
	clientHash uint64    // of whom it identifies
	sight      chain.Sight
	shadow     []string // names of the shadow limits that would have refused

	ends [texts]uint16 // of each text; one begins where the one before it ends
	text [maxMethod + maxHost + maxPath + topk.KeyBytes]byte
}

// The texts of a note.
const (
	method = iota
	host
	path
	group // of the path; empty if there is none
	texts
)

// newNotes returns n notes in which nothing stands yet.
func newNotes(n int) []*note {
	memory, notes := make([]note, n), make([]*note, n)
	for i := range memory {
		memory[i].shadow = make([]string, 0, maxShadow)
		notes[i] = &memory[i]
	}
	return notes
}

// of returns one of the texts.
func (n *note) of(text int) []byte {
	if text == 0 {
		return n.text[:n.ends[0]]
	}
	return n.text[n.ends[text-1]:n.ends[text]]
}

// fill notes d and what became of it. It allocates nothing.
func (n *note) fill(d *weir.Decision, o weir.Outcome) {
	n.at, n.duration, n.upstream, n.inspected = d.At, o.Duration, o.Upstream, d.Inspection.Took
	n.status, n.class = o.HTTP, statusClass(o.HTTP)
	n.failed = o.Err != nil && !errors.Is(o.Err, context.Canceled)
	n.rule, n.action, n.reason, n.degraded = d.Rule, d.Action, d.Reason, d.Degraded
	n.again, n.refused = d.Reason == weir.AskedBefore, d.Refused()
	n.hits, n.responses = int32(len(d.Hits)), int32(len(d.Statuses))
	n.verdict, n.ruleset = d.Inspection.Verdict, uint8(len(rulesets))
	if set := d.Inspection.Ruleset; set != "" {
		n.ruleset = rulesetIndex(set)
	}
	n.front = frontIndex(d.Request.Front)
	n.fillClient(&d.Client)
	n.fillLimit(d)
	n.fillTexts(&d.Request)
}

func (n *note) fillClient(c *weir.Client) {
	if n.known = hasClient(c); n.known {
		n.source, n.entries = c.Source, min(c.Chain.Entries, weir.ManyEntries)
		n.client.write(c)
	}
}

func (n *note) fillLimit(d *weir.Decision) {
	n.limit, n.remaining, n.retry = "", 0, 0
	if t := tightest(d); t != nil {
		n.limit, n.remaining, n.retry = t.Limit.Name, t.Remaining, t.RetryAfter
	}
	if d.Ban != nil {
		n.retry = d.RetryAfter()
	}
	n.shadow = appendShadow(n.shadow[:0], d)
}

func (n *note) fillTexts(r *weir.Request) {
	end := copy(n.text[:], cut(r.Method, maxMethod))
	n.ends[method] = uint16(end)
	end += copy(n.text[end:], cut(r.Host, maxHost))
	n.ends[host] = uint16(end)
	end += copy(n.text[end:], cut(r.Path, maxPath))
	n.ends[path] = uint16(end)
	n.ends[group] = uint16(end + len(appendFolded(n.text[end:end], r.Path)))
}
