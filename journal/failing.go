package journal

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// A failing is how requests passed the firewall uninspected, of late.
type failing struct {
	mu     sync.Mutex
	spells [len(wafFaults)]spell
}

// A spell is a time in which one request after the other passed for the same fault.
type spell struct {
	since, last time.Time
	n           int
}

// quietAfter is how long nothing must pass uninspected until a spell is over.
const quietAfter = 5 * time.Minute

// note notes that a request passed for a fault.
func (f *failing) note(fault string, now time.Time) {
	i := slices.Index(wafFaults[:], fault)
	if i < 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.spells[i]
	if now.Sub(s.last) > quietAfter {
		*s = spell{since: now}
	}
	s.n++
	s.last = now
}

// failingTexts are what to tell of a spell, for each fault.
var failingTexts = [...]struct{ code, text string }{
	{"waf.panic", "the firewall panics, which is a fault of Weir's: those requests passed uninspected. The log has where; please report it"},
	{"waf.saturated", "too many requests are inspected at once, and on_saturation is pass: those passed uninspected"},
}

// FirewallFindings returns why requests passed the firewall uninspected within the last five minutes, if any did.
func (j *Journal) FirewallFindings() []Finding {
	j.failing.mu.Lock()
	defer j.failing.mu.Unlock()
	findings := []Finding{}
	for i, s := range j.failing.spells {
		if s.n > 0 && j.now().Sub(s.last) <= quietAfter {
			text := fmt.Sprintf("%d requests: %s", s.n, failingTexts[i].text)
			findings = append(findings, Finding{Code: failingTexts[i].code, Since: s.since, Text: text})
		}
	}
	return findings
}
