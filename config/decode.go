package config

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weirgate/weir/internal/yamlkind"
)

const (
	maxNodes    = 200_000 // of a file, each alias counting what it stands for
	maxDepth    = 100
	maxExpanded = 1 << 20 // bytes of all values that variables were put into
	maxProblems = 500
)

// A decoder puts a file's tree into a Config and notes every problem and every place.
type decoder struct {
	config   *Config
	lookup   func(string) (string, bool) // a variable of the environment
	problems []Problem
	nodes    int
	expanded int
}

// problem notes an error at n.
func (d *decoder) problem(n *yaml.Node, path, what, cure string) {
	if len(d.problems) < maxProblems {
		d.problems = append(d.problems, Problem{File: d.config.file, Line: n.Line, Col: n.Column, Field: path, What: what, Cure: cure})
	}
}

// enter returns the node that n stands for, or nil if following it leads too far.
func (d *decoder) enter(n *yaml.Node, path string, depth int) *yaml.Node {
	if d.nodes++; d.nodes > maxNodes {
		if d.nodes == maxNodes+1 {
			d.problem(n, path, "the file is too large once its aliases are followed", fmt.Sprintf("want at most %d values", maxNodes))
		}
		return nil
	}
	if depth > maxDepth {
		d.problem(n, path, "nested too deeply, or an alias stands inside its own anchor", fmt.Sprintf("want at most %d levels", maxDepth))
		return nil
	}
	if n.Kind == yaml.AliasNode {
		return d.enter(n.Alias, path, depth+1)
	}
	return n
}

// decode puts n into v. The place of what is wrong inside an alias is where it is written.
func (d *decoder) decode(n *yaml.Node, v reflect.Value, f field, path string, depth int) {
	d.config.places[path] = place{line: n.Line, col: n.Column}
	if n = d.enter(n, path, depth); n == nil {
		return
	}
	if v.Kind() == reflect.Pointer {
		target := reflect.New(v.Type().Elem())
		d.decode(n, target.Elem(), f, path, depth+1)
		if n.Tag != "!!null" {
			v.Set(target)
		}
		return
	}
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null" && isSection(v.Type()):
		delete(d.config.places, path) // as if it were absent
	case isText(v.Type()) || !isSection(v.Type()):
		d.scalar(n, v, f, path)
	case v.Type() == reflect.TypeFor[Hop]() && n.Kind == yaml.ScalarNode:
		d.scalar(n, v.FieldByName("Name"), field{}, path)
	case v.Type() == reflect.TypeFor[List]() && n.Kind == yaml.ScalarNode:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		d.scalar(n, v.Index(0), field{}, path)
	case v.Kind() == reflect.Struct:
		d.mapping(n, v, path, depth)
	case v.Kind() == reflect.Map:
		d.table(n, v, path, depth)
	default:
		d.list(n, v, f, path, depth)
	}
}

// isSection reports whether values of t are mappings or lists.
func isSection(t reflect.Type) bool {
	return !isText(t) && (t.Kind() == reflect.Struct || t.Kind() == reflect.Map || t.Kind() == reflect.Slice)
}

// kind returns whether n is of the wanted kind and tag, and notes it if not.
func (d *decoder) kind(n *yaml.Node, path string, kind yaml.Kind, tag, want string) bool {
	if n.Kind == kind && n.Tag == tag {
		return true
	}
	d.problem(n, path, found(n), want)
	return false
}

// found says what n is, without its value.
func found(n *yaml.Node) string { return yamlkind.Of(n, shown) }

// mapping decodes n into the struct v.
func (d *decoder) mapping(n *yaml.Node, v reflect.Value, path string, depth int) {
	if !d.kind(n, path, yaml.MappingNode, "!!map", "want a mapping, such as {"+names(fieldsOf(v))[0]+": ...}") {
		return
	}
	fields := fieldsOf(v)
	var twins []twin
	for _, p := range d.pairs(n, path, depth) {
		at := join(path, p.key.Value)
		if i := slices.IndexFunc(fields, func(f field) bool { return f.key == p.key.Value }); i >= 0 {
			d.decode(p.value, fields[i].value, fields[i], at, depth+1)
			continue
		}
		base, isFile := strings.CutSuffix(p.key.Value, "_file")
		if i := slices.IndexFunc(fields, func(f field) bool { return isFile && f.secret && f.key == base }); i >= 0 {
			twins = append(twins, twin{value: p.value, secret: fields[i].value, path: join(path, base)})
			continue
		}
		d.unknown(p.key, names(fields), at)
	}
	for _, t := range twins {
		d.twin(t, depth+1)
	}
}

// unknown notes a key that means nothing here.
func (d *decoder) unknown(key *yaml.Node, names []string, path string) {
	if len(d.problems) >= maxProblems {
		return // looking for the nearest name costs more than the file is worth
	}
	what := "unknown key '" + strings.Trim(shown(key.Value), `"`) + "'"
	cure := "remove it"
	if near := nearestName(key.Value, names); near != "" {
		cure = "did you mean " + near + "?"
	} else if there := home(key.Value); there != "" {
		cure = "it belongs to " + there
	} else if len(names) <= 12 {
		cure = "want one of " + strings.Join(names, ", ")
	}
	d.problem(key, path, what, cure)
}

