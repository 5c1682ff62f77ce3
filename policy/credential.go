package policy

import (
	"net/http"
	"slices"

	"github.com/weirgate/weir"
)

// WithoutKeys returns a policy that is p and asks nobody for a key: for requests of which it is not known
// whether they bore one.
func (p *Policy) WithoutKeys() *Policy {
	other := *p
	other.keysUnknown = true
	return &other
}

// refuseUnknownPlan makes a wrong key of one whose plan is none of the policy's: it must not pass by limits that
// are not there.
func (p *Policy) refuseUnknownPlan(c *weir.Client) {
	if _, known := slices.BinarySearch(p.planNames, c.Plan); !known {
		c.Credential = weir.Refuted
	}
}

// wrongKey reports whether a key was given that proves nothing.
func wrongKey(c *weir.Client) bool {
	return c.Credential == weir.Refuted || c.Credential == weir.Ambiguous
}

func whyWrong(c *weir.Client) weir.Reason {
	if c.Credential == weir.Ambiguous {
		return weir.KeyAmbiguous
	}
	return weir.KeyRefused
}

// lacking returns why d does not get past for want of a key that r or other asks for, with the HTTP status that
// says so, or nothing. A wrong key is told only where d is not counted. Browsers ask their question before
// another request without credentials (the Fetch standard), so a preflight needs none.
func (p *Policy) lacking(d *weir.Decision, r, other *Rule, exemption weir.Reason) (weir.Reason, int) {
	c := &d.Client
	switch {
	case c.Credential == weir.Unverifiable:
		return weir.KeyUnverifiable, http.StatusServiceUnavailable
	case wrongKey(c) && exemption != "":
		return whyWrong(c), http.StatusUnauthorized
	case wrongKey(c), p.keysUnknown:
	case c.Credential == weir.Verified:
		if !r.admits(c.Scopes) || !other.admits(c.Scopes) {
			return weir.ScopeMissing, http.StatusForbidden
		}
	case exemption != weir.Preflight && (r.RequireKey || other.RequireKey):
		return weir.KeyMissing, http.StatusUnauthorized
	}
	return "", 0
}

// admits reports whether scopes are all that r asks for.
func (r *Rule) admits(scopes []string) bool {
	for _, s := range r.Scopes {
		if !slices.Contains(scopes, s) {
			return false
		}
	}
	return true
}

// counting returns the rule by which a request under r is counted that bears a wrong key: the default where r
// is exempt.
func (p *Policy) counting(r *Rule) *Rule {
	if r.Exempt {
		return p.byDefault()
	}
	return r
}
