package waf

import (
	"strings"

	"github.com/weirgate/weir/waf/feed"
)

// A Finding is what a rule matched, as it was sent. It never leaves this package but as a [weir.Match].
type Finding struct {
	Rule  string
	Class string
	Part  feed.Part
	Name  string
	Value string
	At    int // where in Value the match begins
	Score int

	shadow bool
}

// A Case is one request before a rule set.
type Case struct {
	Input *Input
	Feed  feed.Feed // the body
	Path  string    // decoded once
	// Skipped is set by a rule set that need not look.
	Skipped bool

	found      []Finding
	exclusions []*Exclusion // in force, on this path
}

func (c *Case) begin(in *Input, all []Exclusion) {
	c.Input, c.Path = in, feed.Unescape(in.Path)
	for i := range all {
		if all[i].covers(in.Path, in.Now) {
			c.exclusions = append(c.exclusions, &all[i])
		}
	}
}

// end empties c and keeps its memory.
func (c *Case) end() {
	c.Feed.Reset()
	clear(c.found)
	clear(c.exclusions)
	*c = Case{Feed: c.Feed, found: c.found[:0], exclusions: c.exclusions[:0]}
}

func (c *Case) read(limits feed.Limits) *feed.Refusal {
	in := c.Input
	src := feed.Source{Path: in.Path, Query: in.Query, Header: in.Header, Body: in.Body}
	if in.NoBody {
		src.Body = nil
	}
	return c.Feed.Read(&src, limits)
}

// Report adds what matched, unless an exclusion releases it.
func (c *Case) Report(f Finding) {
	for _, e := range c.exclusions {
		if !e.releases(f.Rule, f.Name) {
			continue
		}
		if !e.Shadow {
			return
		}
		f.shadow = true
	}
	c.found = append(c.found, f)
}

// Exclusions are those in force on the request's path, for a rule set that can leave out sooner.
func (c *Case) Exclusions() []*Exclusion { return c.exclusions }

// Score is what was reported so far, added up.
func (c *Case) Score() int {
	score := 0
	for i := range c.found {
		score += c.found[i].Score
	}
	return score
}

// underPath reports whether path is prefix or below it, by whole segments; * stands for one segment.
func underPath(pattern, path string) bool {
	if pattern == "" {
		return true
	}
	exact, isExact := strings.CutPrefix(pattern, "=")
	if isExact {
		pattern = exact
	}
	pattern = strings.Trim(pattern, "/")
	path = strings.TrimPrefix(path, "/")
	for pattern != "" {
		if path == "" {
			return false
		}
		var want, got string
		want, pattern, _ = strings.Cut(pattern, "/")
		got, path, _ = strings.Cut(path, "/")
		if want != "*" && want != got {
			return false
		}
	}
	return !isExact || path == ""
}
