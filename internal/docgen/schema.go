package main

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/weirgate/weir/config"
)

type object = map[string]any

const (
	number   = `(0|[1-9][0-9]*)`
	size     = number + `(B|KiB|MiB|GiB|TiB)`
	variable = `\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}`
)

// duration returns the pattern of a duration: each unit at most once, from wide to narrow, and at
// least one. It does without looking ahead, which not every validator can.
func duration() string {
	units := []string{"d", "h", "m", "s", "ms"}
	starts := make([]string, len(units))
	for i, first := range units {
		starts[i] = number + first
		for _, narrower := range units[i+1:] {
			starts[i] += "(" + number + narrower + ")?"
		}
	}
	return "(" + strings.Join(starts, "|") + ")"
}

// A schemer gathers the definitions of a schema.
type schemer struct {
	comments
	defs object
}

// schemaOf returns the JSON Schema of the file. It accepts every spelling that config.Parse accepts,
// and of the wrong ones those alone that take more than a pattern to tell.
func schemaOf(notes comments) ([]byte, error) {
	s := &schemer{notes, spellings()}
	s.section(reflect.ValueOf(config.Default()).Elem())
	root := object{
		"$schema":     "https://json-schema.org/draft/2020-12/schema",
		"title":       "Weir configuration",
		"description": notes["Config"],
		"anyOf":       []any{ref("Config"), object{"type": "null"}},
		"$defs":       s.defs,
	}
	text, err := json.MarshalIndent(root, "", "  ")
	return append(text, '\n'), err
}

func ref(name string) object { return object{"$ref": "#/$defs/" + name} }

func pattern(p string) object { return object{"type": "string", "pattern": "^" + p + "$"} }

// orVariable accepts what is given, and a text with a variable in it.
func orVariable(accepted ...any) object { return object{"anyOf": append(accepted, ref("variable"))} }

// spellings returns the definitions of single values.
func spellings() object {
	return object{
		"variable": object{"type": "string", "pattern": variable, "description": "A value with environment variables in it: ${VAR} or ${VAR:-default}."},
		"bool":     orVariable(object{"type": "boolean"}),
		"int":      orVariable(object{"type": "integer", "minimum": 0, "maximum": 4294967295}),
		"float64":  orVariable(object{"type": "number"}),
		"string":   object{"type": "string"},
		"Duration": orVariable(pattern(duration())),
		"Size":     orVariable(object{"type": "integer", "minimum": 0, "maximum": 1 << 40}, pattern(number+"(B|KiB|MiB|GiB|TiB)?")),
		"ByteRate": orVariable(pattern(size + `/s`)),
		"Multiple": orVariable(pattern(`[1-9][0-9]*x`)),
		"Offences": orVariable(pattern(`[1-9][0-9]* (denials?|blocks?|status|statuses) in ` + duration())),
		"Terms":    orVariable(pattern(duration() + `(\s*,\s*` + duration() + `)*`)),
		"Rate":     orVariable(pattern(number + `(/| per )(second|minute|hour|day|week|month|d|h|m|s|ms|` + duration() + `)`)),
	}
}

// value returns the schema of a value of v's type.
func (s *schemer) value(v reflect.Value) object {
	t := v.Type()
	switch {
	case t.Kind() == reflect.Pointer:
		return s.value(reflect.New(t.Elem()).Elem())
	case t == reflect.TypeFor[config.List]():
		return object{"anyOf": []any{ref("string"), object{"type": []any{"array", "null"}, "items": ref("string")}}}
	case t == reflect.TypeFor[config.Hop]():
		return object{"anyOf": []any{ref("string"), s.section(v)}}
	case isSpelling(t):
		return ref(t.Name())
	case t.Kind() == reflect.Struct:
		return s.section(v)
	case t.Kind() == reflect.Slice:
		return object{"type": []any{"array", "null"}, "items": s.value(reflect.New(t.Elem()).Elem())}
	case t == reflect.TypeFor[map[int]config.Multiple]():
		return object{"type": []any{"object", "null"}, "patternProperties": object{"^(0|[1-9][0-9]*)$": ref("Multiple")}, "additionalProperties": false}
	case t.Kind() == reflect.Map:
		return object{"type": []any{"object", "null"}, "additionalProperties": orNull(s.value(reflect.New(t.Elem()).Elem()))}
	case t.Kind() == reflect.Int64:
		return ref("int")
	}
	return ref(t.Kind().String())
}

func isSpelling(t reflect.Type) bool {
	_, ok := reflect.New(t).Interface().(encoding.TextUnmarshaler)
	return ok
}

func orNull(o object) object { return object{"anyOf": []any{o, object{"type": "null"}}} }

// section defines the struct v once and returns what refers to it.
func (s *schemer) section(v reflect.Value) object {
	name := v.Type().Name()
	if _, ok := s.defs[name]; ok {
		return ref(name)
	}
	properties := object{}
	def := object{"type": "object", "description": s.comments[name], "additionalProperties": false, "properties": properties}
	s.defs[name] = def
	for _, k := range s.keysOf(v) {
		properties[k.name] = s.property(k)
		if k.secret {
			properties[k.name+"_file"] = object{"type": "string", "description": k.twin()}
		}
	}
	return ref(name)
}

// property returns the schema of the value of k, with its meaning and its default.
func (s *schemer) property(k key) object {
	p := s.value(k.value)
	if k.typ.Kind() == reflect.Struct && !isSpelling(k.typ) || k.typ.Kind() == reflect.Pointer && k.typ.Elem().Kind() == reflect.Struct && !isSpelling(k.typ.Elem()) {
		p = orNull(p)
	}
	if len(k.enum) > 0 {
		p = orVariable(object{"enum": k.enum})
	}
	p["description"] = k.meaning
	if d := defaultOf(k); d != nil {
		p["default"] = d
	}
	return p
}

// defaultOf returns the default of k as JSON, or nil if it has none.
func defaultOf(k key) any {
	switch {
	case k.item == "":
		return plain(k.value)
	case k.typ.Kind() == reflect.String || isSpelling(k.typ) || k.typ == reflect.TypeFor[config.List]():
		return k.item
	}
	n, _ := strconv.Atoi(k.item)
	return n
}

// plain returns v as JSON, without what is empty; nil if nothing is left.
func plain(v reflect.Value) any {
	switch x := v.Interface().(type) {
	case config.Offences, config.Terms:
		return nil // there is none by default
	case fmt.Stringer:
		if v.Kind() != reflect.Pointer || !v.IsNil() {
			return x.String()
		}
		return nil
	case map[int]config.Multiple:
		table := object{}
		for bits, times := range x {
			table[strconv.Itoa(bits)] = times.String()
		}
		return table
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Map:
		return nil
	case reflect.Slice:
		list := []any{}
		for i := range v.Len() {
			list = append(list, plain(v.Index(i)))
		}
		return list
	case reflect.Struct:
		section := object{}
		for _, k := range (comments{}).keysOf(v) {
			if d := plain(k.value); !k.value.IsZero() && d != nil {
				section[k.name] = d
			}
		}
		if len(section) == 0 {
			return nil
		}
		return section
	}
	return v.Interface()
}
