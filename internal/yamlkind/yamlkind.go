// Package yamlkind says what stands in a YAML file, for those who read one.
package yamlkind

import "go.yaml.in/yaml/v3"

// Of says of what kind n is, as in "found a list", without its value; of a tag of the writer's own, that as shown
// returns it.
func Of(n *yaml.Node, shown func(string) string) string {
	switch n.Tag {
	case "!!map":
		return "found a mapping"
	case "!!seq":
		return "found a list"
	case "!!null":
		return "found no value"
	case "!!bool":
		return "found " + n.Value
	case "!!int", "!!float":
		return "found a number"
	case "!!str", "!!timestamp", "!!merge":
		return "found text"
	}
	return "found the tag " + shown(n.Tag)
}
