package config

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func valueOf(c *Config) reflect.Value { return reflect.ValueOf(c).Elem() }

func TestEnvironmentOverridesTheFile(t *testing.T) {
	file := "listen: \":1\"\nupstream: http://a.example\nserver: {drain: 1s}\nclient: {trusted_proxies: [10.0.0.0/8]}\n"
	c, problems := Parse("weir.yaml", []byte(file), []string{
		"WEIR_LISTEN=:2", "WEIR_LISTEN=:8080", "PATH=/bin", "WEIR_ENABLED=false", "WEIR_SERVER_DRAIN=5s", "WEIR_SERVER_MAX_HEADER=32768",
		"WEIR_WAF_ENABLED=false", "WEIR_STORE_REPLICAS=3", "WEIR_CLIENT_TRUSTED_PROXIES=", "WEIR_CLIENT_PATH=cloudflare, nginx",
		"WEIR_EXEMPT_ADDRESSES=192.0.2.1,192.0.2.2", "WEIR_ADMIN=:9090", "WEIR_ADMIN_TOKEN=", "WEIR_ADMIN_TOKEN_FILE=testdata/token",
	})
	want := Default()
	want.Listen, want.Upstream, want.Enabled = ":8080", "http://a.example", false
	want.Server.Drain, want.Server.MaxHeader = Duration(5*time.Second), 32<<10
	want.WAF.Enabled, want.Store.Replicas = false, 3
	want.Client.TrustedProxies, want.Client.Path = []string{}, []Hop{{Name: "cloudflare"}, {Name: "nginx"}}
	want.ExemptAddresses = []string{"192.0.2.1", "192.0.2.2"}
	want.Admin, want.AdminToken = ":9090", "s3cret"
	if d := cmp.Diff(want, c, sameValues()); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	suspicious := `environment: warning: WEIR_ENABLED: false: nothing is limited, inspected or banned: remove it where this is not meant
environment: warning: WEIR_ADMIN_TOKEN_FILE: shorter than 16 characters, so it may be guessed: take what openssl rand -hex 32 prints
`
	if got := lines(problems); got != suspicious {
		t.Errorf("got\n%swant\n%s", got, suspicious)
	}
}

// A variable's mistake is told by its name; the file's own mistakes are still told.
func TestEnvironmentProblems(t *testing.T) {
	_, problems := Parse("weir.yaml", []byte("html: 3\nadmin_token: from-the-file\ndata_dir: ${WEIR_HOME}\n"), []string{
		"WEIR_HOME=/srv/weir", // used by the file
		"WEIR_ENABLED=perhaps", "WEIR_STORE_REDIS_URL=redis://:hush@10.0.0.1", "WEIR_UPSTREAM=localhost", "WEIR_SERVER_DRAIN=30",
		"WEIR_HEADERS=drafts", "WEIR_LISTENN=:80", "WEIR_CONFIG=/etc/weir.yaml", "WEIR_ADMIN_TOKEN=a", "WEIR_ADMIN_TOKEN_FILE=testdata/token",
		"WEIR_ADMIN_READ_TOKEN_FILE=testdata/nowhere", "WEIR_EXEMPT_ADDRESSES=office", "WEIR_WAF_MAX_DEPTH=", "WEIR_HTML=",
	})
	compareWant(t, "testdata/environment.want", lines(problems))
}

// No two fields share a variable.
func TestVariablesAreUnique(t *testing.T) {
	seen := map[string]string{}
	var walk func(v reflect.Value, path string)
	walk = func(v reflect.Value, path string) {
		for _, f := range fieldsOf(v) {
			at := join(path, f.key)
			if f.value.Kind() == reflect.Struct && !isText(f.value.Type()) {
				walk(f.value, at)
				continue
			}
			for _, name := range append([]string{Variable(at)}, twins(f, at)...) {
				if other, ok := seen[name]; ok {
					t.Errorf("%s is the variable of %s and %s", name, other, at)
				}
				seen[name] = at
			}
		}
	}
	walk(valueOf(Default()), "")
}

func twins(f field, at string) []string {
	if !f.secret {
		return nil
	}
	return []string{Variable(at) + "_FILE"}
}

func TestExpand(t *testing.T) {
	env := map[string]string{"A": "1", "EMPTY": "", "NAME": "x ${A}"}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	for _, c := range []struct{ text, want string }{
		{"", ""}, {"plain $A {A} }", "plain $A {A} }"}, {"${A}", "1"}, {"a${A}b${A}c", "a1b1c"},
		{"${EMPTY}", ""}, {"${EMPTY:-x}", "x"}, {"${NONE:-}", ""}, {"${NONE:-a:-b}", "a:-b"}, {"${A:-x}", "1"},
		{"$${A}", "${A}"}, {"$$${A}", "$${A}"}, {"$${A", "${A"}, {"${NAME}", "x ${A}"}, // a value is not expanded again
	} {
		got, err := expand(c.text, lookup)
		if err != nil || got != c.want {
			t.Errorf("%s: got %q, %v, want %q", c.text, got, err, c.want)
		}
	}
	for _, text := range []string{"${", "${A", "${}", "${1}", "${A B}", "${A-x}", "${NONE}", "${A:-${A}}", "x${:-y}"} {
		if got, err := expand(text, lookup); err == nil {
			t.Errorf("%s: got %q, want an error", text, got)
		}
	}
}

func FuzzExpand(f *testing.F) {
	for _, text := range []string{"${A}", "$${A}", "${A:-b}", "a$b", "${", "$$${"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := expand(escaped(text), func(string) (string, bool) { return "", false })
		if err != nil || got != text {
			t.Errorf("%q escaped: got %q, %v", text, got, err)
		}
		_, _ = expand(text, func(string) (string, bool) { return text, true })
	})
}

// A Service of Kubernetes that is called weir sets variables that look like settings, in every container of its
// namespace: nobody can unset them one by one, and they mean nothing here. Only a real Service's are passed over.
func TestServiceLinksArePassedOver(t *testing.T) {
	file := []byte("listen: \":80\"\nupstream: http://a.example\n")
	links := []string{
		"WEIR_SERVICE_HOST=10.0.0.1", "WEIR_SERVICE_PORT=80", "WEIR_SERVICE_PORT_HTTP=80", "WEIR_PORT=tcp://10.0.0.1:80",
		"WEIR_PORT_80_TCP=tcp://10.0.0.1:80", "WEIR_PORT_80_TCP_PROTO=tcp", "WEIR_PORT_80_TCP_PORT=80", "WEIR_PORT_80_TCP_ADDR=10.0.0.1",
		"WEIR_ADMIN_SERVICE_HOST=10.0.0.2", "WEIR_ADMIN_PORT=tcp://10.0.0.2:9090", "WEIR_ADMIN_PORT_9090_UDP_ADDR=10.0.0.2",
	}
	if _, problems := Parse("weir.yaml", file, links); len(problems) > 0 {
		t.Errorf("%s", lines(problems))
	}
	want := "environment: warning: WEIR_PORT: no such setting: unset it\n" +
		"environment: warning: WEIR_SERVICE_HOSTS: no such setting: unset it\n"
	if _, problems := Parse("weir.yaml", file, []string{"WEIR_PORT=80", "WEIR_SERVICE_HOSTS=a", "WEIR_ADMIN_SERVICE_HOST=10.0.0.2"}); lines(problems) != want {
		t.Errorf("got\n%swant\n%s", lines(problems), want)
	}
}
