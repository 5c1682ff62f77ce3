package descriptors

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/config"
)

// lay makes files below a new folder, and returns the folder. A content that begins with -> is a link.
func lay(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		target, isLink := strings.CutPrefix(content, "-> ")
		if isLink {
			if err := os.Symlink(target, file); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// loaded returns the domains that are known, and what was said with dir left out.
func loaded(dir string, o Options, domains ...string) (known []string, lines []string) {
	set, problems := Load(dir, o)
	for _, d := range domains {
		var m Match
		if set == nil {
			break
		}
		if set.Find(d, nil, &m); m.Domain {
			known = append(known, d)
		}
	}
	for _, line := range said(problems) {
		lines = append(lines, strings.ReplaceAll(line, dir, "DIR"))
	}
	return known, lines
}

// Every file of a tree counts, whatever it is called; a link to a file is read, one to a folder is not.
func TestLoadReadsTheTree(t *testing.T) {
	dir := lay(t, map[string]string{
		"a.yaml": "domain: a", "deep/er/b.txt": "domain: b", "c": "domain: c", ".d": "domain: d",
		".e/e.yaml": "domain: e", "linked": "-> " + filepath.Join("..", "elsewhere"),
	})
	other := lay(t, map[string]string{"f.yaml": "domain: f", "g/g.yaml": "domain: g"})
	for link, target := range map[string]string{"f": filepath.Join(other, "f.yaml"), "g": filepath.Join(other, "g")} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "linked")); err != nil {
		t.Fatal(err)
	}
	for ignore, want := range map[bool]string{false: "[a b c d e f]", true: "[a b c f]"} {
		known, lines := loaded(dir, Options{IgnoreDotFiles: ignore}, "a", "b", "c", "d", "e", "f", "g")
		if fmt.Sprint(known) != want || lines != nil {
			t.Errorf("ignoring dot files %v: %v, %v; want %s", ignore, known, lines, want)
		}
	}
}

// A single file is a configuration, whatever the options say of its name; so is a folder behind a link.
func TestLoadTakesAFileAndALink(t *testing.T) {
	dir := lay(t, map[string]string{".one": "domain: a", "two/b": "domain: b", "current": "-> two"})
	for path, want := range map[string]string{".one": "[a]", "current": "[b]", "current/b": "[b]", "two/": "[b]"} {
		if known, lines := loaded(filepath.Join(dir, path), Options{IgnoreDotFiles: true}, "a", "b"); fmt.Sprint(known) != want || lines != nil {
			t.Errorf("%s: %v, %v; want %s", path, known, lines, want)
		}
	}
}

// A ConfigMap holds every file twice, as that program sees it, unless dot files are left out.
func TestLoadReadsAConfigMap(t *testing.T) {
	dir := lay(t, map[string]string{"..2026/a.yaml": "domain: a", "..data": "-> ..2026", "a.yaml": "-> ..data/a.yaml"})
	if known, lines := loaded(dir, Options{IgnoreDotFiles: true}, "a"); len(known) != 1 || lines != nil {
		t.Errorf("without dot files: %v, %v", known, lines)
	}
	_, lines := loaded(dir, Options{}, "a")
	want := []string{`DIR/a.yaml:1:9: domain: "a" is in DIR/..2026/a.yaml:1, too: leave out what begins with a dot (RUNTIME_IGNOREDOTFILES=true), where a ConfigMap keeps every file again`}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What cannot be read refuses the whole set. An empty folder is an empty set.
func TestLoadRefuses(t *testing.T) {
	many := map[string]string{}
	for i := range maxFiles + 1 {
		many[fmt.Sprint(i)] = "domain: d"
	}
	large := map[string]string{}
	for i := range maxTotal/maxFile + 1 {
		large[fmt.Sprintf("%02d", i)] = strings.Repeat("#", maxFile)
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"empty": {map[string]string{"x/.y": "domain: d"}, []string{"warning: DIR: there is no file, so that nothing is limited: want a folder of YAML files"}},
		"dangling": {map[string]string{"a": "domain: a", "b": "-> nowhere", "c": "-> nowhere"}, []string{
			"DIR/b: no such file or directory: want a readable file", "DIR/c: no such file or directory: want a readable file"}},
		"too much":   {large, []string{"DIR/16: too large with the files before it: want at most 64 MiB in all files"}},
		"too many":   {many, []string{fmt.Sprintf("DIR: more than %d files: want a readable file, or a folder of them", maxFiles)}},
		"empty file": {map[string]string{".gitkeep2": "", "a": ""}, []string{"DIR/a:1:1: domain: missing: want the domain that the proxy asks with, as in domain: edge"}},
	} {
		dir := lay(t, c.files)
		set, problems := Load(dir, Options{IgnoreDotFiles: true})
		_, lines := loaded(dir, Options{IgnoreDotFiles: true})
		if diff := cmp.Diff(c.want, lines); diff != "" || (set == nil) != config.HasErrors(problems) {
			t.Errorf("%s: set %v (-want +got):\n%s", name, set, diff)
		}
	}
	if set, problems := Load(filepath.Join(t.TempDir(), "gone"), Options{}); set != nil || len(problems) != 1 || !strings.Contains(problems[0].String(), "no such file") {
		t.Errorf("set %v, %v", set, problems)
	}
}

// What another source than a file gives is judged alike, without places.
func TestCompile(t *testing.T) {
	domains := []Domain{
		{File: "one", Name: "d", Descriptors: []Descriptor{{Key: "a", Value: "1", ShadowMode: true, RateLimit: &RateLimit{Unit: "HOUR", RequestsPerUnit: 3}}}},
		{File: "two", Name: "d", Descriptors: []Descriptor{{Key: "b", RateLimit: &RateLimit{Unit: "UNKNOWN", Replaces: []string{""}}}}},
	}
	set, problems := Compile(domains, Options{})
	want := []string{
		`two: domain: "d" is in one, too: keep one, or have them joined (MERGE_DOMAIN_CONFIG=true)`,
		`two: descriptors[0].rate_limit.unit: "UNKNOWN": ` + wantUnit,
		"two: descriptors[0].rate_limit.replaces[0].name: missing: want the name of the limit that is replaced",
	}
	if diff := cmp.Diff(want, said(problems)); diff != "" || set != nil {
		t.Errorf("set %v (-want +got):\n%s", set, diff)
	}
	set, problems = Compile(domains[:1], Options{})
	var m Match
	set.Find("d", []Entry{{"a", "1"}}, &m)
	if len(problems) > 0 || m.Limit == nil || m.Limit.Place != "one" || m.Limit.Metric != "d.a_1" || !m.Limit.Shadow {
		t.Errorf("%v, %+v", problems, m.Limit)
	}
}
