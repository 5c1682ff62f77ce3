// Package waf decides whether what a request says is an attack. It reads the request into leaves
// (package feed), has a rule set judge them (packages fast and crs), and is the one point at which what
// matched is masked (package mask), before anybody else sees it.
package waf

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/waf/feed"
	"github.com/weirgate/weir/waf/mask"
)

// An Input is a request to inspect.
type Input struct {
	Mode   weir.Mode // Enforce refuses, Shadow only reports
	Now    time.Time // for exclusions that end
	Client string    // whose request it is, for the share of inspection slots; may be empty
	Addr   netip.Addr
	Method string
	Proto  string // HTTP/1.1
	Host   string
	Path   string // as sent
	Query  string // as sent, without the question mark
	Header http.Header
	// Chunked says that the body's length was not declared.
	Chunked bool
	// Body is the whole body as sent, within the rule's bound. It is read and not kept.
	Body []byte
	// NoBody says that there may be a body which is not at hand: URL and headers only.
	NoBody bool
}

// A Ruleset judges what was read of a request. It is safe for concurrent use.
type Ruleset interface {
	// Name is the set's name: fast or crs.
	Name() string
	// Thorough reports whether the set also looks at what no rule of the lowest paranoia matches: numbers,
	// short words and base64.
	Thorough() bool
	// Quick reports whether in is judged in a fraction of a millisecond, so that it need not wait for a place.
	Quick(in *Input) bool
	// Judge reports what matches to c. It reports nothing that an exclusion of c releases.
	Judge(c *Case)
	// Close frees what the set holds. Inspections under way end well.
	Close() error
}

// Options are what a WAF is made of.
type Options struct {
	Rules     Ruleset
	Limits    feed.Limits
	Threshold int // the score at which a request is refused; 0 is 5
	Exclude   []Exclusion
	Mask      *mask.Masker
	Slots     *Slots   // nil: no bound on how many inspect at once
	Insight   *Insight // looks again at some of what passed; nil: none does. It is whoever made it that closes it
}

// A WAF inspects requests by one rule set. It is safe for concurrent use.
type WAF struct {
	o     Options
	cases sync.Pool
}

// New returns a WAF. It takes over the rules.
func New(o Options) *WAF {
	if o.Threshold == 0 {
		o.Threshold = 5
	}
	o.Limits.Thorough = o.Rules.Thorough()
	w := &WAF{o: o}
	w.cases.New = func() any { return new(Case) }
	return w
}

// Close frees the rule set.
func (w *WAF) Close() error { return w.o.Rules.Close() }

// Inspect fills r with the verdict on in. ctx bounds the wait for a slot, and nothing else: what is
// inspected is bounded by its size.
func (w *WAF) Inspect(ctx context.Context, in *Input, r *weir.Inspection) {
	*r = weir.Inspection{Matches: r.Matches[:0], Ruleset: w.o.Rules.Name(), Inspected: inspected(in)}
	if in.Mode == weir.Off {
		return
	}
	if w.o.Rules.Quick(in) {
		w.inspect(in, r)
		return
	}
	if !w.o.Slots.take(ctx, in.Client) {
		w.o.Slots.saturated(in.Mode, r)
		return
	}
	defer w.o.Slots.leave(in.Client)
	w.inspect(in, r)
}

// inspected names what there is of a request.
func inspected(in *Input) string {
	if in.NoBody {
		return "url+headers"
	}
	return "url+headers+body"
}

// inspect reads and judges. What panics is ours: that one request passes.
func (w *WAF) inspect(in *Input, r *weir.Inspection) {
	defer func() {
		if p := recover(); p != nil {
			*r = weir.Inspection{Verdict: weir.FailedOpen, Ruleset: r.Ruleset, Inspected: r.Inspected, Fault: "panic", Trace: trace(p)}
		}
	}()
	c := w.cases.Get().(*Case) // a case in which something panicked is not used again
	c.begin(in, w.o.Exclude)
	if refusal := c.read(w.o.Limits); refusal != nil {
		r.Refused, r.Detail = refusal.Name, refusal.Detail
		judge(r, in.Mode, refusal.HTTP)
	} else {
		if c.Feed.Kind == feed.Binary {
			r.Inspected = "url+headers"
		}
		w.o.Rules.Judge(c)
		w.conclude(c, r)
	}
	c.end()
	w.cases.Put(c)
}

// judge sets the verdict on a request that is not to pass.
func judge(r *weir.Inspection, mode weir.Mode, status int) {
	if r.Verdict = weir.Detected; mode == weir.Enforce {
		r.Verdict, r.HTTP = weir.Blocked, status
	}
}

// mostMatches is how many matches are told of one request. All of them count.
const mostMatches = 32

// conclude adds up what was found.
func (w *WAF) conclude(c *Case, r *weir.Inspection) {
	r.Score = c.Score()
	for _, f := range c.found[:min(len(c.found), mostMatches)] {
		r.Matches = append(r.Matches, w.masked(&f))
	}
	switch {
	case r.Score >= w.o.Threshold:
		r.Threshold = w.o.Threshold
		judge(r, c.Input.Mode, http.StatusForbidden)
	case c.Skipped:
		r.Verdict = weir.Plain
	default:
		r.Verdict = weir.Clean
	}
}

// masked returns what may be known of a finding.
func (w *WAF) masked(f *Finding) weir.Match {
	m := weir.Match{Rule: f.Rule, Class: f.Class, Location: f.Part.String(), Name: w.o.Mask.Text(f.Name), Score: f.Score, Shadow: f.shadow}
	if w.o.Mask.IsSecret(f.Name) || f.Part == feed.Cookie && w.o.Mask.IsSecret("cookie") || w.hasSecretPair(f) {
		m.Fragment = "[masked]"
	} else {
		m.Fragment = w.o.Mask.Cut(f.Value, f.At)
	}
	return m
}

// hasSecretPair reports whether the value holds a secret to who separates pairs by ; as well.
func (w *WAF) hasSecretPair(f *Finding) bool {
	if f.Part != feed.Query && f.Part != feed.Form {
		return false
	}
	_, rest, _ := strings.Cut(f.Value, ";")
	for pair := range strings.SplitSeq(rest, ";") {
		if name, _, ok := strings.Cut(pair, "="); ok && w.o.Mask.IsSecret(name) {
			return true
		}
	}
	return false
}

// trace tells where a panic came from: the kind of what was thrown and the functions on the way, but no
// value, which may hold a piece of the request.
func trace(p any) string {
	var pcs [24]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	var b strings.Builder
	fmt.Fprintf(&b, "%T", p)
	for {
		frame, more := frames.Next()
		fmt.Fprintf(&b, "\n%s:%d", frame.Function, frame.Line)
		if !more {
			return b.String()
		}
	}
}
