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

// shownBlocked shows a request with the match that scored most, and what it takes to let it pass.
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
	for _, g := range group([]journal.Blocked{*b}) {
		r.Released, r.Exclusion = g.Released(), lines(g.Narrowest(trialEnd(now)))
	}
	return r
}

// proposals returns the exclusions to try and those on trial. What the configuration releases already is not among
// them.
func proposals(c *config.Config, blocked []journal.Blocked, now time.Time) []admin.Proposal {
	list := []admin.Proposal{}
	configured := embedded.Exclusions(c.WAF.Exclude)
	for _, p := range waf.Propose(group(blocked), trialEnd(now)) {
		shown := admin.Proposal{Matched: p.Matched, Released: p.Released, Clients: p.Clients, Exclusion: lines(p.Exclusions)}
		tried, inForce := 0, 0
		for i := range p.Exclusions {
			e := &p.Exclusions[i]
			shown.Excludes = append(shown.Excludes, admin.Exclude{Rule: e.Rule, Path: e.Path, Parameter: e.Parameter})
			switch known := covering(configured, e, now); {
			case known != nil && known.Shadow:
				tried++
			case known != nil:
				inForce++
			}
		}
		shown.Trial = tried > 0 && tried+inForce == len(p.Exclusions)
		if inForce < len(p.Exclusions) {
			list = append(list, shown)
		}
	}
	return list
}

// covering returns the configured exclusion that releases what e does, in force rather than on trial, or nil.
func covering(configured []waf.Exclusion, e *waf.Exclusion, now time.Time) (found *waf.Exclusion) {
	for i := range configured {
		if c := &configured[i]; c.Covers(e, now) && (found == nil || found.Shadow) {
			found = c
		}
	}
	return found
}

func trialEnd(now time.Time) time.Time { return now.UTC().AddDate(0, 0, trialDays) }

// lines are what to add to the configuration for a set of exclusions to be on trial.
func lines(set []waf.Exclusion) string {
	if len(set) == 0 {
		return ""
	}
	text := "waf:\n  exclude:"
	for _, e := range set {
		text += fmt.Sprintf("\n    - {rule: %q, path: %q, parameter: %q, reason: \"\", until: %s, shadow: true}",
			e.Rule, e.Path, e.Parameter, e.Until.Format(time.DateOnly))
	}
	return text
}
