package replay

import (
	"hash/maphash"
	"net/netip"
	"slices"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/replay/accesslog"
)

// A note is what a tally remembers of a decision. It holds nothing of the Decision itself, which is used again.
type note struct {
	at      int64 // when the request came, in Unix nanoseconds
	path    string
	status  int // that the log has
	verdict Verdict
	tagged  bool
	rule    string
	reason  weir.Reason
	wait    int64 // for how long the asker was told to, in nanoseconds

	client     uint64 // his hash
	prefix     netip.Prefix
	unresolved string // his key where there is no prefix

	asks int // how many of the sheet's are its
}

// key returns the text of the client's key.
func (n *note) key() string {
	if n.unresolved != "" {
		return n.unresolved
	}
	return n.prefix.String()
}

// An ask is what was asked of one counter.
type ask struct {
	limit     *weir.Limit
	counter   uint64 // the hash of its key
	n         int64
	remaining int64
	allowed   bool
	deferred  bool // charged by the answer: nothing was said to the request
}

// A sheet is what some decisions in a row left to be noted.
type sheet struct {
	notes []note
	asks  []ask
}

const (
	sheets     = 4
	sheetNotes = 256
)

// A scribe has a tally note decisions while the next ones are made. Whoever decides writes sheets, the scribe
// enters full ones. It must be closed.
type scribe struct {
	seed   maphash.Seed
	key    []byte
	sheet  *sheet
	full   chan *sheet
	blank  chan *sheet
	closed chan struct{}
}

func newScribe(t *tally) *scribe {
	s := &scribe{seed: t.seed, sheet: new(sheet), full: make(chan *sheet, sheets), blank: make(chan *sheet, sheets), closed: make(chan struct{})}
	for range sheets - 1 {
		s.blank <- new(sheet)
	}
	go func() {
		defer close(s.closed)
		for p := range s.full {
			t.enter(p)
			p.notes, p.asks = p.notes[:0], p.asks[:0]
			s.blank <- p
		}
	}()
	return s
}

// settle returns when all that was written is in the tally, which may be read until the next note.
func (s *scribe) settle() {
	s.turn()
	var blank []*sheet
	for range sheets - 1 {
		blank = append(blank, <-s.blank)
	}
	for _, p := range blank {
		s.blank <- p
	}
}

func (s *scribe) close() {
	s.full <- s.sheet
	close(s.full)
	<-s.closed
}

// turn hands over the sheet and takes a blank one.
func (s *scribe) turn() {
	s.full <- s.sheet
	s.sheet = <-s.blank
}

// note writes down a decision about l, which bears the status that the log has.
func (s *scribe) note(d *weir.Decision, l *accesslog.Line, v Verdict) {
	p := s.sheet
	before := len(p.asks)
	s.asked(p, d, l)
	n := note{
		at: l.At, path: l.Path, status: l.Status, verdict: v, tagged: d.Action == weir.Tag, rule: noRule, reason: d.Reason,
		client: s.hash(&d.Client), prefix: d.Client.Prefix, asks: len(p.asks) - before,
	}
	if d.Rule != nil {
		n.rule = d.Rule.Name
	}
	if d.Client.Source == weir.Unresolved {
		n.unresolved = d.Client.Key()
	}
	if v == Refused {
		n.wait = int64(max(d.RetryAfter(), 0))
	}
	if p.notes = append(p.notes, n); len(p.notes) == sheetNotes {
		s.turn()
	}
}

// asked writes down what was asked of each counter, granted or not, and what its limit said.
func (s *scribe) asked(p *sheet, d *weir.Decision, l *accesslog.Line) {
	for i := range d.Hits {
		h, st := &d.Hits[i], &d.Statuses[i]
		p.asks = append(p.asks, ask{h.Limit, maphash.Bytes(s.seed, h.Key), h.N, st.Remaining, st.Allowed, false})
	}
	if len(d.Deferred) == 0 || !slices.Contains(d.OnlyStatuses, l.Status) {
		return
	}
	for i := range d.Deferred {
		h := &d.Deferred[i]
		p.asks = append(p.asks, ask{limit: h.Limit, counter: maphash.Bytes(s.seed, h.Key), n: h.N, deferred: true})
	}
}

// hash is one for each client, of less than the text of its key.
func (s *scribe) hash(c *weir.Client) uint64 {
	if c.Source == weir.Unresolved {
		s.key = c.AppendKey(s.key[:0])
		return maphash.Bytes(s.seed, s.key)
	}
	bytes := c.Prefix.Addr().As16()
	s.key = append(append(s.key[:0], bytes[:]...), byte(c.Prefix.Bits()), byte(c.Prefix.Addr().BitLen()))
	return maphash.Bytes(s.seed, s.key)
}
