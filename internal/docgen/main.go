// Docgen writes what is generated: from the configuration's structs and their comments the JSON Schema,
// config/schema.json, and the reference, docs/configuration.md; from the admin API's routes and types its
// OpenAPI document, admin/openapi.json. Run it at the module's root after a change to them:
//
//	go run ./internal/docgen
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/weirgate/weir/admin"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "docgen:", err)
		os.Exit(1)
	}
}

// run writes the generated files of the module at root.
func run(root string) error {
	files, err := generate(root)
	if err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(root, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generate returns the generated files of the module at root, by name.
func generate(root string) (map[string][]byte, error) {
	notes, err := readComments(filepath.Join(root, "config"))
	if err != nil {
		return nil, err
	}
	schema, err := schemaOf(notes)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		"config/schema.json":    schema,
		"docs/configuration.md": referenceOf(notes),
		"admin/openapi.json":    admin.Document(),
	}, nil
}
