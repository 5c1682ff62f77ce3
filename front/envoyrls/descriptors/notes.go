package descriptors

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weirgate/weir/config"
)

// maxProblems is how many errors, and how many warnings, are reported at most.
const maxProblems = 250

// notes collect what is wrong with a configuration.
type notes struct {
	file             string // where the next problem is
	problems         []config.Problem
	errors, warnings int
}

// wrong notes an error.
func (n *notes) wrong(at Position, field, what, cure string) {
	if n.errors++; n.errors <= maxProblems {
		n.problems = append(n.problems, config.Problem{File: n.file, Line: at.Line, Col: at.Col, Field: field, What: what, Cure: cure})
	}
}

// idle notes a warning of what is given and has no effect.
func (n *notes) idle(at Position, field, what, cure string) {
	if n.warnings++; n.warnings <= maxProblems {
		n.problems = append(n.problems, config.Problem{File: n.file, Line: at.Line, Col: at.Col, Field: field, What: what, Cure: cure, Warning: true})
	}
}

// sorted returns the problems in the order of files and lines.
func (n *notes) sorted() []config.Problem {
	slices.SortStableFunc(n.problems, func(a, b config.Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	return n.problems
}

// shown returns text as a message may quote it: on one line, and at most 64 bytes of it.
func shown(text string) string {
	if len(text) > 64 {
		text = strings.ToValidUTF8(text[:61], "") + "..."
	}
	return fmt.Sprintf("%q", text)
}

// label is shown without the quotes, for a part of a field's path.
func label(key string) string {
	q := shown(key)
	return q[1 : len(q)-1]
}
