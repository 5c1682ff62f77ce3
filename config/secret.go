package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxSecret is the largest file of a secret, in bytes.
const maxSecret = 64 << 10

// A twin names the file that holds the secret at path.
type twin struct {
	value  *yaml.Node
	secret reflect.Value
	path   string
}

// twin reads the file that t names. An empty name is no file.
func (d *decoder) twin(t twin, depth int) {
	at := t.path + "_file"
	var name string
	d.decode(t.value, reflect.ValueOf(&name).Elem(), field{}, at, depth)
	if name == "" {
		return
	}
	if t.secret.String() != "" {
		d.problem(t.value, at, fmt.Sprintf("%s is given, too, on line %d", t.path, d.config.places[t.path].line), "keep one of the two")
		return
	}
	d.config.places[t.path] = d.config.places[at]
	secret, err := readSecret(name)
	if err != nil {
		d.problem(t.value, at, err.Error(), "want a readable file that holds the secret and nothing else")
		return
	}
	t.secret.SetString(secret)
}

// readSecret returns what the file holds, without the white space around it.
func readSecret(name string) (string, error) {
	data, err := readBounded(name, maxSecret)
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(data))
	if secret == "" {
		return "", fmt.Errorf("%s: the file is empty", shown(name))
	}
	return secret, nil
}

// readBounded reads a regular file of at most most bytes. Other kinds of file could be read for ever.
func readBounded(name string, most int64) ([]byte, error) {
	about, err := os.Stat(name)
	if err != nil {
		return nil, cause(name, err)
	}
	if !about.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", shown(name))
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, cause(name, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, cause(name, err)
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("%s: larger than %s", shown(name), Size(most))
	}
	return data, nil
}

// cause says once which file, and why.
func cause(name string, err error) error {
	var about *fs.PathError
	if errors.As(err, &about) {
		err = about.Err
	}
	return fmt.Errorf("%s: %w", shown(name), err)
}