// table decodes n into the map v, whose keys are texts or numbers.
func (d *decoder) table(n *yaml.Node, v reflect.Value, path string, depth int) {
	if !d.kind(n, path, yaml.MappingNode, "!!map", wantTable(path)) {
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, p := range d.pairs(n, path, depth) {
		at := join(path, p.key.Value)
		key := reflect.New(v.Type().Key()).Elem()
		if key.Kind() == reflect.Int {
			count, want := parseCount(p.key.Value, math.MaxInt32)
			if want != "" {
				d.problem(p.key, at, shown(p.key.Value), want)
				continue
			}
			key.SetInt(count)
		} else {
			if want := wantKey(p.key.Value); want != "" {
				d.problem(p.key, path, shown(p.key.Value), want)
				continue
			}
			key.SetString(p.key.Value)
		}
		value := reflect.New(v.Type().Elem()).Elem()
		d.decode(p.value, value, field{}, at, depth+1)
		v.SetMapIndex(key, value)
	}
}

// wantTable says what to write for the map at path.
func wantTable(path string) string {
	if path == "client.ipv6_tiers" {
		return "want a mapping, as in {56: 4x, 48: 16x}; {} turns them off"
	}
	return "want a mapping"
}

// list decodes n into the slice v.
func (d *decoder) list(n *yaml.Node, v reflect.Value, f field, path string, depth int) {
	if !d.kind(n, path, yaml.SequenceNode, "!!seq", "want a list, such as [...]") {
		return
	}
	items := reflect.MakeSlice(v.Type(), 0, len(n.Content))
	for i, item := range n.Content {
		value := reflect.New(v.Type().Elem()).Elem()
		at := fmt.Sprintf("%s[%d]", path, i)
		if item.Kind == yaml.ScalarNode && item.Tag == "!!null" {
			d.problem(item, at, "found no value", "write the item, or remove the dash")
			continue
		}
		d.decode(item, value, field{enum: f.enum}, at, depth+1)
		items = reflect.Append(items, value)
	}
	v.Set(items)
}

// scalar decodes n into v, which is no section.
func (d *decoder) scalar(n *yaml.Node, v reflect.Value, f field, path string) {
	text, tag, ok := d.text(n, path)
	if !ok {
		return
	}
	if err := put(text, tag, v, f); err != nil {
		d.problem(n, path, err.found, err.want)
	}
}

// text returns the text of the scalar n with its variables put in, and what it is by YAML's rules:
// "" if a variable was put in, for then it is what it is wanted to be.
func (d *decoder) text(n *yaml.Node, path string) (text, tag string, ok bool) {
	if n.Kind != yaml.ScalarNode {
		d.problem(n, path, found(n), "want a single value")
		return "", "", false
	}
	if n.Tag == "!!null" {
		d.problem(n, path, "found no value", `write one, or remove the line; an empty text is ""`)
		return "", "", false
	}
	switch n.Tag {
	case "!!str", "!!int", "!!float", "!!bool", "!!timestamp", "!!merge":
	default:
		d.problem(n, path, found(n), "want a value without a tag")
		return "", "", false
	}
	if !strings.Contains(n.Value, "${") {
		return n.Value, n.Tag, true
	}
	text, err := expand(n.Value, d.lookup)
	if err == nil {
		if d.expanded += len(text); d.expanded > maxExpanded {
			err = &spelling{"the variables' values are too long in sum", fmt.Sprintf("want at most %d bytes", maxExpanded)}
		}
	}
	if err != nil {
		d.problem(n, path, err.found, err.want)
		return "", "", false
	}
	if n.Tag == "!!str" {
		return text, "", true
	}
	return text, n.Tag, true
}

// put sets v from text, which is of YAML's type tag, or of any if tag is empty.
func put(text, tag string, v reflect.Value, f field) *spelling {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return f.likely(putSpelling(text, tag, u))
	}
	quote := shown(text)
	if f.secret {
		quote = "the value"
	}
	switch v.Kind() {
	case reflect.Bool:
		if b, err := strconv.ParseBool(strings.ToLower(text)); err == nil && (tag == "!!bool" || tag == "" && len(text) > 1) {
			v.SetBool(b)
			return nil
		}
		return &spelling{quote, "want true or false" + unquoted(tag)}
	case reflect.Int, reflect.Int64:
		return putInt(text, tag, v)
	case reflect.Float64:
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) || tag != "" && tag != "!!int" && tag != "!!float" {
			return &spelling{quote, "want a number, as in 0.1"}
		}
		v.SetFloat(x)
		return nil
	}
	if tag != "" && tag != "!!str" && tag != "!!timestamp" && tag != "!!merge" {
		return &spelling{quote + " is not text", `put it in quotes`}
	}
	if len(f.enum) > 0 && !slices.Contains(f.enum, text) {
		return &spelling{quote, "want " + OneOf(f.enum, text)}
	}
	v.SetString(text)
	return nil
}

// likely returns wrong with the unit that the field's values mostly have, where it proposes seconds.
func (f field) likely(wrong *spelling) *spelling {
	if wrong != nil && f.unit != "" && wrong.want == "want a unit, as in "+wrong.found+"s" {
		return &spelling{wrong.found, "want a unit, as in " + wrong.found + f.unit}
	}
	return wrong
}

func putSpelling(text, tag string, u encoding.TextUnmarshaler) *spelling {
	if tag == "!!bool" {
		return &spelling{shown(text), "want plain text"}
	}
	var wrong *spelling
	if err := u.UnmarshalText([]byte(text)); errors.As(err, &wrong) {
		return wrong
	}
	return nil
}

func putInt(text, tag string, v reflect.Value) *spelling {
	if tag != "" && tag != "!!int" {
		return &spelling{shown(text), "want a whole number" + unquoted(tag)}
	}
	most := int64(maxCount)
	if v.Kind() == reflect.Int {
		most = math.MaxInt32 // whatever the machine's int is
	}
	n, want := parseCount(text, most)
	if want != "" {
		return &spelling{shown(text), want}
	}
	v.SetInt(n)
	return nil
}

// unquoted is what to add where a text was found.
func unquoted(tag string) string {
	if tag == "!!str" {
		return ", without quotes"
	}
	return ""
}
