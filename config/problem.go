package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Problem is one thing that is wrong with a configuration file, or suspicious.
type Problem struct {
	File    string `json:"file"` // as it was named to Parse; "environment" if a variable is the cause
	Line    int    `json:"line"` // from 1; 0 if the cause is in no file
	Col     int    `json:"col"`
	Field   string `json:"field"`   // the path of the field, as in rules[3].limits[0].rate, or the variable
	What    string `json:"what"`    // what is wrong
	Cure    string `json:"cure"`    // what to write instead
	Warning bool   `json:"warning"` // legal, but suspicious
}

// environment is the File of what came from a variable.
const environment = "environment"

// String returns file:line:col: field: what is wrong: how to mend it, on one line.
func (p Problem) String() string {
	var parts []string
	switch {
	case p.Line > 0:
		parts = append(parts, fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col))
	case p.File != "":
		parts = append(parts, p.File)
	}
	if p.Warning {
		parts = append(parts, "warning")
	}
	for _, s := range []string{p.Field, p.What, p.Cure} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ": ")
}

// HasErrors reports whether one of problems is more than a warning.
func HasErrors(problems []Problem) bool {
	return slices.ContainsFunc(problems, func(p Problem) bool { return !p.Warning })
}

// SortProblems puts problems in the order of the file; what is in no file comes last. Problems of one
// place keep their order.
func SortProblems(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(uint(a.Line-1), uint(b.Line-1)), cmp.Compare(a.Col, b.Col))
	})
}

// A place is where a field was given: a position in the file, or a variable.
type place struct {
	line, col int
	variable  string
}

// Problem returns an error at the place of field, a path such as rules[3].limits[0].rate. The place
// of a field that the file does not hold is its nearest parent's, or the file's beginning.
func (c *Config) Problem(field, what, cure string) Problem {
	p := Problem{File: c.file, Line: 1, Col: 1, Field: field, What: what, Cure: cure}
	at, ok := c.nearest(field)
	switch {
	case at.variable != "":
		p.File, p.Line, p.Col, p.Field = environment, 0, 0, at.variable
	case ok:
		p.Line, p.Col = at.line, at.col
	}
	return p
}

// Warn returns a warning at the place of field, as Problem does.
func (c *Config) Warn(field, what, cure string) Problem {
	p := c.Problem(field, what, cure)
	p.Warning = true
	return p
}

// Broken reports whether Parse found something wrong with field or with a part of it. What else could
// be said of it may not be so.
func (c *Config) Broken(field string) bool { return c.broken[field] }

// settleBroken notes the fields of bad, and all that they are parts of.
func (c *Config) settleBroken(bad map[string]bool) {
	c.broken = map[string]bool{}
	for field := range bad {
		for ; field != "" && !c.broken[field]; field = parent(field) {
			c.broken[field] = true
		}
	}
}

// parent returns the field that field is a part of, or "".
func parent(field string) string { return field[:max(0, strings.LastIndexAny(field, ".["))] }

func (c *Config) nearest(field string) (place, bool) {
	for field != "" {
		if at, ok := c.places[field]; ok {
			return at, true
		}
		field = parent(field)
	}
	return place{}, false
}

// Given reports whether field stands in the file or the environment, whatever its value.
func (c *Config) Given(field string) bool {
	_, ok := c.places[field]
	return ok
}
