// Package fast is the rule set of that name: libinjection for SQL and script, and a short list of
// signatures. It needs microseconds, and its cost grows with the size of a request and with nothing else.
package fast

import (
	"strings"

	"github.com/corazawaf/libinjection-go"

	"github.com/weirgate/weir/waf"
	"github.com/weirgate/weir/waf/feed"
)

// Rules is the rule set. It is safe for concurrent use.
type Rules struct {
	marks *table // the words that signatures begin with
}

// New returns the rule set.
func New() *Rules { return &Rules{marks: newTable(signatures())} }

// Name is fast.
func (*Rules) Name() string { return "fast" }

// Thorough is not set: no signature is a plain word.
func (*Rules) Thorough() bool { return false }

// Quick reports whether in has no body, or a short one that is not compressed: at 50 µs a KiB, and 2 for a URL.
func (*Rules) Quick(in *waf.Input) bool {
	const short = 4 << 10
	return len(in.Body) <= short && len(in.Header["Content-Encoding"]) == 0
}

// Close does nothing: nothing is held.
func (*Rules) Close() error { return nil }

// Judge reports what matches.
func (r *Rules) Judge(c *waf.Case) {
	j := judge{rules: r, c: c}
	j.protocol()
	j.path()
	_ = feed.EachPair(c.Input.Query, func(name, value string) *feed.Refusal {
		j.pair(feed.Query, name, value)
		return nil
	})
	j.header()
	for i := range c.Feed.Leaves {
		j.leaf(&c.Feed.Leaves[i])
	}
}

// A judge is at work on one case.
type judge struct {
	rules *Rules
	c     *waf.Case
}

// report reports a match at a place of a text.
func (j *judge) report(rule, class string, score int, l *feed.Leaf, value string, at int) {
	j.c.Report(waf.Finding{Rule: rule, Class: class, Score: score, Part: l.Part, Name: l.Name, Value: value, At: at})
}

// pair judges a name and its value. Both may have been escaped twice.
func (j *judge) pair(part feed.Part, name, value string) {
	l := feed.Leaf{Part: part, Name: name, Value: value}
	if !feed.Plain(name) {
		j.text(&l, name)
		j.name(&l)
	}
	if feed.Plain(value) {
		return
	}
	j.text(&l, value)
	if again := feed.Unescape(value); len(again) != len(value) {
		j.text(&l, again)
	}
}

// leaf judges what the feed found in the body.
func (j *judge) leaf(l *feed.Leaf) {
	switch l.Part {
	case feed.Form:
		j.pair(l.Part, l.Name, l.Value)
	case feed.Key:
		j.text(l, l.Name)
		j.name(l)
	case feed.File:
		j.text(l, l.Value)
		j.file(l)
	case feed.PartField:
	default:
		j.text(l, l.Value)
	}
}

// text judges one text by everything that looks at texts.
func (j *judge) text(l *feed.Leaf, text string) {
	b := bytesOf(text)
	if b.hasAny(sqlBytes) || b.hasAny(space) {
		j.sql(l, text, b)
	}
	if b.hasAny(scriptBytes) && libinjection.IsXSS(text) {
		j.report("xss", "xss", 5, l, text, indexAny(text, "<="))
	}
	if strings.HasPrefix(text, "rO0AB") {
		j.report("java_object", "java", 5, l, text, 0)
	}
	if b.hasAny(control) {
		j.control(l, text)
	}
	seen := j.rules.marks.scan(j, l, text, nil)
	if b.hasAny(shellBytes) && b.hasAny(quoteBytes) {
		if bare := unquoted(text); len(bare) < len(text) {
			j.rules.marks.scan(j, l, bare, seen)
		}
	}
}

// sql reports SQL that libinjection knows. In a text of another script than Latin a hit is chance more
// often than not (coreruleset#3193), and counts less than it takes to refuse.
func (j *judge) sql(l *feed.Leaf, text string, b byteSet) {
	found, _ := libinjection.IsSQLi(text)
	if !found {
		return
	}
	score := 5
	if b.foreign > len(text)/2 {
		score = 3
	}
	j.report("sqli", "sqli", score, l, text, 0)
}

// control reports bytes that end what they stand in.
func (j *judge) control(l *feed.Leaf, text string) {
	for i := range len(text) {
		switch c := text[i]; {
		case c == 0 && l.Part != feed.Text:
			j.report("null_byte", "protocol", 5, l, text, i)
			return
		case (c == '\r' || c == '\n') && l.Part == feed.Query && beginsField(text[i:]):
			j.report("crlf_injection", "protocol", 5, l, text, i)
			return
		}
	}
}

// beginsField reports whether a header field or a request line follows the end of a line.
func beginsField(text string) bool {
	for len(text) > 0 && (text[0] == '\r' || text[0] == '\n') {
		text = text[1:]
	}
	for i := range min(len(text), 40) {
		switch c := text[i]; {
		case c == ':' && i > 3:
			return true
		case c == ' ' && i > 2 && hasPrefixFold(text[i+1:], "/"):
			return true
		case c != '-' && !isLetter(c):
			return false
		}
	}
	return false
}
