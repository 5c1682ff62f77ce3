package journal

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/weirgate/weir"
)

// DefaultKeep is how many blocked requests are kept where nothing else is said.
const DefaultKeep = 1000

// A Blocked is one request that the firewall blocked, or would have. Nothing of it is as the asker sent it
// but what the masker let through: no header, no body, and no path but its template.
type Blocked struct {
	Time     time.Time    `json:"time"`
	Incident string       `json:"incident"`
	Verdict  string       `json:"verdict"` // block, detect or insight
	Front    string       `json:"front"`
	Client   string       `json:"client"`  // as the log writes it
	APIKey   string       `json:"api_key"` // its id, or empty
	Method   string       `json:"method"`
	Path     string       `json:"path"` // its template: * stands for what may be anybody's
	Rule     string       `json:"rule"` // of the policy
	Ruleset  string       `json:"ruleset"`
	Status   int          `json:"status"` // the HTTP status that was sent; 0 if none was
	Score    int          `json:"score"`
	Most     int          `json:"threshold"` // the score at which it is refused; 0 where that is not why
	Refused  string       `json:"refused"`   // the limit or form that was not kept, or empty
	Matches  []weir.Match `json:"matches"`
}

// blockedRing keeps the last blocked requests.
type blockedRing struct {
	mu    sync.Mutex
	keep  int
	list  []Blocked // the newest last
	added uint64    // since the start
}

func newBlockedRing(keep int) *blockedRing {
	if keep <= 0 {
		keep = DefaultKeep
	}
	return &blockedRing{keep: keep}
}

func (r *blockedRing) resize(keep int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keep = keep
	r.shorten(keep)
}

// shorten forgets the oldest, so that most are left.
func (r *blockedRing) shorten(most int) {
	if over := len(r.list) - most; over > 0 {
		r.list = slices.Delete(r.list, 0, over)
	}
}

func (r *blockedRing) add(b Blocked) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) >= r.keep+r.keep/4 { // moving the rest is paid for by a quarter of them at a time
		r.shorten(r.keep - 1)
	}
	r.list = append(r.list, b)
	r.added++
}

// last returns at most n, the newest first.
func (r *blockedRing) last(n int) []Blocked {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := slices.Clone(r.kept(n))
	slices.Reverse(last)
	return last
}

// kept returns the last n, or as many as are kept, the newest last.
func (r *blockedRing) kept(n int) []Blocked {
	return r.list[len(r.list)-max(0, min(n, r.keep, len(r.list))):]
}

// forget drops those from before a moment.
func (r *blockedRing) forget(before time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.DeleteFunc(r.list, func(b Blocked) bool { return b.Time.Before(before) })
}

// Blocked returns the last n requests that the firewall blocked or would have blocked, or as many as are
// kept, newest first.
func (j *Journal) Blocked(n int) []Blocked { return j.blocked.last(n) }

// mostInsights is how many findings of second looks are kept.
const mostInsights = 100

// Insights returns the last n requests that passed and in which stricter rules, on a second look, found an
// attack; at most 100, newest first.
func (j *Journal) Insights(n int) []Blocked { return j.insights.last(n) }

// Insight notes what a second look at a request that passed has found: d has that in place of its inspection.
// It keeps nothing of d after it returned.
func (j *Journal) Insight(d *weir.Decision) {
	if j.quiet {
		return
	}
	i := &d.Inspection
	j.counts.firewall.look(i)
	switch {
	case i.Found():
		b := j.blockedOf(d, weir.Outcome{})
		b.Verdict = "insight"
		j.insights.add(b)
	case i.Verdict == weir.FailedOpen:
		j.fault(d, weir.Outcome{}, "a second look failed")
	}
}

// inspected notes what the firewall found, if it found or failed something.
func (j *Journal) inspected(d *weir.Decision, o weir.Outcome) {
	if v := d.Inspection.Verdict; d.Inspection.Fault == "" && (v == weir.Uninspected || v == weir.Clean || v == weir.Plain) {
		return
	}
	j.counts.firewall.add(&d.Inspection, j.counts.rules.Load().of(d.Rule))
	switch i := &d.Inspection; {
	case i.Found():
		j.blocked.add(j.blockedOf(d, o))
		if i.Verdict == weir.Detected {
			j.line(d, o, slog.LevelInfo, "would be blocked")
		}
	case i.Verdict == weir.FailedOpen:
		j.failing.note(i.Fault, d.At.Add(o.Duration))
		j.fault(d, o, "passed uninspected")
	}
}

// fault writes a log line about a fault of the firewall's.
func (j *Journal) fault(d *weir.Decision, o weir.Outcome, text string) {
	i := &d.Inspection
	more := []slog.Attr{slog.String("fault", i.Fault)}
	if i.Detail != "" {
		more = append(more, slog.String("detail", i.Detail))
	}
	if i.Trace != "" {
		more = append(more, slog.String("trace", i.Trace))
	}
	j.write(j.faultLines, event{d, o, slog.LevelError, text}, more...)
}

// line writes a log line about what the firewall found, or a refusal.
func (j *Journal) line(d *weir.Decision, o weir.Outcome, level slog.Level, text string) {
	j.write(j.lines, event{d, o, level, text})
}

// An event is what a log line is about.
type event struct {
	d     *weir.Decision
	o     weir.Outcome
	level slog.Level
	text  string
}

// write writes a log line, unless this second has had its share of lines.
func (j *Journal) write(share *lineLimit, e event, more ...slog.Attr) {
	suppressed, ok := share.take(e.d.At.Add(e.o.Duration))
	if !ok {
		return
	}
	attrs := append(j.about(e.d, e.o), more...)
	if suppressed > 0 {
		attrs = append(attrs, slog.Uint64("suppressed", suppressed))
	}
	j.log.LogAttrs(context.Background(), e.level, e.text, attrs...)
}

// found tells a log line what matched.
func found(i *weir.Inspection) []slog.Attr {
	attrs := []slog.Attr{slog.String("incident", i.Incident), slog.String("ruleset", i.Ruleset)}
	if i.Refused != "" {
		return append(attrs, slog.String("refused", i.Refused))
	}
	var rules, classes []string
	for _, m := range i.Matches {
		rules = append(rules, m.Rule)
		if !slices.Contains(classes, m.Class) {
			classes = append(classes, m.Class)
		}
	}
	return append(attrs, slog.Any("waf_rules", rules), slog.Any("classes", classes), slog.Int("score", i.Score))
}

func (j *Journal) blockedOf(d *weir.Decision, o weir.Outcome) Blocked {
	i := &d.Inspection
	b := Blocked{
		Time: d.At, Incident: i.Incident, Verdict: i.Verdict.String(), Front: frontNames[frontIndex(d.Request.Front)],
		APIKey: d.Client.APIKey, Method: printable(d.Request.Method, maxMethod), Path: j.secrets.template(d.Request.Path),
		Ruleset: i.Ruleset, Status: o.HTTP, Score: i.Score, Most: i.Threshold, Refused: i.Refused, Matches: slices.Clone(i.Matches),
	}
	if hasClient(&d.Client) {
		b.Client = j.masker.client(&d.Client)
	}
	if d.Rule != nil {
		b.Rule = d.Rule.Name
	}
	return b
}
