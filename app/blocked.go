package app

import (
	"fmt"
	"time"

	"github.com/weirgate/weir/admin"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/embedded"
	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/waf"
)

// trialDays is how long a proposed exclusion holds: whoever wants to keep it looks at it again by then.
const trialDays = 30

// blocked returns the last n requests that the firewall blocked or would have blocked, and the exclusions that all
// of those that are kept give rise to.
func (a *App) blocked(n int) admin.Blocked {
	c, now := a.inForce().Config, time.Now()
	all := a.journal.Blocked(c.WAF.Keep)
	return admin.Blocked{
		Blocked:   shownAll(all[:min(n, len(all))], now),
		Insights:  shownAll(a.journal.Insights(n), now),
		Proposals: proposals(c, all, now),
	}
}

func shownAll(list []journal.Blocked, now time.Time) []admin.BlockedRequest {
	shown := []admin.BlockedRequest{}
	for i := range list {
		shown = append(shown, shownBlocked(&list[i], now))
	}
	return shown
}

// group returns what is proposed from.
func group(list []journal.Blocked) []waf.Blocked {
	var group []waf.Blocked
	for i := range list {
		if b := &list[i]; b.Refused == "" { // else no rule matched
			group = append(group, waf.Blocked{Path: b.Path, Client: b.Client, Score: b.Score, Most: b.Most, Matches: b.Matches})
		}
	}
	return group
}

// shownBlocked shows a request with the match that scored most, and the exclusion of it.
func shownBlocked(b *journal.Blocked, now time.Time) admin.BlockedRequest {
	r := admin.BlockedRequest{
		Incident: b.Incident, Time: b.Time, Verdict: b.Verdict, Client: b.Client, Method: b.Method, Path: b.Path, Policy: b.Rule,
		Rule: b.Refused, Score: b.Score, Matches: len(b.Matches),
	}
	if len(b.Matches) == 0 {
		return r
	}
	m := b.Matches[0]
	for _, other := range b.Matches[1:] {
		if other.Score > m.Score {
			m = other
		}
	}
	r.Rule, r.Class, r.Location, r.Fragment = m.Rule, m.Class, m.Location, m.Fragment
	if m.Name != "" {
		r.Location += "." + m.Name
	}
	if g := group([]journal.Blocked{*b}); len(g) > 0 {
		r.Released = g[0].Released()
		r.Exclusion = lines(&waf.Exclusion{Rule: m.Rule, Path: "=" + b.Path, Parameter: m.Name, Until: trialEnd(now)})
	}
	return r
}

// proposals returns the exclusions to try and those on trial. What the configuration releases already is not among
// them.
func proposals(c *config.Config, blocked []journal.Blocked, now time.Time) []admin.Proposal {
	list := []admin.Proposal{}
	inForce := embedded.Exclusions(c.WAF.Exclude)
	for _, p := range waf.Propose(group(blocked), trialEnd(now)) {
		shown := admin.Proposal{
			Rule: p.Rule, Path: p.Path, Parameter: p.Parameter, Matched: p.Matched, Released: p.Released, Clients: p.Clients, Exclusion: lines(&p.Exclusion),
		}
		isOver := p.Released == 0
		for i := range inForce {
			if e := &inForce[i]; e.Covers(&p.Exclusion, now) {
				shown.Trial, isOver = e.Shadow, isOver || !e.Shadow
			}
		}
		if !isOver {
			list = append(list, shown)
		}
	}
	return list
}

func trialEnd(now time.Time) time.Time { return now.UTC().AddDate(0, 0, trialDays) }

// lines are what to add to the configuration for e to be on trial.
func lines(e *waf.Exclusion) string {
	return fmt.Sprintf("waf:\n  exclude:\n    - {rule: %q, path: %q, parameter: %q, reason: \"\", until: %s, shadow: true}",
		e.Rule, e.Path, e.Parameter, e.Until.Format(time.DateOnly))
}
