package proctest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// Weir returns where the program under test lies.
func Weir(t testing.TB) string {
	t.Helper()
	path, err := weir()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// AsShipped has the go command build as the image is built. What a test builds is compiled once with all else that
// the Makefile has built so.
var AsShipped = []string{"CGO_ENABLED=0", "GOFLAGS=-trimpath -tags=timetzdata,grpcnotrace -buildvcs=false"}

var weir = sync.OnceValues(func() (string, error) { return Build() })

// rounds are how often the program is built at most, if its sources keep changing.
const rounds = 5

// Build builds cmd/weir as its sources are now, as it is shipped if no flags say else, and returns where it lies: in
// Go's build cache, under a name made of all that it is made of. So it is linked once for all packages that ask, and
// never an old one. `go run` keeps there what it runs, and -exec has it say where; what it has just linked it runs
// elsewhere, so that it is asked again, and once more where the sources have changed in between.
func Build(flags ...string) (string, error) {
	args := append(append([]string{"run", "-ldflags=-w"}, flags...), "-exec", "echo", "github.com/weirgate/weir/cmd/weir")
	var path string
	for range rounds {
		cmd := exec.Command("go", args...)
		if len(flags) == 0 {
			cmd.Env = append(os.Environ(), AsShipped...)
		}
		var told bytes.Buffer
		cmd.Stderr = &told
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, told.String())
		}
		path = strings.TrimSpace(string(out))
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("go %s: %s is not kept", strings.Join(args, " "), path)
}
