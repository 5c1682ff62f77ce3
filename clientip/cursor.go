package clientip

import (
	"net/netip"
	"strings"
)

const (
	chainHeader     = "X-Forwarded-For"
	forwardedHeader = "Forwarded"
	realIPHeader    = "X-Real-Ip"
)

const (
	// maxEntry is the longest entry that can hold an address, in bytes, with room for white space.
	// The longest of all is a bracketed IPv6 address with dotted end, zone and port: 70.
	maxEntry = 96
	// maxElement is the longest Forwarded element that is read, in bytes.
	maxElement = 512
	// maxLeft is the longest left neighbour that is looked at, in bytes. It serves the diagnosis alone.
	maxLeft = 48
	// countWindow is how many bytes of a line are looked at to count its further entries.
	countWindow = 256
)

// unixEntry is what nginx writes for a peer on a unix socket.
const unixEntry = "unix:"

// A cursor reads the entries of a header from the right, all lines as one list. It looks at no more
// bytes than it needs to find where an entry begins.
type cursor struct {
	lines     []string // not begun yet
	rest      string   // of the line that is being read
	more      bool     // rest holds a further entry
	done      bool     // the end was reached
	long      bool     // the entry that was read last is too long to be one
	forwarded bool
	read      int // entries so far
}

// blank reports whether a header says nothing: it has no line, or one without a value.
func blank(lines []string) bool {
	switch len(lines) {
	case 0:
		return true
	case 1:
		return len(lines[0]) <= maxEntry && trimOWS(lines[0]) == ""
	}
	return false
}

// limit is how far back the beginning of an entry is looked for.
func (c *cursor) limit() int {
	if c.forwarded {
		return maxElement
	}
	return maxEntry
}

// next returns the next entry to the left, or false at the end of the chain. An entry of more than
// limit bytes is no address whatever it holds: next returns its end, and nothing further left.
func (c *cursor) next(limit int) (entry string, ok bool) {
	if !c.begin() {
		c.done = true
		return "", false
	}
	c.read++
	window := tail(c.rest, limit+1)
	comma := c.comma(window)
	if comma < 0 {
		c.more = false
		if len(window) > limit {
			c.long, c.lines = true, nil
		}
		return window, true
	}
	c.rest = c.rest[:len(c.rest)-len(window)+comma]
	return window[comma+1:], true
}

// begin goes on to the next line if one was read to its end, and reports whether there is something to read.
func (c *cursor) begin() bool {
	if c.more {
		return true
	}
	last := len(c.lines) - 1
	if last < 0 {
		return false
	}
	c.rest, c.lines, c.more = c.lines[last], c.lines[:last], true
	return true
}

// next4 reads the next entry if it is what most are, an IPv4 address and nothing else but a space before it.
// Otherwise it reads nothing.
func (c *cursor) next4() (netip.Addr, bool) {
	if c.forwarded || !c.begin() {
		return netip.Addr{}, false
	}
	v, before, ok := lastDotted(c.rest)
	before = strings.TrimSuffix(before, " ")
	end := len(before) - 1
	if !ok || v == 0 || end >= 0 && before[end] != ',' {
		return netip.Addr{}, false
	}
	c.rest, c.more = before[:max(end, 0)], end >= 0
	c.read++
	return address4(v), true
}

// comma returns the index of the last comma that separates entries, or -1.
func (c *cursor) comma(s string) int {
	if !c.forwarded {
		return strings.LastIndexByte(s, ',')
	}
	quoted := false
	for i := len(s) - 1; i >= 0; i-- {
		switch {
		case s[i] == '"' && !(quoted && escaped(s[:i])):
			quoted = !quoted
		case s[i] == ',' && !quoted:
			return i
		}
	}
	return -1
}

// escaped reports whether the character after s is the second of a quoted-pair: an odd number of
// backslashes precedes it.
func escaped(s string) bool {
	n := 0
	for n < len(s) && s[len(s)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// left returns how many entries there are further left, counted up to most and, in a line, within
// countWindow bytes. It does not look into quoted strings.
func (c *cursor) left(most int) int {
	n := 0
	if c.more {
		n = 1 + strings.Count(tail(c.rest, countWindow), ",")
	}
	for i := len(c.lines) - 1; i >= 0 && n < most; i-- {
		n += 1 + strings.Count(tail(c.lines[i], countWindow), ",")
	}
	return n
}

// address reads an entry that next returned.
func (c *cursor) address(entry string) (a netip.Addr, unix, ok bool) {
	if c.long {
		return netip.Addr{}, false, false
	}
	if c.forwarded {
		a, ok = parseElement(entry)
		return a, false, ok
	}
	entry = trimOWS(entry)
	if entry == unixEntry {
		return netip.Addr{}, true, true
	}
	a, ok = parseNode(entry, anyPort)
	return a, false, ok
}

// tail returns the last n bytes of s, or all of it.
func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// clip returns as much of s as may be shown.
func clip(s string) string { return s[:min(len(s), maxEntry)] }
