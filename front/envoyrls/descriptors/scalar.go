package descriptors

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// text returns what the scalar n says; numbers and booleans as they are written. An absent value is
// the empty text.
func (r *reader) text(n *yaml.Node, path string) string {
	n = r.scalar(n, path)
	if n == nil {
		return ""
	}
	switch n.Tag {
	case "!!str", "!!int", "!!bool", "!!timestamp", "!!merge":
		return n.Value
	}
	r.wrong(position(n), path, found(n), "want text")
	return ""
}

// scalar returns the scalar that n stands for. It is nil where there is no value, or none that the
// format takes, which is noted: envoyproxy/ratelimit has no numbers but integers of 64 bits.
func (r *reader) scalar(n *yaml.Node, path string) *yaml.Node {
	at := position(n)
	if n = r.follow(n, path); n == nil {
		return nil
	}
	defer r.leave()
	switch {
	case n.Kind != yaml.ScalarNode:
		r.wrong(at, path, found(n), "want a single value")
		return nil
	case n.Tag == "!!null":
		return nil
	case n.Tag == "!!float", n.Tag == "!!int" && !isInt64(n.Value):
		r.wrong(at, path, "the number "+shown(n.Value), "put it in quotes")
		return nil
	}
	return n
}

func isInt64(text string) bool {
	_, err := parseInt(text)
	return err == nil
}

// parseInt reads a YAML integer: decimal, or as 0x, 0o or 0b say, with _ anywhere.
func parseInt(text string) (int64, error) {
	if len(text) > 100 {
		return 0, strconv.ErrRange
	}
	return strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 0, 64)
}

// flag returns what n says, which is true or false as YAML 1.1 writes them. An absent value is false.
func (r *reader) flag(n *yaml.Node, path string) bool {
	at := position(n)
	if n = r.scalar(n, path); n == nil {
		return false
	}
	plain := n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
	switch word := strings.ToLower(n.Value); {
	case plain && slices.Contains([]string{"true", "yes", "on", "y"}, word):
		return true
	case plain && slices.Contains([]string{"false", "no", "off", "n"}, word):
		return false
	}
	r.wrong(at, path, found(n), "want true or false, without quotes")
	return false
}

// count returns the number n. An absent value is 0.
func (r *reader) count(n *yaml.Node, path string) uint32 {
	at := position(n)
	if n = r.scalar(n, path); n == nil {
		return 0
	}
	if n.Tag != "!!int" {
		r.wrong(at, path, found(n), "want a whole number, without quotes")
		return 0
	}
	count, err := parseInt(n.Value)
	if err != nil || count < 0 || count > math.MaxUint32 {
		r.wrong(at, path, n.Value, "want a whole number from 0 to 4294967295")
		return 0
	}
	return uint32(count)
}

// free returns what n says, of whatever kind it is, as JSON has them. path is that of all of it.
func (r *reader) free(n *yaml.Node, path string) any {
	at := position(n)
	if n = r.follow(n, path); n == nil {
		return nil
	}
	defer r.leave()
	switch n.Kind {
	case yaml.MappingNode:
		return r.freeMapping(n, path)
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			list = append(list, r.free(item, path))
		}
		return list
	}
	var value any
	if err := n.Decode(&value); err != nil {
		r.wrong(at, path, found(n), "want a text, a number, true or false")
		return nil
	}
	return r.plain(value, n, path)
}

func (r *reader) freeMapping(n *yaml.Node, path string) map[string]any {
	values := make(map[string]any, len(n.Content)/2)
	for _, p := range r.pairs(n, path+".") {
		values[p.key.Value] = r.free(p.value, path)
	}
	return values
}

// plain returns value, which n says, as one of the few kinds that JSON has.
func (r *reader) plain(value any, n *yaml.Node, path string) any {
	switch v := value.(type) {
	case nil, bool:
		return v
	case string:
		return strings.ToValidUTF8(v, "\uFFFD")
	case int:
		return int64(v)
	case int64:
		return v
	case uint64:
		return float64(v)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			r.wrong(position(n), path, n.Value, "want a number that JSON can write")
			return nil
		}
		return v
	}
	return n.Value // a time
}
