package waf

import (
	"cmp"
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

// A Proposal is an exclusion that would have let some of a group of blocked requests pass.
type Proposal struct {
	Exclusion
	Matched  int // requests of the group that it is about
	Released int // those of them that would have passed with it alone
	Clients  int // whose those were that it is about
}

// MostProposals is how many exclusions are proposed for a group.
const MostProposals = 20

// Propose returns the narrowest exclusions for a group of blocked requests, those that release most first, and
// at most as many as are worth reading: always one rule on one path, in one parameter, on trial. Until is when each
// ends. A rule is never proposed for every path.
func Propose(group []Blocked, until time.Time) []Proposal {
	found := map[Exclusion]*Proposal{}
	for i := range group {
		for _, e := range narrowest(&group[i], until) {
			if found[e] == nil {
				found[e] = &Proposal{Exclusion: e}
			}
			found[e].Matched++
		}
	}
	var proposals []Proposal
	for _, p := range found {
		proposals = append(proposals, *p)
	}
	order := func(a, b Proposal) int {
		return cmp.Or(cmp.Compare(b.Released, a.Released), cmp.Compare(b.Matched, a.Matched),
			cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Parameter, b.Parameter), cmp.Compare(a.Path, b.Path))
	}
	slices.SortFunc(proposals, order)
	proposals = proposals[:min(len(proposals), MostProposals)]
	for i := range proposals {
		proposals[i].weigh(group)
	}
	slices.SortFunc(proposals, order)
	return proposals
}

// narrowest returns the exclusions of one match each that b gives rise to, each once.
func narrowest(b *Blocked, until time.Time) []Exclusion {
	var list []Exclusion
	if b.Path == "" {
		return nil
	}
	for _, m := range b.Matches {
		e := Exclusion{Rule: m.Rule, Path: "=" + b.Path, Parameter: m.Name, Until: until, Shadow: true}
		if !slices.Contains(list, e) {
			list = append(list, e)
		}
	}
	return list
}

// weigh counts what p would have done to group.
func (p *Proposal) weigh(group []Blocked) {
	clients := map[string]bool{}
	for i := range group {
		b := &group[i]
		if !underPath(p.Path, b.Path) {
			continue
		}
		left := b.without(func(m *weir.Match) bool { return p.releases(m.Rule, m.Name) })
		if left == b.Score {
			continue
		}
		clients[b.Client] = true
		if left < b.Most {
			p.Released++
		}
	}
	p.Clients = len(clients)
}
