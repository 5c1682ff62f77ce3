package config

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// A pair is one line of a mapping.
type pair struct{ key, value *yaml.Node }

// pairs returns the lines of the mapping n, each key once, and behind them what is merged in by << and
// not given by n itself.
func (d *decoder) pairs(n *yaml.Node, path string, depth int) []pair {
	var pairs []pair
	var merged []*yaml.Node
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := d.enter(n.Content[i], path, depth), n.Content[i+1]
		switch {
		case key == nil:
			return pairs
		case key.Tag == "!!merge":
			merged = append(merged, value)
		case key.Kind != yaml.ScalarNode || key.Value == "" || key.Tag == "!!null":
			d.problem(key, path, "found no name before the colon", "want a plain text as the key")
		case seen[key.Value] != 0:
			d.problem(key, join(path, key.Value), fmt.Sprintf("given twice, on line %d and here", seen[key.Value]), "keep one of the two")
		default:
			seen[key.Value] = key.Line
			pairs = append(pairs, pair{key, value})
		}
	}
	for _, m := range merged {
		for _, p := range d.merge(m, path, depth+1) {
			if seen[p.key.Value] == 0 {
				seen[p.key.Value] = p.key.Line
				pairs = append(pairs, p)
			}
		}
	}
	return pairs
}

// merge returns the lines of what stands behind <<: a mapping, or a list of mappings of which the
// first that has a key wins.
func (d *decoder) merge(n *yaml.Node, path string, depth int) []pair {
	target := d.enter(n, path, depth)
	switch {
	case target == nil:
		return nil
	case target.Kind == yaml.MappingNode:
		return d.pairs(target, path, depth)
	case target.Kind == yaml.SequenceNode:
		var pairs []pair
		for _, item := range target.Content {
			if m := d.enter(item, path, depth+1); m != nil && m.Kind == yaml.MappingNode {
				pairs = append(pairs, d.pairs(m, path, depth+1)...)
			} else if m != nil {
				d.problem(item, join(path, "<<"), found(m), "want an alias of a mapping, as in <<: *name")
			}
		}
		return pairs
	}
	d.problem(n, join(path, "<<"), found(target), "want an alias of a mapping, as in <<: *name")
	return nil
}
