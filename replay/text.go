package replay

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weirgate/weir/internal/plain"
)

// shown is how many rows of a list the text has. JSON and HTML have more.
const shown = 10

// WriteText writes the report for a terminal.
func (r *Report) WriteText(w io.Writer) error {
	t := &textWriter{w: tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)}
	if r.Interrupted {
		t.line("interrupted: this is the report of what was read until then")
	}
	r.lines(t)
	r.Policy.text(t)
	if r.Comparison != nil {
		r.compared(t)
	}
	return t.w.Flush()
}

// A textWriter writes lines whose cells are separated by tabs. A terminal obeys nothing in them. Errors come with Flush.
type textWriter struct{ w *tabwriter.Writer }

func (t *textWriter) line(format string, values ...any) {
	fmt.Fprintf(t.w, format+"\n", plain.Values(values...)...)
}

// table begins a part with a title and the names of its columns.
func (t *textWriter) table(title string, columns ...string) {
	t.w.Flush() // columns of one part do not widen another's
	t.line("\n%s\t"+strings.Join(columns, "\t"), title)
}

func (r *Report) lines(t *textWriter) {
	for _, l := range r.Logs {
		how := ""
		if l.Auto != "" {
			how = " (auto: " + l.Auto + ")"
		}
		t.line("log\t%s\tformat %s: %s%s", l.Name, l.Format, l.Writer, how)
		if l.Ends {
			t.line("\t\tits times are those of the end of requests, and it has no durations")
		}
	}
	n := &r.Lines
	period := ""
	if n.Decided > 0 {
		period = ", from " + r.From.Format(time.RFC3339) + " to " + r.To.Format(time.RFC3339)
	}
	t.line("lines\t%d read\t%d decided%s", n.Read, n.Decided, period)
	for _, part := range []struct {
		n    int64
		what string
	}{
		{n.NoRequest, "about no HTTP request"},
		{n.Broken, "broken"},
		{n.NoClient, "without a client's address"},
		{n.LacksHost, "undecided: their rule depends on the host, which the log does not have"},
		{n.LacksHeaders, "undecided: OPTIONS requests may be CORS preflights, which are exempt, and the log has no headers"},
		{n.Late, "late: further behind than the window, decided as if they had come in time"},
	} {
		if part.n > 0 {
			t.line("\t%d\t%s", part.n, part.what)
		}
	}
	for _, b := range r.Broken {
		t.line("\t%s:%d\t%s", b.Log, b.Number, b.Why)
	}
}

func (s *Side) text(t *textWriter) {
	t.line("policy\t%s\t%d admitted, %d refused (%s), %d would be refused by shadow limits", s.Name, s.Admitted, s.Refused, percent(s.RefusedShare), s.Shadow)
	t.line("clients\t%d seen\t%d refused at least once (%s)", s.Clients.Seen, s.Clients.Hurt, percent(s.Clients.HurtShare))
	if s.Evictions > 0 {
		t.line("mind\t%d\tcounters were forgotten for want of room (store.memory.max_keys), so some counts are too low", s.Evictions)
	}
	if len(s.Proxies) > 0 {
		t.line("mind\t%s\thas most of the busiest clients' addresses: the log has the proxy's address, not the client's (see --peer)", strings.Join(s.Proxies, ", "))
	}
	for _, l := range s.NotReplayable {
		t.line("not replayable\t%s\t%s", l.name(), l.Why)
	}
	t.groups("RULE", s.Rules)
	t.groups("REASON", s.Reasons)
	s.limitTables(t)
	t.hurts("REFUSED CLIENT", s.Clients.List)
	t.hurts("PERHAPS FALSE POSITIVE", s.FalsePositives)
	t.groups("BUSIEST CLIENT", s.Clients.Busiest)
	t.groups("PATH GROUP", s.Paths)
	s.hourTable(t)
}

func (l *Lack) name() string {
	if l.Limit == "" {
		return "rule " + l.Rule
	}
	return "limit " + l.Limit
}

func percent(share float64) string {
	switch {
	case share == 0:
		return "0 %"
	case share < 0.0001:
		return "under 0.01 %"
	}
	return fmt.Sprintf("%.2f %%", 100*share)
}

