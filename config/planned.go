package config

import (
	"fmt"
	"slices"
	"strings"
)

// Planned returns the parts that the file may name and this version does not have. A part leaves the
// list in the change that builds it.
func Planned() []string {
	return []string{
		"jwt", "plans", "self_service", "penalties",
		"tracing", "rules[].require_key", "rules[].scopes",
	}
}

const notYet = "is not in this version of Weir yet"

// planned refuses what this version would ignore.
func (k *checker) planned() {
	for _, field := range Diff(Default(), k.Config) {
		isPlanned := func(part string) bool { return field == part || strings.HasPrefix(field, part+".") }
		if slices.ContainsFunc(Planned(), isPlanned) {
			k.wrong(field, notYet, "remove it")
		}
	}
	k.plannedRules()
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

func (k *checker) plannedLimits(path string, limits []Limit) {
	for i, l := range limits {
		for _, per := range l.Per {
			if per == "key" || per == "plan" {
				k.wrong(fmt.Sprintf("%s[%d].per", path, i), per+" "+notYet, "count per: client")
			}
		}
	}
}
