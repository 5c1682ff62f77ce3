package embedded

import (
	"time"

	"github.com/weirgate/weir/journal"
	"github.com/weirgate/weir/waf"
)

// Propose returns the narrowest exclusions that would release some of the blocked requests, those that
// release most first. Their score is held against threshold; until is when the exclusions end.
func Propose(blocked []journal.Blocked, threshold int, until time.Time) []waf.Proposal {
	var group []waf.Blocked
	for _, b := range blocked {
		if b.Refused != "" {
			continue // no rule matched
		}
		g := waf.Blocked{Path: b.Path}
		for _, m := range b.Matches {
			g.Matches = append(g.Matches, waf.Match(m))
		}
		group = append(group, g)
	}
	return waf.Propose(group, threshold, until)
}
