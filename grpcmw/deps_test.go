package grpcmw_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A program that embeds the interceptors gets no other modules with it than these: no Envoy, Redis, WAF or database.
func TestDependencies(t *testing.T) {
	allowed := []string{
		"github.com/weirgate/weir", "go.yaml.in/yaml/v3", "google.golang.org/protobuf",
		"google.golang.org/grpc", "google.golang.org/genproto/googleapis/rpc", "golang.org/x/net", "golang.org/x/text", // grpc-go and its own
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
			t.Errorf("grpcmw pulls in %s", module)
		}
	}
}
