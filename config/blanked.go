package config

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"
)

// blank stands for a secret that is set.
const blank = "(blanked)"

// Blanked returns the configuration in force as YAML: every key with its value or its default, and
// secrets blanked. Parse reads it again.
func (c *Config) Blanked() ([]byte, error) {
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(section(reflect.ValueOf(c.filled()).Elem(), false)); err != nil {
		return nil, fmt.Errorf("configuration as YAML: %w", err)
	}
	return b.Bytes(), nil
}

// Hash identifies a configuration in force, whatever its spelling and its secrets: SHA-256, in hex digits.
func (c *Config) Hash() (string, error) {
	text, err := c.Blanked()
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

// filled returns a copy of c in which rules and limits say what they leave to a default.
func (c *Config) filled() *Config {
	full := *c
	full.Limits, full.Default.Limits = filledLimits(c.Limits), filledLimits(c.Default.Limits)
	full.Default.Mode, full.Default.Action = cmp.Or(c.Default.Mode, "enforce"), cmp.Or(c.Default.Action, "reject")
	full.Plans = filledPlans(c.Plans)
	full.Rules = slices.Clone(c.Rules)
	for i := range full.Rules {
		r := &full.Rules[i]
		r.Limits = filledLimits(r.Limits)
		r.Mode, r.Action = cmp.Or(r.Mode, "enforce"), cmp.Or(r.Action, "reject")
		r.OnFailure, r.Body = cmp.Or(r.OnFailure, c.Store.OnFailure), cmp.Or(r.Body, "inspect")
		if r.Cost == nil {
			r.Cost = new(int64(1))
		}
		if r.Action == "tag" {
			r.TagHeader = cmp.Or(r.TagHeader, "X-Weir-Tag")
		}
		if r.Action != "tarpit" {
			r.Tarpit = Tarpit{}
		}
	}
	return &full
}

func filledPlans(plans map[string]Plan) map[string]Plan {
	plans = maps.Clone(plans)
	for name, p := range plans {
		p.Limits = slices.Clone(p.Limits)
		for i := range p.Limits {
			p.Limits[i].Limit.fill()
		}
		if len(p.Quota) > 0 {
			p.Timezone = cmp.Or(p.Timezone, "UTC")
		}
		plans[name] = p
	}
	return plans
}

func filledLimits(limits []Limit) []Limit {
	limits = slices.Clone(limits)
	for i := range limits {
		limits[i].fill()
	}
	return limits
}

// fill writes down what l leaves to a default.
func (l *Limit) fill() {
	if len(l.Per) == 0 {
		l.Per = List{"client"}
	}
	if l.Rate != nil {
		l.Algorithm = cmp.Or(l.Algorithm, "sliding_window")
	}
	if l.Quota != nil {
		l.Timezone = cmp.Or(l.Timezone, "UTC")
	}
	if l.Algorithm == "token_bucket" && l.Burst == nil && l.Rate != nil {
		l.Burst = new(l.Rate.N)
	}
}

// tree returns v as YAML. brief leaves out what is empty, as items of lists do.
func tree(v reflect.Value, brief bool) *yaml.Node {
	if text, ok := v.Interface().(encoding.TextMarshaler); ok && v.Kind() != reflect.Pointer {
		b, _ := text.MarshalText() // ours never fail
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: string(b)}
	}
	switch v.Kind() {
	case reflect.Pointer:
		return tree(v.Elem(), brief)
	case reflect.Struct:
		return section(v, brief)
	case reflect.Map:
		return table(v)
	case reflect.Slice:
		list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		if v.Len() == 0 {
			list.Style = yaml.FlowStyle
		}
		for i := range v.Len() {
			list.Content = append(list.Content, tree(v.Index(i), true))
		}
		return list
	case reflect.String:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: escaped(v.String())}
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(v.Interface())}
}

// section returns the struct v as a mapping.
func section(v reflect.Value, brief bool) *yaml.Node {
	mapping := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for _, f := range fieldsOf(v) {
		empty := f.value.IsZero() && (brief || len(f.enum) > 0 || f.value.Kind() == reflect.Pointer)
		if empty {
			continue
		}
		mapping.Content = append(mapping.Content, word(f.key), tree(f.value, brief))
	}
	return mapping
}

// table returns the map v as a mapping, in the order of its keys.
func table(v reflect.Value) *yaml.Node {
	mapping := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	lines := map[string]*yaml.Node{}
	for _, key := range v.MapKeys() {
		lines[fmt.Sprint(key.Interface())] = tree(v.MapIndex(key), true)
	}
	for _, key := range slices.Sorted(maps.Keys(lines)) {
		mapping.Content = append(mapping.Content, word(key), lines[key])
	}
	if len(lines) == 0 {
		mapping.Style = yaml.FlowStyle
	}
	return mapping
}

func word(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }
