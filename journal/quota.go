package journal

import (
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirgate/weir"
)

// thresholds are the parts of a quota that are told when they are used, in percent. At 100 nothing is left.
var thresholds = [...]int64{80, 100}

var thresholdNames = [...]string{"80", "100"}

const (
	mostQuotas     = 1000 // limits whose thresholds are counted apart; further ones are other
	quotaPerSecond = 10   // most log lines about thresholds in a second; all are counted
)

// quotas count which thresholds were reached. Whoever reaches one is known by that very request: it used what
// was below before it. So nothing has to be remembered of any key, and of all replicas of an exact store one tells.
type quotas struct {
	lines *lineLimit

	mu      sync.Mutex
	reached map[string]*[len(thresholds)]uint64 // by the limit's name
}

func newQuotas() *quotas {
	return &quotas{lines: newLineLimit(quotaPerSecond), reached: map[string]*[len(thresholds)]uint64{}}
}

// add counts that a limit's threshold was reached.
func (q *quotas) add(limit string, threshold int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	counts := q.reached[limit]
	if counts == nil {
		if len(q.reached) >= mostQuotas {
			limit = other
		}
		if counts = q.reached[limit]; counts == nil {
			counts = new([len(thresholds)]uint64)
			q.reached[limit] = counts
		}
	}
	counts[threshold]++
}

func (q *quotas) emit(e emit) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for limit, counts := range q.reached {
		for i, n := range counts {
			e(float64(n), strings.ToValidUTF8(limit, "\uFFFD"), thresholdNames[i])
		}
	}
}

// family is the metric of the thresholds.
func (q *quotas) family() family {
	return counter("quota_threshold_total", "How often a key or client used so much of a quota, in percent, within its period.", q.emit, "limit", "threshold")
}

// quotaUsed tells which thresholds of quotas d reached. What a replica counted by itself, while the store was away,
// says nothing of the whole.
func (j *Journal) quotaUsed(d *weir.Decision) {
	for i := range d.Statuses {
		s := &d.Statuses[i]
		if s.Limit == nil || s.Limit.Algorithm != weir.Quota || !s.Allowed || s.Degraded {
			continue
		}
		if d.Over() || len(d.Hits) != len(d.Statuses) {
			return // nothing was charged
		}
		for t := range thresholds {
			if n := d.Hits[i].N; n > 0 && reaches(s, n, thresholds[t]) {
				j.quotas.add(s.Limit.Name, t)
				j.quotaLine(d, s, t)
			}
		}
	}
}

// reaches reports whether a hit of n is the one by which percent of the quota are used.
func reaches(s *weir.Status, n, percent int64) bool {
	rest := 100 - percent
	left := s.Limit.Max/100*rest + s.Limit.Max%100*rest/100 // of the quota, when percent are used
	return s.Remaining <= left && s.Remaining+n > left
}

func (j *Journal) quotaLine(d *weir.Decision, s *weir.Status, threshold int) {
	suppressed, ok := j.quotas.lines.take(d.At)
	if !ok {
		return
	}
	attrs := []any{
		slog.String("limit", s.Limit.Name), slog.String("rate", s.Limit.Rate), slog.String("mode", s.Limit.Mode.String()),
		slog.Int64("percent", thresholds[threshold]), slog.Int64("remaining", s.Remaining),
		slog.Time("until", d.At.Add(s.ResetAfter).UTC().Truncate(time.Second)),
	}
	if d.Client.APIKey != "" {
		attrs = append(attrs, slog.String("api_key", j.secrets.piece(printable(d.Client.APIKey, maxHost))), slog.String("plan", d.Client.Plan))
	} else {
		attrs = append(attrs, slog.String("client", j.masker.client(&d.Client)))
	}
	if suppressed > 0 {
		attrs = append(attrs, slog.Uint64("suppressed", suppressed))
	}
	j.log.Warn("a quota is used", attrs...)
}

// A minutely lets something happen once a minute.
type minutely struct{ next atomic.Int64 }

// due reports whether it is time.
func (m *minutely) due(now time.Time) bool {
	next := m.next.Load()
	return now.UnixNano() >= next && m.next.CompareAndSwap(next, now.Add(time.Minute).UnixNano())
}

// unknownPlan tells, once a minute, of a key that was refused since its plan is none of the configuration's.
func (j *Journal) unknownPlan(d *weir.Decision) {
	if d.Reason != weir.KeyRefused || d.Client.Plan == "" || !j.plans.due(d.At) {
		return
	}
	j.log.Warn("a key is refused: its plan is not in the configuration",
		"api_key", j.secrets.piece(printable(d.Client.APIKey, maxHost)), "plan", printable(d.Client.Plan, maxHost))
}
