package extauthz

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	bootstrappb "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmpb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// The documented configuration of Envoy is one by Envoy's own definitions: no field is misspelt or out of its
// bounds, in what the filters are configured with as well.
func TestDocumentedEnvoy(t *testing.T) {
	page, err := os.ReadFile("../../docs/envoy-ext-authz.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(page), "```yaml other\n")
	text, _, _ = strings.Cut(text, "```")
	var tree any
	if err := yaml.Unmarshal([]byte(text), &tree); err != nil || !ok {
		t.Fatalf("no configuration of Envoy: %v", err)
	}
	asJSON, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	var b bootstrappb.Bootstrap
	if err := protojson.Unmarshal(asJSON, &b); err != nil {
		t.Fatal(err)
	}
	if err := b.ValidateAll(); err != nil {
		t.Error(err)
	}
	for _, l := range b.StaticResources.Listeners {
		for _, f := range l.FilterChains[0].Filters {
			for _, inner := range valid(t, f.GetTypedConfig()).(*hcmpb.HttpConnectionManager).HttpFilters {
				valid(t, inner.GetTypedConfig())
			}
		}
	}
	for _, c := range b.StaticResources.Clusters {
		for _, o := range c.TypedExtensionProtocolOptions {
			valid(t, o)
		}
	}
}

// valid returns what a holds.
func valid(t *testing.T, a *anypb.Any) proto.Message {
	t.Helper()
	m, err := a.UnmarshalNew()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.(interface{ ValidateAll() error }).ValidateAll(); err != nil {
		t.Error(err)
	}
	return m
}
