package admin

import (
	"net/http"
	"slices"
	"strings"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/policy"
)

func (s *Server) session(c *call) (any, error) {
	why := s.readOnly(c.who)
	return Session{Token: string(c.who), Writes: why == "", ReadOnly: why, Version: s.o.Version, Bans: s.o.Bans != nil, Keys: s.anyKeys() != nil, Blocked: s.o.Blocked != nil}, nil
}

func (s *Server) status(*call) (any, error) {
	totals, g, f := s.o.Journal.Totals(), &s.o.Gauges, s.o.Config()
	status := Status{
		Config:  InUse{f.File, f.Since.UTC(), append([]string{}, s.o.NeedStart()...), f.Refused},
		Version: s.o.Version, Started: s.o.Started, ConfigHash: f.Hash, Fronts: append([]FrontPlace{}, s.o.Fronts...),
		Requests: totals.Requests, Refused: totals.Refused, InFlight: number(g.UpstreamInFlight), Held: number(g.TarpitHeld), Store: s.store(), Firewall: s.o.Journal.FirewallFindings(),
	}
	if err := s.o.Ready(); err != nil {
		status.Ready = err.Error()
	}
	return status, nil
}

func (s *Server) store() StoreHealth {
	g := &s.o.Gauges
	h := StoreHealth{
		Backend: s.o.Backend, Open: g.BreakerOpen != nil && g.BreakerOpen(), Fallbacks: s.o.Journal.Fallbacks(),
		Keys: number(g.MemoryKeys), Evictions: number(g.MemoryEvictions), Findings: []string{}, History: s.o.Journal.BreakerHistory(),
	}
	if g.StoreFindings != nil {
		for name, found := range g.StoreFindings() {
			if found {
				h.Findings = append(h.Findings, name)
			}
		}
		slices.Sort(h.Findings)
	}
	return h
}

// number reads a gauge, which may not be there.
func number[N int | uint64](read func() N) N {
	if read == nil {
		return 0
	}
	return read()
}

var (
	rankings = map[string]journal.Ranking{"client": journal.ByClient, "path": journal.ByPath, "rule": journal.ByRule, "shadow": journal.ByShadow}
	windows  = map[string]journal.Window{"1m": journal.Minute, "1h": journal.Hour, "24h": journal.Day}
)

func (s *Server) top(c *call) (any, error) {
	q := journal.TopQuery{
		By: rankings[c.query["by"]], Within: windows[c.query["window"]], ByRefused: c.query["sort"] == "refused", Most: c.number("limit"),
	}
	t := s.o.Journal.Top(q)
	return Top{
		By: c.query["by"], Window: c.query["window"], From: t.From.UTC(), To: t.To.UTC(), Step: t.Step.Seconds(),
		Requests: t.Requests, Refused: t.Refused, Entries: topEntries(&t),
	}, nil
}

func topEntries(t *journal.Top) []TopEntry {
	entries := make([]TopEntry, 0, len(t.Talkers))
	for i, talker := range t.Talkers {
		entries = append(entries, TopEntry{
			Rank: i + 1, Key: talker.Key, Source: talker.Source, Requests: talker.Requests, Error: talker.Error, Refused: talker.Refused,
			Share: float64(talker.Requests) / float64(max(t.Requests, 1)), Spark: talker.Spark,
		})
	}
	return entries
}

func (s *Server) series(c *call) (any, error) {
	points := s.o.Journal.Series(c.number("seconds"))
	series := Series{Step: 1, Points: points, From: s.o.Now().UTC()}
	if len(points) > 0 {
		series.From = points[0].Time
	}
	return series, nil
}

func (s *Server) decisions(c *call) (any, error) {
	return Decisions{s.o.Journal.Select(c.number("limit"), func(e *Decision) bool {
		switch c.query["only"] {
		case "refused":
			if !refused(e) {
				return false
			}
		case "shadow":
			if len(e.Shadow) == 0 {
				return false
			}
		}
		return matches(c.query["client"], e.Client) && matches(c.query["rule"], e.Rule)
	})}, nil
}

// matches reports whether a filter that may be empty lets a value through.
func matches(filter, value string) bool { return filter == "" || filter == value }

func refused(e *Decision) bool {
	return e.Action != weir.Pass.String() && e.Action != weir.Tag.String()
}

