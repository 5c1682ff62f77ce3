package process

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// BuildWeir builds the program as it is shipped.
func BuildWeir(to string) error {
	root, err := Root()
	if err != nil {
		return err
	}
	return Build(context.Background(), root, to, "./cmd/weir")
}

// Root is the folder of Weir's own module.
func Root() (string, error) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/weirgate/weir").Output()
	if err != nil {
		return "", fmt.Errorf("where Weir is: %w", err)
	}
	return strings.TrimSpace(string(dir)), nil
}

// Build builds a command of the module in dir.
func Build(ctx context.Context, dir, to, what string) error {
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", to, what)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", what, err, out)
	}
	return nil
}

// Installed reports whether there is a program of that name.
func Installed(name string) bool {
	_, err := exec.LookPath(name)
	return err == nil
}
