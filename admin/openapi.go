package admin

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Document returns the OpenAPI 3.1 document of the API, made of the routes and the types of their bodies.
func Document() []byte {
	d := documenter{schemas: map[string]any{}}
	paths := map[string]map[string]any{}
	for _, rt := range routes() {
		if paths[rt.path] == nil {
			paths[rt.path] = map[string]any{}
		}
		paths[rt.path][strings.ToLower(rt.method)] = d.operation(&rt)
	}
	d.schema(reflect.TypeFor[Problem]())
	text, err := json.MarshalIndent(map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{
			"title": "Weir's admin API", "version": "v1",
			"description": "What a running Weir does, and how to step in. GET changes nothing; every change is in the audit log. " +
				"Where no token is configured, which is possible on loopback only, none is needed.",
		},
		"security":   []any{map[string]any{"bearer": []any{}}},
		"paths":      paths,
		"components": map[string]any{"schemas": d.schemas, "securitySchemes": map[string]any{"bearer": map[string]any{"type": "http", "scheme": "bearer"}}},
	}, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("admin: the OpenAPI document: %v", err)) // it is made of maps and texts
	}
	return append(text, '\n')
}

// A documenter gathers the schemas of the types that it meets.
type documenter struct{ schemas map[string]any }

func (d *documenter) operation(rt *route) map[string]any {
	status := rt.status
	if status == 0 {
		status = 200
	}
	good := map[string]any{"description": "done"}
	switch {
	case rt.answer != nil:
		good["content"] = content("application/json", d.schema(reflect.TypeOf(rt.answer)))
	case strings.HasSuffix(rt.path, "/events"):
		good["content"] = content("text/event-stream", map[string]any{"type": "string"})
	}
	answers := map[string]any{
		fmt.Sprint(status): good,
		"default":          map[string]any{"description": "why not", "content": content("application/problem+json", ref("Problem"))},
	}
	op := map[string]any{"summary": rt.summary, "operationId": rt.id(), "responses": answers}
	if rt.access == changes {
		op["description"] = "Needs the admin token."
	}
	if parameters := rt.parameters(); len(parameters) > 0 {
		op["parameters"] = parameters
	}
	if rt.body != nil {
		op["requestBody"] = map[string]any{"content": content("application/json", d.schema(reflect.TypeOf(rt.body)))}
	}
	return op
}

// id names an operation for generators of clients: getTop, deleteClients.
func (rt *route) id() string {
	name := strings.TrimPrefix(rt.path, "/api/v1/")
	name, rest, _ := strings.Cut(strings.TrimSuffix(name, ".json"), "/")
	if rest != "" {
		name = strings.TrimSuffix(name, "s") // one of them
	}
	return strings.ToLower(rt.method) + strings.ToUpper(name[:1]) + name[1:]
}

// names are the parameters of the path.
func (rt *route) names() []string {
	var names []string
	for segment := range strings.SplitSeq(rt.path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			names = append(names, strings.TrimSuffix(name, "}"))
		}
	}
	return names
}

// parameters are those of the path, then those of the query.
func (rt *route) parameters() []any {
	var list []any
	for _, name := range rt.names() {
		list = append(list, map[string]any{"name": name, "in": "path", "required": true, "schema": map[string]any{"type": "string"}})
	}
	for _, p := range rt.query {
		list = append(list, map[string]any{"name": p.name, "in": "query", "description": p.doc, "schema": p.schema()})
	}
	return list
}

func (p *parameter) schema() map[string]any {
	switch {
	case p.enum != nil:
		return map[string]any{"type": "string", "enum": p.enum, "default": p.enum[0]}
	case p.number != nil:
		return map[string]any{"type": "integer", "minimum": p.number.least, "maximum": p.number.most, "default": p.number.otherwise}
	}
	return map[string]any{"type": "string", "maxLength": mostText}
}

func content(kind string, schema any) map[string]any {
	return map[string]any{kind: map[string]any{"schema": schema}}
}

func ref(name string) map[string]any { return map[string]any{"$ref": "#/components/schemas/" + name} }

// schema returns the schema of a type, which for a struct is a reference.
func (d *documenter) schema(t reflect.Type) map[string]any {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case t.Kind() == reflect.Struct:
		return d.object(t)
	case t.Kind() == reflect.Pointer:
		return map[string]any{"anyOf": []any{d.schema(t.Elem()), map[string]any{"type": "null"}}}
	case t.Kind() == reflect.Slice:
		return map[string]any{"type": "array", "items": d.schema(t.Elem())}
	case t.Kind() == reflect.Interface:
		return map[string]any{}
	case t.Kind() == reflect.String:
		return map[string]any{"type": "string"}
	case t.Kind() == reflect.Bool:
		return map[string]any{"type": "boolean"}
	case t.Kind() == reflect.Float64:
		return map[string]any{"type": "number"}
	}
	return map[string]any{"type": "integer"}
}

// object adds the schema of a struct, if it is not there yet, and returns a reference to it.
func (d *documenter) object(t reflect.Type) map[string]any {
	name := nameOf(t)
	if d.schemas[name] != nil {
		return ref(name)
	}
	d.schemas[name] = true // it may refer to itself
	properties, required := map[string]any{}, map[string]bool{}
	d.fields(t, properties, required)
	d.schemas[name] = map[string]any{
		"type": "object", "properties": properties, "required": slices.Sorted(maps.Keys(required)), "additionalProperties": false,
	}
	return ref(name)
}

// nameOf returns what a type is called in the document. Those of other packages keep their package's name
// where ours would have the same.
func nameOf(t reflect.Type) string {
	if t.PkgPath() == reflect.TypeFor[Problem]().PkgPath() {
		return t.Name()
	}
	pkg := t.PkgPath()[strings.LastIndexByte(t.PkgPath(), '/')+1:]
	return strings.ToUpper(pkg[:1]) + pkg[1:] + t.Name()
}

// fields adds the fields of a struct as encoding/json writes them, those of embedded structs among them.
func (d *documenter) fields(t reflect.Type, properties map[string]any, required map[string]bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			d.fields(f.Type, properties, required)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		schema := d.schema(f.Type)
		if doc := f.Tag.Get("doc"); doc != "" {
			schema["description"] = doc
		}
		properties[name] = schema
		if options != "omitempty" && options != "omitzero" {
			required[name] = true
		}
	}
}
