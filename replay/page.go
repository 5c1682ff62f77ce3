package replay

import (
	"bufio"
	_ "embed"
	"fmt"
	"html"
	"io"
	"strings"
	"time"
)

// pageHead is the page until its title.
//
//go:embed page.html
var pageHead string

// WriteHTML writes the report as one page that asks nobody for anything: its plots are drawn here.
//
// It is written by calls, without html/template: whatever executes a template may call any method by its name, so
// that the linker keeps every exported method of every package, a quarter of the binary.
func (r *Report) WriteHTML(w io.Writer) error {
	out := bufio.NewWriter(w)
	p := &page{out}
	p.put("%s<title>Weir replay: %s</title>\n</head>\n<body>\n<h1>Weir replay: %[2]s</h1>\n", markup(pageHead), r.Policy.Name)
	r.summary(p)
	if r.Comparison != nil {
		r.compare(p)
	}
	r.Policy.page(p)
	if r.Against != nil {
		p.put("<h1>%s</h1>\n", r.Against.Name)
		r.Against.page(p)
	}
	p.put("</body>\n</html>\n")
	return out.Flush()
}

// A page is written from formats that are markup and values that never are. Values stand between tags or in double
// quotes, nowhere else.
type page struct{ out *bufio.Writer }

// markup is text that is not escaped: a constant of this package.
type markup string

// put writes format with what is text among values escaped. Errors come with Flush.
func (p *page) put(format string, values ...any) {
	for i, v := range values {
		switch v := v.(type) {
		case markup, int, int64, uint64, float64: // these hold no markup, or mean to
		case time.Time:
			values[i] = v.Format("2006-01-02 15:04:05")
		default:
			values[i] = html.EscapeString(fmt.Sprint(v))
		}
	}
	fmt.Fprintf(p.out, format, values...)
}

// none stands for an empty list.
const none = `<p class="soft">None.</p>` + "\n"

func (r *Report) summary(p *page) {
	s := &r.Policy
	if r.Interrupted {
		p.put(`<p class="refused">The reading was interrupted: this is the report of what was read until then.</p>` + "\n")
	}
	p.put(`<p>%d requests from %s to %s (UTC): <strong>%d</strong> admitted, <strong class="refused">%d</strong> refused (%s), %d would be refused by shadow limits.
%d of %d clients were refused at least once (%s).</p>
`, r.Lines.Decided, r.From, r.To, s.Admitted, s.Refused, percent(s.RefusedShare), s.Shadow, s.Clients.Hurt, s.Clients.Seen, percent(s.Clients.HurtShare))
	p.put(`<table><tr><th>Log</th><th class="text">Format</th></tr>` + "\n")
	for i := range r.Logs {
		r.Logs[i].row(p)
	}
	p.put("</table>\n")
	r.Lines.table(p)
	if len(r.Broken) == 0 {
		return
	}
	p.put(`<h3>Broken lines</h3><table><tr><th>Line</th><th class="text">Why</th><th class="text">It begins</th></tr>` + "\n")
	for _, b := range r.Broken {
		p.put(`<tr><td>%s:%d</td><td class="text">%s</td><td class="text">%s</td></tr>`+"\n", b.Log, b.Number, b.Why, b.Text)
	}
	p.put("</table>\n")
}

func (l *LogReport) row(p *page) {
	p.put(`<tr><td>%s</td><td class="text">%s: %s`, l.Name, l.Format, l.Writer)
	if l.Auto != "" {
		p.put(` <span class="soft">(auto: %s)</span>`, l.Auto)
	}
	if l.Ends {
		p.put("; its times are those of the end of requests")
	}
	p.put("</td></tr>\n")
}

