package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirgate/weir"
	"github.com/weirgate/weir/config"
	"github.com/weirgate/weir/waf/mask"
)

// A Firewall is one way in which rules have requests inspected. Two that are equal inspect alike.
type Firewall struct {
	Ruleset   string // fast or crs
	Paranoia  int
	Threshold int
	Languages string // separated by spaces, in order; empty is all
	Depth     int
	Values    int
	Inflated  int64 // bytes
	Bytes     int64 // of text
}

// Firewalls returns every firewall that a rule names by [weir.Firewall.Set].
func (p *Policy) Firewalls() []Firewall { return slices.Clone(p.firewalls) }

// Mask returns what hides secrets in all that is written down about requests.
func (p *Policy) Mask() *mask.Masker { return p.mask }

// masker compiles what is hidden.
func (c *compiler) masker() {
	for i, kind := range c.cfg.WAF.Mask {
		if _, err := mask.New([]string{kind}); err != nil {
			c.fail(fmt.Sprintf("waf.mask[%d]", i), strings.TrimPrefix(err.Error(), "mask: "), "write one of "+strings.Join(mask.Kinds(), " ")+", or regex:EXPRESSION")
		}
	}
	c.policy.mask, _ = mask.New(c.cfg.WAF.Mask) // what is wrong with it was told
}

// firewall compiles how a rule's requests are inspected, and how slowly their bodies may come.
func (c *compiler) firewall(r *Rule, from *config.Rule) {
	w, own := &c.cfg.WAF, from.WAF
	if own == nil {
		own = &config.RuleWAF{}
	}
	r.Pace = weir.Pace{
		Timeout: time.Duration(cmp.Or(own.BodyTimeout, w.BodyTimeout)),
		MinRate: int64(cmp.Or(own.MinRate, w.MinRate)),
	}
	r.Firewall = weir.Firewall{
		Mode:    weir.Mode(choose(cmp.Or(own.Mode, w.Mode), "block", "detect", "off")),
		Streams: from.Body == "skip",
		MaxBody: int64(cmp.Or(from.MaxBody, w.MaxBody)),
	}
	if !w.Enabled {
		r.Firewall.Mode = weir.Off
	}
	if r.Firewall.Mode != weir.Off {
		r.Firewall.Set = c.set(own, r.Firewall.MaxBody)
	}
}

// set returns the number of the firewall that inspects by the words of a rule.
func (c *compiler) set(own *config.RuleWAF, maxBody int64) int {
	w := &c.cfg.WAF
	f := Firewall{
		Ruleset:   cmp.Or(own.Ruleset, w.Ruleset),
		Paranoia:  cmp.Or(own.Paranoia, w.Paranoia),
		Threshold: cmp.Or(own.AnomalyThreshold, w.AnomalyThreshold),
		Depth:     w.MaxDepth,
		Values:    w.MaxValues,
		Inflated:  int64(w.MaxInflated),
		Bytes:     int64(cmp.Or(own.InspectBytes, w.InspectBytes)),
	}
	languages := w.Languages
	if len(own.Languages) > 0 {
		languages = own.Languages
	}
	f.Languages = strings.Join(slices.Sorted(slices.Values(languages)), " ")
	if f.Ruleset == "fast" {
		f.Paranoia, f.Languages = 0, ""
		if own.InspectBytes == 0 && !c.cfg.Given("waf.inspect_bytes") {
			f.Bytes = max(maxBody, f.Inflated)
		}
	}
	if i := slices.Index(c.policy.firewalls, f); i >= 0 {
		return i
	}
	c.policy.firewalls = append(c.policy.firewalls, f)
	return len(c.policy.firewalls) - 1
}

// strictest returns how a request that servers may read differently is inspected: as the strictest of the
// rules that it may fall under, the default rule among them, says. That an attacker finds a reading under a
// rule without a firewall must not help him.
func (p *Policy) strictest(req *weir.Request, r *Rule) *weir.Firewall {
	strictest := &r.Firewall
	for _, other := range [...]*Rule{p.find(req, p.paths.literal(req.Path)), p.byDefault()} {
		f := &other.Firewall
		if f.Mode < strictest.Mode || f.Mode == strictest.Mode && !f.Streams && strictest.Streams {
			strictest = f
		}
	}
	return strictest
}
