package descriptors

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/weirgate/weir/internal/racing"
)

// accepts says whether a document is a configuration, from the rules as they are written down: first what
// may stand anywhere, then what each place wants. It shares no code with the reader.
func accepts(doc any) bool {
	root, ok := doc.(map[string]any)
	return ok && anywhere(root) && single(root["domain"]) != "" && fits(root["domain"]) && list(root["descriptors"])
}

const everyKey = " domain descriptors key value rate_limit unit requests_per_unit unlimited name replaces shadow_mode " +
	"quota_mode detailed_metric value_to_metric share_threshold metadata "

// anywhere reports whether m holds nothing that is wrong wherever it stands.
func anywhere(m map[string]any) bool {
	for key, value := range m {
		if !strings.Contains(everyKey, " "+key+" ") {
			return false
		}
		if key == "metadata" {
			continue
		}
		switch v := value.(type) {
		case float64:
			return false
		case map[string]any:
			if !anywhere(v) {
				return false
			}
		case []any:
			for _, item := range v {
				if inner, ok := item.(map[string]any); !ok || !anywhere(inner) {
					return false
				}
			}
		}
	}
	return true
}

// single is the text of a single value, fits whether v is one or nothing.
func single(v any) string {
	if v == nil || !fits(v) {
		return ""
	}
	return fmt.Sprint(v)
}

func fits(v any) bool {
	switch v.(type) {
	case nil, string, int, bool:
		return true
	}
	return false
}

func isFlag(v any) bool {
	_, ok := v.(bool)
	return ok || v == nil
}

// list reports whether v is a list of sound descriptors, each once.
func list(v any) bool {
	if v == nil {
		return true
	}
	all, ok := v.([]any)
	seen := map[string]bool{}
	for _, item := range all {
		d := item.(map[string]any)
		text := single(d["key"])
		if value := single(d["value"]); value != "" {
			text += "_" + value
		}
		shares, _ := d["share_threshold"].(bool)
		ok = ok && !seen[text] && single(d["key"]) != "" && (!shares || strings.Contains(text, "*")) && sound(d)
		seen[text] = true
	}
	return ok
}

func sound(d map[string]any) bool {
	_, hasMetadata := d["metadata"].(map[string]any)
	return fits(d["key"]) && fits(d["value"]) && isFlag(d["shadow_mode"]) && isFlag(d["quota_mode"]) && isFlag(d["detailed_metric"]) &&
		isFlag(d["value_to_metric"]) && isFlag(d["share_threshold"]) && (hasMetadata || d["metadata"] == nil) &&
		limit(d["rate_limit"]) && list(d["descriptors"])
}

func limit(v any) bool {
	if v == nil {
		return true
	}
	l, ok := v.(map[string]any)
	if !ok || !fits(l["unit"]) || !isFlag(l["unlimited"]) || !fits(l["name"]) || !number(l["requests_per_unit"]) {
		return false
	}
	known := strings.Contains(" second minute hour day week month year ", " "+strings.ToLower(single(l["unit"]))+" ") && single(l["unit"]) != ""
	unlimited, _ := l["unlimited"].(bool)
	return known != unlimited && replaces(l["replaces"], single(l["name"]))
}

func number(v any) bool {
	n, ok := v.(int)
	return v == nil || ok && n >= 0 && n <= 4294967295
}

func replaces(v any, own string) bool {
	all, ok := v.([]any)
	for _, item := range all {
		name := item.(map[string]any)["name"]
		ok = ok && fits(name) && single(name) != "" && single(name) != own
	}
	return ok || v == nil
}

// document makes one that is sound but for a few strange values at odd places.
func (r dice) document() map[string]any {
	d := map[string]any{"domain": "d", "descriptors": r.descriptorList(2)}
	r.spoil(d, 6)
	return d
}

func (r dice) descriptorList(depth int) []any {
	all := []any{}
	for range r.IntN(3) {
		d := map[string]any{"key": r.key() + r.letters(), "value": r.value()}
		if r.one(2) {
			d["rate_limit"] = r.limitMap()
		}
		if r.one(4) {
			d["share_threshold"], d["shadow_mode"], d["metadata"] = r.one(2), true, map[string]any{"any": 1.5, "thing": []any{nil, "x"}}
		}
		if depth > 1 && r.one(2) {
			d["descriptors"] = r.descriptorList(depth - 1)
		}
		r.spoil(d, 6)
		all = append(all, d)
	}
	return all
}

func (r dice) limitMap() map[string]any {
	l := map[string]any{"unit": r.of("second", "Hour", "DAY"), "requests_per_unit": r.IntN(1000), "name": r.of("n", "m")}
	if r.one(6) {
		l = map[string]any{"unlimited": true, "unit": r.of("", "day", "parsec")}
	}
	if r.one(4) {
		l["replaces"] = []any{map[string]any{"name": r.of("o", "p", "n", "")}}
	}
	r.spoil(l, 6)
	return l
}

// spoil puts something strange into m, once in so many times.
func (r dice) spoil(m map[string]any, times int) {
	if !r.one(times) {
		return
	}
	keys := append(strings.Fields(everyKey), "rate_limits", "burst", "algorithm")
	values := []any{nil, "", "x", 3, -1, 4294967296, 1.5, true, []any{}, []any{"x"}, []any{map[string]any{"name": "q"}}, []any{map[string]any{"x": 1}},
		map[string]any{}, map[string]any{"unit": "day"}, map[string]any{"key": 2.5}}
	m[keys[r.IntN(len(keys))]] = values[r.IntN(len(values))]
}

// What the written rules accept is accepted, and what they refuse is refused, in 10,000 random documents.
func TestReaderAcceptsWhatTheRulesDo(t *testing.T) {
	racing.Skip(t)
	r := dice{newRand(3)}
	accepted := 0
	const documents = 10_000
	for range documents {
		doc := r.document()
		text, err := json.Marshal(doc) // JSON is YAML
		if err != nil {
			t.Fatal(err)
		}
		set, problems := Parse([]Source{{"f", text}}, Options{})
		want := accepts(doc)
		if got := set != nil; got != want {
			t.Fatalf("accepted %v, want %v: %v\n%s", got, want, problems, text)
		}
		if want {
			accepted++
		}
	}
	if accepted < documents/4 || accepted > documents*3/4 {
		t.Errorf("%d of %d were accepted, want a mixture", accepted, documents)
	}
}
