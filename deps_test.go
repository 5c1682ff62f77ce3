package weir_test

import (
	"os"
	"regexp"
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
	gap := regexp.MustCompile(` {2,}`)
	var want []string
	for line := range strings.Lines(string(file)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		columns := gap.Split(strings.TrimSpace(line), -1)
		if len(columns) != 4 {
			t.Errorf("%q: want module, licence, who wants it, what for", line)
		}
		want = append(want, columns[0])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("dependencies.txt is not what the binary is made of (-listed +linked):\n%s", diff)
	}
}

// TestNobodyExecutesTemplates keeps the binary small: a template may call any method by its name, so where one is executed
// the linker keeps every exported method of every package, ten megabytes of them.
func TestNobodyExecutesTemplates(t *testing.T) {
	for name, p := range goList(t, "-deps", "./cmd/weir") {
		ours := p.Module != nil && p.Module.Path == module
		if ours && (slices.Contains(p.Imports, "text/template") || slices.Contains(p.Imports, "html/template")) {
			t.Errorf("%s imports a template package: write by calls, as replay does", name)
		}
	}
}
