package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// decode reads one JSON value into v. A field that v lacks is an error, and one that is there twice, too: of two, one
// reader takes the first and another one the last (RFC 8259 section 4).
func decode(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, more := d.Token(); more != io.EOF {
		return errors.New("more than one value")
	}
	return once(json.NewDecoder(bytes.NewReader(text)))
}

// once returns an error if an object within the next value, which is sound, has a field twice. Fields are the same as
// encoding/json has it, whatever their case.
func once(d *json.Decoder) error {
	begins, err := d.Token()
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for (begins == json.Delim('{') || begins == json.Delim('[')) && d.More() {
		if begins == json.Delim('{') {
			name, err := d.Token()
			if err != nil {
				return err
			}
			folded := strings.ToLower(fmt.Sprint(name))
			if seen[folded] {
				return fmt.Errorf("%s: given twice", name)
			}
			seen[folded] = true
		}
		if err := once(d); err != nil {
			return err
		}
	}
	if begins == json.Delim('{') || begins == json.Delim('[') {
		_, err = d.Token() // what ends it
	}
	return err
}
