package config

import "testing"

// Keys are read where the file speaks of them, and nowhere else: the service may have keys of its own.
func TestReadsKeys(t *testing.T) {
	for text, want := range map[string]bool{
		"":                                   false,
		"listen: ':1'":                       false,
		"keys: {}":                           true,
		"keys: {header: X-Key}":              true,
		"allow: [{cidr: 192.0.2.1}]":         false,
		"keys: {header: ''}":                 false,
		"keys: {header: '', bearer: true}":   true,
		"plans: {free: {quota: [1000/day]}}": true,
		"rules: [{name: a, path: /a, require_key: true}]":            true,
		"rules: [{name: a, path: /a, scopes: [read]}]":               true,
		"{plans: {free: {}}, jwt: {jwks_file: keys.json}}":           false,
		"{plans: {free: {}}, jwt: {jwks_file: keys.json}, keys: {}}": true,
	} {
		c, _ := Parse("weir.yaml", []byte(text), nil)
		if got := c.ReadsKeys(); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	c, _ := Parse("weir.yaml", nil, []string{"WEIR_KEYS_BEARER=true"})
	if !c.ReadsKeys() {
		t.Error("the environment speaks of them, and they are not read")
	}
}

func TestWantKeyHeader(t *testing.T) {
	for _, name := range []string{"X-API-Key", "api-key", "X-Key"} {
		if want := wantKeyHeader(name); want != "" {
			t.Errorf("%s: %s", name, want)
		}
	}
	for _, name := range []string{"", "a b", "authorization", "Cookie", "content-length", "X-Forwarded-For", "x-weir-key-id"} {
		if wantKeyHeader(name) == "" {
			t.Errorf("%s passes", name)
		}
	}
}
