package waf

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirgate/weir"
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

// Covers reports whether e, at now, releases everything that o would.
func (e *Exclusion) Covers(o *Exclusion, now time.Time) bool {
	return e.covers(strings.TrimPrefix(o.Path, "="), now) && e.releases(o.Rule, o.Parameter)
}

// releases reports whether e names this rule and parameter.
func (e *Exclusion) releases(rule, name string) bool {
	return e.Rule == rule && (e.Parameter == "" || strings.EqualFold(e.Parameter, name))
}

// A Blocked is what is remembered of one blocked request, for the tuning of exclusions.
type Blocked struct {
	Path    string // the path's template
	Client  string // whose it was, for how many there are
	Score   int    // of all its matches
	Most    int    // the score at which it was refused
	Matches []weir.Match
}

// Released reports whether b would have passed without what exclusions on trial would have released.
func (b *Blocked) Released() bool {
	return b.without(func(m *weir.Match) bool { return m.Shadow }) < b.Most
}

// without returns the score without the matches that released says.
func (b *Blocked) without(released func(m *weir.Match) bool) int {
	score := b.Score
	for i := range b.Matches {
		if released(&b.Matches[i]) {
			score -= b.Matches[i].Score
		}
	}
	return score
}

// A Proposal is what would have let some of a group of blocked requests pass: as a rule one exclusion, and where
// several rules matched in one request as many as it takes.
type Proposal struct {
	Exclusions []Exclusion
	Matched    int // requests of the group that it is about
	Released   int // those of them that would have passed with it
	Clients    int // whose those were that it is about
}

// MostProposals is how many are made for a group.
const MostProposals = 20

// Propose returns the narrowest exclusions for a group of blocked requests, those that release most first, and
// at most as many as are worth reading: each is of one rule on one path, in one parameter, on trial until a moment.
// A rule is never proposed for every path.
func Propose(group []Blocked, until time.Time) []Proposal {
	found := map[string]*Proposal{}
	for i := range group {
		set := group[i].Narrowest(until)
		key := fmt.Sprint(set)
		if found[key] == nil && set != nil {
			found[key] = &Proposal{Exclusions: set}
		}
		if set != nil {
			found[key].Released++
		}
	}
	var proposals []Proposal
	for _, key := range slices.Sorted(maps.Keys(found)) {
		proposals = append(proposals, *found[key])
	}
	mostFirst := func(a, b Proposal) int { return cmp.Compare(b.Released, a.Released) }
	slices.SortStableFunc(proposals, mostFirst)
	proposals = proposals[:min(len(proposals), MostProposals)]
	for i := range proposals {
		proposals[i].weigh(group)
	}
	slices.SortStableFunc(proposals, mostFirst)
	return proposals
}

// Narrowest returns the fewest exclusions that together would have let b pass, or nil if none would.
func (b *Blocked) Narrowest(until time.Time) []Exclusion {
	if b.Path == "" {
		return nil
	}
	scores := map[Exclusion]int{}
	var all []Exclusion
	for _, m := range b.Matches {
		e := Exclusion{Rule: m.Rule, Path: "=" + b.Path, Parameter: m.Name, Until: until, Shadow: true}
		if scores[e] == 0 {
			all = append(all, e)
		}
		scores[e] += m.Score
	}
	slices.SortFunc(all, func(x, y Exclusion) int {
		return cmp.Or(cmp.Compare(scores[y], scores[x]), cmp.Compare(x.Rule, y.Rule), cmp.Compare(x.Parameter, y.Parameter))
	})
	left := b.Score
	for i, e := range all {
		if left -= scores[e]; left < b.Most {
			return all[:i+1]
		}
	}
	return nil
}

// weigh counts what p would have done to group.
func (p *Proposal) weigh(group []Blocked) {
	p.Matched, p.Released = 0, 0
	clients := map[string]bool{}
	for i := range group {
		b := &group[i]
		left := b.without(func(m *weir.Match) bool {
			return slices.ContainsFunc(p.Exclusions, func(e Exclusion) bool {
				return e.releases(m.Rule, m.Name) && underPath(e.Path, b.Path)
			})
		})
		if left == b.Score {
			continue
		}
		p.Matched++
		clients[b.Client] = true
		if left < b.Most {
			p.Released++
		}
	}
	p.Clients = len(clients)
}
