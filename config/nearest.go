package config

import (
	"reflect"
	"slices"
	"strings"
)

// OneOf lists what is accepted in place of text, one or more, and says which was probably meant.
func OneOf(accepted []string, text string) string {
	last := len(accepted) - 1
	list := accepted[last]
	if last > 0 {
		list = strings.Join(accepted[:last], ", ") + " or " + list
	}
	if near := nearestName(text, accepted); near != "" {
		return list + "; did you mean " + near + "?"
	}
	return list
}

// nearestName returns the one of names that was probably meant by word, or "".
func nearestName(word string, names []string) string {
	if len(word) > 64 {
		return ""
	}
	best, least := "", 1+max(1, min(3, len(word)/3))
	for _, name := range names {
		if d := distance(fold(word), fold(name)); d < least {
			best, least = name, d
		}
	}
	return best
}

// fold takes away what people mix up: case, and the signs between words.
func fold(s string) string {
	return strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(s))
}

// distance is the number of bytes to insert, remove, replace, or swap with their neighbour, that make
// b of a.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// home returns where in the file key belongs, as in rules[].limits[].burst, or "".
func home(key string) string {
	var found []string
	walkTypes(reflect.TypeFor[Config](), "", func(path string) {
		if path == key || strings.HasSuffix(path, "."+key) {
			found = append(found, path)
		}
	})
	if len(found) == 0 {
		return ""
	}
	return slices.MinFunc(found, func(a, b string) int { return len(a) - len(b) })
}

// walkTypes calls visit with the path of every key below t; an item of a list is [].
func walkTypes(t reflect.Type, path string, visit func(path string)) {
	switch {
	case isText(t) || t.Kind() == reflect.Map:
	case t.Kind() == reflect.Pointer:
		walkTypes(t.Elem(), path, visit)
	case t.Kind() == reflect.Slice:
		walkTypes(t.Elem(), path+"[]", visit)
	case t.Kind() == reflect.Struct:
		for _, f := range fieldsOf(reflect.New(t).Elem()) {
			visit(join(path, f.key))
			walkTypes(f.value.Type(), join(path, f.key), visit)
		}
	}
}
