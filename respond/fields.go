package respond

import (
	"net/http"
	"strconv"
	"time"

	"github.com/weirgate/weir"
)

// maxInteger is the largest Integer of a structured field (RFC 9651, section 3.3.1).
const maxInteger = 999_999_999_999_999

// Headers sets the rate limit fields of d, in place of any that are there: RateLimit-Policy and
// RateLimit as in draft-ietf-httpapi-ratelimit-headers-11, X-RateLimit-*, both or none. The tightest
// limit comes first; limits that enforce nothing are not shown. Nothing is promised beyond what may be
// used at once. A decision without limits leaves h as it is.
func (r *Responder) Headers(h http.Header, d *weir.Decision) {
	b := r.buffer()
	defer r.done(b)
	f := fields{text: *b}
	r.addLimits(&f, d)
	f.set(h)
	*b = f.text
}

// addLimits adds the rate limit fields of d.
func (r *Responder) addLimits(f *fields, d *weir.Decision) {
	var few [8]*weir.Status
	tightest := tightestFirst(few[:0], d)
	if len(tightest) == 0 {
		return
	}
	if !r.noDraft {
		f.text = appendPolicies(f.text, tightest)
		f.end(fieldPolicy)
		f.text = appendStates(f.text, tightest)
		f.end(fieldState)
	}
	if r.legacy {
		r.addLegacy(f, tightest[0], d.At)
	}
}

// addLegacy adds X-RateLimit-Limit, -Remaining and -Reset for the one limit that they can tell of. There
// is no reset where no waiting helps.
func (r *Responder) addLegacy(f *fields, s *weir.Status, at time.Time) {
	f.text = strconv.AppendInt(f.text, s.Limit.Capacity(), 10)
	f.end(fieldLimit)
	f.text = strconv.AppendInt(f.text, s.Remaining, 10)
	f.end(fieldRemaining)
	if neverHelps(s) {
		return
	}
	reset := seconds(untilReset(s))
	if r.epoch {
		reset = epochAfter(at, untilReset(s))
	}
	f.text = strconv.AppendInt(f.text, reset, 10)
	f.end(fieldReset)
}

// epochAfter returns the Unix time of the first whole second that is not before at + wait.
func epochAfter(at time.Time, wait time.Duration) int64 {
	t := at.Add(wait)
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}

// tightestFirst appends the enforcing statuses of d: refusals with the longest wait, then what has
// least left.
func tightestFirst(list []*weir.Status, d *weir.Decision) []*weir.Status {
	for i := range d.Statuses {
		s := &d.Statuses[i]
		if s.Limit == nil || s.Limit.Mode != weir.Enforce {
			continue
		}
		list = append(list, s)
		for j := len(list) - 1; j > 0 && tighter(list[j], list[j-1]); j-- {
			list[j], list[j-1] = list[j-1], list[j]
		}
	}
	return list
}

func tighter(a, b *weir.Status) bool {
	switch {
	case a.Allowed != b.Allowed:
		return b.Allowed
	case !a.Allowed && a.RetryAfter != b.RetryAfter:
		return a.RetryAfter == weir.Never || b.RetryAfter != weir.Never && a.RetryAfter > b.RetryAfter
	case a.Remaining != b.Remaining:
		return a.Remaining < b.Remaining
	}
	return a.ResetAfter > b.ResetAfter
}

// appendPolicies appends the value of RateLimit-Policy.
func appendPolicies(b []byte, list []*weir.Status) []byte {
	for i, s := range list {
		if i > 0 {
			b = append(b, ", "...)
		}
		l := s.Limit
		b = appendName(b, l.Name)
		b = appendParameter(b, ";q=", l.Capacity())
		if l.Algorithm == weir.Concurrency {
			b = append(b, `;qu="concurrent-requests"`...)
			continue
		}
		b = appendParameter(b, ";w=", seconds(window(l)))
	}
	return b
}

// appendStates appends the value of RateLimit.
func appendStates(b []byte, list []*weir.Status) []byte {
	for i, s := range list {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = appendName(b, s.Limit.Name)
		b = appendParameter(b, ";r=", max(s.Remaining, 0))
		if s.Limit.Algorithm == weir.Concurrency && s.Allowed || neverHelps(s) {
			continue // nobody knows when one of those in flight ends, or there is nothing to wait for
		}
		b = appendParameter(b, ";t=", seconds(untilReset(s)))
	}
	return b
}

// neverHelps reports whether s refused what no waiting lets in.
func neverHelps(s *weir.Status) bool { return !s.Allowed && s.RetryAfter == weir.Never }

// untilReset is the moment that t speaks of: for a refusal the same one as Retry-After (section 5 of
// the draft), else the one at which everything may be used again.
func untilReset(s *weir.Status) time.Duration {
	if s.Allowed {
		return s.ResetAfter
	}
	return max(s.RetryAfter, time.Second)
}

// window is the time in which the limit's capacity passes. A token bucket's is the time in which it
// fills, so that its burst over it is its rate; a month's is that of the longest month.
func window(l *weir.Limit) time.Duration {
	switch l.Algorithm {
	case weir.Quota:
		return periods[l.Period]
	case weir.TokenBucket:
		if l.Max > 0 && l.Burst != l.Max {
			return time.Duration(float64(l.Window) / float64(l.Max) * float64(l.Burst))
		}
	}
	return l.Window
}

var periods = [...]time.Duration{weir.Day: 24 * time.Hour, weir.Week: 7 * 24 * time.Hour, weir.Month: 31 * 24 * time.Hour}

// seconds rounds up, so that a client that waits as told is let in.
func seconds(d time.Duration) int64 {
	whole := int64(d / time.Second)
	if d%time.Second > 0 {
		whole++
	}
	return max(whole, 0)
}

func appendParameter(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(b, name...), min(n, maxInteger), 10)
}

// appendName appends name as a String of a structured field (RFC 9651, section 3.3.3), with what such
// a string cannot hold percent-encoded.
func appendName(b []byte, name string) []byte {
	b = append(b, '"')
	for i := range len(name) {
		switch c := name[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c > '~':
			b = appendPercent(b, c)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

func appendPercent(b []byte, c byte) []byte {
	const hex = "0123456789ABCDEF"
	return append(b, '%', hex[c>>4], hex[c&15])
}

// fields gathers header fields whose values lie in one text, so that setting all of them allocates
// twice, however many there are.
type fields struct {
	text  []byte
	names [12]string
	ends  [12]int
	n     int
}

// end gives the text since the last end to the field of that name, which is in canonical form.
func (f *fields) end(name string) {
	f.names[f.n], f.ends[f.n] = name, len(f.text)
	f.n++
}

// add adds a field.
func (f *fields) add(name, value string) {
	f.text = append(f.text, value...)
	f.end(name)
}

// set puts the fields into h, in place of any of the same names.
func (f *fields) set(h http.Header) {
	if f.n == 0 {
		return
	}
	text, values, start := string(f.text), make([]string, f.n), 0
	for i, end := range f.ends[:f.n] {
		values[i] = text[start:end]
		h[f.names[i]] = values[i : i+1 : i+1]
		start = end
	}
}
