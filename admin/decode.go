package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// decode reads one JSON value into v. A field that v lacks is an error, and one that is there twice, too: of two, one
// reader takes the first and another one the last (RFC 8259 section 4).
func decode(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return misread(text, v, err)
	}
	if _, more := d.Token(); more != io.EOF {
		return errors.New("more than one value")
	}
	return once(json.NewDecoder(bytes.NewReader(text)))
}

// misread returns an error that names the field whose own reading failed; times alone have one.
func misread(text []byte, v any, err error) error {
	fields := map[string]json.RawMessage{}
	if strings.HasPrefix(err.Error(), "json: ") || json.Unmarshal(text, &fields) != nil {
		return err
	}
	for name, value := range fields {
		alone, _ := json.Marshal(map[string]json.RawMessage{name: value}) // it was sound before
		if json.Unmarshal(alone, v) != nil {
			return fmt.Errorf("%s: want a time, as in 2027-01-31T12:00:00Z", name)
		}
	}
	return err
}

// once returns an error if an object within the next value, which is sound, has a field twice. Fields are the same as
// encoding/json has it, whatever their case, as Unicode folds it: ſ is s.
func once(d *json.Decoder) error {
	begins, err := d.Token()
	if err != nil {
		return err
	}
	var seen []string // no more than there are fields to know
	for (begins == json.Delim('{') || begins == json.Delim('[')) && d.More() {
		if begins == json.Delim('{') {
			name, err := d.Token()
			if err != nil {
				return err
			}
			text := fmt.Sprint(name)
			if slices.ContainsFunc(seen, func(other string) bool { return strings.EqualFold(text, other) }) {
				return fmt.Errorf("%s: given twice", text)
			}
			seen = append(seen, text)
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
