package manifests_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// load reads compose.yaml as docker compose does: against the schema of the specification, with references
// between services, networks, volumes and secrets resolved.
func load(t *testing.T, edit func(string) string) (*types.Project, error) {
	t.Helper()
	text, err := os.ReadFile("../compose/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  "../compose",
		ConfigFiles: []types.ConfigFile{{Filename: "compose.yaml", Content: []byte(edit(string(text)))}},
		Environment: types.Mapping{},
	})
}

func TestComposeIsValid(t *testing.T) {
	project, err := load(t, func(s string) string { return s })
	if err != nil {
		t.Fatal(err)
	}
	if names := project.ServiceNames(); !slices.Equal(names, []string{"app", "caddy", "redis", "weir"}) {
		t.Errorf("services: %v", names)
	}
	weir := project.Services["weir"]
	if !weir.ReadOnly || !slices.Equal(weir.CapDrop, []string{"ALL"}) || weir.Privileged {
		t.Errorf("weir is not shut in: %+v", weir)
	}
	for _, p := range weir.Ports {
		if p.HostIP != "127.0.0.1" {
			t.Errorf("port %s of weir is open to the world", p.Published)
		}
	}
	if len(project.Services["redis"].Ports) > 0 || !project.Networks["store"].Internal {
		t.Error("Redis can be reached from outside")
	}
	if site := project.Services["caddy"].Environment["SITE"]; site == nil || *site != ":80" {
		t.Errorf("SITE is %v, want :80 where nobody says otherwise", site)
	}
}

func TestComposeIsReadStrictly(t *testing.T) {
	for _, edit := range [][2]string{{"read_only:", "readonly:"}, {"networks: [front, store]", "networks: [front, stor]"}, {"stop_grace_period: 40s", "stop_grace_period: soon"}} {
		if _, err := load(t, func(s string) string { return strings.Replace(s, edit[0], edit[1], 1) }); err == nil {
			t.Errorf("%s is accepted", edit[1])
		}
	}
}
