package descriptors

import (
	"regexp"
	"strings"
)

// renames reports whether the metric of what lies below h names e otherwise than the configuration
// does.
func (h hit) renames(e Entry) bool {
	switch {
	case h.pattern != "":
		return h.node.valueToMetric && !h.node.shareThreshold || patternValue(h.pattern, e.Key) == h.pattern
	case h.alone:
		return h.node.valueToMetric && e.Value != ""
	}
	return e.Value == ""
}

// metric returns the metric of the limit that entries lead to in domain, with the asked values in it:
// all of them if it is detailed, except where values share a count.
func (s *Set) metric(domain string, entries []Entry, detailed bool) string {
	var b strings.Builder
	b.WriteString(domain)
	shares := s.shares(domain, entries)
	level := s.domains[domain]
	for _, e := range entries {
		h := level.find(e)
		level = h.node
		b.WriteByte('.')
		b.WriteString(e.Key)
		value, named := h.named(e, detailed)
		if named || detailed && !shares {
			b.WriteByte('_')
			b.WriteString(value)
		}
	}
	return b.String()
}

// named returns the value that stands for e in a metric, and whether one does.
func (h hit) named(e Entry, detailed bool) (value string, ok bool) {
	switch p := h.shared(e); {
	case p != "":
		return p, true
	case detailed:
		return e.Value, e.Value != ""
	case h.pattern != "" && !h.node.valueToMetric:
		return patternValue(h.pattern, e.Key), true
	case h.alone && !h.node.valueToMetric:
		return "", false
	}
	return e.Value, e.Value != ""
}

// shares reports whether one of entries is counted under the pattern that it matched.
func (s *Set) shares(domain string, entries []Entry) bool {
	level := s.domains[domain]
	for _, e := range entries {
		h := level.find(e)
		if h.shared(e) != "" {
			return true
		}
		level = h.node
	}
	return false
}

var ipv4 = regexp.MustCompile(`[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}`)

// StatName returns metric as envoyproxy/ratelimit tells it to a statistics server, which takes colons
// and bars for signs of its own and a dot for the end of a level: colons, bars and the dots of IPv4
// addresses are written as _.
func StatName(metric string) string {
	if strings.ContainsAny(metric, ":|") {
		metric = strings.NewReplacer(":", "_", "|", "_").Replace(metric)
	}
	if strings.Count(metric, ".") < 3 {
		return metric
	}
	return ipv4.ReplaceAllStringFunc(metric, func(ip string) string { return strings.ReplaceAll(ip, ".", "_") })
}
