package app

import (
	"github.com/weirgate/weir/embedded"
	"github.com/weirgate/weir/waf"
	"github.com/weirgate/weir/waf/crs"
)

// coreRules loads the core rule set, which takes about a second.
func coreRules(c embedded.CoreRules) (waf.Ruleset, error) {
	return crs.New(crs.Options{Paranoia: c.Paranoia, Languages: c.Languages, Values: c.Values})
}