func (s *Server) rules(*call) (any, error) {
	totals, recent := s.o.Journal.Totals(), s.o.Journal.Outcomes()
	rules := Rules{Requests: totals.Requests, Refused: totals.Refused, Rules: []Rule{}}
	for _, r := range s.snapshot().Policy.Rules() {
		v := Rule{
			Name: r.Name, Host: r.Host, Path: r.Path, Method: r.Method, Exempt: r.Exempt, Mode: r.Mode.String(), Action: r.Action.String(),
			Limits: []Limit{},
		}
		for _, total := range totals.Rules {
			if total.Rule == strings.ToValidUTF8(r.Name, "\uFFFD") {
				v.Requests, v.Refused, v.Shadow = total.Requests, total.Refused, total.Shadow
			}
		}
		for _, l := range r.Limits() {
			v.Limits = append(v.Limits, limitView(&l, recent))
		}
		rules.Rules = append(rules.Rules, v)
	}
	return rules, nil
}

func limitView(l *policy.Limit, recent []Decision) Limit {
	return Limit{
		Name: l.Name, Rate: l.Rate, Algorithm: l.Algorithm.String(), Mode: l.Mode.String(), Per: append([]string{}, l.Per...), Global: l.Global, Plan: l.Plan,
		Limit: l.Max, Cost: l.Charges, Headroom: headroom(l.Name, recent),
	}
}

// headroom returns what the busiest client of the recent decisions that the limit bound had left.
func headroom(name string, recent []Decision) *Headroom {
	var h *Headroom
	decisions, over := 0, 0
	for i := range recent {
		e := &recent[i]
		if e.Limit != name {
			continue
		}
		decisions++
		if refused(e) {
			over++
		}
		if h == nil || e.Remaining < h.Remaining {
			h = &Headroom{Remaining: e.Remaining, Client: e.Client, Time: e.Time}
		}
	}
	if h != nil {
		h.Decisions, h.Refused = decisions, over
	}
	return h
}

// mostHurt is how many clients are named that a shadow limit would have refused.
const mostHurt = 20

func (s *Server) shadow(*call) (any, error) {
	recent := s.o.Journal.Outcomes()
	hurt := s.o.Journal.Top(journal.TopQuery{By: journal.ByShadow, Within: journal.Hour, Most: mostHurt})
	view := Shadow{Limits: []ShadowLimit{}, Clients: topEntries(&hurt)}
	known := map[string]bool{}
	for _, r := range s.snapshot().Policy.Rules() {
		for _, l := range r.Limits() {
			if l.Mode != weir.Shadow || known[l.Name] {
				continue
			}
			known[l.Name] = true
			sl := ShadowLimit{Name: l.Name, Rate: l.Rate, Rule: r.Name, Clients: []string{}}
			if l.Global {
				sl.Rule = ""
			}
			sl.count(recent)
			view.Limits = append(view.Limits, sl)
		}
	}
	return view, nil
}

func (l *ShadowLimit) count(recent []Decision) {
	for i := range recent {
		if !slices.Contains(recent[i].Shadow, l.Name) {
			continue
		}
		l.Recent++
		if len(l.Clients) < mostHurt && !slices.Contains(l.Clients, recent[i].Client) {
			l.Clients = append(l.Clients, recent[i].Client)
		}
	}
}

func (s *Server) diagnosis(*call) (any, error) {
	r := s.snapshot().Policy.Resolver()
	d := Diagnosis{
		Strategy: r.Strategy(), Picture: r.Picture(), Traps: append([]string{}, r.Traps()...), Findings: s.o.Journal.Findings(),
		Entries: s.o.Journal.ChainEntries(), Sources: []Count{},
	}
	for source, n := range s.o.Journal.Resolutions() {
		d.Sources = append(d.Sources, Count{weir.Source(source).String(), n})
	}
	return d, nil
}

func (s *Server) config(*call) (any, error) {
	f := s.o.Config()
	text, err := f.Config.Blanked()
	return Config{File: f.File, Hash: f.Hash, YAML: string(text)}, err
}

func (s *Server) blocked(c *call) (any, error) {
	if s.o.Blocked == nil {
		return nil, notBuilt("requests are not inspected")
	}
	return s.o.Blocked(c.number("limit")), nil
}

// notBuilt says that a part of the API waits for a later version.
func notBuilt(what string) error {
	return problem(http.StatusNotImplemented, "not_in_this_version", what+" in this version of Weir yet")
}
