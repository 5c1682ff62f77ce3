package replay

import (
	"hash/maphash"
	"math"
	"time"

	"github.com/weirgate/weir"
)

// Bounds of what is remembered. What goes beyond is counted under others, or in sums alone.
const (
	mostClients = 3 << 20 // counted apart, at 16 bytes
	mostNamed   = 20_000  // whose address is kept
	mostHurt    = 100_000 // pairs of client and rule that were refused
	mostPaths   = 1_000
	mostHours   = 24 * 366
	namedLater  = 256 // requests at which a client is named though many are
)

// others is the path group and client that stand for the rest.
const others = "(others)"

// Counts are requests by what became of them.
type Counts struct {
	Requests int64 `json:"requests"`
	Refused  int64 `json:"refused"`
	Shadow   int64 `json:"shadow"` // passed, and refused if the shadow limits were enforced
}

func (c *Counts) add(v Verdict) {
	c.Requests++
	switch v {
	case Refused:
		c.Refused++
	case Shadowed:
		c.Shadow++
	}
}

// A tally is what is remembered of one side's decisions.
type tally struct {
	seed    maphash.Seed
	without map[*weir.Limit]bool
	byUse   bool // see use

	total   Counts
	tagged  int64
	reasons few
	rules   few
	limits  map[*weir.Limit]*use
	paths   map[string]*Counts
	hours   map[int64]*Counts
	hour    int64 // the one of the last request
	inHour  *Counts

	clients   table // requests, and those answered 2xx or 3xx before the first refusal
	untracked int64 // requests of clients beyond mostClients
	named     map[uint64]string
	hurt      map[hurtKey]*hurt
	hurtAll   int64 // clients that were refused
	unlisted  int64 // refusals of those beyond mostHurt
	group     []byte
}

func newTally(seed maphash.Seed) *tally {
	return &tally{
		seed: seed, reasons: few{all: map[string]*Counts{}}, rules: few{all: map[string]*Counts{}}, limits: map[*weir.Limit]*use{},
		paths: map[string]*Counts{}, hours: map[int64]*Counts{}, hour: math.MinInt64,
		clients: table{most: mostClients}, named: map[uint64]string{}, hurt: map[hurtKey]*hurt{},
	}
}

// noRule is what requests count under that were answered before a rule was looked for.
const noRule = "(none)"

// enter notes the decisions of a sheet.
func (t *tally) enter(p *sheet) {
	asks := p.asks
	for i := range p.notes {
		n := &p.notes[i]
		t.add(n, asks[:n.asks])
		asks = asks[n.asks:]
	}
}

func (t *tally) add(n *note, asks []ask) {
	t.total.add(n.verdict)
	if n.tagged {
		t.tagged++
	}
	t.reasons.of(string(n.reason)).add(n.verdict)
	t.rules.of(n.rule).add(n.verdict)
	t.group = appendGroup(t.group[:0], n.path)
	t.path().add(n.verdict)
	t.ofHour(n.at).add(n.verdict)
	for i := range asks {
		t.demand(&asks[i], n.at)
	}
	t.client(n)
}

// counts returns the counts of key, or nil if it is new and there are most already.
func counts[K comparable](m map[K]*Counts, key K, most int) *Counts {
	c := m[key]
	if c == nil && len(m) < most {
		c = new(Counts)
		m[key] = c
	}
	return c
}

// A few is counts by names of which there are few. It need not look for the one that was asked for last.
type few struct {
	all  map[string]*Counts
	name string
	last *Counts
}

func (f *few) of(name string) *Counts {
	if f.last == nil || f.name != name {
		f.name, f.last = name, counts(f.all, name, math.MaxInt)
	}
	return f.last
}

func (t *tally) path() *Counts {
	if c := t.paths[string(t.group)]; c != nil {
		return c
	}
	if c := counts(t.paths, string(t.group), mostPaths); c != nil {
		return c
	}
	return counts(t.paths, others, mostPaths+1)
}

// ofHour returns the counts of the hour that holds at; those of the last one if there are too many.
func (t *tally) ofHour(at int64) *Counts {
	if hour := at / int64(time.Hour); hour != t.hour || t.inHour == nil {
		if c := counts(t.hours, hour, mostHours); c != nil {
			t.hour, t.inHour = hour, c
		}
	}
	return t.inHour
}

func (t *tally) limit(l *weir.Limit) *use {
	u := t.limits[l]
	if u == nil {
		u = &use{limit: l, byUse: t.byUse, counters: table{most: 1}}
		t.limits[l] = u
	}
	return u
}

// demand notes what was asked of a counter.
func (t *tally) demand(a *ask, at int64) {
	if t.without[a.limit] {
		return
	}
	u := t.limit(a.limit)
	if !a.deferred {
		u.decided(a)
	}
	if a.n > 0 {
		u.ask(a.counter, at, a.n, a.remaining)
	}
}

// client notes whose request it was, and what that means for him.
func (t *tally) client(n *note) {
	s, _ := t.clients.find(n.client)
	if s == nil {
		t.untracked++
		return
	}
	s.a = saturated(s.a)
	if len(t.named) < mostNamed && s.a == 1 || s.a == namedLater && len(t.named) < 2*mostNamed {
		t.named[n.client] = n.key()
	}
	wasHurt := s.b&hurtBit != 0
	switch {
	case n.verdict == Refused:
		if !wasHurt {
			s.b |= hurtBit
			t.hurtAll++
		}
		t.refused(n, s)
	case wasHurt:
		t.admitted(hurtKey{n.client, n.rule}, n.at)
	case n.status >= 200 && n.status < 400:
		s.b = min(s.b+1, hurtBit-1)
	}
}

// hurtBit of a client's second number says that it was refused. The rest of it is how many of its
// requests were answered 2xx or 3xx before that.
const hurtBit = 1 << 31

func saturated(n uint32) uint32 { return max(n+1, n) }

// A hurtKey is a client, and the rule that refused it.
type hurtKey struct {
	client uint64
	rule   string
}

// hurt is what a client suffered under a rule.
type hurt struct {
	client       string
	refused      int64
	first        int64 // when it was refused first
	before, good int64 // requests before that, and those of them that were answered 2xx or 3xx
	from, until  int64 // the lockout that goes on; from is 0 if none does
	longest      int64
}

// refused notes a refusal: a lockout begins, or goes on to what the asker is told to wait.
func (t *tally) refused(n *note, s *slot) {
	key := hurtKey{n.client, n.rule}
	h := t.hurt[key]
	if h == nil {
		if len(t.hurt) == mostHurt {
			t.unlisted++
			return
		}
		h = &hurt{client: n.key(), first: n.at, before: int64(s.a) - 1, good: int64(s.b &^ hurtBit)}
		t.hurt[key] = h
	}
	h.refused++
	if h.from == 0 {
		h.from = n.at
	}
	h.until = n.at + n.wait
}

// admitted notes that a client that was refused under a rule is let through: the lockout is over.
func (t *tally) admitted(key hurtKey, at int64) {
	if h := t.hurt[key]; h != nil && h.from != 0 {
		h.longest, h.from = max(h.longest, at-h.from), 0
	}
}

// lockout is the longest time from a refusal to the next request that was let through, or to when one
// would have been.
func (h *hurt) lockout() time.Duration {
	if h.from == 0 {
		return time.Duration(h.longest)
	}
	return time.Duration(max(h.longest, h.until-h.from))
}
