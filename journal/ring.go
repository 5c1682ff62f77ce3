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

// A ring keeps the last decisions in constant memory.
type ring struct {
	last atomic.Uint64 // number of the newest decision

	mu   sync.Mutex
	kept []*note // the one of a number lies at the number modulo their number
}

func newRing(n int) *ring {
	if n <= 0 {
		n = DefaultRecent
	}
	return &ring{kept: newNotes(n)}
}

// take keeps notes in the places of the oldest, which it gives for them.
func (r *ring) take(notes []*note) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, n := range notes {
		if place := r.place(n.number); (*place).number < n.number {
			notes[i], *place = *place, n
		}
	}
}

func (r *ring) place(number uint64) **note { return &r.kept[number%uint64(len(r.kept))] }

// recent gives the kept decisions to look, newest first, until it has seen enough.
func (r *ring) recent(look func(*note) (enough bool)) {
	last := r.last.Load()
	for back := range min(uint64(len(r.kept)), last) {
		if r.at(last-back, look) {
			return
		}
	}
}

// at gives the decision with that number to look, if it is kept.
func (r *ring) at(number uint64, look func(*note) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := *r.place(number)
	return n.number == number && look(n)
}

// after returns those of the decisions since the one with that number and up to another which keep wants, the oldest
// first, at most n and the newest of them.
func (r *ring) after(number, last uint64, n int, keep func(weir.Action) bool) []Entry {
	var entries []Entry
	for at := last; at > number && at+uint64(len(r.kept)) > last && len(entries) < n; at-- {
		r.at(at, func(kept *note) bool {
			if keep(kept.action) {
				entries = append(entries, kept.entry())
			}
			return false
		})
	}
	slices.Reverse(entries)
	return entries
}

func (n *note) entry() Entry {
	e := n.outcome()
	n.request(&e)
	return e
}

// request adds what was asked for, as the asker sent it.
func (n *note) request(e *Entry) {
	e.Method, e.Host, e.Path = string(n.of(method)), string(n.of(host)), string(n.of(path))
}

// outcome is the entry without what was asked for.
func (n *note) outcome() Entry {
	e := Entry{
		Time: n.at, Front: frontNames[n.front],
		Action: n.action.String(), Reason: string(n.reason), Status: n.status,
		Limit: n.limit, Remaining: n.remaining, RetryAfter: wait(n.retry),
		Shadow: append([]string{}, n.shadow...), Degraded: n.degraded, Duration: n.duration.Seconds(),
	}
	if n.known {
		c := n.client.read()
		e.Client, e.Source = c.Key(), c.Source.String()
	}
	if n.rule != nil {
		e.Rule = n.rule.Name
	}
	return e
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
