package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/weirgate/weir/config"
)

const root = "../.."

func TestGeneratedFilesAreFresh(t *testing.T) {
	files, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is stale, %v: go run ./internal/docgen", name, err)
		}
	}
}

func TestEveryKeyIsExplained(t *testing.T) {
	notes, err := readComments(filepath.Join(root, "config"))
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Defs map[string]struct {
			AdditionalProperties any                        `json:"additionalProperties"`
			Properties           map[string]json.RawMessage `json:"properties"`
		} `json:"$defs"`
	}
	if err := json.Unmarshal(config.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	for name, def := range schema.Defs {
		if def.Properties == nil {
			continue
		}
		if notes[name] == "" || def.AdditionalProperties != false {
			t.Errorf("%s: comment %q, additionalProperties %v", name, notes[name], def.AdditionalProperties)
		}
		for key, property := range def.Properties {
			if !bytes.Contains(property, []byte(`"description"`)) || bytes.Contains(property, []byte(`"description": ""`)) {
				t.Errorf("%s.%s has no comment", name, key)
			}
		}
	}
}

func compile(t *testing.T) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(config.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("weir.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("weir.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// asJSON returns n as an editor hands YAML to a schema.
func asJSON(n *yaml.Node) any {
	switch n.Kind {
	case yaml.DocumentNode:
		return asJSON(n.Content[0])
	case yaml.AliasNode:
		return asJSON(n.Alias)
	case yaml.SequenceNode:
		list := []any{}
		for _, item := range n.Content {
			list = append(list, asJSON(item))
		}
		return list
	case yaml.MappingNode:
		return mappingAsJSON(n)
	}
	switch n.Tag {
	case "!!null":
		return nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true")
	case "!!int", "!!float":
		if _, err := strconv.ParseFloat(n.Value, 64); err == nil {
			return json.Number(n.Value)
		}
	}
	return n.Value
}

func mappingAsJSON(n *yaml.Node) any {
	mapping := map[string]any{}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i].Value, asJSON(n.Content[i+1])
		if merged, ok := value.(map[string]any); ok && key == "<<" {
			for k, v := range merged {
				if _, given := mapping[k]; !given {
					mapping[k] = v
				}
			}
			continue
		}
		mapping[key] = value
	}
	return mapping
}

func load(t *testing.T, name string) any {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, data)
}

func parse(t *testing.T, data []byte) any {
	t.Helper()
	var n yaml.Node
	if err := yaml.Unmarshal(data, &n); err != nil {
		t.Fatal(err)
	}
	if n.Kind == 0 {
		return nil
	}
	return asJSON(&n)
}

func TestSchemaAcceptsGoodFiles(t *testing.T) {
	schema := compile(t)
	names, err := filepath.Glob(filepath.Join(root, "config/testdata/good/*.yaml"))
	if err != nil || len(names) == 0 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	for _, name := range names {
		if err := schema.Validate(load(t, name)); err != nil {
			t.Errorf("%s: %v", filepath.Base(name), err)
		}
	}
}