func (t *textWriter) groups(title string, list []Group) {
	if len(list) == 0 {
		return
	}
	t.table(title, "REQUESTS", "REFUSED", "SHADOW")
	for _, g := range list[:min(len(list), shown)] {
		t.line("%s\t%d\t%d\t%d", g.Name, g.Requests, g.Refused, g.Shadow)
	}
	t.rest(len(list))
}

func (t *textWriter) rest(n int) {
	if n > shown {
		t.line("and %d more\t(--json and --html have them)", n-shown)
	}
}

func (s *Side) limitTables(t *textWriter) {
	if len(s.Limits) == 0 {
		return
	}
	t.table("LIMIT", "RATE", "MODE", "ASKED", "REFUSED", "PEAK", "HEADROOM", "P50", "P95", "P99", "P99.9", "MAX PER CLIENT AND WINDOW")
	for _, l := range s.Limits {
		d := "-\t-\t-\t-\t-"
		if l.Demand != nil {
			d = fmt.Sprintf("%d\t%d\t%d\t%d\t%d", l.Demand.P50, l.Demand.P95, l.Demand.P99, l.Demand.P999, l.Demand.Max)
		}
		t.line("%s\t%s\t%s\t%d\t%d\t%d of %d\t%s\t"+d, l.Name, l.Rate, l.Mode, l.Asked, l.Refused, l.Peak, l.Limit, percent(l.Headroom))
	}
	for _, l := range s.Limits {
		if len(l.Curve) == 0 || l.Curve[0].Refused == 0 {
			continue // nobody asked for more than the least candidate
		}
		t.table("A LIMIT OF, FOR "+l.Name, "WOULD REFUSE", "SHARE", "CLIENTS × WINDOWS")
		for _, p := range l.shortCurve() {
			t.line("%d\t%d\t%s\t%d", p.Limit, p.Refused, percent(p.Share), p.Windows)
		}
	}
}

// shortCurve is the curve at the percentiles, the limit in force and the maximum.
func (l *LimitReport) shortCurve() []Point {
	var points []Point
	d := l.Demand
	for _, p := range l.Curve {
		switch p.Limit {
		case d.P50, d.P95, d.P99, d.P999, d.Max, uint64(l.Max):
			points = append(points, p)
		}
	}
	return points
}

func (t *textWriter) hurts(title string, list []Hurt) {
	if len(list) == 0 {
		return
	}
	t.table(title, "RULE", "REFUSED", "FIRST", "LONGEST LOCKOUT", "BEFORE", "OF THESE 2XX/3XX")
	for _, h := range list[:min(len(list), shown)] {
		t.line("%s\t%s\t%d\t%s\t%s\t%d\t%d", h.Client, h.Rule, h.Refused, h.First.Format(time.RFC3339), seconds(h.Lockout), h.Before, h.Good)
	}
	t.rest(len(list))
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond).String()
}

// hourTable shows the first hours.
func (s *Side) hourTable(t *textWriter) {
	t.table("HOUR (UTC)", "REQUESTS", "REFUSED", "SHADOW")
	const mostHourRows = 48
	for _, h := range s.Hours[:min(len(s.Hours), mostHourRows)] {
		t.line("%s\t%d\t%d\t%d", h.Start.Format("2006-01-02 15:04"), h.Requests, h.Refused, h.Shadow)
	}
	if n := len(s.Hours) - mostHourRows; n > 0 {
		t.line("and %d more\t(--json and --html have them)", n)
	}
}

func (r *Report) compared(t *textWriter) {
	c := r.Comparison
	t.table("AGAINST "+r.Against.Name, "REFUSED", "SHARE")
	t.line("%s\t%d\t%s", r.Against.Name, r.Against.Refused, percent(r.Against.RefusedShare))
	t.line("%s\t%d\t%s", r.Policy.Name, r.Policy.Refused, percent(r.Policy.RefusedShare))
	t.line("both\t%d", c.Both)
	t.line("newly refused\t%d\t%d clients suffer that did not", c.NewlyRefused, c.SufferAll)
	t.line("newly passed\t%d\t%d clients are freed", c.NewlyPassed, c.FreedAll)
	t.hurts("SUFFERS NEWLY", c.Suffer)
	t.hurts("FREED", c.Freed)
}
