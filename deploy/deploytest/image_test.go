package deploytest_test

import (
	"crypto/sha256"
	"debug/elf"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirgate/weir/internal/proctest"
)

// There is no Docker where these tests run. So the Dockerfile's own command builds the binary, from what
// .dockerignore leaves of a checkout, and the binary runs as the image's user in a root directory that holds
// what the image holds, and nothing else.

var (
	buildLine = regexp.MustCompile(`(?m)^RUN (CGO_ENABLED=0 .*go build .*)$`)
	userLine  = regexp.MustCompile(`(?m)^USER (\d+):(\d+)$`)
)

// dockerfileSays returns what pattern finds in the Dockerfile, once.
func dockerfileSays(t *testing.T, pattern *regexp.Regexp) []string {
	t.Helper()
	found := pattern.FindAllStringSubmatch(shipped(t, "../Dockerfile"), -1)
	if len(found) != 1 {
		t.Fatalf("the Dockerfile has %d lines like %s, want 1", len(found), pattern)
	}
	return found[0]
}

// buildContext copies a checkout to dir, makes it a repository with one tagged commit, and takes away what docker build
// would not be sent.
func buildContext(t *testing.T, dir, tag string) {
	t.Helper()
	git := program(t, "git")
	if err := os.CopyFS(dir, unversioned{os.DirFS("../..")}); err != nil {
		t.Fatal(err)
	}
	succeed(t, dir, git, "init", "-q")
	succeed(t, dir, git, "add", "-A")
	succeed(t, dir, git, "-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false", "commit", "-q", "-m", "x")
	succeed(t, dir, git, "tag", tag)
	for line := range strings.Lines(shipped(t, "../.dockerignore")) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		names, err := filepath.Glob(filepath.Join(dir, line))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if err := os.RemoveAll(name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// unversioned is a checkout without what git keeps of it, where files come and go while other tests build programs.
type unversioned struct{ fs.FS }

func (u unversioned) ReadDir(name string) ([]fs.DirEntry, error) {
	list, err := fs.ReadDir(u.FS, name)
	return slices.DeleteFunc(list, func(e fs.DirEntry) bool { return e.Name() == ".git" }), err
}

// buildImage returns a root directory with what the image holds that is built from source.
func buildImage(t *testing.T, source string) string {
	t.Helper()
	image := t.TempDir()
	line := strings.ReplaceAll(dockerfileSays(t, buildLine)[1], "/out/", image+"/")
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "GOFLAGS=-buildvcs=auto") // Go's own default, as in the image
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return image
}

func TestImage(t *testing.T) {
	t.Parallel()
	weirBinary(t) // not in short mode
	source := filepath.Join(t.TempDir(), "src")
	buildContext(t, source, "v1.2.3")
	image := buildImage(t, source)
	t.Run("size", func(t *testing.T) { isSmall(t, filepath.Join(image, "weir")) })
	t.Run("again", func(t *testing.T) { isReproducible(t, source, filepath.Join(image, "weir")) })
	t.Run("static", func(t *testing.T) { isStatic(t, filepath.Join(image, "weir")) })
	t.Run("version", func(t *testing.T) {
		out, err := exec.Command(filepath.Join(image, "weir"), "version").Output()
		if err != nil || !regexp.MustCompile(`^weir v1\.2\.3, commit [0-9a-f]{40}, go`).Match(out) {
			t.Errorf("weir version: %v, %s", err, out)
		}
	})
	t.Run("shut in", func(t *testing.T) { runsShutIn(t, image) })
}

// mostBytes bounds the binary. What fills it at once is a package of ours that executes templates: see RATIONALE.md.
const mostBytes = 45_000_000

func isSmall(t *testing.T, binary string) {
	info, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	if t.Logf("%d bytes", info.Size()); info.Size() > mostBytes {
		t.Errorf("the binary has %d bytes, want at most %d", info.Size(), mostBytes)
	}
}

// isReproducible checks that another clone, in another folder, becomes the same bytes.
func isReproducible(t *testing.T, source, binary string) {
	clone := filepath.Join(t.TempDir(), "another", "place")
	succeed(t, ".", program(t, "git"), "clone", "-q", source, clone)
	var sums [2][sha256.Size]byte
	for i, name := range []string{binary, filepath.Join(buildImage(t, clone), "weir")} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = sha256.Sum256(text)
	}
	if sums[0] != sums[1] {
		t.Errorf("two clones of one commit become %x and %x", sums[0], sums[1])
	}
}

// isStatic checks that the binary needs no loader and no library.
func isStatic(t *testing.T, binary string) {
	f, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	if err != nil || len(libraries) > 0 || slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Errorf("libraries %v, %v; want a static binary", libraries, err)
	}
}

const shutIn = `
listen: %q
admin: %q
upstream: %q
rules: [{name: daily, path: /daily, limits: [{quota: 10/day, timezone: Europe/Paris, per: client}]}]
`

// runsShutIn runs the binary as the image's user, with the image as all of the file system. The user owns the
// folder of data, and nothing else is written to.
func runsShutIn(t *testing.T, image string) {
	if os.Getuid() != 0 {
		t.Skip("only root may change the root directory")
	}
	upstream := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(upstream.Close)
	listen, admin := proctest.Free(t), proctest.Free(t)
	write(t, image, "etc/weir/weir.yaml", fmt.Sprintf(shutIn, listen, admin, upstream.URL))
	user := dockerfileSays(t, userLine)
	var id struct{ user, group uint32 }
	if _, err := fmt.Sscan(user[1]+" "+user[2], &id.user, &id.group); err != nil || id.user == 0 {
		t.Fatalf("USER %s:%s: %v; want a user other than root", user[1], user[2], err)
	}
	data := filepath.Join(image, "var/lib/weir")
	if err := os.MkdirAll(data, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(data, int(id.user), int(id.group)); err != nil {
		t.Fatal(err)
	}
	before := tree(t, image)

	cmd := exec.Command("/weir", "run", "-c", "/etc/weir/weir.yaml")
	cmd.Dir, cmd.Env = "/", []string{"WEIR_DATA_DIR=/var/lib/weir"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: image, Credential: &syscall.Credential{Uid: id.user, Gid: id.group}}
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	err := proctest.Await(proctest.Patience, func() error { return get("http://" + listen + "/daily") })
	reload, errReload := http.Post("http://"+admin+"/api/v1/reload", "application/json", strings.NewReader("{}"))
	if errReload == nil {
		reload.Body.Close()
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if ended := cmd.Wait(); err != nil || errReload != nil || reload.StatusCode != http.StatusOK || ended != nil {
		t.Fatalf("request: %v; reload: %v, %+v; end: %v\n%s", err, errReload, reload, ended, log.String())
	}
	want := append(before, "var/lib/weir/audit.log", "var/lib/weir/weir.db")
	slices.Sort(want)
	if diff := cmp.Diff(want, tree(t, image)); diff != "" {
		t.Errorf("what is in the file system (-want +got):\n%s", diff)
	}
}

// get returns nil if there is an answer.
func get(url string) error {
	res, err := http.Get(url)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, res.Body) // what it says does not matter
	return res.Body.Close()
}

// tree returns the names of all files below dir, sorted.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		at, err := filepath.Rel(dir, name)
		names = append(names, filepath.ToSlash(at))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}
