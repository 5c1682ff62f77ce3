package config

import (
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
)

// Load reads and parses the file at path. An error means that it could not be read; what is wrong
// with its content are problems.
func Load(path string, env []string) (*Config, []Problem, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("configuration %w", cause(path, err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, nil, fmt.Errorf("configuration %w", cause(path, err))
	}
	c, problems := Parse(path, data, env)
	return c, problems, nil
}

// Parse returns the configuration that data and the environment env (KEY=VALUE, the last of a name
// counts) describe over Default, and every problem in the order of the file. file is what problems
// call it. The configuration is never nil, and not to be used if [HasErrors].
//
// Files that hold secrets are read; nothing else outside of data and env is.
func Parse(file string, data []byte, env []string) (*Config, []Problem) {
	c := Default()
	c.file, c.places = file, map[string]place{}
	variables := map[string]string{}
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		variables[name] = value
	}
	used := map[string]bool{}
	d := &decoder{config: c, lookup: func(name string) (string, bool) {
		used[name] = true
		value, ok := variables[name]
		return value, ok
	}}
	root, broken := scan(data)
	switch {
	case broken != nil:
		broken.File = file
		d.problems = append(d.problems, *broken)
	case root != nil:
		d.decode(root, reflect.ValueOf(c).Elem(), field{}, "", 0)
	}
	d.environ(variables, used)
	c.settle()
	if broken == nil {
		d.problems = append(d.problems, c.validate(d.problems)...)
	}
	SortProblems(d.problems)
	return c, d.problems
}
