package policy

import (
	"net/netip"
	"slices"
	"strings"
)

// A pattern is what a rule or a route takes. Of several that take a request the most specific wins:
// first by host, then by path, then by method. A pattern competes only if all three match.
//
//   - An exact host beats *.example.com, of which the longer beats the shorter, which beat any host.
//   - Paths are compared segment by segment from the left. A literal segment beats *, and either
//     beats the end of the pattern; of equal ones =/exact beats the prefix.
//   - A named method beats any method.
//
// So two patterns tie only if host and path are equal and their methods overlap.
type pattern struct {
	host     string // folded; empty for any
	below    bool   // the host stands for all hosts below it, not for itself
	asterisk bool   // the target of OPTIONS *, and no path
	exact    bool   // this path alone, nothing below it
	segments []segment
	methods  []string // nil for any
}

// A segment is one step of a path pattern: a literal, or any one.
type segment struct {
	text string
	any  bool
}

// A mistake is what is wrong with a piece of a pattern, and what to write instead.
type mistake struct{ what, cure string }

func (m *mistake) found() bool { return m.what != "" }

// parseHost reads a host pattern into p.
func (p *pattern) parseHost(text string) {
	if text == "*" {
		return
	}
	if a, err := netip.ParseAddr(text); err == nil && a.Is6() {
		text = "[" + text + "]"
	}
	host, below := strings.CutPrefix(text, "*.")
	p.host, p.below = foldHost(host), below
}

// parsePath reads a path pattern into p.
func (p *pattern) parsePath(m matching, text string) mistake {
	if text == "" {
		return mistake{}
	}
	if text == asterisk {
		p.asterisk = true
		return mistake{}
	}
	rest, exact := strings.CutPrefix(text, "=")
	if !strings.HasPrefix(rest, "/") {
		return mistake{text + " is no path", "begin it with a slash: /" + rest}
	}
	p.exact = exact
	if rest = strings.TrimSuffix(rest[1:], "/"); rest == "" {
		return mistake{}
	}
	for s := range strings.SplitSeq(rest, "/") {
		seg, wrong := m.parseSegment(s)
		if wrong.found() {
			return wrong
		}
		p.segments = append(p.segments, seg)
	}
	return mistake{}
}

// parseSegment reads one segment of a path pattern, plain or percent-encoded as a request's.
func (m matching) parseSegment(text string) (segment, mistake) {
	if text == "*" {
		return segment{any: true}, mistake{}
	}
	if strings.Contains(text, "*") {
		return segment{}, mistake{"* stands for one whole segment, not for a part of " + text, "write /*/ for any one segment, or %2A for the character"}
	}
	b, f := m.appendNormal(nil, text)
	switch {
	case f == bad:
		return segment{}, mistake{"the segment " + text + " occurs in no valid path", "a percent sign is written %25; queries and fragments are not compared"}
	case f == ambiguous, len(b) == 1, strings.Contains(text, ";"), strings.Contains(strings.ToLower(text), "%3b"):
		return segment{}, mistake{"the segment \"" + text + "\" is never seen: paths are compared in normal form", "write the path without empty or dot segments, backslashes, encoded slashes and ;params"}
	}
	return segment{text: string(b[1:])}, mistake{}
}

// compareHosts is positive if p's host is more specific than q's.
func (p *pattern) compareHosts(q *pattern) int {
	return p.hostRank() - q.hostRank()
}

// hostRank orders hosts that take the same request: any, then *.example.com by length, then exact.
func (p *pattern) hostRank() int {
	const exact = 1 << 20
	switch {
	case p.host == "":
		return 0
	case p.below:
		return 1 + len(p.host)
	}
	return exact
}

// comparePaths is positive if p's path is more specific than q's.
func (p *pattern) comparePaths(q *pattern) int {
	for i := range min(len(p.segments), len(q.segments)) {
		if a, b := p.segments[i].any, q.segments[i].any; a != b {
			return rank(b) - rank(a)
		}
	}
	if n := len(p.segments) - len(q.segments); n != 0 {
		return n
	}
	return rank(p.exact) - rank(q.exact)
}

// compare is positive if p beats q on a request that both take.
func (p *pattern) compare(q *pattern) int {
	if c := p.compareHosts(q); c != 0 {
		return c
	}
	if c := p.comparePaths(q); c != 0 {
		return c
	}
	return rank(p.methods != nil) - rank(q.methods != nil)
}

func rank(is bool) int {
	if is {
		return 1
	}
	return 0
}

// takes reports whether p matches a request, given in normal form. It is the slow road, for explain.
func (p *pattern) takes(host, path, method string) bool {
	return p.takesHost(host) && p.takesPath(path) && p.takesMethod(method)
}

func (p *pattern) takesHost(host string) bool {
	switch {
	case p.host == "":
		return true
	case p.below:
		return strings.HasSuffix(host, p.host) && strings.HasSuffix(strings.TrimSuffix(host, p.host), ".")
	}
	return host == p.host
}

func (p *pattern) takesPath(path string) bool {
	if p.asterisk || path == asterisk {
		return p.asterisk && path == asterisk
	}
	rest := path
	for _, s := range p.segments {
		var text string
		if text, rest = nextSegment(rest); text == "" || !s.any && s.text != text {
			return false
		}
	}
	return !p.exact || rest == "" || rest == "/"
}

func (p *pattern) takesMethod(method string) bool {
	return p.methods == nil || slices.ContainsFunc(p.methods, func(m string) bool { return sameMethod(m, method) })
}

// sameMethod compares without regard to case, since some frameworks read post as POST.
func sameMethod(a, b string) bool { return a == b || strings.EqualFold(a, b) }

// nextSegment cuts the first segment off rest, which is empty or begins with a slash.
func nextSegment(rest string) (segment, below string) {
	if rest == "" {
		return "", ""
	}
	segment = untilSlash(rest[1:])
	return segment, rest[1+len(segment):]
}
