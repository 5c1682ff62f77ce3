package weir_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDependencies keeps dependencies.txt, the modules that the binary is made of, true: a new one
// is a decision that somebody takes and reads, never a by-product.
func TestDependencies(t *testing.T) {
	var got []string
	for _, p := range goList(t, "-deps", "./cmd/weir") {
		if !p.Standard && p.Module != nil && p.Module.Path != module && !slices.Contains(got, p.Module.Path) {
			got = append(got, p.Module.Path)
		}
	}
	slices.Sort(got)
	file, err := os.ReadFile("dependencies.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Fields(string(file))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("dependencies.txt is not what the binary is made of (-listed +linked):\n%s", diff)
	}
}

// TestEmbeddable keeps the public middleware light: a program that embeds it gets no command line,
// no file watcher and no PROXY protocol with it.
func TestEmbeddable(t *testing.T) {
	heavy := []string{"github.com/spf13/cobra", "github.com/fsnotify/fsnotify", "github.com/pires/go-proxyproto", "google.golang.org/grpc",
		"github.com/redis/go-redis/v9", "go.etcd.io/bbolt"}
	for _, p := range goList(t, "-deps", "./middleware") {
		if p.Module != nil && slices.Contains(heavy, p.Module.Path) {
			t.Errorf("middleware pulls in %s", p.ImportPath)
		}
	}
}
