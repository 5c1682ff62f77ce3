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

	"github.com/weirgate/weir/waf/feed"
	"github.com/weirgate/weir/waf/mask"
)

// A Mode says what may follow an inspection.
type Mode uint8

const (
	ModeOff    Mode = iota // no inspection
	ModeDetect             // report what would be refused, and let it pass
	ModeBlock              // refuse
)

// A Verdict is what an inspection came to.
type Verdict uint8

const (
	Off      Verdict = iota // not asked
	Pass                    // inspected, and below the threshold
	Detect                  // would be refused, but only reported
	Block                   // refused, with Result.HTTP
	Skip                    // every byte is of a kind that no rule of the set matches: none was run
	FailOpen                // a fault of ours: passes uninspected
)

var verdictNames = [...]string{"off", "pass", "detect", "block", "skip", "fail_open"}

func (v Verdict) String() string { return verdictNames[v] }

// An Input is a request to inspect.
type Input struct {
	Mode   Mode
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

// A Match is a rule that matched, without a secret in it.
type Match struct {
	Rule     string // the rule's id
	Class    string // one of Classes
	Location string // the part of the request, see feed.Part
	Name     string // what the asker called the parameter, masked
	Fragment string // at most 64 bytes of what matched, masked
	Score    int
	Shadow   bool // an exclusion on trial would have released it
}

// Classes are all that a match may be of, for metrics.
func Classes() []string {
	return []string{"sqli", "xss", "lfi", "rfi", "rce", "php", "java", "node", "ssrf", "scanner", "protocol", "multipart", "session", "upload", "pollution", "other"}
}

// A Result is what an inspection found. The zero Result is ready for one.
type Result struct {
	Verdict   Verdict
	HTTP      int    // the status of a Block: 403 for an attack, else the refusal's
	Ruleset   string // by name
	Inspected string // url+headers+body or url+headers
	Score     int
	Matches   []Match
	// Refused is the name of the limit or form that the request does not keep, or empty. Detail says more.
	Refused, Detail string
	// Fault is the reason of a FailOpen, or of a Block for want of a slot: panic, saturated.
	Fault string
	// Trace are the frames of a panic, without values.
	Trace string
}

// A Ruleset judges what was read of a request. It is safe for concurrent use.
type Ruleset interface {
	// Name is the set's name: fast or crs.
	Name() string
	// Thorough reports whether the set also looks at what no rule of the lowest paranoia matches: numbers,
	// short words and base64.
	Thorough() bool
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
	Slots     *Slots // nil: no bound on how many inspect at once
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
func (w *WAF) Inspect(ctx context.Context, in *Input, r *Result) {
	*r = Result{Matches: r.Matches[:0], Ruleset: w.o.Rules.Name(), Inspected: "url+headers+body"}
	if in.NoBody {
		r.Inspected = "url+headers"
	}
	if in.Mode == ModeOff {
		return
	}
	if !w.o.Slots.take(ctx, in.Client) {
		w.o.Slots.saturated(in.Mode, r)
		return
	}
	defer w.o.Slots.leave(in.Client)
	w.inspect(in, r)
}

// inspect reads and judges. What panics is ours: that one request passes.
func (w *WAF) inspect(in *Input, r *Result) {
	defer func() {
		if p := recover(); p != nil {
			*r = Result{Verdict: FailOpen, Ruleset: r.Ruleset, Inspected: r.Inspected, Fault: "panic", Trace: trace(p)}
		}
	}()
	c := w.cases.Get().(*Case) // a case in which something panicked is not used again
	c.begin(in, w.o.Exclude)
	if refusal := c.read(w.o.Limits); refusal != nil {
		r.refuse(in.Mode, refusal)
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

// refuse answers a request that does not keep a limit or form.
func (r *Result) refuse(mode Mode, why *feed.Refusal) {
	r.Refused, r.Detail = why.Name, why.Detail
	r.judge(mode, why.HTTP)
}

// judge sets the verdict on a request that is not to pass.
func (r *Result) judge(mode Mode, status int) {
	if r.Verdict = Detect; mode == ModeBlock {
		r.Verdict, r.HTTP = Block, status
	}
}

// conclude adds up what was found.
func (w *WAF) conclude(c *Case, r *Result) {
	r.Score = c.Score()
	for _, f := range c.found {
		r.Matches = append(r.Matches, w.masked(&f))
	}
	switch {
	case r.Score >= w.o.Threshold:
		r.judge(c.Input.Mode, http.StatusForbidden)
	case c.Skipped:
		r.Verdict = Skip
	default:
		r.Verdict = Pass
	}
}

// masked returns what may be known of a finding.
func (w *WAF) masked(f *Finding) Match {
	m := Match{Rule: f.Rule, Class: f.Class, Location: f.Part.String(), Name: w.o.Mask.Text(f.Name), Score: f.Score, Shadow: f.shadow}
	if w.o.Mask.IsSecret(f.Name) || f.Part == feed.Cookie && w.o.Mask.IsSecret("cookie") {
		m.Fragment = "[masked]"
	} else {
		m.Fragment = w.o.Mask.Cut(f.Value, f.At)
	}
	return m
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
