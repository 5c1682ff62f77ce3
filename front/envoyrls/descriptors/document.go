package descriptors

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/weirgate/weir/internal/yamlkind"
)

const (
	maxFile   = 4 << 20   // bytes of a file
	maxValues = 1_000_000 // keys and values of all files in sum, each alias counting what it stands for
	maxNested = 3 * maxDepth
)

// document returns the tree of the first document of data, or nil where there is none or it is not
// YAML, which is noted. The rest is not read, which is noted, too.
func (r *reader) document(data []byte) *yaml.Node {
	if len(data) > maxFile {
		r.wrong(Position{1, 1}, "", "the file is too large", fmt.Sprintf("want at most %d MiB", maxFile>>20))
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	if err := decoder.Decode(&first); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		r.syntax(err)
		return nil
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		at := Position{max(1, second.Line), max(1, second.Column)}
		r.idle(at, "", "a second document begins, and has no effect", "move it to a file of its own")
	}
	return first.Content[0]
}

var syntaxError = regexp.MustCompile(`(?s)^yaml: (?:line (\d+): )?(.*)$`)

// syntax notes that a file is not YAML.
func (r *reader) syntax(err error) {
	at, what := Position{1, 1}, err.Error()
	if m := syntaxError.FindStringSubmatch(what); m != nil {
		line, _ := strconv.Atoi(m[1])
		at.Line, what = max(1, line), m[2]
	}
	r.wrong(at, "", what, "want YAML; check the indentation, and that brackets and quotes are closed")
}

// follow returns the node that n stands for, one level further down, or nil if that leads too far,
// which is noted. Each call that returned a node wants one of leave.
func (r *reader) follow(n *yaml.Node, path string) *yaml.Node {
	at := position(n)
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if !r.spend(n, at, path) {
		return nil
	}
	if r.depth++; r.depth > maxNested {
		r.wrong(at, path, "nested too deeply, or an alias stands inside its own anchor", fmt.Sprintf("want at most %d levels", maxDepth))
		r.depth--
		return nil
	}
	return n
}

// spend reports whether n, a key or a value that is used at a place, is not too much in sum. Long texts
// weigh more. What is too much is noted once.
func (r *reader) spend(n *yaml.Node, at Position, path string) bool {
	size := 1 + len(n.Value)/64
	if r.spent += size; r.spent <= maxValues {
		return true
	}
	if r.spent-size <= maxValues {
		r.wrong(at, path, "the files are too large in sum once their aliases are followed", fmt.Sprintf("want at most %d keys and values", maxValues))
	}
	return false
}

func (r *reader) leave() { r.depth-- }

func position(n *yaml.Node) Position { return Position{n.Line, n.Column} }

// A pair is one line of a mapping.
type pair struct{ key, value *yaml.Node }

// pairs returns the lines of the mapping n, each key once, and behind them what is merged in by << and
// not given by n itself. Of a key that is given twice the last counts.
func (r *reader) pairs(n *yaml.Node, path string) []pair {
	var all, merged []pair
	at := map[string]int{} // by key, 1 + its place in all
	for i := 0; i+1 < len(n.Content); i += 2 {
		p := pair{r.name(n.Content[i], path), n.Content[i+1]}
		switch {
		case p.key == nil:
		case p.key.Tag == "!!merge":
			merged = append(merged, r.merged(p.value, path)...)
		case at[p.key.Value] > 0:
			old := &all[at[p.key.Value]-1]
			r.idle(position(old.key), path+label(p.key.Value), fmt.Sprintf("has no effect: it is given again on line %d", p.key.Line), "keep one of the two")
			*old = p
		default:
			all = append(all, p)
			at[p.key.Value] = len(all)
		}
	}
	for _, p := range merged {
		if at[p.key.Value] == 0 {
			all = append(all, p)
			at[p.key.Value] = len(all)
		}
	}
	return all
}

// name returns the scalar that is a mapping's key, or nil where it is none or too much, which is noted.
func (r *reader) name(key *yaml.Node, path string) *yaml.Node {
	if key.Kind == yaml.AliasNode {
		key = key.Alias
	}
	if key.Kind != yaml.ScalarNode {
		r.wrong(position(key), path, "found no name before the colon", "want a plain text as the key")
		return nil
	}
	if !r.spend(key, position(key), path) {
		return nil
	}
	return key
}

// merged returns the lines of what stands behind <<: a mapping, or a list of mappings of which the
// first that has a key wins.
func (r *reader) merged(n *yaml.Node, path string) []pair {
	from := r.follow(n, path)
	if from == nil {
		return nil
	}
	defer r.leave()
	switch from.Kind {
	case yaml.MappingNode:
		return r.pairs(from, path)
	case yaml.SequenceNode:
		var all []pair
		for _, item := range from.Content {
			all = append(all, r.merged(item, path)...)
		}
		return all
	}
	r.wrong(position(n), path+"<<", found(from), "want an alias of a mapping, as in <<: *name")
	return nil
}

// found says what n is, without its value.
func found(n *yaml.Node) string { return yamlkind.Of(n, shown) }
