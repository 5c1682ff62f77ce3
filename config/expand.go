package config

import (
	"regexp"
	"strings"
)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand returns text with the variables that it names: ${VAR}, and ${VAR:-default} where the
// default stands for a variable that is unset or empty. $${ stands for a plain ${.
func expand(text string, lookup func(string) (string, bool)) (string, *spelling) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		if !found {
			return b.String() + text, nil
		}
		if escaped, ok := strings.CutSuffix(before, "$"); ok {
			b.WriteString(escaped + "${")
			text = rest
			continue
		}
		inside, after, closed := strings.Cut(rest, "}")
		name, fallback, hasFallback := strings.Cut(inside, ":-")
		switch {
		case !closed:
			return "", &spelling{"${ without }", "write ${VAR}, or $${ for a plain ${"}
		case strings.Contains(inside, "${"):
			return "", &spelling{"${" + name + ":-${...}} is nested", "want a plain text as the default"}
		case !variableName.MatchString(name):
			return "", &spelling{shown("${" + inside + "}"), "want ${VAR} or ${VAR:-default}, or $${ for a plain ${"}
		}
		value, set := lookup(name)
		switch {
		case hasFallback && value == "":
			value = fallback
		case !set:
			return "", &spelling{"${" + name + "} is not set", "set the variable, or give a default: ${" + name + ":-default}"}
		}
		b.WriteString(before + value)
		text = after
	}
}

// escaped returns text as expand gives it back.
func escaped(text string) string { return strings.ReplaceAll(text, "${", "$${") }
