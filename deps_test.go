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
