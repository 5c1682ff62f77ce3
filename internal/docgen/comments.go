package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/weirgate/weir/config"
)

// Comments are what the source says of each type, under its name, and of each field, under TYPE.FIELD.
type comments map[string]string

// readComments reads the Go files of dir.
func readComments(dir string) (comments, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	notes := comments{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		notes.add(file)
	}
	return notes, nil
}

func (c comments) add(file *ast.File) {
	for _, d := range file.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok || decl.Tok != token.TYPE {
			continue
		}
		for _, s := range decl.Specs {
			spec := s.(*ast.TypeSpec)
			c[spec.Name.Name] = oneLine(decl.Doc)
			if st, ok := spec.Type.(*ast.StructType); ok {
				c.addFields(spec.Name.Name, st)
			}
		}
	}
}

func (c comments) addFields(typeName string, st *ast.StructType) {
	for _, f := range st.Fields.List {
		for _, name := range f.Names {
			c[typeName+"."+name.Name] = oneLine(f.Doc)
		}
	}
}

func oneLine(doc *ast.CommentGroup) string { return strings.Join(strings.Fields(doc.Text()), " ") }

// A key is one key of a mapping of the file.
type key struct {
	name    string
	meaning string
	typ     reflect.Type
	enum    []string
	secret  bool
	item    string        // the default of an item of a list, as written, or empty
	value   reflect.Value // in the default configuration
}

// keysOf returns the keys of the struct v in their order, those of inlined structs among them.
func (c comments) keysOf(v reflect.Value) []key {
	var keys []key
	t := v.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		name, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case !f.IsExported():
			continue
		case option == "inline":
			keys = append(keys, c.keysOf(v.Field(i))...)
			continue
		}
		k := key{name: name, meaning: c[t.Name()+"."+f.Name], typ: f.Type, value: v.Field(i), item: f.Tag.Get("default"), secret: f.Type == reflect.TypeFor[config.Secret]()}
		if enum := f.Tag.Get("enum"); enum != "" {
			k.enum = strings.Split(enum, ",")
		}
		keys = append(keys, k)
	}
	return keys
}

// twin is the meaning of the key that names a secret's file.
func (k key) twin() string { return fmt.Sprintf("File that holds %s, in its place.", k.name) }