func (n *Lines) table(p *page) {
	p.put("<table><tr><th>Lines</th><th>Number</th></tr>\n<tr><td>read</td><td>%d</td></tr>\n<tr><td>decided</td><td>%d</td></tr>\n", n.Read, n.Decided)
	for _, part := range []struct {
		what string
		n    int64
	}{
		{"about no HTTP request", n.NoRequest},
		{"broken", n.Broken},
		{"without a client's address", n.NoClient},
		{"undecided, since the log has no host", n.LacksHost},
		{"undecided, since the log has no headers (OPTIONS)", n.LacksHeaders},
		{"decided, though further behind than the window", n.Late},
	} {
		if part.n != 0 {
			p.put("<tr><td>%s</td><td>%d</td></tr>\n", part.what, part.n)
		}
	}
	p.put("</table>\n")
}

func (r *Report) compare(p *page) {
	c, was, is := r.Comparison, r.Against, &r.Policy
	p.put("<h2>Against %s</h2>\n<p>%[1]s refuses %d (%s), %s %d (%s).\n", was.Name, was.Refused, percent(was.RefusedShare), is.Name, is.Refused, percent(is.RefusedShare))
	p.put("%d requests are refused by both, %d newly, and %d not any more.</p>\n", c.Both, c.NewlyRefused, c.NewlyPassed)
	p.put("<h3>%d clients suffer newly</h3>", c.SufferAll)
	p.hurts(c.Suffer)
	p.put("<h3>%d clients are freed</h3>", c.FreedAll)
	p.hurts(c.Freed)
}

// page writes what one policy did.
func (s *Side) page(p *page) {
	s.doubts(p)
	p.put("<h2>Over time</h2>\n")
	if plot := plotHours(s.Hours); plot != nil {
		plot.page(p)
	}
	p.put("<h2>Rules</h2>")
	p.groups(s.Rules)
	p.put("<h3>By reason</h3>")
	p.groups(s.Reasons)
	p.limits(s.Limits)
	p.put("<h2>Refused clients</h2>")
	p.hurts(s.Clients.List)
	p.put(`<h2>Perhaps false positives</h2><p class="soft">At least 5 requests before the first refusal, 80 %% of them answered 2xx or 3xx.</p>`)
	p.hurts(s.FalsePositives)
	p.put("<h2>Busiest clients</h2>")
	p.groups(s.Clients.Busiest)
	p.put("<h2>Path groups</h2>")
	p.groups(s.Paths)
}

// doubts tells where the report cannot be trusted.
func (s *Side) doubts(p *page) {
	if len(s.NotReplayable) > 0 {
		p.put(`<h2>Not replayable</h2><table><tr><th>Rule</th><th class="text">Limit</th><th class="text">Why</th></tr>` + "\n")
		for _, l := range s.NotReplayable {
			p.put(`<tr><td>%s</td><td class="text">%s</td><td class="text">%s</td></tr>`+"\n", l.Rule, l.Limit, l.Why)
		}
		p.put("</table>\n")
	}
	if s.Evictions > 0 {
		p.put(`<p class="refused">%d counters were forgotten for want of room (store.memory.max_keys), so some counts are too low.</p>`+"\n", s.Evictions)
	}
	if len(s.Proxies) > 0 {
		p.put(`<p class="refused">Most of the busiest clients are addresses of %s: the log has the proxy's address, not the client's (see --peer).</p>`+"\n", strings.Join(s.Proxies, ", "))
	}
}

func (p *page) groups(list []Group) {
	if len(list) == 0 {
		p.put(none)
		return
	}
	p.put(`<div class="wide" tabindex="0"><table><tr><th>Name</th><th>Requests</th><th>Refused</th><th>Shadow</th></tr>` + "\n")
	for _, g := range list {
		p.put("<tr><td>%s</td><td>%d</td><td>%d</td><td>%d</td></tr>\n", g.Name, g.Requests, g.Refused, g.Shadow)
	}
	p.put("</table></div>\n")
}

func (p *page) hurts(list []Hurt) {
	if len(list) == 0 {
		p.put(none)
		return
	}
	p.put(`<div class="wide" tabindex="0"><table><tr><th>Client</th><th class="text">Rule</th><th>Refused</th><th>First refusal</th><th>Longest lockout</th><th>Requests before</th><th>of these 2xx/3xx</th></tr>` + "\n")
	for _, h := range list {
		p.put(`<tr><td>%s</td><td class="text">%s</td><td>%d</td><td>%s</td><td>%s</td><td>%d</td><td>%d</td></tr>`+"\n",
			h.Client, h.Rule, h.Refused, h.First, seconds(h.Lockout), h.Before, h.Good)
	}
	p.put("</table></div>\n")
}

