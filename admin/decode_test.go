package admin

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// Each says which field is meant, in words of JSON.
func TestDecode(t *testing.T) {
	for text, want := range map[string]string{
		`{"name": "a", "scopes": ["b"], "expires": "2027-01-31T12:00:00Z"}`: "",
		` {"name": "a"} `:                 "",
		`{}`:                              "",
		`null`:                            "",
		`{"name": "a", "name": "b"}`:      "name: given twice",
		`{"name": "a", "NAME": "b"}`:      "NAME: given twice",
		`{"name": "a", "n\u0061me": "b"}`: "name: given twice",
		`{"reason": "a", "reaſon": "b"}`:  "reaſon: given twice",
		`{"name": 1}`:                     "json: cannot unmarshal number into Go struct field NewKey.name of type string",
		`{"expires": "soon"}`:             "expires: want a time, as in 2027-01-31T12:00:00Z",
		`{"reason": "x", "expires": 1}`:   "expires: want a time, as in 2027-01-31T12:00:00Z",
		`{"secret": "x"}`:                 `json: unknown field "secret"`,
		`{} {}`:                           "more than one value",
		`{"scopes": [` + strings.Repeat("[", 10001): "exceeded max depth",
		`{"name": "a"`: "unexpected EOF",
		``:             "EOF",
		`{"scopes": ["a", {"b": {}, "b": {}}], "c": [1]}`: "json: cannot unmarshal object into Go struct field NewKey.scopes of type string",
	} {
		err := decode([]byte(text), new(NewKey))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %s", text, err, want)
		}
	}
	within := `{"headers": [{"name": "a", "value": "b"}, {"name": "a", "value": "b", "name": "c"}]}`
	if err := decode([]byte(within), new(Question)); err == nil || err.Error() != "name: given twice" {
		t.Errorf("a field of one of a list: %v", err)
	}
}

// What is taken is what encoding/json makes of it, and nothing that it would have taken otherwise from another order.
func FuzzDecode(f *testing.F) {
	f.Add(`{"name": "a", "owner": "b", "scopes": ["c"], "expires": "2027-01-31T12:00:00Z", "reason": "d"}`)
	f.Add(`{"name": "a", "NAME": "b"}`)
	f.Add(`{"reason": "a", "reaſon": "b"}`)
	f.Add(`{"expires": "9999-12-31T23:59:59-23:59"}`)
	f.Add(`[{"name": {}}, null]`)
	f.Fuzz(func(t *testing.T, text string) {
		var got, want NewKey
		if decode([]byte(text), &got) != nil {
			return
		}
		if err := json.Unmarshal([]byte(text), &want); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, want %+v: %v", text, got, want, err)
		}
		fields := map[string]json.RawMessage{}
		if err := json.Unmarshal([]byte(text), &fields); err != nil || len(fields) > reflect.TypeFor[NewKey]().NumField() {
			t.Errorf("%q was taken with %d fields: %v", text, len(fields), err)
		}
	})
}
