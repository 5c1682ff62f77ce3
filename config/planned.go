package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Planned returns the parts that the file may name and this version does not have. A part leaves the
// list in the change that builds it.
func Planned() []string {
	return []string{
		"allow", "keys", "jwt", "plans", "self_service", "penalties",
		"tracing",
		"waf", "rules[].waf", "rules[].require_key", "rules[].scopes",
	}
}

const notYet = "is not in this version of Weir yet"

// planned refuses what this version would ignore.
func (k *checker) planned() {
	for _, field := range Diff(Default(), k.Config) {
		isPlanned := func(part string) bool { return field == part || strings.HasPrefix(field, part+".") }
		if slices.ContainsFunc(Planned(), isPlanned) && !isPlanned("waf") {
			k.wrong(field, notYet, "remove it")
		}
	}
	k.plannedRules()
	k.plannedWAF()
}

func (k *checker) plannedRules() {
	k.plannedLimits("limits", k.Limits)
	k.plannedLimits("default.limits", k.Default.Limits)
	for i := range k.Rules {
		r, path := &k.Rules[i], fmt.Sprintf("rules[%d]", i)
		k.plannedLimits(path+".limits", r.Limits)
		if r.RequireKey {
			k.wrong(path+".require_key", notYet, "remove it")
		}
		if len(r.Scopes) > 0 {
			k.wrong(path+".scopes", notYet, "remove it")
		}
	}
}

// plannedWAF warns once where the file counts on a firewall. A setting that would only tune it does no
// harm: what it would stop is stopped by nobody, and the warning says so.
func (k *checker) plannedWAF() {
	field := ""
	for i, r := range k.Rules {
		if r.WAF != nil && r.WAF.Mode != "off" {
			field = fmt.Sprintf("rules[%d].waf", i)
			break
		}
	}
	if given := k.firstGiven("waf"); given != "" && k.WAF.Enabled && k.WAF.Mode != "off" {
		field = given
	}
	if field != "" {
		k.doubt(field, "the WAF is not in this version yet: requests are not inspected", "write waf: {enabled: false} until it is")
	}
}

// firstGiven returns the section if it stands in the file, else one of its fields that a variable
// gives, or "".
func (k *checker) firstGiven(section string) string {
	if k.given(section) {
		return section
	}
	for _, field := range slices.Sorted(maps.Keys(k.places)) {
		if strings.HasPrefix(field, section+".") {
			return field
		}
	}
	return ""
}

func (k *checker) plannedLimits(path string, limits []Limit) {
	for i, l := range limits {
		for _, per := range l.Per {
			if per == "key" || per == "plan" {
				k.wrong(fmt.Sprintf("%s[%d].per", path, i), per+" "+notYet, "count per: client")
			}
		}
	}
}
