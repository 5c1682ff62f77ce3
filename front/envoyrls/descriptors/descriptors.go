// Package descriptors reads the configuration format of envoyproxy/ratelimit, and finds the limit of
// a descriptor in it.
//
//	files ──Load──▶ []Domain ──Compile──▶ *Set ──Find──▶ Match
//	xDS ───────────────▲
//
// A file is read as that program reads it: what it refuses is refused, what it accepts is accepted.
// What it accepts and ignores is accepted with a warning.
package descriptors

import (
	"maps"
	"slices"
	"time"

	"github.com/weirgate/weir"
)

// An Entry is one key and value of a descriptor as it was asked.
type Entry struct{ Key, Value string }

// A Limit is one rate_limit of the configuration, or unlimited. It is never changed.
type Limit struct {
	Name      string
	Unit      Unit // of an extended window, the longest unit that is not longer; at least Second
	PerUnit   uint32
	Unlimited bool
	Replaces  []string // names of limits that this one takes the place of, within one request
	Shadow    bool
	Quota     bool
	Detailed  bool // detailed_metric
	Metadata  map[string]any

	// Window is the unit's length, or what an extended unit such as 10m says; 0 if Unlimited.
	Window time.Duration
	// Algorithm is the one that the file names, or the zero one. Without [Options.Extensions] it has
	// no meaning: the count is that of envoyproxy/ratelimit.
	Algorithm weir.Algorithm
	// Burst is what a token bucket lets pass at once; 0 stands for PerUnit.
	Burst uint32

	Metric string // domain.key_value.key_value, as envoyproxy/ratelimit names its statistics
	Place  string // file:line, for operators
}

// A Match is what a configuration says of one descriptor. Its memory is used again by the next Find.
type Match struct {
	Domain bool   // the domain is known
	Limit  *Limit // nil: none applies
	// Entries are the descriptor's as they are counted: under share_threshold a value is the pattern
	// that it matched. Where no limit applies they are as asked.
	Entries []Entry
	// Metric is the limit's, with the asked values in it where detailed_metric or value_to_metric say
	// so. StatName makes of it what a statistics server is told.
	Metric string
}

// A Set is a whole configuration. It is never changed, and safe for concurrent use. The zero Set knows
// no domain.
type Set struct {
	domains map[string]*node
	limits  int
}

// A node is one descriptor of the configuration, or a domain, whose descriptors lie below it.
type node struct {
	limit    *Limit           // nil: none
	children map[string]*node // by key_value, or key where there is no value
	wild     []*pattern       // those of the children that have a *, in the order of the files

	valueToMetric, shareThreshold bool
}

// Domains returns the names of the domains that s knows, sorted.
func (s *Set) Domains() []string { return slices.Sorted(maps.Keys(s.domains)) }

// Limits returns how many limits s holds.
func (s *Set) Limits() int { return s.limits }

// Find fills m with what s says of one descriptor of domain. It allocates nothing but what m needs to
// hold the entries, the text of a key and value of more than 256 bytes, and a metric with asked values
// in it.
//
// Entry by entry a level's child is taken: that of key_value, else the first pattern in the order of
// the files that matches key_value, else that of the key alone. The first hit is final. A limit applies
// if it sits at exactly the depth of the descriptor.
func (s *Set) Find(domain string, entries []Entry, m *Match) {
	*m = Match{Entries: append(m.Entries[:0], entries...)}
	level, known := s.domains[domain]
	if m.Domain = known; !known {
		return
	}
	renamed := false
	for i, e := range entries {
		h := level.find(e)
		if h.node == nil {
			copy(m.Entries, entries)
			return
		}
		level, renamed = h.node, renamed || h.renames(e)
		if p := h.shared(e); p != "" {
			m.Entries[i].Value = p
		}
	}
	if level.limit == nil {
		copy(m.Entries, entries)
		return
	}
	m.Limit, m.Metric = level.limit, level.limit.Metric
	if renamed || m.Limit.Detailed {
		m.Metric = s.metric(domain, entries, m.Limit.Detailed)
	}
}

// A hit is a node and how it was found: by a pattern, by the key alone, or else by key and value.
type hit struct {
	node    *node
	pattern string
	alone   bool
}

// find returns the child of n that e leads to; its node is nil if there is none.
func (n *node) find(e Entry) hit {
	if len(n.children) == 0 {
		return hit{}
	}
	var space [256]byte
	both := append(append(append(space[:0], e.Key...), '_'), e.Value...)
	if child := n.children[string(both)]; child != nil {
		return hit{node: child}
	}
	for _, p := range n.wild {
		if p.matches(both) {
			return hit{node: p.node, pattern: p.text}
		}
	}
	return hit{node: n.children[e.Key], alone: true}
}

// shared returns the value that e is counted under if h's values share one count, else "".
func (h hit) shared(e Entry) string {
	if h.pattern == "" || !h.node.shareThreshold {
		return ""
	}
	return patternValue(h.pattern, e.Key)
}
