package config

import (
	"slices"
	"strings"
)

// Planned returns the parts that the file may name and this version does not have. A part leaves the
// list in the change that builds it.
func Planned() []string { return []string{"penalties"} }

const notYet = "is not in this version of Weir yet"

// planned refuses what this version would ignore.
func (k *checker) planned() {
	for _, field := range Diff(Default(), k.Config) {
		isPlanned := func(part string) bool { return field == part || strings.HasPrefix(field, part+".") }
		if slices.ContainsFunc(Planned(), isPlanned) {
			k.wrong(field, notYet, "remove it")
		}
	}
}
