package journal

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/weirgate/weir"
)

// refused writes one log line about d, unless this second has had its share of lines.
func (j *Journal) refused(d *weir.Decision, o weir.Outcome) {
	j.line(d, o, slog.LevelInfo, "refused")
}

// about is what a log line says of d.
func (j *Journal) about(d *weir.Decision, o weir.Outcome) []slog.Attr {
	var attrs []slog.Attr
	if hasClient(&d.Client) {
		attrs = append(attrs, slog.String("client", j.masker.client(&d.Client)), slog.String("source", d.Client.Source.String()))
	}
	path := j.secrets.path(d.Request.Path, false)
	if d.Inspection.Verdict != weir.Uninspected && d.Inspection.Verdict != weir.Clean {
		path = j.secrets.template(d.Request.Path)
	}
	attrs = append(attrs,
		slog.String("front", frontNames[frontIndex(d.Request.Front)]),
		slog.String("method", printable(d.Request.Method, maxMethod)),
		slog.String("host", printable(j.secrets.host(d.Request.Host, false), maxHost)),
		slog.String("path", printable(path, maxPath)),
		slog.String("action", d.Action.String()),
		slog.String("reason", string(d.Reason)),
		slog.Int("status", o.HTTP),
	)
	if d.Rule != nil {
		attrs = append(attrs, slog.String("rule", d.Rule.Name))
	}
	if d.Inspection.Found() {
		return append(attrs, found(&d.Inspection)...)
	}
	if t := tightest(d); t != nil && !t.Allowed {
		attrs = append(attrs, slog.String("limit", t.Limit.Name))
	}
	if retry := wait(d.RetryAfter()); retry != nil {
		attrs = append(attrs, slog.Float64("retry_after", *retry))
	}
	return attrs
}

// flush tells how many refusals had no line since the last one that had.
func (j *Journal) flush() {
	if n := j.lines.suppressed.Swap(0); n > 0 {
		j.log.Info("refusals not logged", "suppressed", n)
	}
}

// A lineLimit lets a number of lines pass in each second of the clock and counts the others. It is
// one atomic operation for a refusal that gets no line.
type lineLimit struct {
	perSecond  atomic.Int64
	state      atomic.Uint64 // the second, then lineBits of how many lines it had
	suppressed atomic.Uint64 // refusals without a line since the last line
}

// lineBits is what the number of lines in one second takes, up to a million.
const lineBits = 20

func newLineLimit(perSecond int) *lineLimit {
	l := new(lineLimit)
	l.perSecond.Store(int64(perSecond))
	return l
}

// take reports whether a line may be written at now, and how many were suppressed before it.
func (l *lineLimit) take(now time.Time) (suppressed uint64, ok bool) {
	most := min(uint64(max(l.perSecond.Load(), 0)), 1<<lineBits-1)
	for {
		old := l.state.Load()
		// Requests end in no order: an earlier second than the newest one counts as that.
		second := max(uint64(now.Unix()), old>>lineBits)
		var used uint64
		if second == old>>lineBits {
			used = old & (1<<lineBits - 1)
		}
		if used >= most {
			l.suppressed.Add(1)
			return 0, false
		}
		if l.state.CompareAndSwap(old, second<<lineBits|(used+1)) {
			return l.suppressed.Swap(0), true
		}
	}
}