// What takes no more than the shape to tell, an editor tells as it is typed.
func TestSchemaRejectsBadShapes(t *testing.T) {
	schema := compile(t)
	for _, name := range []string{
		"unknown-top", "unknown-hyphen", "unknown-everywhere", "unknown-misplaced", "unknown-case", "wrong-type", "wrong-type-number",
		"quoted", "no-value", "enum", "enum-case", "not-a-mapping", "only-text", "rate", "duration", "size", "multiple", "negative",
		"algorithm-concurrency", "secret-not-shown", "variable-in-key",
	} {
		if err := schema.Validate(load(t, filepath.Join(root, "config/testdata/bad", name+".yaml"))); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// The schema and the parser agree on every spelling, the bounds of numbers apart.
func TestSchemaSpellsAsTheParser(t *testing.T) {
	schema := compile(t)
	var texts []string
	for _, n := range []string{"60", "0", "-1", "1.5", "060", "", "x", "1_0", "0x1", "1e3", `"7"`, "${N:-5}", "~", "true", "a"} {
		for _, rest := range []string{"", "/1m", "/1", "/s", " per day", " per 1m30s", "/30s1m", "/minutes", " / 1m", "m", "ms", "d2h3ms", "KiB", "KB", "B/s", "KiB/s", "x", " s"} {
			if rest == "" && strings.Contains("060 1_0 0x1 1e3", n) && len(n) == 3 {
				continue // numbers to YAML; JSON does not know how they were written
			}
			texts = append(texts, n+rest)
		}
	}
	fields := []string{
		"limits: [{name: a, rate: %s}]", "server: {drain: %s}", "rules: [{name: a, path: /a, max_body: %s}]", "waf: {min_rate: %s}", "client: {ipv6_tiers: {48: %s}}",
		"client: {from_right: %s}", "html: %s", "data_dir: %s", "headers: %s", "limits: [{name: a, in_flight: %s}]", "limits: [{name: a, rate: 1/s, per: %s}]",
		"client: {path: [%s]}", "waf: {mask: [%s]}", "waf: {mask: %s}", "rules: %s", "matching: %s",
	}
	for _, field := range fields {
		for _, text := range texts {
			file := fmt.Sprintf(field, text)
			if strings.Contains(text, "${") {
				file = fmt.Sprintf(field, `"`+text+`"`)
			}
			var n yaml.Node
			if yaml.Unmarshal([]byte(file), &n) != nil {
				continue
			}
			want, judged := parsed(file)
			if got := schema.Validate(asJSON(&n)) == nil; judged && got != want {
				t.Errorf("%s: the schema accepts it: %t, the parser: %t", file, got, want)
			}
		}
	}
}

// parsed reports whether the parser accepts file's spelling, and whether that is a question of its
// shape: a value that breaks a rule beyond it is no business of the schema.
func parsed(file string) (ok, judged bool) {
	_, problems := config.Parse("", []byte(file), nil)
	for _, p := range problems {
		if p.Warning {
			continue
		}
		beyond := strings.HasPrefix(p.Cure, "want client, ip") || strings.Contains(p.Cure, "at most") || strings.Contains(p.Cure, "above zero") || strings.Contains(p.Cure, "s to 1d")
		return false, !beyond && !strings.Contains(file, "${")
	}
	return true, true
}

func TestReferenceNamesEveryVariable(t *testing.T) {
	reference, err := os.ReadFile(filepath.Join(root, "docs/configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| `redis` | [mapping](#storeredis) |", "`WEIR_STORE_REDIS_URL`", "`WEIR_WAF_ENABLED`", "`WEIR_ENABLED`", "`WEIR_CLIENT_PATH`",
		"| `drain` | duration | `30s` | `WEIR_SERVER_DRAIN` | How long requests may go on after SIGTERM. |",
		"| `quota` | quota |", "## `rules[].tarpit`", "| `action` | `reject`, `drop`, `tarpit`, `tag` | `reject` |",
	} {
		if !bytes.Contains(reference, []byte(want)) {
			t.Errorf("the reference lacks %s", want)
		}
	}
	if got, want := bytes.Count(reference, []byte("\n## `limits[]`")), 1; got != want {
		t.Errorf("limits are described %d times", got)
	}
}

func TestComments(t *testing.T) {
	dir := t.TempDir()
	source := "package x\n\n// A T is\n// one.\ntype T struct {\n\t// Of two\n\t// lines.\n\tA, B int `yaml:\"a\"`\n\tC int\n}\n"
	if err := os.WriteFile(filepath.Join(dir, "x.go"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := readComments(dir)
	want := comments{"T": "A T is one.", "T.A": "Of two lines.", "T.B": "Of two lines.", "T.C": ""}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v -want +got\n%s", err, d)
	}
}
