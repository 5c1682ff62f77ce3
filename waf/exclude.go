package waf

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// An Exclusion releases what one rule matches, on a path and below it, in one parameter.
type Exclusion struct {
	Rule      string // the rule's id
	Path      string // as in a rule of the policy; empty is everywhere
	Parameter string // what the asker calls it; empty is any
	Reason    string
	Until     time.Time // the first moment at which it no longer holds; zero is never
	Shadow    bool      // only note what it would release
}

// covers reports whether e is in force for a request.
func (e *Exclusion) covers(path string, now time.Time) bool {
	return (e.Until.IsZero() || now.Before(e.Until)) && underPath(e.Path, path)
}

// releases reports whether e names this rule and parameter.
func (e *Exclusion) releases(rule, name string) bool {
	return e.Rule == rule && (e.Parameter == "" || strings.EqualFold(e.Parameter, name))
}

// A Blocked is what is remembered of one blocked request, for the tuning of exclusions.
type Blocked struct {
	Path    string // the path's template
	Matches []Match
}

// A Proposal is an exclusion that would have released some of a group of blocked requests.
type Proposal struct {
	Exclusion
	Released int // requests that would have passed with it alone
}

// Propose returns the narrowest exclusions for a group of blocked requests, those that release most
// first: always one rule, and the path and parameter that all its matches share, or where they differ
// one proposal for each. Until is when each ends. A rule is never proposed for every path.
func Propose(group []Blocked, threshold int, until time.Time) []Proposal {
	seen := map[Exclusion]bool{}
	var proposals []Proposal
	for _, b := range group {
		for _, m := range b.Matches {
			e := Exclusion{Rule: m.Rule, Path: "=" + b.Path, Parameter: m.Name, Until: until, Shadow: true}
			if seen[e] || b.Path == "" {
				continue
			}
			seen[e] = true
			proposals = append(proposals, Proposal{e, released(&e, group, threshold)})
		}
	}
	slices.SortStableFunc(proposals, func(a, b Proposal) int {
		return cmp.Or(cmp.Compare(b.Released, a.Released), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Parameter, b.Parameter), cmp.Compare(a.Path, b.Path))
	})
	return proposals
}

// released counts the requests of group whose score e alone brings below the threshold.
func released(e *Exclusion, group []Blocked, threshold int) int {
	n := 0
	for _, b := range group {
		score := 0
		for _, m := range b.Matches {
			if !underPath(e.Path, b.Path) || !e.releases(m.Rule, m.Name) {
				score += m.Score
			}
		}
		if score < threshold {
			n++
		}
	}
	return n
}
