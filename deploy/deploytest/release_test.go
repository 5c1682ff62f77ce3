package deploytest_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// What people download and what the image holds are built by the same flags, which the Makefile shares the compiled
// packages of.
func TestOneWayToBuild(t *testing.T) {
	flags := regexp.MustCompile(`go build (-trimpath -tags \S+ -ldflags "[^"]*")`)
	inImage := flags.FindStringSubmatch(shipped(t, "../Dockerfile"))
	inRelease := flags.FindStringSubmatch(shipped(t, "../tools/release"))
	if inImage == nil || inRelease == nil || inImage[1] != inRelease[1] {
		t.Fatalf("the Dockerfile builds with %q, tools/release with %q", inImage, inRelease)
	}
	tags := strings.Fields(inImage[1])[2]
	for _, name := range []string{"../Makefile", "../tools/release", "../internal/proctest/build.go"} {
		if !strings.Contains(shipped(t, name), "-tags="+tags) {
			t.Errorf("%s says nothing of -tags=%s", name, tags)
		}
	}
}

// A workflow, as far as it is ours to be wrong about. What the platform means by the rest, `make workflows` judges.
type workflow struct {
	Name        string
	On          yaml.Node
	Permissions map[string]string
	Jobs        map[string]struct {
		Needs       string
		RunsOn      string            `yaml:"runs-on"`
		Minutes     int               `yaml:"timeout-minutes"`
		Container   string            `yaml:"container"`
		Permissions map[string]string `yaml:"permissions"`
		Steps       []struct {
			ID, Uses, Run string
			With, Env     map[string]any
		}
	}
}

// Workflows run actions of one version each, make what the Makefile has, run scripts that are there, and may by
// themselves only read.
func TestWorkflows(t *testing.T) {
	names, err := filepath.Glob("../../.github/workflows/*")
	if err != nil || len(names) < 2 {
		t.Fatalf("%v, %v", names, err)
	}
	pinned := regexp.MustCompile(`^[a-z-]+/[a-z-]+@v\d+\.\d+\.\d+$`)
	makefile := shipped(t, "../Makefile")
	for _, name := range names {
		w := readWorkflow(t, name)
		if diff := cmp.Diff(map[string]string{"contents": "read"}, w.Permissions); diff != "" {
			t.Errorf("%s: permissions (-want +got):\n%s", name, diff)
		}
		for job, j := range w.Jobs {
			for _, s := range j.Steps {
				if s.Uses != "" && !pinned.MatchString(s.Uses) {
					t.Errorf("%s: %s uses %s, want owner/name@vX.Y.Z", name, job, s.Uses)
				}
				if target, ok := strings.CutPrefix(s.Run, "make "); ok && !strings.Contains(makefile, "\n"+target+":") {
					t.Errorf("%s: %s makes %s, which the Makefile has not", name, job, target)
				}
				if info, err := os.Stat("../../" + s.Run); strings.HasPrefix(s.Run, ".ci/") && (err != nil || info.Mode()&0o100 == 0) {
					t.Errorf("%s: %s runs %s: %v, %v", name, job, s.Run, info, err)
				}
			}
		}
	}
}

func readWorkflow(t *testing.T, name string) *workflow {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d, w := yaml.NewDecoder(f), new(workflow)
	d.KnownFields(true)
	if err := d.Decode(w); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return w
}

// A release of this machine's own target has an archive with a binary that runs and completions, a bill of materials that
// names what the binary is made of, and checksums that are right. It takes minutes and asks for a module: only where that is asked for.
func TestRelease(t *testing.T) {
	if os.Getenv("WEIR_RELEASE") == "" {
		t.Skip("set WEIR_RELEASE=1 to build a release")
	}
	source := filepath.Join(t.TempDir(), "src")
	buildContext(t, source, "v1.2.3")
	target := runtime.GOOS + "/" + runtime.GOARCH
	succeed(t, source, filepath.Join(source, "tools/release"), target)

	dist := filepath.Join(source, "dist")
	name := "weir_1.2.3_" + strings.ReplaceAll(target, "/", "_")
	if diff := cmp.Diff([]string{"SHA256SUMS", name + ".cdx.json", name + ".tar.gz"}, tree(t, dist)); diff != "" {
		t.Fatalf("dist (-want +got):\n%s", diff)
	}
	succeed(t, dist, "sha256sum", "--strict", "--check", "SHA256SUMS")
	succeed(t, dist, "tar", "-xzf", name+".tar.gz")
	want := []string{"LICENSE", "THIRD-PARTY-NOTICES", "completions/weir.bash", "completions/weir.fish", "completions/weir.powershell", "completions/weir.zsh", "weir"}
	if got := tree(t, filepath.Join(dist, name)); !slices.Equal(got, want) {
		t.Errorf("the archive has %v, want %v", got, want)
	}
	out, err := exec.Command(filepath.Join(dist, name, "weir"), "version").Output()
	if err != nil || !strings.HasPrefix(string(out), "weir v1.2.3, ") {
		t.Errorf("weir version: %v, %s", err, out)
	}
	if diff := cmp.Diff(append(dependencies(t), "std"), billed(t, filepath.Join(dist, name+".cdx.json"))); diff != "" {
		t.Errorf("the bill of materials (-dependencies.txt and Go +got):\n%s", diff)
	}
}

// billed returns the names of a bill of materials, sorted.
func billed(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var bill struct {
		Format     string `json:"bomFormat"`
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(text, &bill); err != nil || bill.Format != "CycloneDX" {
		t.Fatalf("%v, format %q", err, bill.Format)
	}
	var names []string
	for _, c := range bill.Components {
		if c.Version == "" {
			t.Errorf("%s has no version", c.Name)
		}
		names = append(names, c.Name)
	}
	slices.Sort(names)
	return names
}

// dependencies are the modules that dependencies.txt names.
func dependencies(t *testing.T) (names []string) {
	t.Helper()
	for line := range strings.Lines(shipped(t, "../dependencies.txt")) {
		if !strings.HasPrefix(line, "#") {
			names = append(names, strings.Fields(line)[0])
		}
	}
	return names
}

// The licences that go with a binary are those of Go, of every module in it and of what the dashboard brings.
func TestNotices(t *testing.T) {
	script, err := filepath.Abs("../../tools/notices")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(script).Output()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for section := range strings.SplitSeq("\n"+string(out), "\n==== ") {
		title, text, _ := strings.Cut(section, "\n")
		if name, _, _ := strings.Cut(title, ","); name != "" {
			got = append(got, name)
			if len(strings.TrimSpace(text)) < 500 {
				t.Errorf("%s has no licence but %q", name, text)
			}
		}
	}
	want := slices.Concat([]string{"Go"}, dependencies(t), []string{"archivo", "plexmono", "uPlot"})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
