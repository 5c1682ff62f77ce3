package config

import (
	"fmt"
	"reflect"
)

// Diff returns the paths of the fields that differ, in the order of the reference. Lists of different
// lengths differ as a whole, and so do tables.
func Diff(old, new *Config) (changed []string) {
	return diff(reflect.ValueOf(old).Elem(), reflect.ValueOf(new).Elem(), "", nil)
}

func diff(old, new reflect.Value, path string, changed []string) []string {
	t := old.Type()
	switch {
	case t.Kind() == reflect.Struct && !isText(t):
		after := fieldsOf(new)
		for i, f := range fieldsOf(old) {
			changed = diff(f.value, after[i].value, join(path, f.key), changed)
		}
		return changed
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct && old.Len() == new.Len():
		for i := range old.Len() {
			changed = diff(old.Index(i), new.Index(i), fmt.Sprintf("%s[%d]", path, i), changed)
		}
		return changed
	case (t.Kind() == reflect.Slice || t.Kind() == reflect.Map) && old.Len() == 0 && new.Len() == 0:
		return changed
	case reflect.DeepEqual(old.Interface(), new.Interface()):
		return changed
	}
	return append(changed, path)
}
