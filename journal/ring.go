package journal

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/weirgate/weir"
)

// DefaultRecent is how many decisions are kept where nothing else is said.
const DefaultRecent = 1000

// What is kept of the parts that an asker chooses, in bytes.
const (
	maxMethod = 16
	maxHost   = 128
	maxPath   = 128
)

// maxShadow is how many shadow limits' names are kept of one decision.
const maxShadow = 8

// An Entry is one decision as the admin API shows it. Method, host and path are as the asker sent
// them, cut at 16, 128 and 128 bytes: data of a stranger, to be shown as text only. Times are in
// seconds.
type Entry struct {
	Time       time.Time `json:"time"`
	Front      string    `json:"front"`
	Client     string    `json:"client"` // the key that is counted under; empty where none was looked for
	Source     string    `json:"source"`
	Method     string    `json:"method"`
	Host       string    `json:"host"`
	Path       string    `json:"path"`
	Rule       string    `json:"rule"` // empty where no rule was looked for
	Action     string    `json:"action"`
	Reason     string    `json:"reason"`
	Status     int       `json:"status"`      // the HTTP status that was sent; 0 if none was
	Limit      string    `json:"limit"`       // name of the tightest limit; empty if none was charged
	Remaining  int64     `json:"remaining"`   // of that limit
	RetryAfter *float64  `json:"retry_after"` // of that limit; null unless it refused and waiting helps
	Shadow     []string  `json:"shadow"`      // names of at most 8 shadow limits that would have refused
	Degraded   bool      `json:"degraded"`
	Duration   float64   `json:"duration"`
}

// A ring keeps the last decisions in constant memory. Each slot has a lock of its own, so that
// requests do not wait for each other, nor for a reader.
type ring struct {
	last  atomic.Uint64 // number of the newest record, counted from 1
	slots []slot
}

// A slot is one decision, copied: it points to nothing of the request. Names of rules and limits are
// the configuration's.
type slot struct {
	mu  sync.Mutex
	seq uint64 // number of the record; 0 if there is none

	at                 time.Time
	front, rule, limit string
	client             weir.Client // without its hops
	method, host, path []byte
	action             weir.Action
	reason             weir.Reason
	status             int
	remaining          int64
	retry              time.Duration
	shadow             []string
	degraded           bool
	duration           time.Duration
}

func newRing(n int) *ring {
	if n <= 0 {
		n = DefaultRecent
	}
	r := &ring{slots: make([]slot, n)}
	for i := range r.slots {
		s := &r.slots[i]
		s.method = make([]byte, 0, maxMethod)
		s.host = make([]byte, 0, maxHost)
		s.path = make([]byte, 0, maxPath)
		s.shadow = make([]string, 0, maxShadow)
	}
	return r
}

// add puts d in the place of the oldest decision. It allocates nothing.
func (r *ring) add(d *weir.Decision, o weir.Outcome) {
	seq := r.last.Add(1)
	s := &r.slots[seq%uint64(len(r.slots))]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seq > seq {
		return // everyone else went once around meanwhile
	}
	s.seq = seq
	s.fill(d, o)
}

func (s *slot) fill(d *weir.Decision, o weir.Outcome) {
	s.at, s.status, s.duration = d.At, o.HTTP, o.Duration
	s.action, s.reason, s.degraded = d.Action, d.Reason, d.Degraded
	s.front = frontNames[frontIndex(d.Request.Front)]
	s.client = d.Client
	s.client.Hops = nil
	s.method = append(s.method[:0], cut(d.Request.Method, maxMethod)...)
	s.host = append(s.host[:0], cut(d.Request.Host, maxHost)...)
	s.path = append(s.path[:0], cut(d.Request.Path, maxPath)...)
	s.rule = ""
	if d.Rule != nil {
		s.rule = d.Rule.Name
	}
	s.limit, s.remaining, s.retry = "", 0, 0
	if t := tightest(d); t != nil {
		s.limit, s.remaining, s.retry = t.Limit.Name, t.Remaining, t.RetryAfter
	}
	if d.Ban != nil {
		s.retry = d.RetryAfter()
	}
	s.shadow = appendShadow(s.shadow[:0], d)
}

