package config

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"text/template"

	"go.yaml.in/yaml/v3"
)

// told is a configuration in which every secret is hush.
func told() *Config {
	c := Default()
	c.AdminToken, c.AdminReadToken, c.Store.Redis.URL, c.Store.Redis.Password, c.Keys.PostgresURL = "hush", "hush", "redis://:hush@10.0.0.1", "hush", "postgres://u:hush@10.0.0.1"
	return c
}

// No way of writing a configuration, as a whole or by its fields, shows a secret.
func TestSecretsCannotBePrinted(t *testing.T) {
	c := told()
	written := map[string]string{}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%10s"} {
		written[verb] = fmt.Sprintf(verb, c) + fmt.Sprintf(verb, *c) + fmt.Sprintf(verb, c.AdminToken) + fmt.Sprintf(verb, []Secret{c.AdminToken})
	}
	written["print"] = fmt.Sprint(c, c.AdminToken) + fmt.Sprintln(&c.AdminToken)
	for name, write := range map[string]func(*bytes.Buffer) error{
		"json": func(b *bytes.Buffer) error { return json.NewEncoder(b).Encode(c) },
		"yaml": func(b *bytes.Buffer) error { return yaml.NewEncoder(b).Encode(c) },
		"xml":  func(b *bytes.Buffer) error { return xml.NewEncoder(b).Encode(c.Store.Redis.Password) },
		"template": func(b *bytes.Buffer) error {
			return template.Must(template.New("").Parse("{{.}} {{.AdminToken}}")).Execute(b, c)
		},
		"slog, text": func(b *bytes.Buffer) error {
			slog.New(slog.NewTextHandler(b, nil)).Info("x", "config", c, "token", c.AdminToken, "all", slog.AnyValue(c.Store))
			return nil
		},
		"slog, json": func(b *bytes.Buffer) error {
			slog.New(slog.NewJSONHandler(b, nil)).Info("x", "config", c, "token", c.AdminToken, "all", slog.AnyValue(c.Store))
			return nil
		},
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		written[name] = b.String()
	}
	for name, text := range written {
		if strings.Contains(text, "hush") || strings.Contains(text, "68757368") {
			t.Errorf("%s shows a secret: %s", name, text)
		}
		if !strings.Contains(text, blank) {
			t.Errorf("%s does not say that there is one: %s", name, text)
		}
	}
}

// What is not there is not blanked, and what is there is still itself.
func TestSecretIsATextToWhomItIsTold(t *testing.T) {
	if got := fmt.Sprint(Secret("")); got != "" {
		t.Errorf("no secret is written as %q", got)
	}
	if got := string(told().AdminToken); got != "hush" {
		t.Errorf("a conversion gives %q", got)
	}
}

// Every field that is called as secrets are is one.
func TestSecretsAreSecrets(t *testing.T) {
	text, err := told().Blanked()
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), blank); n != 5 {
		t.Errorf("%d fields are blanked, want 5:\n%s", n, text)
	}
	c, problems := Parse("weir.yaml", []byte("admin_token: hush\nadmin_read_token: hush\nkeys: {postgres_url: \"postgres://hush\"}\nstore: {redis: {url: \"redis://:hush@x\", password: hush}}\n"), nil)
	if c.AdminToken != "hush" || c.Store.Redis.Password != "hush" || strings.Contains(fmt.Sprint(problems), "hush") {
		t.Errorf("%v, %q", problems, string(c.AdminToken))
	}
}
