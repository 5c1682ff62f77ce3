package app

import (
	"fmt"
	"time"

	"github.com/weirgate/weir/admin"
	"github.com/weirgate/weir/embedded"
	"github.com/weirgate/weir/journal"
)

// trialDays is how long a proposed exclusion holds: whoever wants to keep it looks at it again by then.
const trialDays = 30

// blocked returns the last n requests that the firewall blocked or would have blocked, newest first, each with
// its first match and the exclusion to try.
func (a *App) blocked(n int) []admin.BlockedRequest {
	shown := []admin.BlockedRequest{}
	threshold := a.inForce().Config.WAF.AnomalyThreshold
	for _, b := range a.journal.Blocked(n) {
		shown = append(shown, shownBlocked(b, threshold))
	}
	return shown
}

func shownBlocked(b journal.Blocked, threshold int) admin.BlockedRequest {
	r := admin.BlockedRequest{Incident: b.Incident, Time: b.Time, Client: b.Client, Path: b.Path, Rule: b.Refused, Score: b.Score}
	if len(b.Matches) == 0 {
		return r
	}
	m := b.Matches[0]
	r.Rule, r.Class, r.Location, r.Fragment = m.Rule, m.Class, m.Location, m.Fragment
	if m.Name != "" {
		r.Location += "." + m.Name
	}
	if p := embedded.Propose([]journal.Blocked{b}, threshold, b.Time.AddDate(0, 0, trialDays)); len(p) > 0 {
		r.Exclusion = fmt.Sprintf("waf: {exclude: [{rule: %q, path: %q, parameter: %q, until: %s, shadow: true}]}",
			p[0].Rule, p[0].Path, p[0].Parameter, p[0].Until.UTC().Format(time.DateOnly))
	}
	return r
}
