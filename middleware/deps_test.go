package middleware_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A program that embeds the middleware gets no other modules with it than these: no gRPC, Envoy, Redis, database or core rule set.
func TestDependencies(t *testing.T) {
	allowed := []string{
		"github.com/weirgate/weir", "go.yaml.in/yaml/v3", "google.golang.org/protobuf",
		"github.com/prometheus/client_golang", "github.com/prometheus/client_model", "github.com/prometheus/common",
		"github.com/prometheus/procfs", "github.com/beorn7/perks", "github.com/cespare/xxhash/v2", "github.com/munnerz/goautoneg",
		"golang.org/x/sys",
		"github.com/corazawaf/libinjection-go", "github.com/gaissmai/bart",
	}
	out, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for module := range strings.FieldsSeq(string(out)) {
		if !slices.Contains(allowed, module) {
			t.Errorf("middleware pulls in %s", module)
		}
	}
}
