package policy

import (
	"fmt"
	"slices"

	"github.com/weirgate/weir"
)

// Candidates returns every rule that takes d.Request, the most specific first, the default last. It
// compares them one by one.
func (p *Policy) Candidates(d *weir.Decision) []*Rule {
	path, f := p.paths.normal(d.Request.Path)
	if f == bad {
		return nil
	}
	last := len(p.rules) - 1
	host := foldHost(d.Request.Host)
	var taken []*Rule
	for _, r := range p.rules[:last] {
		if r.pattern.takes(host, path, d.Request.Method) {
			taken = append(taken, r)
		}
	}
	slices.SortFunc(taken, func(a, b *Rule) int { return b.pattern.compare(&a.pattern) })
	return append(taken, p.rules[last])
}

// Why returns a phrase that says why d.Rule won over the others that take the request.
func (p *Policy) Why(d *weir.Decision) string {
	taken := p.Candidates(d)
	switch {
	case d.Rule == nil || len(taken) == 0:
		return "no rule was looked for"
	case taken[0].Exempt && wrongKey(&d.Client):
		return fmt.Sprintf("the key is wrong, so %s, which would let it pass, gives way to the default", taken[0].Name)
	case d.Rule != &taken[0].Rule:
		return fmt.Sprintf("the path is ambiguous, so %s, which would let it pass, gives way to the default", taken[0].Name)
	}
	why := won(taken)
	if _, f := p.paths.normal(d.Request.Path); f == ambiguous {
		why += "; servers may read the path differently, so no exemption would hold"
	}
	return why
}

// won says why the first of the rules that take a request is the one.
func won(taken []*Rule) string {
	switch len(taken) {
	case 1:
		return "no other rule takes the request"
	case 2:
		return "it is the only rule that takes the request"
	}
	return difference(taken[0], taken[1])
}

// difference says what makes a more specific than b.
func difference(a, b *Rule) string {
	p, q := &a.pattern, &b.pattern
	switch {
	case p.compareHosts(q) != 0:
		return fmt.Sprintf("host %s is more specific than %s", a.Host, b.Host)
	case p.comparePaths(q) == 0:
		return fmt.Sprintf("method %s is named", a.Method)
	case p.meetsLiteral(q):
		return fmt.Sprintf("path %s has a literal segment where %s has *", a.Path, b.Path)
	case len(p.segments) == len(q.segments):
		return fmt.Sprintf("path %s is exact", a.Path)
	}
	return fmt.Sprintf("path %s is longer than %s", a.Path, b.Path)
}

// meetsLiteral reports whether p has a literal where q has *.
func (p *pattern) meetsLiteral(q *pattern) bool {
	for i := range min(len(p.segments), len(q.segments)) {
		if !p.segments[i].any && q.segments[i].any {
			return true
		}
	}
	return false
}
