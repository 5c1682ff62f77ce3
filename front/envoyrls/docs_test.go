package envoyrls

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weirgate/weir/front/envoyrls/environment"
)

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/envoy-ratelimit.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// fence returns the block of the page that holds a text.
func fence(t *testing.T, holds string) string {
	t.Helper()
	for i, block := range strings.Split(page(t), "```") {
		if i%2 == 1 && strings.Contains(block, holds) {
			_, text, _ := strings.Cut(block, "\n")
			return text
		}
	}
	t.Fatalf("no block with %q", holds)
	return ""
}

// The filter of the page is one that Envoy knows, and the file one that is read.
func TestDocumentedFilterAndFile(t *testing.T) {
	var filter struct {
		TypedConfig map[string]any `yaml:"typed_config"`
	}
	if err := yaml.Unmarshal([]byte(fence(t, "envoy.filters.http.ratelimit")), &filter); err != nil {
		t.Fatal(err)
	}
	kind := filter.TypedConfig["@type"]
	delete(filter.TypedConfig, "@type")
	text, err := json.Marshal(filter.TypedConfig)
	if err != nil {
		t.Fatal(err)
	}
	f := new(filterv3.RateLimit)
	if err := protojson.Unmarshal(text, f); err != nil {
		t.Fatal(err)
	}
	if err := f.ValidateAll(); err != nil {
		t.Error(err)
	}
	if want := "type.googleapis.com/" + string(f.ProtoReflect().Descriptor().FullName()); kind != want {
		t.Errorf("type %v, want %s", kind, want)
	}
	if !f.RateLimitedAsResourceExhausted || f.FailureModeDeny {
		t.Error("the page says otherwise")
	}
	h := build(t, plan{yaml: fence(t, "domain: edge\ndescriptors")})
	ask := request(descriptor("path", "/login", "remote_address", "203.0.113.7"))
	if ask.Domain = f.Domain; h.passes(t, 11, ask) != 10 {
		t.Error("want 10 of 11 to pass")
	}
}

// Every variable that is read stands on the page, by its name or its family's.
func TestEveryVariableIsDocumented(t *testing.T) {
	text := page(t)
	var look func(reflect.Type, string)
	look = func(of reflect.Type, prefix string) {
		for field := range of.Fields() {
			name := prefix + field.Tag.Get("env")
			if name == prefix {
				if field.Type.Kind() == reflect.Struct {
					look(field.Type, prefix+field.Tag.Get("prefix"))
				}
				continue
			}
			family := ""
			for _, start := range []string{"CONFIG_GRPC_XDS_", "XDS_CLIENT_", "REDIS_TLS_", "REDIS_PERSECOND_"} {
				if strings.HasPrefix(name, start) {
					family = start + "…"
				}
			}
			if !strings.Contains(text, "`"+name+"`") && (family == "" || !strings.Contains(text, family)) {
				t.Errorf("%s is not documented", name)
			}
		}
	}
	look(reflect.TypeFor[environment.Settings](), "")
}