// recent returns at most n decisions, newest first. One that is being replaced is left out.
func (r *ring) recent(n int) []Entry {
	kept := uint64(len(r.slots))
	last := r.last.Load()
	want := min(uint64(max(n, 0)), kept, last)
	entries := make([]Entry, 0, want)
	for back := range want {
		seq := last - back
		if e, ok := r.slots[seq%kept].entry(seq); ok {
			entries = append(entries, e)
		}
	}
	return entries
}

// after returns those of the decisions since the one with that number which keep wants, the oldest first, at
// most n and the newest of them, and the number of the newest of all.
func (r *ring) after(seq uint64, n int, keep func(weir.Action) bool) ([]Entry, uint64) {
	last, kept := r.last.Load(), uint64(len(r.slots))
	var entries []Entry
	for at := last; at > seq && at+kept > last && len(entries) < n; at-- {
		s := &r.slots[at%kept]
		s.mu.Lock()
		wanted := s.seq == at && keep(s.action)
		s.mu.Unlock()
		if !wanted {
			continue
		}
		if e, ok := s.entry(at); ok {
			entries = append(entries, e)
		}
	}
	slices.Reverse(entries)
	return entries, last
}

// entry returns the record with that number, if the slot still has it.
func (s *slot) entry(seq uint64) (Entry, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seq != seq {
		return Entry{}, false
	}
	client, source := "", ""
	if hasClient(&s.client) {
		client, source = s.client.Key(), s.client.Source.String()
	}
	return Entry{
		Time: s.at, Front: s.front, Client: client, Source: source,
		Method: string(s.method), Host: string(s.host), Path: string(s.path),
		Rule: s.rule, Action: s.action.String(), Reason: string(s.reason), Status: s.status,
		Limit: s.limit, Remaining: s.remaining, RetryAfter: wait(s.retry),
		Shadow: append([]string{}, s.shadow...), Degraded: s.degraded, Duration: s.duration.Seconds(),
	}, true
}

// wait returns a status's RetryAfter in seconds, or nil if there is nothing to wait for.
func wait(d time.Duration) *float64 {
	if d <= 0 {
		return nil
	}
	seconds := d.Seconds()
	return &seconds
}

// tightest returns the status of the enforcing limit that decides: among those that refused, the one
// that asks for the longest wait; if none did, the one with least remaining. It returns nil if there
// is no enforcing limit.
func tightest(d *weir.Decision) *weir.Status {
	var t *weir.Status
	for i := range d.Statuses {
		s := &d.Statuses[i]
		if s.Limit.Mode == weir.Enforce && (t == nil || tighter(s, t)) {
			t = s
		}
	}
	return t
}

// tighter reports whether a binds more than b.
func tighter(a, b *weir.Status) bool {
	switch {
	case a.Allowed != b.Allowed:
		return !a.Allowed
	case a.Allowed:
		return a.Remaining < b.Remaining
	case a.RetryAfter == weir.Never || b.RetryAfter == weir.Never:
		return b.RetryAfter != weir.Never
	}
	return a.RetryAfter > b.RetryAfter
}

// appendShadow appends the names of the shadow limits that would have refused d, maxShadow at most.
func appendShadow(names []string, d *weir.Decision) []string {
	for i := range d.Statuses {
		if len(names) == maxShadow {
			return names
		}
		if s := &d.Statuses[i]; !s.Allowed && s.Limit.Mode == weir.Shadow {
			names = append(names, s.Limit.Name)
		}
	}
	return names
}

// cut returns the first n bytes of s, or a few less so as not to split a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for back := range utf8.UTFMax {
		if utf8.RuneStart(s[n-back]) {
			return s[:n-back]
		}
	}
	return s[:n]
}

// printable returns s cut at n bytes, with everything but visible ASCII as %XX.
func printable(s string, n int) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for _, c := range []byte(cut(s, n)) {
		if c > ' ' && c < 0x7f {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}