func (p *page) limits(list []LimitReport) {
	p.put(`<h2>Limits</h2><div class="wide" tabindex="0"><table><tr><th>Limit</th><th>Rate</th><th>Mode</th><th>Asked</th><th>Refused</th><th>Peak</th><th>Headroom</th><th>p50</th><th>p95</th><th>p99</th><th>p99.9</th><th>Max</th></tr>` + "\n")
	for i := range list {
		l := &list[i]
		p.put("<tr><td>%s</td><td>%s</td><td>%s</td><td>%d</td><td>%d</td><td>%d of %d</td><td>%s</td>", l.Name, l.Rate, l.Mode, l.Asked, l.Refused, l.Peak, l.Limit, percent(l.Headroom))
		if d := l.Demand; d != nil {
			p.put("<td>%d</td><td>%d</td><td>%d</td><td>%d</td><td>%d</td></tr>\n", d.P50, d.P95, d.P99, d.P999, d.Max)
		} else {
			p.put("<td>-</td><td>-</td><td>-</td><td>-</td><td>-</td></tr>\n")
		}
	}
	p.put(`</table></div>
<p class="soft">The percentiles are of what was asked for, granted or not, per client and window of the limit. The curves are what a limit of so much, counted as fixed_window, would have refused.</p>
`)
	for _, l := range list {
		if plot := plotCurve(l); plot != nil {
			plot.page(p, l.Name)
		}
	}
}

func (h *hourPlot) page(p *page) {
	p.put(`<div class="wide" tabindex="0"><svg viewBox="0 0 960 220" role="img" aria-label="Requests over time: admitted, over shadow limits and refused">
<line class="axis" x1="40" y1="190" x2="950" y2="190"/>
`)
	for _, b := range h.Bars {
		p.put("<g><title>%s</title>", b.Title)
		for _, part := range []struct {
			class     string
			y, height float64
		}{{"pass", b.PassY, b.Pass}, {"shadow", b.ShadowY, b.Shadow}, {"refuse", b.RefuseY, b.Refuse}} {
			p.put(`<rect class="%s" x="%g" y="%g" width="%g" height="%g"/>`, part.class, b.X, part.y, b.Width, part.height)
		}
		p.put("</g>\n")
	}
	p.put(`<text x="36" y="18" text-anchor="end">%d</text><text x="40" y="208">%s</text><text x="950" y="208" text-anchor="end">%s</text></svg></div>
<p class="soft">Blue: admitted. Yellow: over a shadow limit. Red: refused. Each bar is %s.</p>
`, h.Most, h.From, h.To, h.Each)
}

func (c *curvePlot) page(p *page, limit string) {
	p.put(`<h3>%s</h3>
<div class="wide" tabindex="0"><svg viewBox="0 0 960 200" role="img" aria-label="Share refused by a limit of so much, for %[1]s">
<line class="axis" x1="50" y1="170" x2="940" y2="170"/><line class="axis" x1="50" y1="10" x2="50" y2="170"/>
<polyline class="curve" points="%s"/>
`, limit, c.Line)
	if c.Now != 0 {
		p.put(`<line class="now" x1="%g" y1="10" x2="%[1]g" y2="170"><title>the limit in force</title></line>`+"\n", c.Now)
	}
	for _, d := range c.Points {
		p.put(`<circle class="refuse" cx="%g" cy="%g" r="3"><title>%s</title></circle>`, d.X, d.Y, d.Title)
	}
	p.put(`
<text x="44" y="18" text-anchor="end">%s</text><text x="44" y="172" text-anchor="end">0 %%</text><text x="50" y="188">%d</text><text x="940" y="188" text-anchor="end">%d per window</text></svg></div>
`, c.Most, c.From, c.To)
}
