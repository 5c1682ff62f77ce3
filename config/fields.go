package config

import (
	"reflect"
	"strings"
)

// A field is one key of a mapping of the file, and where its value goes.
type field struct {
	key     string
	value   reflect.Value
	enum    []string // what is accepted, or empty for anything
	secret  bool     // it has a twin KEY_file, and is shown to nobody
	unit    string   // of most of its values; empty is s
	initial string   // what an item of a list has if it does not say, or empty
}

// fieldsOf returns the fields of the struct v in their order, those of inlined structs among them.
func fieldsOf(v reflect.Value) []field {
	var fields []field
	t := v.Type()
	for i := range t.NumField() {
		sf := t.Field(i)
		key, option, _ := strings.Cut(sf.Tag.Get("yaml"), ",")
		switch {
		case !sf.IsExported():
		case option == "inline":
			fields = append(fields, fieldsOf(v.Field(i))...)
		default:
			f := field{key: key, value: v.Field(i), secret: sf.Type == reflect.TypeFor[Secret](), unit: sf.Tag.Get("unit"), initial: sf.Tag.Get("default")}
			if enum := sf.Tag.Get("enum"); enum != "" {
				f.enum = strings.Split(enum, ",")
			}
			fields = append(fields, f)
		}
	}
	return fields
}

// names returns the keys that a mapping of fields may hold.
func names(fields []field) []string {
	var keys []string
	for _, f := range fields {
		keys = append(keys, f.key)
		if f.secret {
			keys = append(keys, f.key+"_file")
		}
	}
	return keys
}

// join returns the path of key below path.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// isText reports whether t is one of the types that are written in a spelling of their own.
func isText(t reflect.Type) bool {
	switch reflect.New(t).Interface().(type) {
	case *Duration, *Size, *ByteRate, *Multiple, *Rate, *Offences, *Terms:
		return true
	}
	return false
}
