package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Variable returns the name of the variable that overrides the field at path.
func Variable(path string) string {
	return "WEIR_" + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// An override is a variable that may take a field's place.
type override struct {
	path   string
	value  reflect.Value
	field  field
	isFile bool // the variable names a file that holds the secret
}

// overrides returns every variable that v, the struct at path, may be overridden by: its single
// values, and its lists of texts, which a variable separates by commas.
func overrides(v reflect.Value, path string) map[string]override {
	all := map[string]override{}
	for _, f := range fieldsOf(v) {
		at, t := join(path, f.key), f.value.Type()
		switch {
		case t.Kind() == reflect.Struct && !isText(t):
			for name, o := range overrides(f.value, at) {
				all[name] = o
			}
		case !isSection(t) || isWordList(t):
			all[Variable(at)] = override{path: at, value: f.value, field: f}
			if f.secret {
				all[Variable(at)+"_FILE"] = override{path: at, value: f.value, field: f, isFile: true}
			}
		}
	}
	return all
}

// isWordList reports whether t is a list whose items may be written as one word each.
func isWordList(t reflect.Type) bool {
	return t == reflect.TypeFor[[]string]() || t == reflect.TypeFor[[]Hop]()
}

// environ lets the variables of env override the file. used are those that the file named itself.
func (d *decoder) environ(env map[string]string, used map[string]bool) {
	all := overrides(reflect.ValueOf(d.config).Elem(), "")
	var variables []string
	for name := range env {
		if strings.HasPrefix(name, "WEIR_") {
			variables = append(variables, name)
		}
	}
	slices.Sort(variables)
	for _, name := range variables {
		o, known := all[name]
		switch {
		case known:
			d.override(name, env[name], o, env)
		case !used[name] && !isServiceLink(name, env):
			d.unknownVariable(name, all)
		}
	}
}

func (d *decoder) override(name, text string, o override, env map[string]string) {
	if o.isFile && text == "" {
		return
	}
	d.config.places[o.path] = place{variable: name}
	var wrong *spelling
	switch {
	case o.isFile:
		wrong = overrideFile(name, text, o, env)
	case isWordList(o.value.Type()):
		putWords(text, o.value)
	default:
		wrong = put(text, "", o.value, o.field)
	}
	if wrong != nil {
		d.problems = append(d.problems, Problem{File: environment, Field: name, What: wrong.found, Cure: wrong.want})
	}
}

func overrideFile(name, file string, o override, env map[string]string) *spelling {
	plain := strings.TrimSuffix(name, "_FILE")
	if env[plain] != "" {
		return &spelling{plain + " is set, too", "keep one of the two"}
	}
	secret, err := readSecret(file)
	if err != nil {
		return &spelling{err.Error(), "want a readable file that holds the secret and nothing else"}
	}
	o.value.SetString(secret)
	return nil
}

// putWords sets v, a list of texts or of hops, from words separated by commas.
func putWords(text string, v reflect.Value) {
	items := reflect.MakeSlice(v.Type(), 0, 4)
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		item := reflect.New(v.Type().Elem()).Elem()
		if item.Kind() == reflect.Struct {
			item.FieldByName("Name").SetString(word)
		} else {
			item.SetString(word)
		}
		items = reflect.Append(items, item)
	}
	v.Set(items)
}

// serviceLink is a variable that Kubernetes sets in every container of a namespace for a Service whose name begins
// with weir, and what it says of it.
var serviceLink = regexp.MustCompile(`^(WEIR(?:_[A-Z0-9_]+?)??)_(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT|PORT_[0-9]+_(?:TCP|UDP|SCTP)(?:_PROTO|_PORT|_ADDR)?)$`)

// isServiceLink reports whether a variable comes with a Service of Kubernetes, which sets its host in any case.
func isServiceLink(name string, env map[string]string) bool {
	m := serviceLink.FindStringSubmatch(name)
	return m != nil && env[m[1]+"_SERVICE_HOST"] != ""
}

func (d *decoder) unknownVariable(name string, all map[string]override) {
	known := make([]string, 0, len(all))
	for k := range all {
		known = append(known, k)
	}
	slices.Sort(known)
	cure := "unset it"
	if name == "WEIR_CONFIG" {
		cure = "name the file with -c"
	} else if near := nearestName(name, known); near != "" {
		cure = fmt.Sprintf("did you mean %s?", near)
	}
	d.problems = append(d.problems, Problem{File: environment, Field: name, What: "no such setting", Cure: cure, Warning: true})
}
