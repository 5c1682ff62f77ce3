package config

import (
	"fmt"
	"slices"
	"time"
)

// What a body that is inspected may be at most: it is held in memory, several times over.
const (
	maxInspected = 64 << 20
	maxNesting   = 512
	maxValues    = 100_000
	maxKept      = 100_000
)

// waf judges the firewall's settings.
func (k *checker) waf() {
	w := &k.WAF
	k.size("waf.max_body", w.MaxBody, 1)
	k.size("waf.max_inflated", w.MaxInflated, 1)
	k.between("waf.max_depth", w.MaxDepth, 1, maxNesting)
	k.between("waf.max_values", w.MaxValues, 1, maxValues)
	k.span("waf.max_wait", w.MaxWait, 0, Duration(time.Minute))
	k.between("waf.keep", w.Keep, 1, maxKept)
	k.tuning("waf", RuleWAF{Paranoia: w.Paranoia, AnomalyThreshold: w.AnomalyThreshold, Languages: w.Languages,
		InspectBytes: w.InspectBytes, BodyTimeout: w.BodyTimeout, MinRate: w.MinRate})
	for i := range w.Exclude {
		k.exclude(fmt.Sprintf("waf.exclude[%d]", i), &w.Exclude[i])
	}
	for i := range k.Rules {
		if r := &k.Rules[i]; r.WAF != nil {
			k.ruleWAF(fmt.Sprintf("rules[%d].waf", i), r)
		}
	}
	k.heldBodies()
}

func (k *checker) size(field string, n, least Size) {
	if n < least || n > maxInspected {
		k.wrong(field, n.String(), fmt.Sprintf("want %s to %s", least, Size(maxInspected)))
	}
}

// tuning judges what a rule may set as well, as far as it is in force: what is zero and was not given is
// what it is by default.
func (k *checker) tuning(path string, w RuleWAF) {
	if w.Paranoia != 0 || k.Given(path+".paranoia") {
		k.between(path+".paranoia", w.Paranoia, 1, 4)
	}
	if w.AnomalyThreshold != 0 || k.Given(path+".anomaly_threshold") {
		k.between(path+".anomaly_threshold", w.AnomalyThreshold, 1, 10_000)
	}
	if w.InspectBytes != 0 || k.Given(path+".inspect_bytes") {
		k.size(path+".inspect_bytes", w.InspectBytes, 1)
	}
	if w.BodyTimeout != 0 || k.Given(path+".body_timeout") {
		k.span(path+".body_timeout", w.BodyTimeout, Duration(time.Millisecond), Duration(24*time.Hour))
	}
	for i, language := range w.Languages {
		at := fmt.Sprintf("%s.languages[%d]", path, i)
		switch known := []string{"php", "java", "node"}; {
		case !slices.Contains(known, language):
			k.wrong(at, shown(language), "want "+OneOf(known, language))
		case slices.Contains(w.Languages[:i], language):
			k.wrong(at, shown(language)+" is given twice", "remove it")
		}
	}
}

// ruleWAF judges what a rule says of the firewall.
func (k *checker) ruleWAF(path string, r *Rule) {
	k.tuning(path, *r.WAF)
	if !k.WAF.Enabled && r.WAF.Mode != "off" {
		k.doubt(path, "the firewall is not enabled, so the rule's requests are not inspected", "remove it, or waf: {enabled: false}")
	}
}

// heldBodies asks that a body which is inspected be held in memory.
func (k *checker) heldBodies() {
	for i := range k.Rules {
		r := &k.Rules[i]
		if r.MaxBody > maxInspected && k.inspects(r) {
			k.wrong(fmt.Sprintf("rules[%d].max_body", i), fmt.Sprintf("%s is more than can be inspected", r.MaxBody),
				fmt.Sprintf("want at most %s, or body: skip", Size(maxInspected)))
		}
	}
}

// inspects reports whether the firewall sees the bodies of a rule.
func (k *checker) inspects(r *Rule) bool {
	mode := k.WAF.Mode
	if r.WAF != nil && r.WAF.Mode != "" {
		mode = r.WAF.Mode
	}
	return k.WAF.Enabled && mode != "off" && r.Body != "skip"
}

// exclude judges one exclusion.
func (k *checker) exclude(path string, e *Exclude) {
	if k.missing(path+".rule", e.Rule) {
		k.wrong(path+".rule", "missing", "give the id of the rule that matched, as the list of blocked requests has it")
	}
	k.want(path+".path", e.Path, wantPath(e.Path))
	if e.Until != "" {
		if _, err := time.Parse(time.DateOnly, e.Until); err != nil {
			k.wrong(path+".until", shown(e.Until), "want a day, as in 2026-12-31")
		}
	}
	if e.Path == "" && e.Parameter == "" && k.Given(path) && !k.broken(path+".path") && !k.broken(path+".parameter") {
		k.doubt(path, "turns the rule off everywhere", "give the path and the parameter that it matched by mistake")
	}
}
