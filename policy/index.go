package policy

import "strings"

// An index finds the most specific of many patterns. It is built once and then only read.
//
// The cost of a search grows with the request, not with the number of patterns: one map per host
// form, then one map per segment. Where a more specific branch ends without the method, the search
// goes back to the less specific one; no node is visited twice.
type index struct {
	exact map[string]*tree
	below map[string]*tree // by suffix, without the leading dot
	any   *tree
}

// none is the id of no pattern.
const none = -1

// A tree holds the patterns of one host.
type tree struct {
	paths    node
	asterisk methods
}

// A node is where a path pattern may end or go on.
type node struct {
	literal literals
	any     *node
	prefix  methods // for this path and all below it
	exact   methods // for this path alone
}

// literals are the nodes below one by a literal segment. The first needs no map, and most nodes have
// but one.
type literals struct {
	text  string
	first *node
	more  map[string]*node
}

func (l *literals) find(text string) *node {
	if l.text == text {
		return l.first
	}
	return l.more[text]
}

func (l *literals) add(text string) *node {
	n := new(node)
	if l.first == nil {
		l.text, l.first = text, n
		return n
	}
	if l.more == nil {
		l.more = map[string]*node{}
	}
	l.more[text] = n
	return n
}

// methods holds the patterns that end at one place: one for any method, or one for each.
type methods struct {
	all   int // the id of the one for any method, plus one
	named []namedMethod
}

type namedMethod struct {
	method string
	id     int
}

// add enters p under id. If it ties with a pattern that is there, it returns that one's id, else none.
func (x *index) add(p *pattern, id int) int {
	t := x.tree(p)
	if p.asterisk {
		return t.asterisk.add(p, id)
	}
	n := &t.paths
	for _, s := range p.segments {
		n = n.child(s)
	}
	if p.exact {
		return n.exact.add(p, id)
	}
	return n.prefix.add(p, id)
}

// tree returns the tree of p's host, made if need be.
func (x *index) tree(p *pattern) *tree {
	if p.host == "" {
		if x.any == nil {
			x.any = new(tree)
		}
		return x.any
	}
	hosts := &x.exact
	if p.below {
		hosts = &x.below
	}
	if *hosts == nil {
		*hosts = map[string]*tree{}
	}
	if (*hosts)[p.host] == nil {
		(*hosts)[p.host] = new(tree)
	}
	return (*hosts)[p.host]
}

// child returns the node below n by s, made if need be.
func (n *node) child(s segment) *node {
	if s.any {
		if n.any == nil {
			n.any = new(node)
		}
		return n.any
	}
	if c := n.literal.find(s.text); c != nil {
		return c
	}
	return n.literal.add(s.text)
}

func (m *methods) add(p *pattern, id int) int {
	if p.methods == nil {
		if m.all != 0 {
			return m.all - 1
		}
		m.all = id + 1
		return none
	}
	for _, method := range p.methods {
		if other := m.find(method); other != none && other != m.all-1 {
			return other
		}
		m.named = append(m.named, namedMethod{method, id})
	}
	return none
}

// find returns the id of the pattern for method, or none.
func (m *methods) find(method string) int {
	for i := range m.named {
		if sameMethod(m.named[i].method, method) {
			return m.named[i].id
		}
	}
	return m.all - 1
}

// byHost reports whether hosts matter at all.
func (x *index) byHost() bool { return x.exact != nil || x.below != nil }

// find returns the id of the most specific pattern for a request in normal form, or none.
func (x *index) find(host, path, method string) int {
	if t := x.exact[host]; t != nil {
		if id := t.find(path, method); id != none {
			return id
		}
	}
	if x.below != nil {
		if id := x.findBelow(host, path, method); id != none {
			return id
		}
	}
	if x.any == nil {
		return none
	}
	return x.any.find(path, method)
}

// findBelow tries the parents of host, the nearest first.
func (x *index) findBelow(host, path, method string) int {
	for {
		_, parent, ok := strings.Cut(host, ".")
		if !ok {
			return none
		}
		if t := x.below[parent]; t != nil {
			if id := t.find(path, method); id != none {
				return id
			}
		}
		host = parent
	}
}

func (t *tree) find(path, method string) int {
	switch path {
	case asterisk:
		return t.asterisk.find(method)
	case "/":
		path = ""
	}
	return t.paths.find(path, method)
}

// find returns the most specific pattern for the rest of a path below n, which is empty or begins
// with a slash.
func (n *node) find(rest, method string) int {
	if rest == "" {
		if id := n.exact.find(method); id != none {
			return id
		}
		return n.prefix.find(method)
	}
	segment, below := nextSegment(rest)
	if c := n.literal.find(segment); c != nil {
		if id := c.find(below, method); id != none {
			return id
		}
	}
	if n.any != nil {
		if id := n.any.find(below, method); id != none {
			return id
		}
	}
	return n.prefix.find(method)
}
